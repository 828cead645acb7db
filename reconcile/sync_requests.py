"""Asking a project's controller for a look at its repository: one stamp, however many ask at once.

The only writer of the annotation `requested-sync` inside the server. Whether and when a look follows is the controller's to decide.
"""

import asyncio
import secrets
from weakref import WeakValueDictionary

from reconcile.cluster.port import ARENA_PROJECT, Cluster, ObjectKey
from reconcile.errors import ClusterError
from reconcile.kinds.names import REQUESTED_SYNC


class SyncRequests:
    """Stamps ArenaProjects. Those who ask for the same one while a stamp is being written share the next."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._turns: WeakValueDictionary[ObjectKey, _Turn] = WeakValueDictionary()

    async def request(self, project: ObjectKey, origin: str) -> str:
        """Stamp the project with a new value, `<origin>-<random>`, or wait for one whose writing begins after this call; return it.

        A look that this value asks for sees everything that was there before the call.

        Raises:
            NotFound: the project is gone. Any other ClusterError: the stamp may be missing; nothing else happened. All who shared it are told.
        """
        turn = self._turns.get(project)
        if turn is None:
            turn = self._turns[project] = _Turn()
        needed = turn.begun + 1
        async with turn.lock:
            if turn.done < needed:
                await self._write(turn, project, f"{origin}-{secrets.token_hex(6)}")
            if turn.error is not None:
                raise turn.error
            return turn.value

    async def _write(self, turn: "_Turn", project: ObjectKey, value: str) -> None:
        turn.begun = begun = turn.begun + 1
        try:
            await self._cluster.patch(ARENA_PROJECT, project.namespace, project.name, {"metadata": {"annotations": {REQUESTED_SYNC: value}}})
        except ClusterError as error:
            turn.error = error
        else:
            turn.value, turn.error = value, None
        turn.done = begun


class _Turn:
    """How many stamps of one project were begun and done, and what became of the last. Lives as long as somebody asks."""

    __slots__ = ("__weakref__", "begun", "done", "error", "lock", "value")

    def __init__(self) -> None:
        self.begun = 0
        self.done = 0
        self.lock = asyncio.Lock()
        self.value = ""
        self.error: ClusterError | None = None
