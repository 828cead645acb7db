"""How many requests a provider gets at once, and how many a second: what its spec says, less what its answers teach.

Owns the queue of requests that wait for their turn, and the adapting to "too many requests". Must not know protocols, nor which requests are made
again (retry.py). A provider without limits that never refuses costs nothing here.
"""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from engine.errors import ProviderError
from engine.item_time import not_counted
from foundation.clock import Clock

SHRINK = 0.75
"""What is left of the requests in flight after one was refused."""

ROUNDS_BACK = 16
"""In so many rounds of answers the window grows by what was in flight when a request was refused. Beyond that it doubles in eleven, to find the new limit."""

LONGEST_HOLD_S = 60.0
"""A provider that asks for a longer pause is tried again after this one: its wish may have been meant for one request alone."""

_MOMENT_S = 1e-6


@dataclass(frozen=True, slots=True)
class Limits:
    """What one worker may ask of a provider; None is no limit. Up to `burst` requests may follow at once on a pause; 1 spaces them evenly."""

    rate_per_s: float | None = None
    burst: int = 1
    concurrency: int | None = None


def limits_of(spec: Mapping[str, Any], *, workers: int = 1) -> Limits:
    """Return this worker's limits by the `rate_limit` of a provider's spec: {rps, burst} of a bundle, {requests_per_minute, concurrency} of a job.

    They hold for a run, so each of its `workers` keeps to an equal share, and to one request at least: a run of more workers than `concurrency` has one
    request of each in flight. A worker that leaves takes its share along; nothing is exceeded by that.
    """
    limit = spec.get("rate_limit") or {}
    rate = limit.get("rps") or (limit.get("requests_per_minute") or 0) / 60
    concurrency = limit.get("concurrency")
    return Limits(
        rate_per_s=rate / workers if rate else None,
        burst=max(1, (limit.get("burst") or 1) // workers),
        concurrency=max(1, concurrency // workers) if concurrency else None,
    )


class Limiter:
    """Gives turns in the order in which they were asked for; one a provider and process, for all its conversations and roles.

    It adapts as TCP does: a refusal ("too many requests") leaves three quarters of the requests in flight, once for all that were under way, and answers
    let the window grow again while it is full. A refusal that says how long to wait keeps everybody's next request back for so long.
    """

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._clock = clock
        self._interval_s = 1 / limits.rate_per_s if limits.rate_per_s else 0.0
        self._ahead_s = (limits.burst - 1) * self._interval_s
        self._most = float(limits.concurrency or math.inf)
        self._window = self._most
        self._refused_at = math.inf
        self._refusals = 0
        self._in_flight = 0
        self._queued = 0
        self._next_due = -math.inf
        self._held_until = -math.inf
        self._door = asyncio.Lock()
        self._freed: asyncio.Future[None] | None = None

    @property
    def in_flight(self) -> int:
        """Return how many turns are held now."""
        return self._in_flight

    @property
    def window(self) -> float:
        """Return how many turns may be held at once, `inf` when nothing limits them; its whole part counts."""
        return self._window

    def turn(self) -> "Turn":
        """Return a turn for one attempt of a request: `async with` it from before the request is sent until its reply, or its stream, has ended."""
        return Turn(self, self._clock)

    async def begin(self) -> int:
        """Wait for a turn and take it; return the mark that `end` wants. Cancelling while it waits leaves nothing behind."""
        if self._queued == 0 and self._in_flight < self._slots() and self._opens_in_s() <= _MOMENT_S:
            return self._take()
        self._queued += 1
        try:
            with not_counted():
                async with self._door:  # the first of the queue waits within, the others for the door: asyncio's lock opens in order
                    return await self._wait_first()
        finally:
            self._queued -= 1

    def end(self, mark: int, *, answered: bool, error: ProviderError | None) -> None:
        """Give a turn back, with what came of it: an answer, an error, or neither."""
        if answered:
            self._grow(mark)
        elif error is not None and _is_refusal(error):
            self._shrink(mark, error.retry_after_s or 0.0)
        self._in_flight -= 1
        if self._freed is not None and not self._freed.done():
            self._freed.set_result(None)

    async def _wait_first(self) -> int:
        while True:
            if self._in_flight >= self._slots():
                await self._slot_freed()
            elif (wait_s := self._opens_in_s()) > _MOMENT_S:
                await self._clock.sleep(wait_s)
            else:
                return self._take()

    async def _slot_freed(self) -> None:
        self._freed = asyncio.get_running_loop().create_future()
        try:
            await self._freed
        finally:
            self._freed = None

    def _slots(self) -> float:
        return self._window if self._window == math.inf else math.floor(self._window)

    def _opens_in_s(self) -> float:
        if self._interval_s == 0.0 and self._held_until == -math.inf:
            return 0.0
        return max(self._next_due - self._ahead_s, self._held_until) - self._clock.monotonic()

    def _take(self) -> int:
        if self._interval_s:
            self._next_due = max(self._next_due, self._clock.monotonic()) + self._interval_s
        self._in_flight += 1
        return self._refusals

    def _grow(self, mark: int) -> None:
        """Make room for more when what there was is in use. Answers to what was asked before the last refusal say nothing about the new window."""
        if self._window < self._most and mark == self._refusals and self._in_flight >= self._slots():
            self._window = min(self._most, self._window + max(self._refused_at / self._window, 1.0) / ROUNDS_BACK)

    def _shrink(self, mark: int, wish_s: float) -> None:
        if wish_s > 0:
            self._held_until = max(self._held_until, self._clock.monotonic() + min(wish_s, LONGEST_HOLD_S))
        if mark == self._refusals:
            self._refusals += 1
            self._refused_at = min(self._window, float(self._in_flight))
            self._window = max(1.0, self._refused_at * SHRINK)


class Turn:
    """One attempt's leave to go out. Used once."""

    __slots__ = ("_began", "_clock", "_ended", "_limiter", "_mark", "waited_s")

    def __init__(self, limiter: Limiter, clock: Clock) -> None:
        self._limiter = limiter
        self._clock = clock
        self._mark = 0
        self._began = 0.0
        self._ended: float | None = None
        self.waited_s = 0.0

    @property
    def held_s(self) -> float:
        """Return how long the turn has been held, in seconds, up to its end."""
        return (self._clock.monotonic() if self._ended is None else self._ended) - self._began

    async def __aenter__(self) -> Self:
        asked = self._clock.monotonic()
        self._mark = await self._limiter.begin()
        self._began = self._clock.monotonic()
        self.waited_s = self._began - asked
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended = self._clock.monotonic()
        self._limiter.end(self._mark, answered=kind is None, error=error if isinstance(error, ProviderError) else None)


def _is_refusal(error: ProviderError) -> bool:
    """Say whether the provider asks for fewer requests; an exhausted quota does not, however few there are."""
    return error.transient and (error.kind == "rate_limit" or error.retry_after_s is not None)
