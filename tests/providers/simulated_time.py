"""Running work to its end in simulated time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from foundation.clock import FakeClock, SystemClock

T = TypeVar("T")


async def simulate(clock: FakeClock, work: Coroutine[Any, Any, T], *, step_s: float = 0.05, most_s: float = 7200.0) -> T:
    """Return what `work` returns, moving the clock by steps while it waits; fail when it is not done after `most_s` simulated seconds."""
    task = asyncio.create_task(work)
    began = clock.monotonic()
    while not task.done():
        if clock.monotonic() - began > most_s:
            task.cancel()
            raise AssertionError(f"the work is not done after {most_s:g} simulated seconds")
        await clock.advance(step_s)
    return await task


class Waiting(SystemClock):
    """A clock on which the world changes whenever somebody waits, and waiting takes no time but its own."""

    def __init__(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self.meanwhile = meanwhile
        self.waited_s: list[float] = []

    def monotonic(self) -> float:
        """Return the seconds that passed, with those that were waited."""
        return super().monotonic() + sum(self.waited_s)

    async def sleep(self, seconds: float) -> None:
        """Let the world change."""
        self.waited_s.append(seconds)
        await self.meanwhile()


async def nothing() -> None:
    """Change nothing."""
