"""A worker's shift on one run: lease, begin, renew, and know when to leave.

Owns when items are leased and begun, and what is done with a lost lease, a signal, a poison item. Must not know how items are run or counted.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from engine.errors import QueueUnavailable, RunSettled, RunUnknown
from engine.outages import Outages
from engine.queue.port import ALONE_AFTER_CRASHES, MAX_CRASHES, Lease
from engine.worker_counting import MAX_BATCH, Counting
from engine.worker_hand import Assignment, Hand
from engine.worker_items import Runner, crashed, execute
from engine.worker_output import LineOutput
from engine.worker_patience import FIRST_PAUSE_S, ExitReason, Leave, WorkerExit
from foundation.crash import crash_point
from foundation.errors import first_failure

PREFETCH_S = 0.02
"""Items are leased ahead for this much work, so that short ones never wait for the queue and long ones are never hoarded."""

MAX_PREFETCH = 64
LONGEST_WAIT_S = 2.0
LAST_COUNT_S = 5.0
"""How long a leaving worker waits for its last results to be counted."""

CANCEL_AGAIN_S = 1.0

T = TypeVar("T")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Signals:
    """What somebody asked of the worker: to leave, and to leave now."""

    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    hurrying: asyncio.Event = field(default_factory=asyncio.Event)


class Shift:
    """Works until the run needs no more of this worker."""

    def __init__(self, assignment: Assignment, runner: Runner, output: LineOutput, signals: Signals) -> None:
        self._assignment = assignment
        self._queue, self._run, self._manner = assignment.queue, assignment.run, assignment.manner
        self._runner = runner
        self._signals = signals
        self._hand = Hand()
        self._counting = Counting(assignment, self._hand, output)
        self._outages = Outages()
        self._tasks: asyncio.TaskGroup
        self._item_s = 0.0

    async def work(self) -> WorkerExit:
        """Lease, run and count; return why this ended, with nothing left running."""
        leaving = WorkerExit(ExitReason.SIGNALLED)
        try:
            async with asyncio.TaskGroup() as self._tasks:
                keepers = [self._tasks.create_task(self._renew()), self._tasks.create_task(self._counting.work())]
                try:
                    leaving = await self._dispatch()
                finally:
                    self._hand.give_up_running()
                    await _end(keepers)
        except* Leave as group:
            leaving = first_failure(group).exit
        return leaving

    async def _dispatch(self) -> WorkerExit:
        seen, stopping = "", self._signals.stopping
        while not stopping.is_set():
            if self._hand.aside is not None:
                await self._run_alone(self._hand.aside)
            elif self._room() < 1:
                await self._unless_stopping(self._hand.until(lambda: self._room() > 0))
            elif leases := await self._lease():
                await self._take(leases)
            elif leaving := await self._look():
                return leaving
            else:
                seen = await self._wait(seen)
        return await self._leave()

    def _room(self) -> int:
        """Return how many items to lease now."""
        if self._hand.ended > 4 * MAX_BATCH:
            return 0  # counting is behind: the queue does not answer, or the disk is slow
        ahead = min(MAX_PREFETCH, int(self._manner.concurrency * PREFETCH_S / self._item_s)) if self._item_s else 0
        return max(0, self._manner.concurrency + ahead - self._hand.running - self._hand.waiting)

    async def _lease(self) -> list[Lease]:
        """Lease as much as there is room for; return what was not in hand. [] also when the worker is to leave."""
        room = self._room()

        async def lease() -> list[Lease]:
            return await self._queue.lease(self._run, worker=self._manner.worker, limit=room, seconds=self._manner.lease_s)

        leases = await self._assignment.patience.ask_unless(self._signals.stopping, lease)
        if leases:
            crash_point("worker.leased")
        return self._hand.take(leases or [])

    async def _take(self, leases: Sequence[Lease]) -> None:
        """Line up what was leased; put the first poison item aside and hand the others back."""
        too_many = []
        for lease in leases:
            if lease.crashes >= MAX_CRASHES:
                self._count_crashed(lease)
            elif lease.crashes < ALONE_AFTER_CRASHES:
                self._hand.keep_waiting(lease)
            elif self._hand.aside is None:
                self._hand.aside = lease
            else:
                too_many.append(lease)
        if self._hand.aside is not None:
            await self._hand_back(too_many + self._hand.give_up_waiting())
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        while not self._signals.stopping.is_set() and self._hand.running < self._manner.concurrency and (lease := self._hand.next_waiting()):
            self._begin(lease)

    def _begin(self, lease: Lease) -> None:
        self._hand.begin(lease, self._tasks.create_task(self._run_item(lease)))

    async def _run_item(self, lease: Lease) -> None:
        plan, clock = self._assignment.plan, self._assignment.clock
        began = clock.monotonic()
        result = await execute(self._runner, plan.items[lease.index], attempt=lease.attempt, timeout_s=plan.item_timeout_s, clock=clock)
        result.cost_is_partial |= lease.crashes > 0  # what a worker spent that died went with it
        took = max(1e-6, clock.monotonic() - began)
        self._item_s = 0.9 * self._item_s + 0.1 * took if self._item_s else took
        self._hand.end(lease)
        self._counting.submit(lease, result)
        self._begin_waiting()

    def _count_crashed(self, lease: Lease) -> None:
        item = self._assignment.plan.items[lease.index]
        self._hand.end(lease)
        self._counting.submit(lease, crashed(item, attempt=lease.attempt, crashes=lease.crashes, clock=self._assignment.clock))

    async def _run_alone(self, lease: Lease) -> None:
        """Run an item that has cost workers before, with nothing else in this one's hands."""
        hand = self._hand
        await self._unless_stopping(hand.until(lambda: not hand.busy or hand.aside is not lease))
        if hand.aside is not lease or self._signals.stopping.is_set():
            return
        _log.info("item_runs_alone", item=lease.item, crashes=lease.crashes)
        hand.aside = None
        self._begin(lease)
        await self._unless_stopping(hand.until(lambda: not hand.busy))

    async def _look(self) -> WorkerExit | None:
        """Say whether the run needs no more of this worker, waiting for begun items of a stopped run."""
        state = await self._assignment.patience.ask_unless(self._signals.stopping, lambda: self._queue.state(self._run))
        if state is None:
            return None
        if state.settled:
            return WorkerExit(ExitReason.SETTLED)
        if state.drained:
            return WorkerExit(ExitReason.DRAINED)
        if state.stopped:
            await self._hand_back(self._hand.give_up_waiting())
            await self._unless_stopping(self._hand.until(lambda: not self._hand.busy))
            return None if self._signals.stopping.is_set() else WorkerExit(ExitReason.STOPPED, state.stopped)
        return None

    async def _wait(self, seen: str) -> str:
        """Wait until the queue may have something new; return what was seen."""
        seconds = min(LONGEST_WAIT_S, self._manner.lease_s / 4)
        try:
            return await self._unless_stopping(self._queue.wait(self._run, seen=seen, seconds=seconds)) or ""
        except QueueUnavailable:
            await self._assignment.clock.sleep(FIRST_PAUSE_S)
            return ""

    async def _renew(self) -> None:
        """Extend all leases in hand, forever; drop the lost ones. Say what items wait for."""
        pause = self._manner.renew_s
        while True:
            await self._assignment.clock.sleep(pause)
            for name, why in self._outages.news(self._assignment.clock.monotonic(), self._runner.troubles):
                _log.warning("does_not_answer", name=name, cause=why)
            pause = self._manner.renew_s
            try:
                lost = await self._queue.renew(self._run, self._hand.leases())
            except RunSettled as error:
                raise Leave(WorkerExit(ExitReason.SETTLED)) from error
            except (QueueUnavailable, RunUnknown) as error:
                _log.warning("leases_not_renewed", cause=error.message)
                pause = min(1.0, self._manner.renew_s / 4)
                continue
            for lease in lost:
                _log.info("lease_lost", item=lease.item, entry=lease.entry)
                self._hand.drop(lease)

    async def _leave(self) -> WorkerExit:
        """Hand back what is not begun, end what is within the grace, and count it."""
        hand = self._hand
        aside = [hand.aside] if hand.aside else []
        hand.aside = None
        await self._hand_back(hand.give_up_waiting() + aside)
        await _first_of(hand.until(lambda: not hand.busy), self._signals.hurrying.wait(), seconds=self._manner.grace_s)
        await self._hand_back(hand.give_up_running())
        await _first_of(hand.until(lambda: not hand.busy), seconds=LAST_COUNT_S)
        return WorkerExit(ExitReason.SIGNALLED)

    async def _hand_back(self, leases: Sequence[Lease]) -> None:
        """Return leases to the queue; when that fails they return by themselves, with a crash on their account."""
        if not leases:
            return
        try:
            await self._queue.hand_back(self._run, leases)
        except (QueueUnavailable, RunUnknown, RunSettled) as error:
            _log.warning("leases_not_handed_back", count=len(leases), cause=error.message)

    async def _unless_stopping(self, waiting: Coroutine[Any, Any, T]) -> T | None:
        """Return the answer of a wait that may be cut short, None when the worker is to leave first."""
        return await _first_of(waiting, self._signals.stopping.wait())


async def _first_of(wanted: Coroutine[Any, Any, T], other: Coroutine[Any, Any, object] | None = None, *, seconds: float | None = None) -> T | None:
    """Return the answer of `wanted`, or None when `other` ends first or `seconds` pass. What did not end is cancelled."""
    task = asyncio.ensure_future(wanted)
    tasks: set[asyncio.Future[Any]] = {task} if other is None else {task, asyncio.ensure_future(other)}
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        unfinished = [each for each in tasks if not each.done()]
        for each in unfinished:
            each.cancel()
        if unfinished:
            await asyncio.wait(unfinished)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: one that is inside a library's call may lose a single cancellation there."""
    while unfinished := [task for task in tasks if not task.done()]:
        for task in unfinished:
            task.cancel()
        await asyncio.wait(unfinished, timeout=CANCEL_AGAIN_S)
