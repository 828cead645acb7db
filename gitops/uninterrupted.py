"""Blocking work in a bounded number of threads, never left running behind the back of who started it."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")


class UninterruptedThreads:
    """Run functions in at most `limit` threads; more wait their turn."""

    def __init__(self, limit: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(max_workers=limit, thread_name_prefix=name)

    async def run(self, work: Callable[[], _T], stop: threading.Event | None = None) -> _T:
        """Run `work` in a thread and return its result.

        A cancelled caller waits until the thread has ended, so that a lock it holds outlives the work; `stop` is set to hurry it.
        """
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if stop is not None:
                stop.set()
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait({future})
            if not future.cancelled():
                future.exception()  # seen, so that nobody warns of it; the cancellation is what counts
            raise
