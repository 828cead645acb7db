"""One item in a worker: how it is run, and what its end asks for.

Must not know the queue's store nor where lines are written.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from engine.backoff import delay_s
from engine.item_time import counted_by
from engine.items import Item, ItemError, ItemResult, Verdict
from foundation.clock import Clock

MAX_RETRY_DELAY_S = 300.0
"""Longest backoff; a provider's own wish may be longer (`engine.providers.refusals` says how long)."""


class Runner(Protocol):
    """What a worker needs of the engine (engine.conversation.ItemRunner)."""

    @property
    def troubles(self) -> Mapping[str, str]:
        """Return why items wait for somebody to be back, by whom they wait for."""

    async def run(self, item: Item, *, attempt: int = 1) -> ItemResult:
        """Run `item` to its end; whatever the item does is in the result."""

    async def close(self) -> None:
        """Close what the runner holds open."""


async def execute(runner: Runner, item: Item, *, attempt: int, timeout_s: float, clock: Clock) -> ItemResult:
    """Run `item`, for at most `timeout_s` seconds (`engine.item_time`), and return its result; only cancellation passes through.

    Taking too long is the retryable error `item_timeout`; an exception is the error `engine`, a fault of ours.
    """
    started = clock.now()
    try:
        async with asyncio.timeout(timeout_s) as limit:
            with counted_by(limit):
                return await runner.run(item, attempt=attempt)
    except Exception as error:  # noqa: BLE001 - a fault in one item must not take the worker's other items along
        if limit.expired():
            cause = ItemError("item_timeout", f"the item took longer than {timeout_s:g} s")
        else:
            import structlog  # noqa: PLC0415 - only for what should never happen: `arena eval` starts without it

            structlog.get_logger(__name__).exception("item_broke_the_engine", item=item.id)
            cause = ItemError("engine", f"{type(error).__name__}: {error}")
        return _failed(item, cause, attempt=attempt, times=(started, clock.now()), retryable=limit.expired())


def crashed(item: Item, *, attempt: int, crashes: int, clock: Clock) -> ItemResult:
    """Return the result of an item that has cost so many workers that it is not begun again."""
    now = clock.now()
    return _failed(item, ItemError("crashed", f"{crashes} workers died while they ran it"), attempt=attempt, times=(now, now))


def retry_delay_s(*, attempt: int, backoff_s: float, retry_after_s: float | None, chance: float) -> float:
    """Return how long the attempt after `attempt` (from 1) waits, in seconds: `engine.backoff`, with a provider's `retry_after_s` as the wish."""
    return delay_s(attempt, first_s=backoff_s, longest_s=MAX_RETRY_DELAY_S, wish_s=retry_after_s or 0.0, chance=chance)


def _failed(item: Item, error: ItemError, *, attempt: int, times: tuple[datetime, datetime], retryable: bool = False) -> ItemResult:
    started, ended = times
    return ItemResult(
        item=item,
        verdict=Verdict.ERROR,
        started_at=started,
        ended_at=ended,
        attempt=attempt,
        error=error,
        cost_is_partial=True,  # what it spent until then went with it
        duration_ms=(ended - started).total_seconds() * 1000,
        retryable=retryable,
    )
