"""Bare hosted repositories: create, seed once, read, pin, lock, keep small, retain and remove.

Owns `arena/repos` of the content volume. Git's own ref locks order writers of refs; the repository lock keeps them apart from repacking and from
moving the repository. dulwich opens a repository for each call, in a bounded number of threads. Must not know why a commit is pinned or what is pushed.
"""

import contextlib
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
import structlog
from dulwich.errors import NotGitRepository
from dulwich.file import FileLocked
from dulwich.repo import Repo

from foundation.clock import Clock
from foundation.crash import crash_point
from foundation.files import sync_directory, write_file
from gitops import inspection, maintenance, seeding
from gitops.content import ContentVolume, ProjectKey
from gitops.errors import GitFailed, RepositoryBusy, RepositoryExists, SeedFailed, StorageFailed, UnknownProject
from gitops.freshness import look_at_repository
from gitops.inspection import CommitSummary, RefSummary
from gitops.locks import RepositoryLock, acquire
from gitops.pins import pin_name, read_pins, write_pin
from gitops.processes import GitCommand, run_git
from gitops.refs import ResolvedRef, resolve_ref
from gitops.repository_config import init_arguments

T = TypeVar("T")

THREADS = 8
LOCK_WAIT_S = 30.0
REF_LOCK_ATTEMPTS = 50
REF_LOCK_PAUSE_S = 0.02

log = structlog.get_logger(__name__)


class Repositories:
    """The hosted repositories of one content volume.

    Safe to use from several tasks and, by flock, from several processes and machines (ADR 0014). Nothing is remembered of a repository that somebody
    else may change: each method sees what was on the volume when it was called, or later.
    """

    def __init__(self, volume: ContentVolume, clock: Clock) -> None:
        self.volume = volume
        self._clock = clock
        self._threads = anyio.CapacityLimiter(THREADS)
        self._swept: set[Path] = set()

    async def create(self, project: ProjectKey, *, object_format: str = "sha1") -> None:
        """Make an empty bare repository whose HEAD names main, whole or not at all; nothing happens when there is one.

        Raises:
            StorageFailed: the volume refused.
        """
        path = self.volume.repository(project)
        if await self.exists(project):
            return
        scratch = path.with_name(f"{maintenance.SCRATCH_PREFIX}{secrets.token_hex(6)}-{path.name}")
        with _storage("create", project):
            await self._in_thread(lambda: scratch.mkdir(parents=True))
            try:
                await run_git(GitCommand(init_arguments(object_format), repository=scratch))
                await self._in_thread(lambda: _publish(scratch, path))
            finally:
                await self._in_thread(lambda: shutil.rmtree(scratch, ignore_errors=True))

    async def exists(self, project: ProjectKey) -> bool:
        """Say whether the project has a repository."""
        path = self.volume.repository(project)
        return await self._in_thread(lambda: _is_there(path))

    async def seed(self, project: ProjectKey, files: Mapping[str, bytes], *, author: str, time: datetime = seeding.SEED_TIME) -> str:
        """Make the first commit from `files` unless main exists; return main's commit either way.

        The same files, author (`Name <email>`) and time give the same commit. A kill at any point leaves main absent or complete.

        Raises:
            SeedFailed: the files make no tree that a snapshot may hold; the message names the path.
        """
        if not files:
            raise SeedFailed(f"cannot seed project '{project.name}': there are no files", hint="name at least one key of the ConfigMap")
        async with self.pushing(project):
            return await self._write(project, "seed", lambda repository: seeding.seed_main(repository, files, author=author, time=time))

    async def head(self, project: ProjectKey) -> str | None:
        """Return the commit of main; None before the first push."""
        path = self.volume.repository(project)

        def read() -> str | None:
            look_at_repository(path)
            return seeding.read_ref_file(path / "refs" / "heads" / "main")

        # Until a ref is packed it is a file, and opening a repository costs ten times what reading that does.
        return await self._in_thread(read) or await self._read(project, "read the head of", seeding.read_main)

    async def resolve(self, project: ProjectKey, ref: str) -> ResolvedRef:
        """Return what a branch, tag, full ref or full SHA names.

        Raises:
            RefNotFound: it names no commit that a branch or tag reaches.
        """
        return await self._read(project, "resolve a ref of", lambda repository: resolve_ref(repository, ref))

    async def describe(self, project: ProjectKey, commit: str) -> CommitSummary:
        """Say who made a commit, when, and what its message begins with.

        Raises:
            RefNotFound: the repository holds no such commit.
        """
        return await self._read(project, "read a commit of", lambda repository: inspection.describe_commit(repository, commit))

    async def refs(self, project: ProjectKey) -> RefSummary:
        """Count branches and tags, and name the newest 50."""
        return await self._read(project, "read the refs of", inspection.summarise_refs)

    async def branches(self, project: ProjectKey) -> dict[str, str]:
        """Return the commit of every branch by its full name, sorted."""
        return await self._read(project, "read the branches of", inspection.branch_tips)

    async def merge_base(self, project: ProjectKey, commit: str, other: str) -> str | None:
        """Return the newest commit that two full SHAs descend from; None when their histories share none.

        Raises:
            GitFailed: the repository holds not both of them.
        """
        command = GitCommand(["merge-base", commit, other], repository=self.volume.repository(project))
        try:
            return (await run_git(command)).decode("ascii").strip()
        except GitFailed as error:
            if error.status == 1 and not error.stderr:
                return None
            raise

    async def changed_paths(self, project: ProjectKey, old: str | None, new: str) -> list[str]:
        """Return the sorted paths of files that differ between two commits; every path of `new` when `old` is None or gone.

        Raises:
            RefNotFound: the repository does not hold `new`.
        """
        return await self._read(project, "compare commits of", lambda repository: inspection.changed_paths(repository, old, new))

    async def passed_over(self, project: ProjectKey, old: str, new: str) -> list[str]:
        """Return the commits between two along first parents, both left out, oldest first, the newest 50 at most; [] after a forced push.

        Raises:
            RefNotFound: the repository does not hold `new`.
        """
        return await self._read(project, "compare commits of", lambda repository: inspection.passed_over(repository, old, new))

    async def pin(self, project: ProjectKey, run_uid: str, commit: str) -> None:
        """Keep a commit, whatever happens to the branches, until `unpin`. A UID keeps one commit: the last one pinned.

        Raises:
            RefNotFound: the repository holds no such commit.
        """
        name = pin_name(run_uid)
        async with self._shared(project):
            await self._write(project, "pin a commit of", lambda repository: write_pin(repository, name, commit))

    async def unpin(self, project: ProjectKey, run_uid: str) -> None:
        """Give up what `pin` keeps. Idempotent; nothing happens when the repository is gone."""
        name = pin_name(run_uid)
        with contextlib.suppress(UnknownProject):
            async with self._shared(project):
                await self._write(project, "unpin a commit of", lambda repository: repository.refs.remove_if_equals(name, None))

    async def pins(self, project: ProjectKey) -> dict[str, str]:
        """Return the pinned commits by run UID."""
        return await self._read(project, "read the pins of", read_pins)

    async def maintain(self, project: ProjectKey) -> None:
        """Remove leftovers of killed processes and what has long been unreachable, roll up many packs, and pack many refs.

        Nothing happens while a push runs or when the repository is gone: the next call finds the same work. Git that cannot repack, on a full volume or
        beside a damaged file, is logged and no error: the repository answers as it did.
        """
        path = self.volume.repository(project)
        with contextlib.suppress(UnknownProject), _storage("maintain", project):
            async with self._exclusive(project, wait_s=0.0) as held:
                if not held:
                    return
                await self._in_thread(lambda: maintenance.sweep_siblings(path.parent))
                await self._sweep(project)
                try:
                    if done := await maintenance.keep_small(path):
                        log.info("repository kept small", project=str(project), done=done)
                except GitFailed as error:
                    log.warning("repository not kept small", project=str(project), error=error.message)

    async def retain(self, project: ProjectKey, uid: str) -> None:
        """Move the repository aside under the UID of its deleted project. Idempotent.

        Raises:
            RepositoryBusy: a push runs.
        """
        await self._move(project, self.volume.retained(project, uid))

    async def adopt(self, project: ProjectKey, uid: str) -> None:
        """Bring a retained repository back as the project's; one of the project's own gives way if it has no ref.

        Raises:
            RepositoryExists: the project has a repository with refs.
            RepositoryBusy: a push runs.
            UnknownProject: nothing was retained under this UID.
        """
        source, target = self.volume.retained(project, uid), self.volume.repository(project)

        def move() -> None:
            source.rename(target)
            sync_directory(target.parent)
            sync_directory(source.parent)

        with _storage("adopt", project):
            if not await self._in_thread(source.is_dir):
                raise UnknownProject(f"cannot adopt repository '{project.name}': none is retained under uid '{uid}'")
            await self._give_way(project)
            await self._in_thread(move)

    async def _give_way(self, project: ProjectKey) -> None:
        """Remove a repository without refs; under the lock, so that no push can come in between."""
        path = self.volume.repository(project)
        trash = path.with_name(f"{maintenance.TRASH_PREFIX}{secrets.token_hex(6)}-{path.name}")
        with contextlib.suppress(UnknownProject):
            async with self._exclusive(project, wait_s=LOCK_WAIT_S) as held:
                if not held:
                    raise _busy(project)
                if await self._read(project, "read the refs of", lambda repository: bool(set(repository.refs.allkeys()) - {b"HEAD"})):
                    raise RepositoryExists(f"cannot adopt repository '{project.name}': the project has one already", hint="remove it first")
                await self._in_thread(lambda: path.rename(trash))
                self._swept.discard(path)
        await self._in_thread(lambda: shutil.rmtree(trash, ignore_errors=True))

    async def remove(self, project: ProjectKey) -> None:
        """Remove the repository. Idempotent; a kill leaves it whole or out of sight.

        Raises:
            RepositoryBusy: a push runs.
        """
        path = self.volume.repository(project)
        trash = path.with_name(f"{maintenance.TRASH_PREFIX}{secrets.token_hex(6)}-{path.name}")
        await self._move(project, trash)
        await self._in_thread(lambda: shutil.rmtree(trash, ignore_errors=True))

    def suspect(self, project: ProjectKey) -> None:
        """Have the next push look for leftovers again: one was in the way, of a process that this one has not seen die."""
        self._swept.discard(self.volume.repository(project))

    def pushing(self, project: ProjectKey) -> AbstractAsyncContextManager[RepositoryLock]:
        """Hold the repository against maintain, retain, adopt and remove.

        The lock's descriptor may be handed to a process, which then holds the repository for as long as it lives. The first push of this process, and
        the first after `suspect`, removes what killed ones left behind, so that a stale `main.lock` refuses nobody for long.

        Raises:
            UnknownProject: there is no repository.
            RepositoryBusy: it was moved or repacked for longer than 30 s.
        """
        return self._pushing(project)

    @asynccontextmanager
    async def _pushing(self, project: ProjectKey) -> AsyncIterator[RepositoryLock]:
        path = self.volume.repository(project)
        if path not in self._swept:
            async with self._exclusive(project, wait_s=0.0) as held:
                if held:
                    await self._sweep(project)
                    self._swept.add(path)
        async with self._shared(project) as lock:
            yield lock

    @asynccontextmanager
    async def _shared(self, project: ProjectKey) -> AsyncIterator[RepositoryLock]:
        with _storage("lock", project):
            lock = await acquire(self.volume.repository(project), self._clock, exclusive=False, wait_s=LOCK_WAIT_S)
        if lock is None:
            raise _busy(project)
        with contextlib.closing(lock):
            yield lock

    @asynccontextmanager
    async def _exclusive(self, project: ProjectKey, *, wait_s: float) -> AsyncIterator[bool]:
        with _storage("lock", project):
            lock = await acquire(self.volume.repository(project), self._clock, exclusive=True, wait_s=wait_s)
        if lock is None:
            yield False
            return
        with contextlib.closing(lock):
            yield True

    async def _sweep(self, project: ProjectKey) -> None:
        path = self.volume.repository(project)
        with _storage("clear", project):
            removed = await self._in_thread(lambda: maintenance.sweep_repository(path))
        if removed:
            log.info("leftovers removed", project=str(project), files=removed[:20], count=len(removed))

    async def _move(self, project: ProjectKey, target: Path) -> None:
        path = self.volume.repository(project)

        def move() -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
            shutil.rmtree(target / maintenance.OLD_PACKS, ignore_errors=True)  # nobody maintains it from now on
            crash_point("repository.moved")
            sync_directory(target.parent)
            sync_directory(path.parent)

        with contextlib.suppress(UnknownProject), _storage("move", project):
            async with self._exclusive(project, wait_s=LOCK_WAIT_S) as held:
                if not held:
                    raise _busy(project)
                await self._in_thread(move)
                self._swept.discard(path)

    async def _read(self, project: ProjectKey, verb: str, read: Callable[[Repo], T]) -> T:
        path = self.volume.repository(project)

        def run() -> T:
            with contextlib.closing(_open(path, project)) as repository:
                return read(repository)

        with _storage(verb, project):
            return await self._in_thread(run)

    async def _write(self, project: ProjectKey, verb: str, write: Callable[[Repo], T]) -> T:
        for _ in range(REF_LOCK_ATTEMPTS):
            with contextlib.suppress(FileLocked):
                return await self._read(project, verb, write)
            await self._clock.sleep(REF_LOCK_PAUSE_S)
        raise RepositoryBusy(f"cannot {verb} project '{project.name}': another process holds the lock of its ref", hint="try again later")

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(function, limiter=self._threads)


def _publish(scratch: Path, path: Path) -> None:
    write_file(scratch / maintenance.PACKED_REFS, maintenance.NO_PACKED_REFS)
    for inner in (scratch / "refs", scratch / "objects", scratch):
        sync_directory(inner)
    crash_point("create.prepared")
    try:
        scratch.rename(path)
    except OSError:
        # A rename onto a directory that is not empty fails: the repository that somebody else made meanwhile stays.
        if not _is_there(path):
            raise
    sync_directory(path.parent)


def _is_there(path: Path) -> bool:
    look_at_repository(path)
    return (path / "HEAD").is_file()


def _open(path: Path, project: ProjectKey) -> Repo:
    if not _is_there(path):
        raise UnknownProject(f"cannot find repository '{project}': it does not exist")
    try:
        # Told that it is bare, dulwich asks neither the environment nor the parent directories.
        return Repo(path, bare=True)
    except NotGitRepository as error:
        raise UnknownProject(f"cannot find repository '{project}': it does not exist") from error


def _busy(project: ProjectKey) -> RepositoryBusy:
    return RepositoryBusy(f"cannot lock repository '{project}': it is in use", hint="try again in a minute")


@contextmanager
def _storage(verb: str, project: ProjectKey) -> Iterator[None]:
    """Turn what the file system says into StorageFailed."""
    try:
        yield
    except OSError as error:
        raise StorageFailed(f"cannot {verb} repository '{project}': {error.strerror or error}", hint="check the content volume") from error
