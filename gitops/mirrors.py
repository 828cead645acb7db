"""Mirrors: the branches and tags of somebody else's repository, as a bare repository of ours.

Owns the order of a fetch: list, compare, fetch what differs, follow the remote's HEAD, say what changed. A poll that finds nothing new starts no
process and takes no lock. Must not know when a mirror is due, nor who wants it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import structlog

from foundation.addresses import AddressPolicy, Resolve, resolve
from foundation.clock import Clock, SystemClock
from foundation.crash import crash_point
from gitops import maintenance
from gitops.content import ProjectKey
from gitops.errors import RefNotFound, RemoteCause
from gitops.locks import acquire
from gitops.mirror_fetch import PRUNED, Fetched, fetch_refs
from gitops.mirror_limits import MirrorLimits
from gitops.mirror_lock import fetching
from gitops.mirror_refs import BRANCHES, TAGS, MirrorRefs, RefChange, compare, excluded, object_format, read_refs, split_names
from gitops.processes import GitCommand, run_git
from gitops.ref_files import read_ref
from gitops.refs import PINS_PREFIX, ref_name_problem
from gitops.remote import Remote
from gitops.remote_failures import failed
from gitops.remote_listing import Listing, RemoteListings
from gitops.repositories import Repositories
from gitops.storage_errors import storage
from gitops.tree_names import shown

__all__ = ["MirrorLimits", "MirrorState", "Mirrors", "RefChange"]

PUBLIC_ADDRESSES = AddressPolicy()
DEFAULT_LIMITS = MirrorLimits()
SWEEP_WAIT_S = 5.0
DIGITS = {"sha1": 40, "sha256": 64}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MirrorState:
    """What a look at the remote found.

    `default_branch` is a full name (`refs/heads/main`) that the mirror has: the one that the remote's spec names, or else the remote's HEAD; "" when
    the remote is empty or has no such branch. `changes` are sorted by ref. `fetched` says that git ran. `skipped` are refs whose names no mirror can
    hold, as a person can read them. `empty` says that the remote has neither branch nor tag.
    """

    default_branch: str
    changes: tuple[RefChange, ...] = ()
    fetched: bool = False
    skipped: tuple[str, ...] = ()
    empty: bool = False


@dataclass(frozen=True, slots=True)
class _Goal:
    """What the mirror should come to: the refs that it can hold, and the branch that HEAD should name ("": as it is)."""

    refs: dict[str, str]
    skipped: list[str]
    default_branch: str

    @classmethod
    def of(cls, remote: Remote, listing: Listing, mirror: MirrorRefs) -> "_Goal":
        refs, skipped = split_names(listing.refs, mirror.refs)
        branch = remote.default_branch or listing.head
        full = branch if branch.startswith(BRANCHES) or not branch else f"{BRANCHES}{branch}"
        return cls(refs, skipped, full if full in refs else "")

    def is_met(self, mirror: MirrorRefs) -> bool:
        return mirror.refs == self.refs and self.default_branch in {"", mirror.head}

    def state(self, mirror: MirrorRefs, changes: tuple[RefChange, ...] = (), *, fetched: bool = False) -> MirrorState:
        default = self.default_branch if self.default_branch in mirror.refs else ""
        return MirrorState(default, changes, fetched, tuple(shown(name.encode("utf-8", "surrogateescape")) for name in self.skipped), not mirror.refs)


class Mirrors:
    """The mirrors of one content volume. Safe to use from several tasks and, by flock, from several processes."""

    def __init__(
        self,
        repositories: Repositories,
        clock: Clock,
        *,
        addresses: AddressPolicy = PUBLIC_ADDRESSES,
        limits: MirrorLimits = DEFAULT_LIMITS,
        resolver: Resolve = resolve,
    ) -> None:
        """`resolver` is the system's; tests give names of their own."""
        self._repositories = repositories
        # Locks are held by other processes, whose death is waited for by the machine's clock, whatever clock the caller lives by.
        self._machine = SystemClock()
        self._limits = limits
        self._looked_at: set[Path] = set()
        self._listings = RemoteListings(clock, addresses, limits, resolver)

    async def fetch(self, project: ProjectKey, remote: Remote) -> MirrorState:
        """Bring the mirror to where the remote is, making it if there is none; one listing and no process when nothing differs.

        Branches and tags are mirrored with prune; `refs/arena` and refs fetched by name stay. A kill at any point leaves refs that name whole
        commits, and the next fetch brings the rest. Concurrent fetches of one project wait for one another, so callers should coalesce.

        Raises:
            RemoteFailed: the cause says why; the mirror answers with what it has.
            RepositoryBusy: somebody else fetches it, for longer than a minute.
            StorageFailed: the volume refused.
            GitFailed: git is not there, or could not move HEAD.
        """
        listing = await self._listings.list(remote)
        path = await self._mirror(project, listing)
        with storage(f"fetch mirror '{project}'"):
            mirror = await anyio.to_thread.run_sync(read_refs, path)
            goal = await anyio.to_thread.run_sync(_Goal.of, remote, listing, mirror)
            if goal.is_met(mirror):
                await self._clear_once(path)
                return goal.state(mirror)
            self._check_format(path, remote, listing)
            async with self._writing(project) as inherited:
                return await self._advance(project, remote, listing, goal, inherited)

    async def fetch_ref(self, project: ProjectKey, remote: Remote, ref: str) -> bool:
        """Bring what a spelling names that the mirror lacks; say whether the remote has it.

        A full ref outside of branches and tags (`refs/pull/7/head`) is fetched under its own name, or removed when the remote has it no more. For
        everything else, a full SHA included, branches and tags are fetched once: no commit is ever asked for by its SHA, because a host gives out
        commits of forks that way. `refs/arena` names nothing.

        Raises:
            RemoteFailed, RepositoryBusy, StorageFailed: as `fetch`.
        """
        if _is_pin(ref) or ref_name_problem(ref) is not None:
            return False
        if _is_by_name(ref):
            return await self._fetch_by_name(project, remote, ref)
        await self.fetch(project, remote)
        try:
            await self._repositories.resolve(project, ref)
        except RefNotFound:
            return False
        return True

    def close(self) -> None:
        """Give up the connections that are kept for the next polls."""
        self._listings.close()

    async def _mirror(self, project: ProjectKey, listing: Listing) -> Path:
        """Return the mirror's path; an empty one is made in the remote's object format."""
        path = self._repositories.volume.repository(project)
        if not await self._repositories.exists(project):
            await self._repositories.create(project, object_format=listing.object_format)
            crash_point("mirror.created")
        return path

    def _check_format(self, path: Path, remote: Remote, listing: Listing) -> None:
        has = object_format(path)
        if has != listing.object_format:
            words = f"the remote's object format is {listing.object_format} now, and the mirror's is {has}"
            raise failed(remote, RemoteCause.PROTOCOL, words, hint="make another project for the converted repository, or delete and create this one")

    async def _advance(self, project: ProjectKey, remote: Remote, listing: Listing, goal: _Goal, inherited: tuple[int, ...]) -> MirrorState:
        """Fetch under the lock; what others have fetched while we waited for it is not fetched again."""
        path = self._repositories.volume.repository(project)
        before = await anyio.to_thread.run_sync(read_refs, path)
        fetched = Fetched(frozenset())
        if before.refs != goal.refs:
            fetched = await fetch_refs(path, remote, listing, [*PRUNED, *excluded(goal.skipped)], self._limits, inherited=inherited)
            crash_point("mirror.fetched")
        after = await anyio.to_thread.run_sync(read_refs, path)
        if goal.default_branch in after.refs and goal.default_branch != after.head:
            await run_git(GitCommand(["symbolic-ref", "HEAD", goal.default_branch], repository=path))
            after = MirrorRefs(after.refs, goal.default_branch)
            crash_point("mirror.head_moved")
        changes = await anyio.to_thread.run_sync(compare, before, after, fetched.forced)
        log.info("mirror fetched", project=str(project), changes=len(changes), refs=len(after.refs), skipped=len(goal.skipped))
        return goal.state(after, changes, fetched=True)

    async def _fetch_by_name(self, project: ProjectKey, remote: Remote, ref: str) -> bool:
        listing = await self._listings.list(remote, [ref.encode()])
        wanted = listing.refs.get(ref)
        path = await self._mirror(project, listing)

        def current() -> str | None:
            return read_ref(path, ref, digits=DIGITS[listing.object_format], may_follow=lambda name: name == ref)

        with storage(f"fetch mirror '{project}'"):
            if await anyio.to_thread.run_sync(current) == wanted:
                return wanted is not None
            self._check_format(path, remote, listing)
            async with self._writing(project) as inherited:
                if wanted is None:
                    await run_git(GitCommand(["update-ref", "-d", ref], repository=path))
                else:
                    name = ref.encode()
                    await fetch_refs(path, remote, listing, [b"+" + name + b":" + name], self._limits, inherited=inherited)
        log.info("ref fetched" if wanted else "ref removed", project=str(project), ref=ref)
        return wanted is not None

    @asynccontextmanager
    async def _writing(self, project: ProjectKey) -> AsyncIterator[tuple[int, ...]]:
        """Hold the mirror for a fetch, without leftovers before and after. Pins and readers go on; repacking and moving wait."""
        path = self._repositories.volume.repository(project)
        async with fetching(path, self._machine, wait_s=self._limits.lock_s) as descriptor:
            await self._clear(path)
            try:
                async with self._repositories.pushing(project) as lock:
                    crash_point("mirror.locked")
                    yield descriptor, lock.descriptor
            except Exception:
                await self._clear(path)
                raise

    async def _clear_once(self, path: Path) -> None:
        """Remove, at this process's first look, what one that died after it had moved the last ref left behind: no later fetch would come by."""
        if path in self._looked_at:
            return
        if await anyio.to_thread.run_sync(maintenance.has_leftovers, path):
            async with fetching(path, self._machine, wait_s=self._limits.lock_s):
                await self._clear(path)
        self._looked_at.add(path)

    async def _clear(self, path: Path) -> None:
        """Remove what killed fetches left behind. Under the exclusive lock no writer lives, so nothing needs to be old to be a leftover."""
        if not await anyio.to_thread.run_sync(maintenance.has_leftovers, path):
            return
        lock = await acquire(path, self._machine, exclusive=True, wait_s=SWEEP_WAIT_S)
        if lock is None:
            removed = await anyio.to_thread.run_sync(maintenance.sweep_repository, path)
        else:
            with closing(lock):
                removed = await anyio.to_thread.run_sync(lambda: maintenance.sweep_repository(path, lock_age_s=0.0, file_age_s=0.0))
        log.info("leftovers removed", repository=path.stem, files=removed[:20], count=len(removed))


def _is_pin(ref: str) -> bool:
    return f"{ref}/".startswith(PINS_PREFIX)


def _is_by_name(ref: str) -> bool:
    return ref.startswith("refs/") and not ref.startswith((BRANCHES, TAGS))
