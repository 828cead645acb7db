"""Runs of a few items, for the contract suites of the work queue."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import TypeVar

from engine.items import RunUID, Usage, Verdict
from engine.queue.port import Lease, RunMeta, WorkQueue
from engine.records import Record

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PLAN = b'{"plan": 1}'
DIGEST = f"sha256:{sha256(PLAN).hexdigest()}"
LONG = 30.0
SHORT = 0.05
DEADLINE_S = 60.0
T = TypeVar("T")


async def put_items(queue: WorkQueue, run: RunUID, count: int, *, budget_usd: float | None = None) -> None:
    """Pin a run of `count` items and put them all."""
    await queue.pin(run, RunMeta(DIGEST, count, budget_usd=budget_usd))
    await queue.put(run, 0, items_of(range(count)), last=True)


def items_of(indexes: Sequence[int]) -> list[tuple[int, str]]:
    """Return (index, item id) pairs."""
    return [(index, f"greeting/mock/{index + 1}") for index in indexes]


def record_of_lease(lease: Lease, verdict: Verdict = Verdict.PASS, *, cost_usd: float = 0.25, partial: bool = False) -> Record:
    """Return the record of a leased item."""
    return Record(
        lease.item,
        lease.index,
        verdict,
        AT,
        AT,
        usage=Usage(3, 4),
        cost_usd=cost_usd,
        cost_is_partial=partial,
        duration_ms=12.0,
        attempt=lease.attempt,
    )


async def eventually(look: Callable[[], Awaitable[T]]) -> T:
    """Return the first true answer of `look`, within the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if seen := await look():
                return seen
            await asyncio.sleep(0.005)


async def lease_one(queue: WorkQueue, run: RunUID, worker: str = "a", seconds: float = LONG) -> Lease:
    """Lease exactly one item."""
    (lease,) = await queue.lease(run, worker=worker, limit=1, seconds=seconds)
    return lease


async def take_over(queue: WorkQueue, run: RunUID, worker: str) -> Lease:
    """Lease what ran out, as `worker`."""
    return (await eventually(lambda: queue.lease(run, worker=worker, limit=1, seconds=SHORT)))[0]
