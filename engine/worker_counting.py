"""Counting in a worker: results become lines, records and counts, many at a time.

Owns the order: the line is written and synced, then the item is counted, then it is forgotten. One sync and one call for all that ended while the
last batch was under way. Must not know how items run or are leased.
"""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

import structlog

from engine.items import ItemError, ItemResult
from engine.queue.port import Lease
from engine.records import record_of
from engine.results.lines import item_line
from engine.worker_hand import Assignment, Hand
from engine.worker_items import retry_delay_s
from engine.worker_output import LineOutput
from foundation.crash import crash_point

MAX_BATCH = 100
GATHER_S = 0.002
"""How long a batch waits for company while other items run."""

_log = structlog.get_logger(__name__)
_Ended = tuple[Lease, ItemResult]


class Counting:
    """Counts what is submitted, in order of arrival, until cancelled."""

    def __init__(self, assignment: Assignment, hand: Hand, output: LineOutput) -> None:
        self._assignment = assignment
        self._hand = hand
        self._output = output
        self._ended: asyncio.Queue[_Ended] = asyncio.Queue()
        self._chance = random.Random()  # noqa: S311 - spreads retries, protects nothing

    def submit(self, lease: Lease, result: ItemResult) -> None:
        """Hand over an ended item; the hand holds its lease until it is counted."""
        self._ended.put_nowait((lease, result))

    async def work(self) -> None:
        """Count until cancelled.

        Raises:
            Leave: the run is settled, or the queue is lost.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="parts") as thread:
            while True:
                batch = await self._gather()
                finals = [ended for ended in batch if not await self._gave_back(*ended)]
                if finals:
                    await self._count(finals, thread)

    async def _gather(self) -> list[_Ended]:
        batch = [await self._ended.get()]
        if self._hand.running and self._ended.qsize() < MAX_BATCH:
            await self._assignment.clock.sleep(GATHER_S)
        while len(batch) < MAX_BATCH and not self._ended.empty():
            batch.append(self._ended.get_nowait())
        return batch

    async def _gave_back(self, lease: Lease, result: ItemResult) -> bool:
        """Give an item back for another attempt when that may end better; False: its result is final."""
        plan, queue, run = self._assignment.plan, self._assignment.queue, self._assignment.run
        if not result.retryable or lease.attempt >= plan.max_attempts:
            return False
        error = result.error or ItemError("unknown", "")
        delay_s = retry_delay_s(
            attempt=lease.attempt,
            backoff_s=plan.retry_backoff_s,
            retry_after_s=result.retry_after_s,
            chance=self._chance.random(),
        )
        if not await self._assignment.patience.ask(lambda: queue.retry(run, lease, delay_s=delay_s, error=error)):
            return False  # stopped: this result is the item's last; stale: counting will say so
        _log.info("item_retried", item=lease.item, attempt=lease.attempt, error=error.kind, delay_s=round(delay_s, 1))
        self._hand.forget(lease)
        return True

    async def _count(self, finals: list[_Ended], thread: ThreadPoolExecutor) -> None:
        run, queue = self._assignment.run, self._assignment.queue
        lines = [item_line(result, self._assignment.manner.run_name) for _, result in finals]
        places = await asyncio.get_running_loop().run_in_executor(thread, self._output.write, lines)
        crash_point("worker.line_written")
        completions = [(lease, record_of(result, line=place, lease=lease)) for (lease, result), place in zip(finals, places, strict=True)]
        answers = await self._assignment.patience.ask(lambda: queue.complete(run, completions))
        crash_point("worker.counted")
        for (lease, _), answer in zip(finals, answers, strict=True):
            if answer != "counted":
                _log.info("item_not_counted", item=lease.item, answer=answer)
            self._hand.forget(lease)
