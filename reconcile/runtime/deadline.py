"""A deadline on a `Clock`: what `asyncio.timeout` is to the event loop's own time."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from foundation.clock import Clock

T = TypeVar("T")


async def within(seconds: float, work: Coroutine[Any, Any, T], clock: Clock) -> T | None:
    """Return what `work` returns, or None when it took longer than `seconds`: it is then cancelled, and has ended."""
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, waiting):
            task.cancel()
        await asyncio.wait({working, waiting})
