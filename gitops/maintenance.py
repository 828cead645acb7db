"""Keeping a bare repository small: geometric repacking, refs in one file, no garbage, and the removal of what killed processes left behind.

Owns which file in a repository is a leftover. Every function needs the repository's exclusive lock, under which no push and no writer of ours runs; the
age limits protect what a person does by hand. Fetches go on, also on other machines, where a removed file is not kept for those who have it open:
packs that are replaced stay for an hour under a second name (`arena.packs`). Must not know who asks.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread

from gitops.locks import LOCK_NAME
from gitops.processes import GitCommand, run_git

PACKS_BEFORE_REPACK = 20
LOOSE_REFS_BEFORE_PACKING = 200
COLLECTED_NAME = "arena.collected"
COLLECT_EVERY_S = 7 * 86400.0
UNREACHED_FOR = "14.days.ago"
STALE_LOCK_S = 10.0
STALE_FILE_S = 3600.0
READERS_S = 3600.0
OLD_PACKS = "arena.packs"
PACKED_REFS = "packed-refs"
NO_PACKED_REFS = b"# pack-refs with: peeled fully-peeled sorted \n"
"""A repository has the file from the start: a reader on another machine may know for half a minute that it was not there, and would miss every ref that
moved there meanwhile; a file that is replaced it sees at once."""
REPACK_TIMEOUT_S = 600.0
SCRATCH_PREFIX = ".tmp-"
TRASH_PREFIX = ".trash-"
_KEEP_MARKS = (b"receive-pack ", b"fetch-pack ")


def count_packs(repository: Path) -> int:
    """Return the number of packs."""
    return sum(1 for _ in (repository / "objects" / "pack").glob("pack-*.pack"))


def count_loose_refs(repository: Path) -> int:
    """Return the number of refs that have a file of their own."""
    return sum(len(files) for _, _, files in os.walk(repository / "refs"))


async def keep_small(repository: Path) -> list[str]:
    """Do what is due, and return what it was: packs rolled up, refs packed, and each week what nothing has reached for two weeks removed.

    Packs are rolled up until each is at least twice as large as all smaller ones together, which loses no object, reachable or not.

    Raises:
        GitFailed: the repository is as it was.
    """
    await anyio.to_thread.run_sync(_drop_old_packs, repository)
    due = await anyio.to_thread.run_sync(_due, repository)
    if due.keys() & {"garbage", "packs"}:
        await anyio.to_thread.run_sync(_keep_for_readers, repository)
    if "garbage" in due:  # before it is tried: what fails or takes too long does so once a week, not in every pass
        await anyio.to_thread.run_sync((repository / COLLECTED_NAME).touch)
    for arguments in due.values():
        await run_git(GitCommand(arguments, repository=repository), timeout_s=REPACK_TIMEOUT_S)
    return list(due)


def _due(repository: Path) -> dict[str, list[str]]:
    due = {}
    if _is_collection_due(repository / COLLECTED_NAME):
        due["garbage"] = ["repack", "--cruft", f"--cruft-expiration={UNREACHED_FOR}", "-d", "-q"]
    elif count_packs(repository) > PACKS_BEFORE_REPACK:
        due["packs"] = ["repack", "--geometric=2", "-d", "-q", "--write-midx"]
    if count_loose_refs(repository) > LOOSE_REFS_BEFORE_PACKING or not (repository / PACKED_REFS).exists():
        due["refs"] = ["pack-refs", "--all"]
    return due


def _is_collection_due(stamp: Path) -> bool:
    """Say whether a week has gone by; a repository that never had the stamp gets it, and is due a week later."""
    with contextlib.suppress(OSError):  # a full volume is nothing to stop a project for here
        stamp.touch(exist_ok=False)
    return _is_older(stamp, COLLECT_EVERY_S, time.time())


def _keep_for_readers(repository: Path) -> None:
    """Give the packs a second name, so that they outlive their removal for who reads them; without links (an odd volume), readers have to ask again."""
    kept = repository / OLD_PACKS
    with contextlib.suppress(OSError):
        kept.mkdir(exist_ok=True)
        os.utime(kept)
    for path in (repository / "objects" / "pack").glob("pack-*"):
        with contextlib.suppress(OSError):
            (kept / path.name).hardlink_to(path)


def _drop_old_packs(repository: Path) -> None:
    kept = repository / OLD_PACKS
    if kept.exists() and _is_older(kept, READERS_S, _volume_time(repository)):
        _remove(kept)


def sweep_repository(repository: Path, *, lock_age_s: float = STALE_LOCK_S, file_age_s: float = STALE_FILE_S) -> list[str]:
    """Remove leftovers of killed processes and return their names, relative to the repository.

    Every receive-pack and every fetch holds the repository's lock for as long as it lives, so quarantines go whatever their age.
    """
    found = list(_leftovers(repository, lock_age_s, file_age_s))
    if not found:
        return []
    now = _volume_time(repository)
    removed = [path for path, age_s in found if _is_older(path, age_s, now)]
    for path in removed:
        _remove(path)
    return sorted(path.relative_to(repository).as_posix() for path in removed)


def has_leftovers(repository: Path) -> bool:
    """Say whether there is anything that a killed process may have left behind, or one that lives is writing. Needs no lock."""
    return any(True for _ in _leftovers(repository, 0.0, 0.0))


def sweep_siblings(directory: Path, *, file_age_s: float = STALE_FILE_S) -> None:
    """Remove what creating and removing repositories left behind in `directory`."""
    for path in directory.glob(f"{TRASH_PREFIX}*"):
        _remove(path)
    for path in directory.glob(f"{SCRATCH_PREFIX}*"):
        if _is_older(path, file_age_s, _volume_time(directory)):
            _remove(path)


def _leftovers(repository: Path, lock_age_s: float, file_age_s: float) -> Iterator[tuple[Path, float]]:
    objects, packs = repository / "objects", repository / "objects" / "pack"
    for path in (*repository.glob("*.lock"), *(repository / "refs").rglob("*.lock"), *objects.rglob("*.lock")):
        if path.name != LOCK_NAME:
            yield path, lock_age_s
    for path in objects.glob("tmp_objdir-*"):
        yield path, 0.0
    for path in packs.glob("*.keep"):
        # receive-pack and fetch keep a new pack until its ref is written; a .keep of that kind without its process would exempt the pack for ever.
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(_KEEP_MARKS):
                yield path, 0.0
    for pattern in ("tmp_*", ".tmp-*"):
        for path in (*packs.glob(pattern), *objects.glob(f"[0-9a-f][0-9a-f]/{pattern}")):
            yield path, file_age_s


def _volume_time(path: Path) -> float:
    """Return what time it is where file times come from, which on a network volume is another machine; touches the directory `path`."""
    with contextlib.suppress(OSError):
        os.utime(path)
        return path.stat().st_mtime
    return time.time()


def _is_older(path: Path, age_s: float, now: float) -> bool:
    try:
        return now - path.lstat().st_mtime >= age_s
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
