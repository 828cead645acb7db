"""What is true of the queue on a Redis-protocol server beyond the contract."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis.asyncio

import engine.queue
from engine.errors import QueueUnavailable, RunUnknown
from engine.items import RunUID, Verdict
from engine.queue.contact import Contact
from engine.queue.embedded import EmbeddedServer
from engine.queue.keys import GROUP, run_keys
from engine.queue.port import Lease, RunMeta
from engine.queue.redis import SETTLED_MARK_S, RedisWorkQueue
from engine.records import bare_record
from foundation.clock import FakeClock
from tests.queue.conftest import Wire, eventually, put_items

AT = datetime(2026, 1, 2, tzinfo=UTC)
LEASE_S = 0.2


@pytest.fixture
async def far(queue: RedisWorkQueue, wire: Wire) -> AsyncIterator[RedisWorkQueue]:
    """Return the same queue behind the wire."""
    made = RedisWorkQueue(wire.url, installation=queue.installation)
    yield made
    await made.close()


@pytest.fixture
async def client(server: EmbeddedServer) -> AsyncIterator["redis.asyncio.Redis"]:
    """Return a plain client of the same server."""
    made = redis.asyncio.Redis.from_url(server.url)
    yield made
    await made.aclose()


async def test_a_runs_keys_share_one_hash_tag(queue: RedisWorkQueue, client: "redis.asyncio.Redis", run: RunUID) -> None:
    """Every key of a run begins with the installation and carries the run's UID as its hash tag, so that scripts and sweeps reach all of them."""
    await put_items(queue, run, 3)
    first, second = await queue.lease(run, worker="w", limit=2, seconds=30)
    await queue.complete(run, [(first, bare_record(first.index, first.item, Verdict.PASS, at=AT))])
    await queue.hand_back(run, [second])
    found = {key.decode() async for key in client.scan_iter(f"*{run}*")}
    assert found <= set(run_keys(queue.installation, run).all())
    assert all(key.startswith(f"arena:{queue.installation}:{{{run}}}:") for key in found)
    await queue.drop(run)
    assert [key async for key in client.scan_iter(f"*{run}*")] == []


@pytest.mark.parametrize("word", ["", "a}b", "a*", "a:b", "../x", "a b"])
def test_names_that_could_reach_other_keys_are_refused(word: str) -> None:
    """Neither an installation nor a run may carry key syntax."""
    with pytest.raises(ValueError, match="cannot name keys"):
        run_keys("home", RunUID(word))
    with pytest.raises(ValueError, match="cannot name keys"):
        run_keys(word, RunUID("uid"))


def test_no_consumer_is_ever_deleted() -> None:
    """XGROUP DELCONSUMER drops what is pending, so nothing here calls it."""
    sources = [path for path in Path(engine.queue.__path__[0]).rglob("*") if path.suffix in {".py", ".lua"}]
    assert len(sources) > 10
    assert not [path for path in sources if "DELCONSUMER" in path.read_text().upper()]


async def test_the_settled_mark_stays_a_day(queue: RedisWorkQueue, client: "redis.asyncio.Redis", run: RunUID) -> None:
    """Of a settled run only the mark is left, for a day."""
    await put_items(queue, run, 1)
    await queue.settle(run)
    keys = [key.decode() async for key in client.scan_iter(f"*{run}*")]
    assert keys == [run_keys(queue.installation, run).settled]
    assert SETTLED_MARK_S - 60 < await client.ttl(keys[0]) <= SETTLED_MARK_S


async def test_reading_records_leaves_the_loop_to_others(queue: RedisWorkQueue, run: RunUID) -> None:
    """However many records one answer of the store holds, whoever reads them does not keep the server from its other work."""
    await put_items(queue, run, 500)
    await queue.record(run, [bare_record(index, f"greeting/mock/{index + 1}", Verdict.PASS, at=AT) for index in range(500)])
    turns: list[int] = []
    read = bytearray()

    async def other_work() -> None:
        while len(read) < 500:
            turns.append(len(read))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(other_work())
        async for _ in queue.records(run):
            read += b"."
    assert max(later - earlier for earlier, later in zip(turns, [*turns[1:], 500], strict=True)) <= 100


async def test_leases_of_a_lost_answer_are_found_again(queue: RedisWorkQueue, far: RedisWorkQueue, wire: Wire, run: RunUID) -> None:
    """A lease call whose answer is lost leaves its items to the same worker's next call, with the same token and no crash."""
    await put_items(queue, run, 3)
    (held,) = await far.lease(run, worker="w", limit=1, seconds=30)
    wire.swallow = True
    with pytest.raises(QueueUnavailable):
        await far.lease(run, worker="w", limit=1, seconds=30)
    wire.swallow = False
    again = await far.lease(run, worker="w", limit=2, seconds=30)
    assert again[0] == held
    assert [(lease.index, lease.deliveries, lease.crashes) for lease in again] == [(0, 1, 0), (1, 1, 0)]
    assert [lease.index for lease in await far.lease(run, worker="w", limit=2, seconds=30)] == [2]


async def test_a_completion_whose_answer_is_lost_may_be_repeated(queue: RedisWorkQueue, far: RedisWorkQueue, wire: Wire, run: RunUID) -> None:
    """The repetition says duplicate, and the item is counted once."""
    await put_items(queue, run, 2)
    first, second = [
        (lease, bare_record(lease.index, lease.item, Verdict.PASS, at=AT)) for lease in await far.lease(run, worker="w", limit=2, seconds=30)
    ]
    assert await far.complete(run, [first]) == ["counted"]
    wire.swallow = True
    with pytest.raises(QueueUnavailable):
        await far.complete(run, [second])
    wire.swallow = False
    assert await far.complete(run, [second]) == ["duplicate"]
    assert (await queue.state(run)).passed == 2


async def test_leases_are_taken_over_after_a_lease_time_of_contact(
    queue: RedisWorkQueue, server: EmbeddedServer, client: "redis.asyncio.Redis", run: RunUID
) -> None:
    """A worker that has just come, or come back, leaves expired leases alone until it has been in contact for one lease time."""
    await put_items(queue, run, 1)
    await queue.lease(run, worker="gone", limit=1, seconds=LEASE_S)
    clock = FakeClock()
    fresh = RedisWorkQueue(server.url, installation=queue.installation, clock=clock)
    assert await fresh.lease(run, worker="new", limit=1, seconds=LEASE_S) == []

    async def has_expired() -> bool:
        (row,) = await client.xpending_range(run_keys(queue.installation, run).items, GROUP, "-", "+", 1)
        return bool(int(row["time_since_delivered"]) > LEASE_S * 1000 and (await client.info("server"))["uptime_in_seconds"])

    await eventually(has_expired)
    assert await fresh.lease(run, worker="new", limit=1, seconds=LEASE_S) == []

    async def takes_over_in_time() -> list[Lease]:
        await clock.advance(LEASE_S)
        return await fresh.lease(run, worker="new", limit=1, seconds=LEASE_S)

    assert [lease.crashes for lease in await eventually(takes_over_in_time)] == [1]
    await fresh.close()


async def test_contact_is_broken_by_silence_and_by_a_jumping_clock() -> None:
    """Contact counts from the first answer after a failure, and again from where the store's clock jumped against ours."""
    clock = FakeClock()
    contact = Contact(clock)
    assert contact.unbroken_s() == 0
    contact.heard()
    contact.read_time(1000.0, tolerance_s=1.0)
    await clock.advance(10)
    contact.heard()
    contact.read_time(1010.5, tolerance_s=1.0)
    assert contact.unbroken_s() == 10
    contact.read_time(1040.0, tolerance_s=1.0)
    assert contact.unbroken_s() == 0
    await clock.advance(3)
    assert contact.unbroken_s() == 3
    contact.lost()
    contact.heard()
    assert contact.unbroken_s() == 0


async def test_what_the_store_lost_is_named_and_put_again(queue: RedisWorkQueue, client: "redis.asyncio.Redis", run: RunUID) -> None:
    """An item in no set shows in the sums, is named, and makes the run whole when it is put again; a recorded one is left out."""
    await put_items(queue, run, 4)
    (lease,) = await queue.lease(run, worker="w", limit=1, seconds=30)
    await queue.complete(run, [(lease, bare_record(0, lease.item, Verdict.PASS, at=AT))])
    stream = run_keys(queue.installation, run).items
    (lost,) = [entry for entry, fields in await client.xrange(stream) or [] if fields and fields[b"i"] == b"2"]
    await client.xdel(stream, str(lost, "ascii"))  # type: ignore[arg-type]
    assert not (await queue.state(run)).whole
    assert await queue.missing(run) == [2]
    await queue.put_again(run, [(0, "s/p/1"), (2, "s/p/3")])
    state = await queue.state(run)
    assert (state.queued, state.whole, await queue.missing(run)) == (3, True, [])


async def test_a_damaged_plan_is_not_handed_out(queue: RedisWorkQueue, client: "redis.asyncio.Redis", run: RunUID) -> None:
    """Plan bytes that do not match the pinned digest are as good as lost."""
    await queue.pin(run, RunMeta("sha256:x", 1))
    await client.set(run_keys(queue.installation, run).plan, b"{}")
    with pytest.raises(RunUnknown, match="do not match"):
        await queue.plan(run)


async def test_a_store_that_evicts_or_forgets_is_named(queue: RedisWorkQueue, client: "redis.asyncio.Redis") -> None:
    """The check finds eviction and a missing append-only file; our own server passes it."""
    assert await queue.check() == []
    await client.config_set("maxmemory-policy", "allkeys-lru")
    await client.config_set("appendonly", "no")
    try:
        problems = await queue.check()
    finally:
        await client.config_set("maxmemory-policy", "noeviction")
        await client.config_set("appendonly", "yes")
        async with asyncio.timeout(20):
            while (await client.info("persistence"))["aof_rewrite_in_progress"]:  # noqa: ASYNC110 - until then it does not end when it is told to
                await asyncio.sleep(0.01)
    assert [problem.partition(":")[0] for problem in problems] == ["maxmemory-policy is allkeys-lru", "appendonly is off"]


async def test_a_full_store_refuses_and_says_what_to_do(queue: RedisWorkQueue, client: "redis.asyncio.Redis", run: RunUID) -> None:
    """A store at its memory limit changes nothing; the error has the remedy."""
    await queue.pin(run, RunMeta("sha256:x", 1))
    await client.config_set("maxmemory", "1")
    try:
        with pytest.raises(QueueUnavailable) as caught:
            await queue.put(run, 0, [(0, "s/p/1")], last=True)
    finally:
        await client.config_set("maxmemory", "0")
    assert "maxmemory" in caught.value.hint
    assert not (await queue.state(run)).complete


async def test_no_store_is_unavailable(tmp_path: Path, run: RunUID) -> None:
    """A store that is not there is an error of its own kind, which callers retry."""
    queue = RedisWorkQueue(f"unix://{tmp_path}/none.sock", installation="home")
    with pytest.raises(QueueUnavailable):
        await queue.state(run)
    await queue.close()
