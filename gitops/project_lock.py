"""One lock a project, over tasks of this process, over processes and, where the volume carries flock, over machines.

Owns the lock file and how to wait for it without holding a thread. A killed holder's lock is free at once, that of a machine which died when its lease
on the volume ends. Must not know what it protects.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from foundation.clock import Clock
from gitops.errors import RepositoryBusy
from gitops.freshness import is_gone, look_at

_FIRST_WAIT_S = 0.002
_LONGEST_WAIT_S = 0.05


class ProjectLocks:
    """Exclusive locks by the path of their lock file. Not re-entrant."""

    def __init__(self, clock: Clock, *, timeout_s: float = 600.0) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._local: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, path: Path, what: str) -> AsyncIterator[None]:
        """Hold the lock at `path` for the length of the block; the directory above is made if it is missing.

        Tasks of this process wait in order; processes ask again up to every 50 ms.

        Raises:
            RepositoryBusy: others held it for longer than the timeout. The message is `cannot <what>: …`.
            OSError: the lock file cannot be made.
        """
        local = self._local.setdefault(path, asyncio.Lock())
        async with local:
            file = LockFile(path)
            try:
                await self._acquire(file, what)
                yield
            finally:
                file.release()

    async def _acquire(self, file: "LockFile", what: str) -> None:
        started, wait = self._clock.monotonic(), _FIRST_WAIT_S
        while not file.try_acquire():
            if self._clock.monotonic() - started > self._timeout_s:
                raise RepositoryBusy(f"cannot {what}: another process has held the project's lock for {self._timeout_s:g} s", hint="try again later")
            await self._clock.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT_S)


class LockFile:
    """A lock file that may be removed while others wait for it: who gets the lock on a removed file asks again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free. A few system calls that do not wait."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            look_at(self._path.parent.parent)
            look_at(self._path.parent)
            if os.stat(self._path).st_ino == os.fstat(descriptor).st_ino:  # noqa: PTH116 - beside fstat
                self._descriptor, descriptor = descriptor, -1
        except OSError as error:
            if not isinstance(error, BlockingIOError) and not is_gone(error):
                raise
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        return self._descriptor is not None

    def release(self) -> None:
        """Give the lock back. Idempotent."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None
