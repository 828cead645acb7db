"""Whether the locks of the content volume hold between the processes, on whatever machines, that share it.

Owns one file for each of them in `ContentVolume.replicas`. Its holder keeps it locked for life and counts up in it; the others try the lock. Who gets
it takes the holder for dead; when the count goes on after that, locks do not reach from there to here, and two pushes could be let into one
repository: then no replica calls itself ready. Must not know what the volume holds, nor who asks.
"""

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

import anyio.to_thread
import structlog

from foundation.clock import Clock
from gitops.content import ContentVolume
from gitops.freshness import is_gone, look_at

BEAT_S = 10.0
FORGOTTEN_AFTER_BEATS = 30
_SUFFIX = ".alive"
_DIGITS = 12

log = structlog.get_logger(__name__)


class ReplicaWatch:
    """This process among those that share the volume. `name` tells a person which one it is, such as the pod's name."""

    def __init__(self, volume: ContentVolume, clock: Clock, *, name: str) -> None:
        self._folder = volume.replicas
        self._clock = clock
        self._own = self._folder / f"{name}-{secrets.token_hex(4)}{_SUFFIX}"
        self._descriptor = -1
        self._count = 0
        self._taken_for_dead: dict[str, tuple[bytes, int]] = {}
        self._problem = ""

    @property
    def problem(self) -> str:
        """Why this process must not write, in words for a probe; "" while nothing is wrong."""
        return self._problem

    async def run(self) -> None:
        """Beat until cancelled, then take the file away. An unreadable volume is a problem, and is looked at again."""
        try:
            while True:
                try:
                    await anyio.to_thread.run_sync(self.beat)
                except OSError as error:
                    self._set(f"the content volume cannot be read or written: {error.strerror or error}")
                    self._let_go()
                await self._clock.sleep(BEAT_S)
        finally:
            self.close()

    def beat(self) -> None:
        """Show that this process lives, and look at the others once. Blocking.

        Raises:
            OSError: the volume refused. EIO: the machine had lost its lease, and with it every lock.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._descriptor < 0:
            self._take_hold()
        self._count += 1
        os.pwrite(self._descriptor, b"%0*d\n" % (_DIGITS, self._count), 0)
        os.fsync(self._descriptor)
        look_at(self._folder)
        others = {path.name: path for path in self._folder.glob(f"*{_SUFFIX}") if path != self._own}
        unreached = sorted(name for name, path in others.items() if self._lives_behind_its_lock(name, path))
        self._taken_for_dead = {name: seen for name, seen in self._taken_for_dead.items() if name in others}
        self._set(f"locks of the content volume do not reach {', '.join(unreached)}" if unreached else "")

    def close(self) -> None:
        """Take the own file away. Idempotent."""
        with contextlib.suppress(OSError):
            self._own.unlink(missing_ok=True)
        self._let_go()

    def _take_hold(self) -> None:
        descriptor = os.open(self._own, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Another replica may try it at this very moment, and lets go of it at once.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _let_go(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1

    def _lives_behind_its_lock(self, name: str, path: Path) -> bool:
        """Say whether another process counted on after its lock was to be had; forget one that has been dead for long."""
        count = _count_behind_a_free_lock(path)
        if count is None:
            self._taken_for_dead.pop(name, None)
            return False
        before, beats = self._taken_for_dead.get(name, (count, 0))
        self._taken_for_dead[name] = (before, beats + 1)
        if count == before and beats >= FORGOTTEN_AFTER_BEATS:
            path.unlink(missing_ok=True)
        return count != before

    def _set(self, problem: str) -> None:
        if problem != self._problem:
            log.log(40 if problem else 20, "content volume looked at", problem=problem)
        self._problem = problem


def _count_behind_a_free_lock(path: Path) -> bytes | None:
    """Return what a process has counted up to if its lock is to be had, so that it should be dead; None while it holds it, or is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if is_gone(error):
            return None
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.pread(descriptor, _DIGITS, 0)
    except BlockingIOError:
        return None
    except OSError as error:
        if is_gone(error):
            return None
        raise
    finally:
        os.close(descriptor)
