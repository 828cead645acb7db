"""How many git processes may run: altogether, for one repository, and how many requests may wait for one.

Owns the counting and nothing else. Must not know what a slot is used for.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class NoSlot(Exception):
    """Too many requests wait already, or this one waited too long. Answered 503 with Retry-After."""


class Slots:
    """A semaphore with a limit for each key and a bounded, fair queue. A waiter whose key is full lets others pass."""

    def __init__(self, *, total: int, per_key: int, waiting: int) -> None:
        self._total = total
        self._per_key = per_key
        self._waiting = waiting
        self._used: Counter[Hashable] = Counter()
        self._queue: deque[tuple[Hashable, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, key: Hashable, *, wait_s: float) -> AsyncIterator[None]:
        """Hold one slot for the length of the block.

        Raises:
            NoSlot: the queue is full, or none came free within `wait_s` seconds.
        """
        await self._take(key, wait_s)
        try:
            yield
        finally:
            self._used[key] -= 1
            if not self._used[key]:
                del self._used[key]
            self._admit()

    async def _take(self, key: Hashable, wait_s: float) -> None:
        if self._fits(key):
            self._used[key] += 1
            return
        if len(self._queue) >= self._waiting:
            raise NoSlot("too many requests are waiting")
        ticket: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((key, ticket))
        try:
            async with asyncio.timeout(wait_s):
                await ticket
        except TimeoutError as error:
            self._give_up(key, ticket)
            raise NoSlot(f"no slot came free within {wait_s:g} s") from error
        except BaseException:
            self._give_up(key, ticket)
            raise

    def _give_up(self, key: Hashable, ticket: "asyncio.Future[None]") -> None:
        if ticket.done() and not ticket.cancelled():
            # Admitted in the same instant: hand the slot on.
            self._used[key] -= 1
            self._admit()
        else:
            self._queue = deque(waiter for waiter in self._queue if waiter[1] is not ticket)

    def _fits(self, key: Hashable) -> bool:
        return self._used.total() < self._total and self._used[key] < self._per_key

    def _admit(self) -> None:
        for waiter in list(self._queue):
            key, ticket = waiter
            if self._fits(key) and not ticket.done():
                self._queue.remove(waiter)
                self._used[key] += 1
                ticket.set_result(None)
