"""Time behind a port: the wall clock, the monotonic clock and waiting.

The only module that reads the system's clocks; everything else is given a `Clock`.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What time it is, and how to wait."""

    def now(self) -> datetime:
        """Return the wall clock as an aware UTC datetime. It may jump."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start. Never goes back; use it for every duration and lease."""

    async def sleep(self, seconds: float) -> None:
        """Wait `seconds`; at once when zero or less."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the wall clock as an aware UTC datetime."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the monotonic clock, in seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait `seconds`."""
        await asyncio.sleep(max(0.0, seconds))


class FakeClock:
    """A clock that a test moves by hand; sleepers wake in the order of their deadlines."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Return the start plus all that was advanced."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was advanced by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._elapsed + seconds, future))
        await future

    async def advance(self, seconds: float) -> None:
        """Move on by `seconds`, waking each sleeper at its own deadline, and let woken tasks run."""
        target = self._elapsed + seconds
        while due := sorted((s for s in self._sleepers if s[0] <= target), key=lambda s: s[0]):
            deadline, future = due[0]
            self._sleepers.remove(due[0])
            self._elapsed = max(self._elapsed, deadline)
            if not future.done():
                future.set_result(None)
            await _let_others_run()
        self._elapsed = target
        await _let_others_run()


async def _let_others_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
