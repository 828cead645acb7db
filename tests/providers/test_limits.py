"""Rules of the limiter: rate and concurrency, the order of turns, cancelling, and adapting to refusals."""

import asyncio
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ProviderError
from engine.providers.limits import LONGEST_HOLD_S, Limiter, Limits, limits_of
from foundation.clock import FakeClock
from tests.providers.simulated_time import simulate

QUIET = settings(max_examples=20)


def refusal(wish_s: float | None = None, *, transient: bool = True) -> ProviderError:
    """Return a 429."""
    return ProviderError("cannot ask: too many requests", kind="rate_limit", transient=transient, retry_after_s=wish_s)


@dataclass
class Server:
    """A provider in simulated time: `latency_s` a request, and refusals beyond `capacity` at once, each with `wish_s`."""

    clock: FakeClock
    latency_s: float = 1.0
    capacity: float = math.inf
    wish_s: float | None = None
    begun: list[tuple[float, int]] = field(default_factory=list)
    at_once: int = 0
    peak: int = 0
    answered: int = 0
    refused: int = 0

    async def ask(self, limiter: Limiter, number: int = 0) -> None:
        """Make one request; raise what the server refuses it with."""
        async with limiter.turn():
            self.begun.append((self.clock.monotonic(), number))
            self.at_once += 1
            self.peak = max(self.peak, self.at_once)
            try:
                full = self.at_once > self.capacity
                await self.clock.sleep(self.latency_s / 100 if full else self.latency_s)
                if full:
                    self.refused += 1
                    raise refusal(self.wish_s)
                self.answered += 1
            finally:
                self.at_once -= 1

    async def ask_until_answered(self, limiter: Limiter) -> None:
        """Make one request as often as it is refused."""
        while True:
            try:
                return await self.ask(limiter)
            except ProviderError:
                await self.clock.sleep(0.2)


async def all_of(server: Server, limiter: Limiter, requests: int) -> None:
    """Ask for many at once, each until it is answered."""
    async with asyncio.TaskGroup() as group:
        for _ in range(requests):
            group.create_task(server.ask_until_answered(limiter))


async def test_nothing_waits_without_limits() -> None:
    """A provider without limits takes everything at once."""
    clock = FakeClock()
    server, limiter = Server(clock), Limiter(Limits(), clock)
    await simulate(clock, all_of(server, limiter, 500))
    assert server.peak == 500
    assert len({at for at, _ in server.begun}) == 1


@QUIET
@given(
    rate=st.floats(0.5, 50),
    burst=st.integers(1, 8),
    concurrency=st.none() | st.integers(1, 6),
    requests=st.integers(1, 30),
    latency_s=st.sampled_from([0.0, 0.1, 1.0]),
)
async def test_limits_are_kept(rate: float, burst: int, concurrency: int | None, requests: int, latency_s: float) -> None:
    """In any span of t seconds at most `burst` + rate * t requests begin, in the order in which they were asked for, never more than `concurrency` at once."""
    clock = FakeClock()
    server, limiter = Server(clock, latency_s=latency_s), Limiter(Limits(rate, burst, concurrency), clock)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(requests):
                group.create_task(server.ask(limiter, number))

    await simulate(clock, work(), step_s=0.25)
    assert [number for _, number in server.begun] == list(range(requests))
    assert server.peak <= (concurrency or requests)
    times = [at for at, _ in server.begun]
    for first in range(requests):
        for last in range(first, requests):
            assert last - first + 1 <= burst + rate * (times[last] - times[first]) + 1e-6
    assert limiter.in_flight == 0


async def test_an_idle_time_is_no_credit_beyond_the_burst() -> None:
    """After an hour without requests, no more than `burst` go out at once."""
    clock = FakeClock()
    server, limiter = Server(clock, latency_s=0.0), Limiter(Limits(rate_per_s=1, burst=3), clock)
    await clock.advance(3600)
    tasks = [asyncio.create_task(server.ask(limiter)) for _ in range(10)]
    await clock.advance(0.5)
    assert len(server.begun) == 3
    await clock.advance(10)
    await asyncio.gather(*tasks)


@QUIET
@given(cancelled=st.sets(st.integers(0, 19), max_size=19), when=st.lists(st.floats(0, 6), min_size=20, max_size=20))
async def test_cancelling_leaves_nothing_behind(cancelled: set[int], when: list[float]) -> None:
    """Whoever is cancelled, waiting or asking, gives its place back: all others get their turns, in order, and no slot is lost."""
    clock = FakeClock()
    server, limiter = Server(clock), Limiter(Limits(rate_per_s=10, concurrency=3), clock)

    async def work() -> None:
        tasks = [asyncio.create_task(server.ask(limiter, number)) for number in range(20)]

        async def cut(number: int) -> None:
            await clock.sleep(when[number])
            tasks[number].cancel()

        async with asyncio.TaskGroup() as group:
            for number in cancelled:
                group.create_task(cut(number))
        await asyncio.gather(*tasks, return_exceptions=True)

    await simulate(clock, work())
    numbers = [number for _, number in server.begun]
    assert numbers == sorted(numbers)
    assert set(range(20)) - cancelled <= set(numbers)
    assert limiter.in_flight == 0
    again = len(server.begun)
    await simulate(clock, all_of(server, limiter, 3))
    assert len(server.begun) == again + 3


async def test_a_refusal_shrinks_the_window_once_for_all_that_were_under_way() -> None:
    """A hundred refusals of one moment are one piece of news: three quarters of what was in flight stay."""
    clock = FakeClock()
    limiter = Limiter(Limits(), clock)
    turns = [limiter.turn() for _ in range(100)]
    for turn in turns:
        await turn.__aenter__()
    for turn in turns:
        await turn.__aexit__(ProviderError, refusal(), None)
    assert limiter.window == 75


@pytest.mark.parametrize("capacity", [1, 5, 20])
async def test_a_storm_ends_by_itself_and_throughput_comes_back(capacity: int) -> None:
    """Of a provider that takes so many at once, four fifths are used in the long run, with few refusals."""
    clock = FakeClock()
    server, limiter = Server(clock, capacity=capacity), Limiter(Limits(), clock)
    requests = 40 * capacity
    await simulate(clock, all_of(server, limiter, requests))
    server.answered = server.refused = 0
    began = clock.monotonic()
    await simulate(clock, all_of(server, limiter, requests))
    ideal_s = requests / capacity * server.latency_s
    assert server.answered == requests
    assert ideal_s / (clock.monotonic() - began) > 0.8
    assert server.refused <= (0.15 if capacity > 1 else 0.3) * requests


async def test_the_window_grows_back_when_the_provider_takes_more() -> None:
    """A limit that was a passing one is forgotten: the window finds what the provider takes now."""
    clock = FakeClock()
    server, limiter = Server(clock, capacity=4), Limiter(Limits(), clock)
    await simulate(clock, all_of(server, limiter, 100))
    assert limiter.window < 8
    server.capacity = math.inf
    await simulate(clock, all_of(server, limiter, 1000))
    assert limiter.window > 20


async def test_a_configured_concurrency_is_never_outgrown() -> None:
    """However many answers come, no more are in flight than the spec allows."""
    clock = FakeClock()
    server, limiter = Server(clock, capacity=3), Limiter(Limits(concurrency=4), clock)
    await simulate(clock, all_of(server, limiter, 60))
    server.capacity = math.inf
    server.peak = 0
    await simulate(clock, all_of(server, limiter, 200))
    assert server.peak == 4


@pytest.mark.parametrize(("wish_s", "held_s"), [(7.0, 7.0), (3600.0, LONGEST_HOLD_S)], ids=["a short wish", "a long one is cut"])
async def test_a_wish_holds_everybody_back(wish_s: float, held_s: float) -> None:
    """After a refusal that says how long to wait, the next request goes out when that is over, whoever makes it."""
    clock = FakeClock()
    server, limiter = Server(clock), Limiter(Limits(), clock)
    with pytest.raises(ProviderError):
        async with limiter.turn():
            raise refusal(wish_s)
    await simulate(clock, server.ask(limiter))
    assert server.begun[0][0] == pytest.approx(held_s)


@pytest.mark.parametrize(
    "error",
    [
        refusal(transient=False),
        ProviderError("cannot ask: broken", kind="unavailable", transient=True),
        ProviderError("cannot ask: no", kind="invalid_request", transient=False),
        GeneratorExit(),
        asyncio.CancelledError(),
    ],
    ids=["an exhausted quota", "an outage", "a fault of the request", "a stream closed early", "a cancellation"],
)
async def test_only_refusals_shrink_the_window(error: BaseException) -> None:
    """What fewer requests would not mend changes nothing, and gives its turn back."""
    limiter = Limiter(Limits(concurrency=8), FakeClock())
    with pytest.raises(type(error)):
        async with limiter.turn():
            raise error
    assert limiter.window == 8
    assert limiter.in_flight == 0


async def test_a_turn_says_how_long_it_waited_and_was_held() -> None:
    """The wait for a turn is no part of what the provider took."""
    clock = FakeClock()
    limiter = Limiter(Limits(concurrency=1), clock)
    first, second = limiter.turn(), limiter.turn()

    async def ask() -> None:
        async with second:
            await clock.sleep(2)

    async with first:
        task = asyncio.create_task(ask())
        await clock.advance(0)
        await clock.advance(3)
    await clock.advance(0)
    await clock.advance(2)
    await task
    assert (first.waited_s, first.held_s) == (0.0, 3.0)
    assert (second.waited_s, second.held_s) == (3.0, 2.0)


@pytest.mark.parametrize(
    ("rate_limit", "workers", "expected"),
    [
        (None, 1, Limits()),
        ({"rps": 5, "burst": 10}, 1, Limits(5.0, 10)),
        ({"rps": 5, "burst": 10}, 4, Limits(1.25, 2)),
        ({"requests_per_minute": 90}, 1, Limits(1.5)),
        ({"requests_per_minute": 90, "concurrency": 7}, 3, Limits(0.5, 1, 2)),
        ({"concurrency": 2}, 5, Limits(None, 1, 1)),
        ({"rps": 0, "burst": 0}, 1, Limits()),
    ],
    ids=["none", "a bundle's", "of four workers", "a job's", "of three workers", "more workers than requests", "zero is no limit"],
)
def test_limits_of_a_spec(rate_limit: dict[str, float] | None, workers: int, expected: Limits) -> None:
    """A spec's limits hold for the run: a worker keeps to its share."""
    assert limits_of({"rate_limit": rate_limit}, workers=workers) == expected
