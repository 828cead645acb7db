"""A backup of a state directory, taken while it is used or while it rests.

Owns the order in which the parts are read, so that they fit together: the store first, as it is at one moment, then what it speaks of. A commit, a
plan or a result is written before the store names it, so whatever the store's copy names is there when it is read. Repositories are held against
repacking and removal from before the store is copied. Left out, because it is made again: snapshots (exported from the commits), the queue (rebuilt
from plans and parts: survival.md, step 8), processes, logs.
"""

import contextlib
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from arena.errors import BackupFailed
from arena.local.archive import CONTENT, DATABASE, FORMAT, TOKEN, ArchiveWriter, Header, compression_of
from arena.local.state import StateDirectory
from foundation.clock import Clock
from foundation.files import replace_file
from gitops.errors import UnknownProject
from gitops.repository_copy import copied_paths, hold
from reconcile.cluster.port import ARENA_RUN, Object
from reconcile.cluster.sqlite_reading import KNOWN_SCHEMA, StoreReading
from reconcile.kinds.names import TERMINAL_PHASES
from reconcile.run.ownership import TRASH, read_owner

_REPOSITORIES = "*/*/arena/repos/*.git"
_RETAINED = "*/*/arena/repos/.retained/*.git"
_RUNS = "*/*/arena/runs/*"
_HISTORY = "*/*/arena/history/**/*"
_HEADS = "*/*/arena/sources/*/.arena/HEAD"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a backup holds. `missing` names ended runs whose results were removed while it was taken."""

    files: int
    repositories: int
    runs: int
    bytes: int
    missing: tuple[str, ...]


def take_backup(state: StateDirectory, target: Path, clock: Clock, *, with_token: bool = False) -> Taken:
    """Write a backup of `state` to `target`, whole or not at all, readable by its owner only.

    Raises:
        BackupFailed: the directory is no installation, `target` exists or has no name that we know, or a file cannot be read or written.
        StoreUnavailable: the store cannot be read.
        RepositoryBusy: a repository was being repacked for longer than a minute.
    """
    mode = compression_of(target)
    if target.exists():
        raise BackupFailed(f"cannot write backup '{target}': it exists already", hint="choose another name")
    if not state.database.exists():
        raise BackupFailed(f"cannot back up '{state.root}': no installation is there", hint="name its directory with --state DIR")
    try:
        with replace_file(target, mode=0o600) as stream:
            with tarfile.open(fileobj=stream, mode=mode, format=tarfile.PAX_FORMAT) as tar:
                files, repositories, runs, missing = _Backup(state, clock, ArchiveWriter(tar)).take(target.parent, with_token=with_token)
            size = stream.tell()
    except FileNotFoundError as error:
        raise BackupFailed(f"cannot write backup '{target}': '{error.filename}' went away", hint="try again") from error
    except (OSError, tarfile.TarError) as error:
        raise BackupFailed(f"cannot write backup '{target}': {getattr(error, 'strerror', None) or error}") from error
    return Taken(files, repositories, runs, size, missing)


@dataclass(frozen=True, slots=True)
class _Backup:
    """One backup that is being taken."""

    state: StateDirectory
    clock: Clock
    archive: ArchiveWriter

    def take(self, scratch: Path, *, with_token: bool) -> tuple[int, int, int, tuple[str, ...]]:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".arena-backup-", dir=scratch)))
            held = self._hold(stack, set())
            runs = self._store(folder / DATABASE)
            held |= self._hold(stack, held)
            if with_token:
                self.archive.add_file(TOKEN, self.state.root / TOKEN)
            for repository in sorted(held):
                self._repository(repository)
        for repository in sorted(self.state.content.glob(_RETAINED)):
            self._repository(repository)
        kept = self._runs({str(run["metadata"]["uid"]) for run in runs})
        self._files(self.state.content.glob(_HISTORY))
        self._files(self.state.content.glob(_HEADS))
        ended = [run for run in runs if run.get("status", {}).get("phase") in TERMINAL_PHASES and run["status"].get("outputPath")]
        missing = tuple(f"{run['metadata']['namespace']}/{run['metadata']['name']}" for run in ended if run["metadata"]["uid"] not in kept)
        return self.archive.finish(), len(held), len(kept), missing

    def _store(self, copy: Path) -> list[Object]:
        """Copy the store, begin the archive with it, and return its runs."""
        with StoreReading(self.state.database) as store:
            if store.schema > KNOWN_SCHEMA:
                raise BackupFailed(f"cannot back up '{self.state.root}': a newer arena wrote its store", hint="use that arena")
            store.copy_to(copy)
        with StoreReading(copy) as store:
            if damage := store.damage():
                raise BackupFailed(f"cannot back up '{self.state.root}': its store is damaged: {damage}", hint="`arena doctor` says more")
            created = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            self.archive.add_header(Header(FORMAT, version("arena-reconciler"), created, self.state.installation(), store.schema))
            self.archive.add_file(DATABASE, copy)
            return store.objects(ARENA_RUN)

    def _hold(self, stack: contextlib.ExitStack, held: set[Path]) -> set[Path]:
        """Hold the repositories that are not held yet, and return them."""
        taken = set()
        for repository in set(self.state.content.glob(_REPOSITORIES)) - held:
            if repository.name.startswith("."):  # one that is being made or removed
                continue
            with contextlib.suppress(UnknownProject):  # removed since it was listed
                stack.enter_context(contextlib.closing(hold(repository, self.clock)))
                taken.add(repository)
        return taken

    def _repository(self, repository: Path) -> None:
        self.archive.add_folder(self._name(repository))
        for path in copied_paths(repository):
            if path.is_dir():
                self.archive.add_folder(self._name(path))
            elif "objects" in path.relative_to(repository).parts:
                self.archive.add_file(self._name(path), path)
            else:
                self._file(path)

    def _runs(self, uids: set[str]) -> set[str]:
        """Add the directories of the store's runs, and return the uids of those that are there."""
        kept = set()
        for directory in sorted(self.state.content.glob(_RUNS)):
            owner = read_owner(directory) if directory.name != TRASH else None
            if owner is not None and owner.uid in uids:
                self._files(directory.rglob("*"))
                kept.add(owner.uid)
        return kept

    def _files(self, paths: Iterator[Path]) -> None:
        for path in sorted(paths):
            if path.is_file() and not path.is_symlink() and not path.name.startswith(".tmp-"):
                self._file(path)

    def _file(self, path: Path) -> None:
        """Add a file that may go at any time: a loose ref that is packed now, a run that is deleted."""
        with contextlib.suppress(FileNotFoundError):
            self.archive.add_file(self._name(path), path)

    def _name(self, path: Path) -> str:
        return f"{CONTENT}/{path.relative_to(self.state.content).as_posix()}"
