"""Wake-ups: once, at the last time that was asked for, on the clock."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from foundation.clock import FakeClock
from reconcile.runtime.schedule import WakeUps


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that the test moves."""
    return FakeClock()


@pytest.fixture
def woken() -> list[str]:
    """Give the keys that were woken, in order."""
    return []


@pytest.fixture
async def wakeups(clock: FakeClock, woken: list[str]) -> AsyncIterator[WakeUps[str]]:
    """Give running wake-ups."""
    async with WakeUps(clock, woken.append) as running:
        await clock.advance(0)
        yield running


async def test_wakes_at_its_time(wakeups: WakeUps[str], clock: FakeClock, woken: list[str]) -> None:
    """A key is woken once, when its time has come and not before, however far it is."""
    wakeups.wake("a", clock.now() + timedelta(hours=2))
    await clock.advance(7199)
    assert woken == []
    await clock.advance(2)
    assert woken == ["a"]
    await clock.advance(7200)
    assert woken == ["a"]


class CountingClock(FakeClock):
    """A clock that notes how long others want to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Wait, and note it."""
        self.waits.append(seconds)
        await super().sleep(seconds)


async def test_waiting_costs_nothing(woken: list[str]) -> None:
    """Until a far time comes the clock is read again every 30 s, and not more often."""
    clock = CountingClock()
    async with WakeUps(clock, woken.append) as running:
        running.wake("a", clock.now() + timedelta(hours=1))
        for _ in range(20):
            await clock.advance(0)
        assert clock.waits == [30.0]
        await clock.advance(300)
        assert clock.waits == [30.0] * 11


async def test_the_last_time_counts(wakeups: WakeUps[str], clock: FakeClock, woken: list[str]) -> None:
    """Asking again replaces the time, whether to an earlier or a later one."""
    wakeups.wake("later", clock.now() + timedelta(seconds=10))
    wakeups.wake("later", clock.now() + timedelta(seconds=50))
    wakeups.wake("earlier", clock.now() + timedelta(seconds=50))
    wakeups.wake("earlier", clock.now() + timedelta(seconds=10))
    await clock.advance(20)
    assert woken == ["earlier"]
    await clock.advance(40)
    assert woken == ["earlier", "later"]


async def test_a_time_that_has_passed(wakeups: WakeUps[str], clock: FakeClock, woken: list[str]) -> None:
    """A time in the past wakes at once."""
    wakeups.wake("a", clock.now() - timedelta(days=400))
    await clock.advance(0)
    await clock.advance(0)
    assert woken == ["a"]


async def test_cancel(wakeups: WakeUps[str], clock: FakeClock, woken: list[str]) -> None:
    """A cancelled key is not woken; cancelling one without a time is fine."""
    wakeups.wake("a", clock.now() + timedelta(seconds=10))
    wakeups.cancel("a")
    wakeups.cancel("b")
    await clock.advance(60)
    assert woken == []


async def test_times_asked_before_the_start(clock: FakeClock, woken: list[str]) -> None:
    """What is asked before the wake-ups run is kept."""
    wakeups: WakeUps[str] = WakeUps(clock, woken.append)
    wakeups.wake("a", clock.now() + timedelta(seconds=1))
    async with wakeups:
        await clock.advance(0)
        await clock.advance(2)
    assert woken == ["a"]
