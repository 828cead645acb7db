"""A queue of keys: many reasons to look at a thing become one look, and never two at once.

The semantics are client-go's work queue (https://pkg.go.dev/k8s.io/client-go/util/workqueue). Knows nothing of what a key names.
"""

import asyncio
import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from foundation.clock import Clock

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential delays: `first_s`, doubled at each failure in a row, at most `limit_s`."""

    first_s: float = 0.005
    limit_s: float = 60.0

    def delay_s(self, failures: int) -> float:
        """Return the delay after so many failures in a row (0: after the first)."""
        return min(self.first_s * 2.0 ** min(failures, 64), self.limit_s)


DEFAULT_BACKOFF = Backoff()


class KeyQueue(Generic[K]):
    """Keys to look at, in the order in which they were first added.

    A key that is added while it waits is there once; one that is added while it is being processed comes again after `done`. Delayed keys
    arrive while `run` runs.
    """

    def __init__(self, clock: Clock, *, backoff: Backoff = DEFAULT_BACKOFF) -> None:
        self._clock = clock
        self._backoff = backoff
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._processing: set[K] = set()
        self._failures: dict[K, int] = {}
        self._due: dict[K, float] = {}
        self._timeline: list[tuple[float, int, K]] = []
        self._order = count()
        self._earlier = asyncio.Event()

    def __len__(self) -> int:
        """Return how many keys wait, those not counted that are delayed or being processed."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether no key waits or is being processed; delayed ones do not count."""
        return not self._waiting and not self._processing

    def add(self, key: K) -> None:
        """Ask for a look at the key, as soon as possible."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._processing:
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Ask for a look after `seconds`; of several delays of one key the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        deadline = self._clock.monotonic() + seconds
        if self._due.get(key, float("inf")) <= deadline:
            return
        self._due[key] = deadline
        heapq.heappush(self._timeline, (deadline, next(self._order), key))
        if self._timeline[0][2] == key:
            self._earlier.set()

    def retry(self, key: K) -> float:
        """Ask for a look after this key's backoff, which grows with each retry until `forget`; return the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay_s = self._backoff.delay_s(failures)
        self.add_after(key, delay_s)
        return delay_s

    def failures(self, key: K) -> int:
        """Return how often the key was retried since it was last forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Begin the key's backoff anew: it went well, or it is gone. A delay that is running stays."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for a key and take it; call `done` with it afterwards, whatever happened."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._processing.add(key)
        return key

    def done(self, key: K) -> None:
        """Say that the look is over; if the key was added meanwhile, it comes again."""
        self._processing.discard(key)
        if key in self._waiting:
            self._ready.put_nowait(key)

    async def run(self) -> None:
        """Add delayed keys when their time comes, until cancelled."""
        while True:
            self._earlier.clear()
            self._add_due()
            await self._wait(self._timeline[0][0] - self._clock.monotonic() if self._timeline else None)

    def _add_due(self) -> None:
        now = self._clock.monotonic()
        while self._timeline and self._timeline[0][0] <= now:
            deadline, _, key = heapq.heappop(self._timeline)
            if self._due.get(key) == deadline:
                del self._due[key]
                self.add(key)

    async def _wait(self, seconds: float | None) -> None:
        """Wait for `seconds` (None: without end), or until an earlier deadline was added."""
        waits: list[asyncio.Task[object]] = [asyncio.create_task(self._earlier.wait())]
        if seconds is not None:
            waits.append(asyncio.create_task(self._clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
