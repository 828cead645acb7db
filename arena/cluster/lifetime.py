"""From start to end of a process of a cluster: what ends first when it is told to, and who is still answered meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import structlog

from arena.cluster.probes import Readiness
from arena.signals import stop_on_signals
from foundation.clock import Clock

DRAIN_S: Final = 3.0
"""Clients of a Service learn late that one of its pods ends: for so long they are still answered."""
REQUESTS_S: Final = 15
"""So long requests that have begun may take to end after that."""

Duty = Callable[[], Coroutine[Any, Any, None]]
"""What a process does until it is cancelled."""

log = structlog.get_logger(__name__)


async def live(work: Sequence[Duty], faces: Sequence[Duty], readiness: Readiness, clock: Clock) -> None:
    """Run `work` and `faces` until SIGTERM or SIGINT; then end `work` at once, and `faces` when nobody new comes to them any more.

    Raises:
        ExceptionGroup: one of them failed; all others have ended.
    """
    stopping = asyncio.Event()
    with stop_on_signals(stopping.set):
        async with asyncio.TaskGroup() as group:
            working = [group.create_task(each()) for each in work]
            facing = [group.create_task(each()) for each in faces]
            await stopping.wait()
            log.info("process.stopping")
            readiness.stop()
            draining = group.create_task(clock.sleep(DRAIN_S))
            for task in working:
                task.cancel()
            await asyncio.wait({*working, draining})
            for task in facing:
                task.cancel()
    log.info("process.stopped")
