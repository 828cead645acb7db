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

    def __init__(self, descriptor: int, path: Path, kind: int) -> None:
        self.descriptor = descriptor
        self._path = path
        self._kind = kind

    def take(self) -> bool:
        """Take the lock, or make sure that it is still held; False while somebody else holds it, or when its file is not the repository's any more.

        A machine that was cut off from a network volume for longer than its lease loses its locks and is not told: who is about to change what
        cannot be changed back asks once more. Blocking, for as long as the volume takes to answer.

        Raises:
            OSError: the volume refused; `is_gone`: the repository was moved or removed.
        """
        try:
            fcntl.flock(self.descriptor, self._kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        # The repository may have been moved or removed between the open and the lock: then this file guards nothing any more.
        look_at_repository(self._path.parent)
        held, named = os.fstat(self.descriptor), self._path.stat()
        return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)

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
    lock = RepositoryLock(descriptor, path, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
    taken = False
    try:
        taken = lock.take()
    except OSError as error:
        if is_gone(error):
            raise UnknownProject(f"cannot find repository '{path.parent.stem}': it was just moved or removed") from error
        raise
    finally:
        if not taken:
            lock.close()
    return lock if taken else None
