"""Who fetches a mirror: one at a time, over tasks, processes and deaths.

Owns `<repository>/arena.fetch` and its flock. git inherits the descriptor, so a fetch whose server was killed still holds the lock; whoever waits for
it ends such an orphan, which nobody could hear any more. A git whose starter lives is left alone. Must not know what a fetch does.
"""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
import structlog

from foundation.clock import Clock
from gitops.errors import RepositoryBusy
from gitops.locks import RepositoryLock, acquire

FETCH_LOCK = "arena.fetch"
_LOOK_AGAIN_S = 1.0

log = structlog.get_logger(__name__)


@asynccontextmanager
async def fetching(repository: Path, clock: Clock, *, wait_s: float) -> AsyncIterator[int]:
    """Hold the fetch lock of a repository; yields the descriptor that git is to inherit.

    Raises:
        RepositoryBusy: somebody who lives fetches it, for longer than `wait_s`.
        UnknownProject: there is no repository.
    """
    lock = await _acquired(repository, clock, wait_s)
    with contextlib.closing(lock):
        yield lock.descriptor


async def _acquired(repository: Path, clock: Clock, wait_s: float) -> RepositoryLock:
    deadline, patience = clock.monotonic() + wait_s, 0.0
    while True:
        lock = await acquire(repository, clock, exclusive=True, wait_s=patience, name=FETCH_LOCK)
        if lock is not None:
            return lock
        if clock.monotonic() >= deadline:
            raise RepositoryBusy(f"cannot fetch repository '{repository.stem}': it is being fetched", hint="try again in a minute")
        await anyio.to_thread.run_sync(end_orphans, repository / FETCH_LOCK)
        patience = _LOOK_AGAIN_S


def end_orphans(lock: Path) -> None:
    """Kill the git processes that hold this lock file open and whose starter does not. Blocking; sees processes of this machine and user alone."""
    holders = dict(_holders(os.path.realpath(lock)))
    starters = {pid for pid, name in holders.items() if not name.startswith("git")}
    for session in {_session(pid) for pid in holders.keys() - starters} - {None}:
        if session is not None and _parent(session) not in starters:
            log.warning("orphaned fetch ended", process=session)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(session, signal.SIGKILL)


def _holders(path: str) -> Iterator[tuple[int, str]]:
    """Yield the processes that have a file open, with the names of their programs."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(_target(link) == path for link in (process / "fd").iterdir()):
                yield int(process.name), (process / "comm").read_text(encoding="utf-8", errors="replace").strip()


def _target(link: Path) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(link)  # noqa: PTH115 - a string, to compare
    return ""


def _session(pid: int) -> int | None:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid)
    return None


def _parent(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
    return None
