"""The ends of pipes to a child process, read and written without a copy more than the kernel makes.

Owns waiting for a descriptor. The streams of asyncio buffer and copy everything twice, which counts where packs of hundreds of megabytes pass.
Must not know what passes.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable
from typing import Any

PIPE_BYTES = 1 << 20
"""What an unprivileged process may ask for on Linux; the usual 64 KiB make a large pack thousands of wake-ups."""

_FLOW_BYTES = 16 * 1024
_GATHER_S = 0.002


class ReadEnd:
    """Reads a pipe. One reader at a time; owns the descriptor.

    Where much flows, it lets the pipe fill for two milliseconds before it reads on: a few large reads cost a fraction of many small ones.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = _Descriptor(descriptor)
        self._gathers: bool | None = None
        self._flows = False

    async def read(self, limit_bytes: int) -> bytes:
        """Return at least one byte and at most `limit_bytes`, or b"" at the end, and after `close`."""
        while not self._descriptor.closed:
            try:
                data = os.read(self._descriptor.number, limit_bytes)
            except BlockingIOError:
                await self._descriptor.wait_readable()
                if self._flows:
                    await asyncio.sleep(_GATHER_S)
            else:
                self._flows = len(data) >= _FLOW_BYTES and self._may_gather()
                return data
        return b""

    def _may_gather(self) -> bool:
        if self._gathers is None:
            self._gathers = enlarge(self._descriptor.number)
        return self._gathers

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        self._descriptor.close()


class WriteEnd:
    """Writes a pipe. One writer at a time; owns the descriptor.

    A full pipe is let drain for two milliseconds: its reader makes room for one page at a time, and each would wake us.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = _Descriptor(descriptor)
        self._gathers: bool | None = None

    async def write(self, data: bytes) -> bool:
        """Write all of `data`; False when nobody reads any more or after `close`."""
        rest = memoryview(data)
        while rest:
            if self._descriptor.closed:
                return False
            try:
                rest = rest[os.write(self._descriptor.number, rest) :]
            except BlockingIOError:
                if self._gathers is None:
                    self._gathers = enlarge(self._descriptor.number)
                    continue
                await self._descriptor.wait_writable()
                if self._gathers:
                    await asyncio.sleep(_GATHER_S)
            except BrokenPipeError:
                return False
        return True

    def close(self) -> None:
        """Close the descriptor, so that the reader comes to the end. Idempotent."""
        self._descriptor.close()


class Excerpt:
    """Reads a pipe to its end in the background and keeps the first `limit_bytes`. Owns the descriptor."""

    def __init__(self, descriptor: int, limit_bytes: int) -> None:
        self._descriptor = _Descriptor(descriptor)
        self._limit_bytes = limit_bytes
        self._kept = bytearray()
        self._ended = asyncio.get_running_loop().create_future()
        self._descriptor.watch(self._take)

    @property
    def text(self) -> str:
        """What was kept so far."""
        return self._kept.decode("utf-8", "replace").strip()

    async def wait(self, timeout_s: float) -> None:
        """Wait for the end, for no longer than `timeout_s`."""
        if not self._ended.done():
            await asyncio.wait([self._ended], timeout=timeout_s)

    def close(self) -> None:
        """Read no more. Idempotent."""
        self._descriptor.close()
        if not self._ended.done():
            self._ended.set_result(None)

    def _take(self) -> None:
        with contextlib.suppress(BlockingIOError):
            chunk = os.read(self._descriptor.number, self._limit_bytes)
            self._kept += chunk[: self._limit_bytes - len(self._kept)]
            if not chunk:
                self.close()


def enlarge(descriptor: int) -> bool:
    """Make a pipe hold `PIPE_BYTES`; False where the kernel allows no more than it gave (pipe-user-pages-soft), or is none of Linux."""
    with contextlib.suppress(AttributeError, OSError):
        return fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES) >= PIPE_BYTES
    return False


async def readable_once(descriptor: int) -> None:
    """Wait until a descriptor can be read, a pidfd until its process has ended, and close it."""
    watched = _Descriptor(descriptor)
    try:
        await watched.wait_readable()
    finally:
        watched.close()


class _Descriptor:
    """A descriptor that does not block, and who waits for it."""

    def __init__(self, number: int) -> None:
        os.set_blocking(number, False)
        self.number = number
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None

    def watch(self, callback: Callable[[], None]) -> None:
        self._loop.add_reader(self.number, callback)

    async def wait_readable(self) -> None:
        await self._wait(self._loop.add_reader, self._loop.remove_reader)

    async def wait_writable(self) -> None:
        await self._wait(self._loop.add_writer, self._loop.remove_writer)

    async def _wait(self, add: Callable[..., Any], remove: Callable[[int], bool]) -> None:
        self._waiter = self._loop.create_future()
        add(self.number, _wake, self._waiter)
        try:
            await self._waiter
        finally:
            if not self.closed:
                remove(self.number)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self.number)
        self._loop.remove_writer(self.number)
        os.close(self.number)
        if self._waiter is not None:
            _wake(self._waiter)


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
