"""How long a worker asks an unreachable or forgetful queue, and how it leaves.

Must not know what is asked.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, cast

import structlog

from engine.errors import EngineError, QueueUnavailable, RunSettled, RunUnknown
from foundation.clock import Clock

PATIENCE_S = 600.0
"""How long a worker asks again for a run that the queue does not know, or of a queue that does not answer."""

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0

T = TypeVar("T")
_log = structlog.get_logger(__name__)


class ExitReason(StrEnum):
    """Why a worker left."""

    DRAINED = "drained"
    """Every item of the run is counted."""

    STOPPED = "stopped"
    """The run is stopped, and this worker's begun items have ended."""

    SETTLED = "settled"
    """The run was over before the worker came, or ended without it."""

    SIGNALLED = "signalled"
    """Somebody asked the worker to leave; what it had is counted or handed back."""

    VERSION_MISMATCH = "version_mismatch"
    """The plan was made by another engine version; nothing was leased."""

    REFUSED = "refused"
    """The run cannot be begun here, and is stopped with the cause; nothing was leased."""

    QUEUE_LOST = "queue_lost"
    """The queue did not know the run, or did not answer, for `PATIENCE_S`."""


_CODES = {
    ExitReason.DRAINED: 0,
    ExitReason.STOPPED: 0,
    ExitReason.SETTLED: 0,
    ExitReason.REFUSED: 0,
    ExitReason.SIGNALLED: 143,
    ExitReason.VERSION_MISMATCH: 78,
    ExitReason.QUEUE_LOST: 1,
}


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """How a worker left. `message` is for a person, "" when there is nothing to say."""

    reason: ExitReason
    message: str = ""

    @property
    def code(self) -> int:
        """Return the process's exit code: 0 when nothing is left to do, 143 after a signal, 78 for another version, 1 when the queue is lost."""
        return _CODES[self.reason]


class Leave(Exception):
    """Ends the worker with `exit`; not a failure, but how any part of a worker ends all of it."""

    def __init__(self, exit_: WorkerExit) -> None:
        super().__init__(exit_.reason)
        self.exit = exit_


class Patience:
    """Asks the queue again and again, with growing pauses, until it answers."""

    def __init__(self, clock: Clock, *, patience_s: float = PATIENCE_S) -> None:
        self._clock = clock
        self._patience_s = patience_s

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """Return the answer. A repeated `question` must be safe.

        Raises:
            Leave: the run is settled, or the patience is used up.
        """
        answer = await self.ask_unless(asyncio.Event(), question)
        return cast("T", answer)

    async def ask_unless(self, given_up: asyncio.Event, question: Callable[[], Awaitable[T]]) -> T | None:
        """Return the answer, or None when `given_up` is set before there is one; a question under way is never cut short.

        Raises:
            Leave: the run is settled, or the patience is used up.
        """
        deadline, pause = self._clock.monotonic() + self._patience_s, FIRST_PAUSE_S
        while not given_up.is_set():
            try:
                return await question()
            except RunSettled as error:
                raise Leave(WorkerExit(ExitReason.SETTLED)) from error
            except (QueueUnavailable, RunUnknown) as error:
                await self._pause(error, pause, deadline)
            pause = min(LONGEST_PAUSE_S, pause * 2)
        return None

    async def _pause(self, error: EngineError, pause: float, deadline: float) -> None:
        if self._clock.monotonic() + pause > deadline:
            raise Leave(WorkerExit(ExitReason.QUEUE_LOST, f"{error.message}; asked for {self._patience_s:.0f} s")) from error
        if pause == FIRST_PAUSE_S:
            _log.warning("queue_does_not_answer", cause=error.message)
        await self._clock.sleep(pause)
