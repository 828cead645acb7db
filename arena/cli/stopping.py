"""Stopping work in this process in order: the first SIGINT or SIGTERM cancels it, the next one ends the process at once.

Must not know what the work is.
"""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` to its end, or until a signal has cancelled it; it has closed what it held by then.

    From the first signal on the next one does what it does to a program that knows nothing of it: nobody waits for a close that hangs, nor for what the
    caller does with the rest. Only from the main thread.
    """
    loop, task, asked = asyncio.get_running_loop(), asyncio.ensure_future(work), False

    def stop() -> None:
        nonlocal asked
        asked = True
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not asked:
            raise
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
