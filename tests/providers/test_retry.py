"""Rules of retries: which attempts follow, when, and when patience ends."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ProviderError
from engine.providers.retry import PATIENCE_S, RETRIES, Retries, Tries, patience_of
from foundation.clock import FakeClock
from tests.providers.simulated_time import simulate

QUIET = settings(max_examples=60)


def failure(kind: str = "unavailable", *, transient: bool = True, wish_s: float | None = None) -> ProviderError:
    """Return a failure of one attempt."""
    return ProviderError("cannot ask: it failed", kind=kind, transient=transient, retry_after_s=wish_s)


async def waits_of(clock: FakeClock, tries: Tries, error: ProviderError, *, latency_s: float = 0.0) -> list[float]:
    """Fail again and again; return the seconds waited after each attempt that was followed by another."""

    async def fail() -> None:
        while True:
            await clock.sleep(latency_s)
            await tries.pause(error, latency_s=latency_s)

    with pytest.raises(ProviderError) as raised:
        await simulate(clock, fail(), step_s=0.5)
    assert raised.value is error
    return [attempt.waited_ms / 1000 for attempt in tries.attempts]


async def test_an_outage_says_why_until_it_is_over() -> None:
    """Who looks while requests wait learns the cause; after an answer there is none."""
    clock = FakeClock()
    retries = Retries(clock, chance=lambda: 0.0)
    assert retries.trouble == ""
    tries = retries.begin()
    await simulate(clock, tries.pause(failure(), latency_s=0.0), step_s=0.5)
    assert retries.trouble == "cannot ask: it failed"
    tries.answered()
    assert retries.trouble == ""


async def test_waits_double_from_half_a_second_up_to_a_minute() -> None:
    """The waits between attempts are 0.5 s, doubled each time, at most 60 s."""
    clock = FakeClock()
    tries = Retries(clock, patience_s=240, chance=lambda: 0.0).begin()
    assert await waits_of(clock, tries, failure("rate_limit")) == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


async def test_chance_takes_off_up_to_half_of_a_wait() -> None:
    """What failed together does not come back together."""
    clock = FakeClock()
    tries = Retries(clock, patience_s=2, chance=lambda: 1.0).begin()
    assert await waits_of(clock, tries, failure()) == [0.25, 0.5, 1]


@pytest.mark.parametrize("kind", ["rate_limit", "unavailable", "timeout", "authentication", "invalid_request", "protocol"])
async def test_what_is_not_transient_is_not_tried_again(kind: str) -> None:
    """An exhausted quota, a wrong key or a request that the provider cannot take ends with its first attempt."""
    clock = FakeClock()
    assert await waits_of(clock, Retries(clock).begin(), failure(kind, transient=False)) == []


async def test_three_retries_while_others_are_answered() -> None:
    """A request that fails alone is tried four times in all: the request itself may be at fault."""
    clock = FakeClock()
    retries = Retries(clock, chance=lambda: 0.0)
    tries = retries.begin()

    async def answer_others() -> None:
        while True:
            retries.begin().answered()
            await clock.sleep(0.25)

    others = asyncio.create_task(answer_others())
    assert await waits_of(clock, tries, failure()) == [0.5, 1, 2]
    others.cancel()


async def test_a_rate_limit_is_waited_out_although_others_are_answered() -> None:
    """Being refused for being too many says nothing against the request: patience alone ends it."""
    clock = FakeClock()
    retries = Retries(clock, chance=lambda: 0.0)
    tries = retries.begin()
    retries.begin().answered()
    assert len(await waits_of(clock, tries, failure("rate_limit"))) == 7


async def test_an_outage_of_a_minute_costs_no_request_and_little_time() -> None:
    """While nobody at all is answered, attempts go on within the patience; the first answer calls all others back."""
    clock = FakeClock()
    retries = Retries(clock, chance=random.Random(7).random)  # noqa: S311 - spreads waits, guards nothing
    ends: list[float] = []

    async def ask() -> None:
        tries = retries.begin()
        while clock.monotonic() < 60:
            await tries.pause(failure(), latency_s=0.0)
        tries.answered()
        ends.append(clock.monotonic())
        assert sum(attempt.waited_ms for attempt in tries.attempts) == pytest.approx(clock.monotonic() * 1000, abs=200)

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(ask())

    await simulate(clock, all_of_them())
    assert len(ends) == 50
    assert 60 <= min(ends) <= max(ends) < 66
    assert max(ends) - min(ends) < 1


async def test_an_answer_to_others_shortens_no_wait_of_a_request_that_fails_alone() -> None:
    """While the provider answers others, a failed request keeps to its backoff."""
    clock = FakeClock()
    retries = Retries(clock, chance=lambda: 0.0)
    tries = retries.begin()
    pausing = asyncio.create_task(tries.pause(failure(), latency_s=0.0))
    await clock.advance(0.1)
    retries.begin().answered()
    await clock.advance(0.1)
    assert not pausing.done()
    await clock.advance(0.5)
    await pausing


async def test_an_outage_beyond_the_patience_is_tried_once_a_request() -> None:
    """Once nobody was answered for as long as the patience, the next request fails at once; one that is answered ends that."""
    clock = FakeClock()
    retries = Retries(clock)
    await waits_of(clock, retries.begin(), failure())
    await clock.advance(PATIENCE_S)
    assert await waits_of(clock, retries.begin(), failure()) == []
    retries.begin().answered()
    assert await waits_of(clock, retries.begin(), failure()) != []


@pytest.mark.parametrize("said", [failure("invalid_request", transient=False), failure("rate_limit")], ids=["a refused request", "a rate limit"])
async def test_a_refusal_is_no_outage(said: ProviderError) -> None:
    """A provider that refuses for minutes is there: a failure after that has its retries."""
    clock = FakeClock()
    retries = Retries(clock, chance=lambda: 0.0)
    await waits_of(clock, retries.begin(), said)
    await clock.advance(2 * PATIENCE_S)
    assert len(await waits_of(clock, retries.begin(), failure())) > RETRIES


async def test_a_wish_is_waited_out_whole() -> None:
    """A provider's own wish counts where it is longer than the backoff."""
    clock = FakeClock()
    tries = Retries(clock, patience_s=31, chance=lambda: 0.0).begin()
    assert await waits_of(clock, tries, failure("rate_limit", wish_s=10)) == [10, 10, 10]


async def test_a_wish_beyond_the_patience_is_left_to_the_worker() -> None:
    """The error is raised at once, with the wish, so that the item is handed back for that long and its time is not eaten."""
    clock = FakeClock()
    assert await waits_of(clock, Retries(clock).begin(), failure("rate_limit", wish_s=PATIENCE_S + 1)) == []
    assert clock.monotonic() < 1


@QUIET
@given(
    patience_s=st.floats(1, 300),
    latency_s=st.sampled_from([0.0, 0.5, 60.0]),
    wish_s=st.none() | st.floats(0, 100),
    kind=st.sampled_from(["rate_limit", "unavailable", "timeout"]),
    chance=st.floats(0, 1),
)
async def test_patience_bounds_a_request(patience_s: float, latency_s: float, wish_s: float | None, kind: str, chance: float) -> None:
    """A request takes no longer than the patience and its last attempt, and each wait is at least the wish and at most 60 s or the wish and a tenth."""
    clock = FakeClock()
    tries = Retries(clock, patience_s=patience_s, chance=lambda: chance).begin()
    waits = await waits_of(clock, tries, failure(kind, wish_s=wish_s), latency_s=latency_s)
    assert sum(waits) + latency_s * len(waits) <= patience_s + 1e-6
    assert all((wish_s or 0) - 1e-6 <= wait <= max(60, (wish_s or 0) * 1.1) + 1e-6 for wait in waits)


async def test_attempts_are_recorded() -> None:
    """Each attempt that brought nothing is told with what it failed of, how long it took and how long the next one waited."""
    clock = FakeClock()
    tries = Retries(clock, chance=lambda: 0.0).begin()
    pausing = asyncio.create_task(tries.pause(failure("timeout"), latency_s=3.0))
    await clock.advance(0)
    await clock.advance(0.5)
    await pausing
    (attempt,) = tries.attempts
    assert (attempt.kind, attempt.latency_ms, attempt.waited_ms) == ("timeout", 3000, 500)
    assert "it failed" in attempt.message


@pytest.mark.parametrize(("item_s", "expected"), [(600, 120), (90, 30), (7200, 120)])
def test_patience_is_a_part_of_the_items_time(item_s: float, expected: float) -> None:
    """One request never eats an item's whole time."""
    assert patience_of(item_s) == expected
