"""Wake-ups at wall-clock times, on APScheduler.

Owns how APScheduler meets our Clock: it reads the time and waits through it, so a test moves both. Must not know what is woken.
"""

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Generic, TypeVar

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.date import DateTrigger

from foundation.clock import Clock

K = TypeVar("K", bound=Hashable)

MAX_WAIT_S = 30.0
"""How long the scheduler waits at most before it reads the wall clock again, which may have jumped (a suspended laptop, NTP)."""


class WakeUps(Generic[K]):
    """Calls `on_wake(key)` once at the time that was last asked for it; one time a key. Times asked for survive no restart.

    Use as an async context manager; what is asked before it is entered is kept.
    """

    def __init__(self, clock: Clock, on_wake: Callable[[K], None]) -> None:
        self._on_wake = on_wake
        self._asked: set[K] = set()
        self._scheduler = _ClockScheduler(clock)

    async def __aenter__(self) -> "WakeUps[K]":
        self._scheduler.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._scheduler.shutdown(wait=False)
        await asyncio.sleep(0)  # APScheduler stops in the loop's next round

    def wake(self, key: K, at: datetime) -> None:
        """Wake `key` at an aware datetime, instead of at any earlier asked time; at once when it has passed."""
        self._asked.add(key)
        self._scheduler.add_job(
            self._fire, DateTrigger(at, timezone=UTC), args=(key,), id=str(key), replace_existing=True, misfire_grace_time=None, coalesce=True
        )

    def cancel(self, key: K) -> None:
        """Wake `key` no more; nothing happens if it has no time."""
        if key not in self._asked:
            return  # the usual case, and APScheduler takes long to say so
        self._asked.discard(key)
        with suppress(JobLookupError):
            self._scheduler.remove_job(str(key))

    async def _fire(self, key: K) -> None:
        self._asked.discard(key)
        self._on_wake(key)


class _ClockScheduler(AsyncIOScheduler):  # type: ignore[misc]  # the library has no types
    """APScheduler on a `Clock`: the time is read through a time zone, and waited for by the clock's sleep."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(timezone=_ClockZone(clock))
        self._clock = clock

    def _start_timer(self, wait_seconds: float | None) -> None:
        """Wait for the next job. How long is asked of the job store: APScheduler converts its times to our zone first, where every time is now."""
        self._stop_timer()
        due = self._jobstores["default"].get_next_run_time() if wait_seconds is not None else None
        if due is not None:
            seconds = (due - self._clock.now()).total_seconds()
            self._timeout: asyncio.Task[None] | None = asyncio.get_running_loop().create_task(self._wait(min(seconds, MAX_WAIT_S)))

    async def _wait(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self.wakeup()


class _ClockZone(tzinfo):
    """UTC, with the peculiarity that `datetime.now` in this zone is the clock's time.

    `datetime.now(zone)` is defined as `zone.fromutc(<now in UTC>)`, and it is how APScheduler reads the time: the one seam it has.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def fromutc(self, _: datetime) -> datetime:
        return self._clock.now()

    def utcoffset(self, _: datetime | None) -> timedelta:
        return timedelta(0)

    def dst(self, _: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, _: datetime | None) -> str:
        return "UTC"

    def __reduce__(self) -> Any:
        raise TypeError("a clock's zone stays in its process")
