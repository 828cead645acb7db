"""From start to end of a process of a cluster: what ends first when it is told to, and who is still answered meanwhile."""

import asyncio
import os
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
OVERDUE_S: Final = 24.0
"""A process that is told to end is gone after this time, whatever hangs: a volume that no longer answers keeps threads for ever. The kubelet waits 30 s."""
OVERDUE: Final = 1
"""Exit code of a process that did not end in time."""

Duty = Callable[[], Coroutine[Any, Any, None]]
"""What a process does until it is cancelled."""

log = structlog.get_logger(__name__)


async def live(work: Sequence[Duty], faces: Sequence[Duty], readiness: Readiness, clock: Clock, *, overdue_s: float = OVERDUE_S) -> None:
    """Run `work` and `faces` until SIGTERM or SIGINT; then end `work` at once, and `faces` when nobody new comes to them any more.

    A process of which something still runs `overdue_s` after the signal or the failure of a part, threads included, is ended by force.

    Raises:
        ExceptionGroup: one of them failed; all others have ended.
    """
    stopping = asyncio.Event()
    with stop_on_signals(stopping.set):
        async with asyncio.TaskGroup() as group:
            working = [group.create_task(each()) for each in work]
            facing = [group.create_task(each()) for each in faces]
            try:
                await stopping.wait()
            finally:  # or a part has failed
                asyncio.get_running_loop().call_later(overdue_s, _leave)
                readiness.stop()
            log.info("process.stopping")
            draining = group.create_task(clock.sleep(DRAIN_S))
            for task in working:
                task.cancel()
            await asyncio.wait({*working, draining})
            for task in facing:
                task.cancel()
    log.info("process.stopped")


def _leave() -> None:
    log.error("process.stop_overdue")
    os._exit(OVERDUE)
