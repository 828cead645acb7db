"""Which files of a bare repository make a whole copy of it, and in what order they are read while pushes arrive.

Refs come before objects: a push writes its objects first, so every object that a ref names is there by the time that objects are read. The caller
holds the repository against repacking (`hold`). What is no part of a copy is no part of a repository that comes back from one either (`belongs`):
hooks, alternates, grafts and shallow marks change what git does or runs. Must not know where the copy goes.
"""

import asyncio
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path, PurePosixPath

from foundation.clock import Clock
from gitops.errors import RepositoryBusy
from gitops.locks import RepositoryLock, acquire

HOLD_WAIT_S = 60.0
_SKIPPED_PREFIXES = ("tmp_", ".tmp-")
_FILES = ("HEAD", "config", "description", "packed-refs")
_BELONGING = re.compile(
    rf"{'|'.join(map(re.escape, _FILES))}|refs(?:/.+)?|objects(?:/pack(?:/[^/]+)?|/[0-9a-f]{{2}}(?:/[0-9a-f]{{38,62}})?|/info(?:/packs|/commit-graphs?(?:/[^/]+)?)?)?",
    re.DOTALL,
)


def hold(repository: Path, clock: Clock) -> RepositoryLock:
    """Keep a repository from being repacked, moved or removed until the lock is closed; pushes go on. Blocking, outside of an event loop.

    Raises:
        RepositoryBusy: it was being repacked or moved for longer than a minute.
        UnknownProject: there is no repository.
    """
    lock = asyncio.run(acquire(repository, clock, exclusive=False, wait_s=HOLD_WAIT_S))
    if lock is None:
        raise RepositoryBusy(f"cannot lock repository '{repository.stem}': it is in use", hint="try again in a minute")
    return lock


def belongs(path: PurePosixPath) -> bool:
    """Say whether a file or directory of this name, relative to the repository, may be part of a copy."""
    return _BELONGING.fullmatch(path.as_posix()) is not None


def copied_paths(repository: Path) -> Iterator[Path]:
    """Yield directories and files of a copy in the order in which they must be read; loose refs before packed ones, those before objects."""
    yield from (path for name in _FILES if name != "packed-refs" and (path := repository / name).is_file())
    for folder in ("refs", "objects"):
        if folder == "objects" and (packed := repository / "packed-refs").is_file():
            yield packed
        found = sorted((repository / folder).rglob("*"))
        there = set(found)
        yield repository / folder
        yield from (path for path in found if belongs(PurePosixPath(path.relative_to(repository))) and not _is_passing(path, repository, there))


def _is_passing(path: Path, repository: Path, there: AbstractSet[Path]) -> bool:
    """Say whether a file is of work that goes on, or of a killed one: locks, quarantines, half-written objects and packs."""
    parts = path.relative_to(repository).parts
    if any(part.startswith(_SKIPPED_PREFIXES) for part in parts) or path.suffix in {".lock", ".keep"}:
        return True
    return path.suffix in {".pack", ".idx", ".rev"} and not {path.with_suffix(".pack"), path.with_suffix(".idx")} <= there
