"""The lock of one bare repository: shared by pushes and writers of refs, exclusive for what moves packs or the repository itself.

Owns `<repository>/arena.lock` and its flock, which NFS carries to the other machines of a shared volume (ADR 0014). A push hands its descriptor to
receive-pack, so that the lock outlives a killed server for as long as the git process does: whoever holds it exclusively knows that nobody writes, and
that every half-written file is a leftover. Whoever gets the lock sees the repository as the last holder left it. Must not know what is done under it.
"""

import fcntl
import os
from pathlib import Path

from foundation.clock import Clock
from gitops.errors import UnknownProject
from gitops.freshness import is_gone, look_at, look_at_repository

LOCK_NAME = "arena.lock"
POLL_S = 0.02


class RepositoryLock:
    """One holder's open lock file. Closing it, or the death of every process that has it open, releases the lock."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Release this holder's share. Idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


async def acquire(repository: Path, clock: Clock, *, exclusive: bool, wait_s: float, name: str = LOCK_NAME) -> RepositoryLock | None:
    """Take the lock within `wait_s` seconds; return None when somebody else kept it for longer. `name` is the lock's file in the repository.

    Raises:
        UnknownProject: there is no repository at this path, or it was moved away while we waited.
    """
    deadline = clock.monotonic() + wait_s
    while True:
        lock = _try(repository / name, exclusive=exclusive)
        if lock is not None or clock.monotonic() >= deadline:
            return lock
        await clock.sleep(POLL_S)


def _try(path: Path, *, exclusive: bool) -> RepositoryLock | None:
    look_at(path.parent.parent)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if is_gone(error):
            raise UnknownProject(f"cannot find repository '{path.parent.stem}': it does not exist") from error
        raise
    lock = RepositoryLock(descriptor)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        # The repository may have been moved or removed between the open and the lock: then this file guards nothing any more.
        look_at_repository(path.parent)
        held, named = os.fstat(descriptor), path.stat()
    except BlockingIOError:
        lock.close()
        return None
    except OSError as error:
        lock.close()
        if is_gone(error):
            raise UnknownProject(f"cannot find repository '{path.parent.stem}': it was just moved or removed") from error
        raise
    except BaseException:
        lock.close()
        raise
    if (held.st_dev, held.st_ino) != (named.st_dev, named.st_ino):
        lock.close()
        return None
    return lock
