"""Snapshots: a commit as read-only files, keyed by its SHA.

Owns `arena/sources/<project>/.arena/`: the snapshots, the HEAD file and the lock of both. A snapshot is there whole or not at all: it is written under
a temporary name, checked against the commit's tree id, made durable, and renamed once. Must not know what a run is: callers say which commits they
still need.
"""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from foundation.clock import Clock, SystemClock
from foundation.files import write_file
from gitops.content import ContentVolume, ProjectKey, is_full_commit
from gitops.project_lock import ProjectLocks
from gitops.snapshot_disk import remove_tree
from gitops.snapshot_export import Export, fault_of
from gitops.snapshot_manifest import ManifestHeader
from gitops.snapshot_store import SnapshotStore
from gitops.snapshot_verify import Inode
from gitops.storage_errors import storage
from gitops.tree_rules import SnapshotLimits
from gitops.uninterrupted import UninterruptedThreads

__all__ = ["DEFAULT_LIMITS", "Snapshot", "SnapshotLimits", "SnapshotUsage", "Snapshots"]

DEFAULT_LIMITS = SnapshotLimits()

SCRUB_EVERY_S = 3600.0

_THREADS = 4

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A commit on disk.

    `content_path` is `path` relative to the namespace's subtree. `digest` is `sha256:<hex>` over mode, blob id and path of every file. `files` counts
    files and symlinks, `bytes` their size in full. `lfs_pointers` are the paths that hold a Git LFS pointer instead of the content. `written` is
    how many files this call wrote: 0 when the snapshot was there, few when most could be linked from the one before.
    """

    commit: str
    path: Path
    content_path: str
    digest: str
    files: int
    bytes: int
    lfs_pointers: tuple[str, ...]
    written: int


@dataclass(frozen=True, slots=True)
class SnapshotUsage:
    """How many snapshots a project has, and the bytes of their files with equal contents counted once."""

    count: int
    bytes: int


@dataclass(slots=True)
class _Scrubbing:
    """When the next snapshot of a project is read in full, and which ones were, the last read last."""

    due_s: float
    read: list[str] = field(default_factory=list)


class Snapshots:
    """Export, find, retain and check the snapshots of every project on a content volume.

    Safe to use from several tasks and several processes at once.
    """

    def __init__(self, volume: ContentVolume, clock: Clock | None = None) -> None:
        self._volume = volume
        self._clock = clock or SystemClock()
        self._locks = ProjectLocks(self._clock)
        self._threads = UninterruptedThreads(_THREADS, "snapshots")
        self._usage: dict[ProjectKey, tuple[frozenset[str], SnapshotUsage]] = {}
        self._scrubbing: dict[ProjectKey, _Scrubbing] = {}

    async def export(self, project: ProjectKey, commit: str, limits: SnapshotLimits = DEFAULT_LIMITS) -> Snapshot:
        """Make the snapshot of a commit, or find it. Idempotent; a second exporter waits for the first and finds its work.

        Bytes are the blobs' own: no attribute, filter or line ending changes them. Files unchanged since the nearest snapshot are hard links to it. A
        snapshot in which a name came or went is read in full, and made again unless it is the commit's all the same.

        Raises:
            UnknownProject: the project has no repository.
            RefNotFound: the repository does not hold the commit.
            SnapshotUnexportable: the tree breaks a rule; the message names the path and the remedy.
            StorageFailed: the content volume or the repository cannot be read or written. Nothing has appeared.
            RepositoryBusy: another process has held the project's lock for ten minutes.
        """
        stop = threading.Event()
        export = Export(self._store(project, commit), self._volume.repository(project), project.name, commit, limits, stop)
        async with self._locked(project, f"export commit {commit[:12]} of project '{project.name}'"):
            exported = await self._threads.run(export.run, stop)
        if exported.written:
            _log.info("snapshot exported", project=str(project), commit=commit, files=exported.header.files, written=exported.written)
        return self._snapshot(project, exported.header, exported.written)

    async def find(self, project: ProjectKey, commit: str) -> Snapshot | None:
        """Return the snapshot of a commit if it is there and no name in it came or went. Cheap: it looks at directories; `scrub` reads everything.

        Raises:
            StorageFailed: the content volume cannot be read.
        """
        store = self._store(project, commit)
        header = await self._blocking(f"find commit {commit[:12]} of project '{project.name}'", partial(store.header, commit))
        return None if header is None else self._snapshot(project, header, 0)

    async def prune(self, project: ProjectKey, *, needed: Callable[[], Awaitable[Collection[str]]], retain: int) -> SnapshotUsage:
        """Remove all snapshots but the needed ones, the one that HEAD names, and the newest `retain` of the others.

        `needed` is called under the lock that export takes, so no snapshot can be found by an export and removed before its need is seen: who
        exports names its need first.

        Raises:
            StorageFailed: the content volume cannot be read or written.
        """
        store = self._store(project)
        what = f"prune the snapshots of project '{project.name}'"
        async with self._locked(project, what):
            keep = set(await needed())
            usage = await self._blocking(what, partial(self._prune, project, store, keep, retain))
        await self._blocking(what, store.empty_trash)
        return usage

    async def usage(self, project: ProjectKey) -> SnapshotUsage:
        """Return how many snapshots there are and what they hold.

        Raises:
            StorageFailed: the content volume cannot be read.
        """
        return await self._blocking(f"measure the snapshots of project '{project.name}'", partial(self._measure, project, self._store(project)))

    async def scrub(self, project: ProjectKey) -> list[str]:
        """Read every snapshot in full; set aside and return those that are not what their manifest says, so that they are exported again.

        The project's lock is held for one snapshot at a time. The last bad one stays in `versions/.quarantine` for a person to look at.

        Raises:
            StorageFailed: a snapshot cannot be read or set aside.
        """
        store = self._store(project)
        known: dict[Inode, str] = {}
        commits = await self._blocking(_checking(project), store.commits)
        return [commit for commit in commits if not await self._check(project, commit, known)]

    async def scrub_next(self, project: ProjectKey) -> str | None:
        """Read one snapshot in full, the one that this process has not read for longest; at most one an hour, the first an hour after the first call.

        Return its commit if it was bad and set aside, as `scrub` does.

        Raises:
            StorageFailed: the snapshot cannot be read or set aside.
        """
        now = self._clock.monotonic()
        scrubbing = self._scrubbing.setdefault(project, _Scrubbing(now + SCRUB_EVERY_S))
        if now < scrubbing.due_s:
            return None
        scrubbing.due_s = now + SCRUB_EVERY_S
        commits = await self._blocking(_checking(project), self._store(project).commits)
        scrubbing.read = [commit for commit in scrubbing.read if commit in commits]
        unread = [commit for commit in commits if commit not in scrubbing.read]
        for commit in (unread or scrubbing.read)[:1]:
            scrubbing.read = [*(other for other in scrubbing.read if other != commit), commit]
            return None if await self._check(project, commit, {}) else commit
        return None

    async def _check(self, project: ProjectKey, commit: str, known: dict[Inode, str]) -> bool:
        what = _checking(project)
        async with self._locked(project, what):
            sound = await self._blocking(what, partial(_check, self._store(project), commit, known))
        if not sound:
            _log.warning("snapshot set aside", project=str(project), commit=commit)
        return sound

    async def unsound(self, project: ProjectKey, *, newest: int | None = None) -> dict[str, str]:
        """Read the newest snapshots in full, all of them for None; return commit and fault of those that are not what their manifest says.

        Changes nothing and takes no lock; a snapshot that is removed meanwhile is sound.

        Raises:
            StorageFailed: a snapshot cannot be read.
        """
        store, what = self._store(project), _checking(project)
        known: dict[Inode, str] = {}
        commits = (await self._blocking(what, store.commits))[:newest]
        faults = {commit: await self._blocking(what, partial(_fault, store, commit, known)) for commit in commits}
        return {commit: fault for commit, fault in faults.items() if fault}

    async def remove_all(self, project: ProjectKey) -> None:
        """Remove every snapshot of the project, its HEAD and its lock file. Idempotent.

        Raises:
            StorageFailed: the content volume cannot be written.
        """
        sources = self._volume.sources(project)
        what = f"remove the snapshots of project '{project.name}'"
        if not sources.exists():
            return
        async with self._locked(project, what):
            await self._blocking(what, partial(remove_tree, sources))
        self._usage.pop(project, None)
        self._scrubbing.pop(project, None)

    async def set_head(self, project: ProjectKey, commit: str) -> None:
        """Record the commit of the default branch's newest snapshot in the HEAD file; writes nothing when it is recorded already.

        Raises:
            StorageFailed: the content volume cannot be written; the old HEAD stays.
        """
        self._volume.snapshot(project, commit)
        path = self._volume.head_file(project)
        await self._blocking(f"record the head of project '{project.name}'", partial(_write_head, path, commit))

    async def forget_head(self, project: ProjectKey) -> None:
        """Remove the HEAD file, since the project has no head any more; its snapshot becomes one of those that retention may take. Idempotent.

        Raises:
            StorageFailed: the content volume cannot be written; the old HEAD stays.
        """
        path = self._volume.head_file(project)
        await self._blocking(f"forget the head of project '{project.name}'", partial(path.unlink, missing_ok=True))

    async def head(self, project: ProjectKey) -> str | None:
        """Return the commit in the HEAD file; None when there is none.

        Raises:
            StorageFailed: the content volume cannot be read.
        """
        return await self._blocking(f"read the head of project '{project.name}'", partial(_read_head, self._volume.head_file(project)))

    def _prune(self, project: ProjectKey, store: SnapshotStore, keep: set[str], retain: int) -> SnapshotUsage:
        if store.versions.is_dir():
            head = _read_head(self._volume.head_file(project))
            unused = [commit for commit in store.commits() if commit not in keep and commit != head]
            store.prepare()
            store.discard(unused[max(0, retain) :])
        return self._measure(project, store)

    def _measure(self, project: ProjectKey, store: SnapshotStore) -> SnapshotUsage:
        commits = frozenset(store.commits())
        known = self._usage.get(project)
        if known is not None and known[0] == commits:
            return known[1]
        usage = SnapshotUsage(len(commits), store.stored_bytes())
        self._usage[project] = (commits, usage)
        return usage

    def _store(self, project: ProjectKey, commit: str | None = None) -> SnapshotStore:
        if commit is not None:
            self._volume.snapshot(project, commit)  # refuses what is no full commit id
        return SnapshotStore(self._volume.versions(project))

    def _snapshot(self, project: ProjectKey, header: ManifestHeader, written: int) -> Snapshot:
        path = self._volume.snapshot(project, header.commit)
        content_path = self._volume.relative(project.namespace, path)
        return Snapshot(header.commit, path, content_path, header.digest, header.files, header.bytes, header.lfs_pointers, written)

    @asynccontextmanager
    async def _locked(self, project: ProjectKey, what: str) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            with storage(what):
                await stack.enter_async_context(self._locks.hold(self._volume.head_file(project).with_name("lock"), what))
            yield

    async def _blocking(self, what: str, work: Callable[[], _T]) -> _T:
        with storage(what):
            return await self._threads.run(work)


def _checking(project: ProjectKey) -> str:
    return f"check the snapshots of project '{project.name}'"


def _check(store: SnapshotStore, commit: str, known: dict[Inode, str]) -> bool:
    """Check one snapshot and set it aside if it is bad. One that is gone meanwhile is not bad."""
    if not store.is_present(commit) or not fault_of(store, commit, known):
        return True
    store.quarantine(commit)
    return False


def _fault(store: SnapshotStore, commit: str, known: dict[Inode, str]) -> str:
    try:
        fault = fault_of(store, commit, known)
    except OSError:
        if store.is_present(commit):
            raise
        return ""
    return fault if store.is_present(commit) else ""


def _write_head(path: Path, commit: str) -> None:
    if _read_head(path) != commit:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, f"{commit}\n".encode())


def _read_head(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return None
    return text if is_full_commit(text) else None
