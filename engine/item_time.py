"""The time that an item may take, and what of it does not count: waiting for a turn that a rate limit gives.

A limit of so many requests a minute makes every item wait for all others, so that with enough of them in flight each would end by its timeout although
nothing is wrong. The queue at a limit moves by itself and its length is known; it is not the item's time. Must not know who waits, nor for what.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class _Time:
    """A timeout that stands still while somebody of the item waits, its parallel branches included."""

    __slots__ = ("_left_s", "_limit", "_waiting")

    def __init__(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        self._waiting = 0
        self._left_s: float | None = None

    def stop(self) -> None:
        when = self._limit.when()
        if self._waiting == 0 and when is not None and not self._limit.expired():
            self._left_s = when - asyncio.get_running_loop().time()
            self._limit.reschedule(None)
        self._waiting += 1

    def go_on(self) -> None:
        self._waiting -= 1
        if self._waiting == 0 and self._left_s is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self._left_s)
            self._left_s = None


_ITEM: ContextVar[_Time | None] = ContextVar("item_time", default=None)


@contextmanager
def counted_by(limit: asyncio.Timeout) -> Iterator[None]:
    """Let `limit` be the timeout of the item that runs within, in this task and in those that it starts."""
    before = _ITEM.set(_Time(limit))
    try:
        yield
    finally:
        _ITEM.reset(before)


@contextmanager
def not_counted() -> Iterator[None]:
    """Take what happens within out of the item's time; nothing changes where no item runs."""
    time = _ITEM.get()
    if time is None:
        yield
        return
    time.stop()
    try:
        yield
    finally:
        time.go_on()
