"""What runs left behind that no deletion will take along: keys, users of the queue, directories and keep-refs of uids that are gone.

A finalizer normally does this work. It does not when an object was removed by force, or while the queue was down. Only what carries this
installation's id is touched, and only after it has been without a run for an hour without interruption.
Source: survival.md, step 9.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from engine.errors import QueueUnavailable
from engine.items import RunUID
from foundation.clock import Clock
from gitops.content import ProjectKey
from reconcile.cluster.listing import every
from reconcile.cluster.port import ARENA_PROJECT, ARENA_RUN, Cluster
from reconcile.orphans import Orphans, sweep_regularly
from reconcile.run.ownership import TRASH, Owner, discard, read_owner
from reconcile.run.scope import RunWorld

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Leftover:
    """One thing that belongs to a uid, and how to remove it."""

    uid: str
    what: str
    remove: Callable[[], Awaitable[None]]


class Sweep:
    """Looks for leftovers every ten minutes."""

    def __init__(self, cluster: Cluster, world: RunWorld, clock: Clock) -> None:
        self._cluster = cluster
        self._world = world
        self._clock = clock
        self._orphans: Orphans[str] = Orphans(clock)

    async def run(self) -> None:
        """Sweep until cancelled."""
        await sweep_regularly(self.sweep, self._clock)

    async def sweep(self) -> list[str]:
        """Look once, remove what has been an orphan for an hour, and return what was removed."""
        leftovers = await self._leftovers()
        # Read afresh, never from memory: what is missed here is taken for an orphan.
        alive = {run["metadata"]["uid"] async for run in every(self._cluster, ARENA_RUN)} if leftovers else set()
        due = self._orphans.due({leftover.uid for leftover in leftovers} - alive)
        removed = []
        for leftover in leftovers:
            if leftover.uid in due:
                await leftover.remove()
                removed.append(leftover.what)
                _log.info("leftover.removed", what=leftover.what, uid=leftover.uid)
        return removed

    async def _leftovers(self) -> list[_Leftover]:
        # Listed before the runs are: what a run makes between the two listings is never taken for an orphan.
        return [*await self._keys(), *await self._directories(), *await self._refs()]

    async def _keys(self) -> list[_Leftover]:
        queue, users = self._world.queue, self._world.users
        found: list[_Leftover] = []
        with contextlib.suppress(QueueUnavailable):
            found += [_Leftover(uid, f"queue keys of {uid}", _call(queue.drop, RunUID(uid))) for uid in await queue.runs()]
            if users is not None:
                found += [_Leftover(uid, f"queue user of {uid}", _call(users.drop, RunUID(uid))) for uid in await users.runs()]
        return found

    async def _directories(self) -> list[_Leftover]:
        owned = await asyncio.to_thread(self._owned_directories)
        return [_Leftover(owner.uid, f"directory {path.name}", _call(asyncio.to_thread, discard, path, owner.uid)) for path, owner in owned]

    def _owned_directories(self) -> list[tuple[Path, Owner]]:
        root = self._world.volume.root
        directories = [*root.glob("*/*/arena/runs/*"), *root.glob(f"*/*/arena/runs/{TRASH}/*")]
        found = [(path, read_owner(path)) for path in directories if path.is_dir()]
        return [(path, owner) for path, owner in found if owner is not None and owner.installation == self._world.installation]

    async def _refs(self) -> list[_Leftover]:
        repositories, leftovers = self._world.repositories, []
        async for project in every(self._cluster, ARENA_PROJECT):
            key = ProjectKey(project["metadata"]["namespace"], project["metadata"]["name"])
            if await repositories.exists(key):
                leftovers += [
                    _Leftover(uid, f"keep-ref of {uid} in {key}", _call(repositories.unpin, key, uid)) for uid in await repositories.pins(key)
                ]
        return leftovers


def _call(function: Callable[..., Awaitable[None]], *arguments: object) -> Callable[[], Awaitable[None]]:
    return lambda: function(*arguments)
