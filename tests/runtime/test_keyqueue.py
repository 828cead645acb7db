"""The queue of keys: coalescing, one look at a time, delays and backoff."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from foundation.clock import FakeClock
from reconcile.runtime.keyqueue import Backoff, KeyQueue


@pytest.fixture
async def queue(clock: FakeClock) -> AsyncIterator[KeyQueue[str]]:
    """Give a queue whose delays run on the fake clock."""
    keys: KeyQueue[str] = KeyQueue(clock)
    running = asyncio.create_task(keys.run())
    await clock.advance(0)
    yield keys
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that the test moves."""
    return FakeClock()


async def take_all(queue: KeyQueue[str]) -> list[str]:
    """Take and finish all keys that are ready."""
    keys = []
    while len(queue):
        keys.append(await queue.get())
        queue.done(keys[-1])
    return keys


async def test_keys_coalesce_in_order(queue: KeyQueue[str]) -> None:
    """A key that waits is there once, at its first place."""
    for key in ("a", "b", "a", "c", "b"):
        queue.add(key)
    assert await take_all(queue) == ["a", "b", "c"]


async def test_one_look_at_a_time(queue: KeyQueue[str]) -> None:
    """A key that is being processed is not given out; added meanwhile, it comes once more after `done`."""
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "b"
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not getting.done()
    queue.done("a")
    assert await getting == "a"
    queue.done("a")
    queue.done("b")
    assert queue.is_idle


async def test_a_cancelled_get_takes_nothing(queue: KeyQueue[str]) -> None:
    """A worker that is cancelled while it waits loses no key."""
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    getting.cancel()
    await asyncio.gather(getting, return_exceptions=True)
    queue.add("a")
    assert await queue.get() == "a"


async def test_delay(queue: KeyQueue[str], clock: FakeClock) -> None:
    """A delayed key comes when its time has come, not before."""
    queue.add_after("a", 10)
    await clock.advance(9.9)
    assert len(queue) == 0
    await clock.advance(0.2)
    assert await take_all(queue) == ["a"]


async def test_the_earliest_delay_counts(queue: KeyQueue[str], clock: FakeClock) -> None:
    """Of several delays of one key the earliest counts, and the key comes once."""
    for seconds in (10, 5, 20):
        queue.add_after("a", seconds)
    await clock.advance(6)
    assert await take_all(queue) == ["a"]
    await clock.advance(30)
    assert await take_all(queue) == []


async def test_delays_of_many_keys_are_in_order(queue: KeyQueue[str], clock: FakeClock) -> None:
    """Delays of several keys run side by side."""
    for key, seconds in (("c", 3), ("a", 1), ("b", 2)):
        queue.add_after(key, seconds)
    await clock.advance(5)
    assert await take_all(queue) == ["a", "b", "c"]


@pytest.mark.parametrize("seconds", [0, -1])
async def test_no_delay(queue: KeyQueue[str], seconds: float) -> None:
    """A delay of nothing adds at once."""
    queue.add_after("a", seconds)
    assert len(queue) == 1


async def test_backoff_grows_until_forgotten(queue: KeyQueue[str]) -> None:
    """Each retry of a key doubles its delay, from 5 ms to 60 s; `forget` begins anew; other keys are not concerned."""
    delays = [queue.retry("a") for _ in range(16)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-1] == 60
    assert queue.retry("b") == 0.005
    assert queue.failures("a") == 16
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.retry("a") == 0.005


async def test_retry_brings_the_key_back(queue: KeyQueue[str], clock: FakeClock) -> None:
    """A retried key comes back after its delay."""
    queue.retry("a")
    assert len(queue) == 0
    await clock.advance(0.01)
    assert await take_all(queue) == ["a"]


def test_backoff_does_not_overflow() -> None:
    """Any number of failures has a delay."""
    assert Backoff().delay_s(100_000) == 60
