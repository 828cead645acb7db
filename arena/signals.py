"""How a server hears that it is to stop, and how its tasks end."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import structlog

AGAIN_S: Final = 5.0
"""So long tasks have to end before they are asked again."""

_log = structlog.get_logger(__name__)


@contextlib.contextmanager
def stop_on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at SIGTERM and SIGINT instead of ending, so that everything behind it is ended in order; a second one calls it again."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    yield


async def ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and return when they have ended.

    A cancellation that falls into the wrong moment may be swallowed, by a library or by asyncio itself; then whatever task of this process still lives is
    cancelled, again and again: a group that waits for its children passes no second cancellation on.
    """
    for task in tasks:
        task.cancel()
    while tasks and (left := (await asyncio.wait(tasks, timeout=AGAIN_S))[1]):
        others = asyncio.all_tasks() - {asyncio.current_task()}
        _log.warning(
            "tasks_still_live", tasks=[task.get_name() for task in left], others=[repr(task.get_coro()) for task in others - set(tasks)][:20]
        )
        for task in others:
            task.cancel()
