"""Leader election: one leads at a time, by everybody's own clock, and writes nothing once it might not."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from foundation.clock import FakeClock
from reconcile.cluster.port import CONFIG_MAP, LEASE
from reconcile.errors import NotLeading, StoreUnavailable
from tests.contracts.cluster_objects import make
from tests.runtime.leases import KEY, Candidate, LeaseStore, PausableClock, pass_time, quiet


@pytest.fixture
def clock() -> PausableClock:
    """Return a clock that stands still."""
    return PausableClock()


@pytest.fixture
async def store(clock: FakeClock) -> AsyncIterator[LeaseStore]:
    """Give an empty store."""
    leases = LeaseStore(clock)
    yield leases
    await leases.close()


@pytest.fixture
async def pair(store: LeaseStore, clock: FakeClock) -> AsyncIterator[tuple[Candidate, Candidate]]:
    """Give a leader and a standby that has seen it."""
    leader, standby = Candidate.of(store, clock), Candidate.of(store, clock)
    leader.start()
    await pass_time(store, clock, 1)
    standby.start()
    await pass_time(store, clock, 5)
    assert (leader.leads, standby.leads) == (True, False)
    yield leader, standby
    for candidate in (leader, standby):
        await candidate.stop()


async def test_the_lease_tells_who_leads(store: LeaseStore, pair: tuple[Candidate, Candidate]) -> None:
    """The Lease names the holder, its times and how often the lead changed hands."""
    spec = await store.spec()
    assert spec["holderIdentity"] == pair[0].leadership.identity
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 0)
    assert spec["renewTime"] > spec["acquireTime"] >= "2026-01-01T00:00:00.000000Z"


async def test_a_leader_renews_without_reading(store: LeaseStore, clock: FakeClock) -> None:
    """A leader writes over what it wrote last, without asking for it first: a Lease nobody else touched costs a request every two seconds."""
    leader = Candidate.of(store, clock)
    leader.start()
    await pass_time(store, clock, 1)
    reads, renewed = store.reads, (await store.spec())["renewTime"]
    await pass_time(store, clock, 20)
    assert leader.leads
    assert store.reads == reads
    assert (await store.spec())["renewTime"] > renewed
    await leader.stop()


async def test_identities_differ(store: LeaseStore, clock: FakeClock) -> None:
    """Two starts on one host are two candidates."""
    assert Candidate.of(store, clock).leadership.identity != Candidate.of(store, clock).leadership.identity


async def test_a_leader_that_ends_hands_over(store: LeaseStore, clock: FakeClock, pair: tuple[Candidate, Candidate]) -> None:
    """A leader that ends, or is told to, gives the Lease back: the next one leads at its next try."""
    leader, standby = pair
    leader.done.set()
    await pass_time(store, clock, 4.5)
    assert standby.leads
    assert leader.leadership.remaining_s() == 0
    assert (await store.spec())["leaseTransitions"] == 1


async def test_a_leader_that_is_stopped_hands_over(store: LeaseStore, clock: FakeClock, pair: tuple[Candidate, Candidate]) -> None:
    """So does one that is cancelled, once what it led has ended."""
    leader, standby = pair
    await leader.stop()
    assert (await store.spec())["holderIdentity"] == ""
    await pass_time(store, clock, 4.5)
    assert standby.leads


async def test_a_leader_that_dies_is_waited_for(store: LeaseStore, clock: FakeClock, pair: tuple[Candidate, Candidate]) -> None:
    """The Lease of a leader that just went is free 15 s after the standby saw it change, not before."""
    leader, standby = pair
    store.is_down = True
    await leader.stop()
    store.is_down = False
    await pass_time(store, clock, 10)
    assert not standby.leads
    await pass_time(store, clock, 15)
    assert standby.leads


@pytest.mark.parametrize("renewed", ["2001-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"], ids=["long ago", "in the future"])
async def test_what_another_clock_says_does_not_matter(store: LeaseStore, clock: FakeClock, renewed: str) -> None:
    """Whatever time a Lease bears, a candidate waits for as long as it has itself seen no change."""
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 15, "renewTime": renewed, "acquireTime": renewed, "leaseTransitions": 4}
    await store.create(make(LEASE, KEY.name, spec=spec))
    candidate = Candidate.of(store, clock)
    candidate.start()
    await pass_time(store, clock, 14)
    assert not candidate.leads
    await pass_time(store, clock, 7)
    assert candidate.leads
    assert (await store.spec())["leaseTransitions"] == 5
    await candidate.stop()


@pytest.mark.parametrize("told", [None, 0, -3, "15", 10**9], ids=str)
async def test_a_duration_that_makes_no_sense(store: LeaseStore, clock: FakeClock, told: object) -> None:
    """A Lease that says nothing sensible of its duration is waited for as long as one of ours."""
    await store.create(make(LEASE, KEY.name, spec={"holderIdentity": "another", "leaseDurationSeconds": told}))
    candidate = Candidate.of(store, clock)
    candidate.start()
    await pass_time(store, clock, 14)
    assert not candidate.leads
    await pass_time(store, clock, 7)
    assert candidate.leads
    await candidate.stop()


async def test_a_leader_without_its_store_stops_first(store: LeaseStore, clock: FakeClock, pair: tuple[Candidate, Candidate]) -> None:
    """A leader that cannot renew stops after 10 s, before anybody may take over after 15 s."""
    leader, standby = pair
    store.is_down = True
    await pass_time(store, clock, 7.5)
    assert leader.leads
    await pass_time(store, clock, 3)
    assert (leader.leads, leader.lost, standby.leads) == (False, True, False)
    store.is_down = False
    # A last renewal that the standby had not seen yet counts from now: 15 s, and a wait of at most 4.4 s on each side of them.
    await pass_time(store, clock, 25)
    assert standby.leads


async def test_a_leader_whose_store_is_silent_stops_too(store: LeaseStore, clock: FakeClock, pair: tuple[Candidate, Candidate]) -> None:
    """A renewal that gets no answer is no renewal, and cannot hold the leader beyond its time."""
    leader, _ = pair
    store.silence = asyncio.Event()
    await pass_time(store, clock, 10.5)
    assert (leader.leads, leader.lost) == (False, True)
    store.silence.set()


async def test_a_lease_that_another_took(store: LeaseStore, clock: FakeClock, pair: tuple[Candidate, Candidate]) -> None:
    """A leader that finds another holder stops at once, whatever time it had left."""
    leader, _ = pair
    stored = await store.get(LEASE, KEY.namespace, KEY.name)
    await store.update({**stored, "spec": {**stored["spec"], "holderIdentity": "a person with kubectl"}})
    await pass_time(store, clock, 2.5)
    assert (leader.leads, leader.lost) == (False, True)
    assert (await store.spec())["holderIdentity"] == "a person with kubectl"


async def test_a_lease_that_was_deleted(store: LeaseStore, clock: FakeClock, pair: tuple[Candidate, Candidate]) -> None:
    """A deleted Lease is made again by its holder; who has seen the holder does not take it meanwhile."""
    leader, standby = pair
    await store.delete(LEASE, KEY.namespace, KEY.name)
    await pass_time(store, clock, 10)
    assert (leader.leads, standby.leads) == (True, False)
    assert (await store.spec())["holderIdentity"] == leader.leadership.identity


async def test_a_lease_that_is_changed_beside_us(store: LeaseStore, clock: FakeClock, pair: tuple[Candidate, Candidate]) -> None:
    """A label on the Lease, or any other change that names no other holder, costs nobody the lead."""
    for label in ("a", "b", "c"):
        await store.patch(LEASE, KEY.namespace, KEY.name, {"metadata": {"labels": {label: "x"}}})
        await pass_time(store, clock, 2)
    assert pair[0].leads


async def test_work_that_fails(store: LeaseStore, clock: FakeClock) -> None:
    """A failure of what is led is told as it is, and the Lease is given back."""

    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await Candidate.of(store, clock).leadership.run(fail)
    assert (await store.spec())["holderIdentity"] == ""


async def test_one_leads_at_a_time(store: LeaseStore, clock: FakeClock) -> None:
    """Whatever dies, and whoever is cut off, no two are ever certain that they lead, and somebody leads again in the end."""
    dice = random.Random(7)  # noqa: S311 - a test wants the same again
    candidates = [Candidate.of(store, clock) for _ in range(4)]
    for candidate in candidates:
        candidate.start()
    for _ in range(60):
        match dice.randrange(4):
            case 0:
                store.is_down = not store.is_down
            case 1:
                place = dice.randrange(len(candidates))
                await candidates[place].stop()
                candidates[place] = Candidate.of(store, clock)
                candidates[place].start()
        for _ in range(dice.randrange(1, 16)):
            await pass_time(store, clock, 0.5)
            assert sum(candidate.leadership.remaining_s() > 0 for candidate in candidates) <= 1
        for place, candidate in enumerate(candidates):
            if candidate.lost:
                candidates[place] = Candidate.of(store, clock)
                candidates[place].start()
    store.is_down = False
    await pass_time(store, clock, 30)
    assert sum(candidate.leads for candidate in candidates) == 1
    for candidate in candidates:
        await candidate.stop()


async def test_only_a_leader_writes(store: LeaseStore, pair: tuple[Candidate, Candidate]) -> None:
    """The leader writes; the standby reads, and its writes are refused before they are sent."""
    leader, standby = (candidate.cluster for candidate in pair)
    await leader.create(make(CONFIG_MAP, "c", data={"by": "leader"}))
    for write in (
        standby.create(make(CONFIG_MAP, "d")),
        standby.patch(CONFIG_MAP, "arena", "c", {"data": {"by": "standby"}}),
        standby.patch_status(CONFIG_MAP, "arena", "c", {}),
        standby.update(make(CONFIG_MAP, "c")),
        standby.delete(CONFIG_MAP, "arena", "c"),
    ):
        with pytest.raises(NotLeading):
            await write
    assert [item["data"] for item in (await standby.list(CONFIG_MAP)).items] == [{"by": "leader"}]
    assert await leader.delete(CONFIG_MAP, "arena", "c") is None
    await quiet(store)


async def test_a_deposed_leader_writes_nothing(store: LeaseStore, clock: PausableClock, pair: tuple[Candidate, Candidate]) -> None:
    """From the moment at which the lead is not certain, no write is sent, though nobody has told the leader yet."""
    leader, _ = pair
    store.is_down = True
    await pass_time(store, clock, 7.5)
    await leader.cluster.create(make(CONFIG_MAP, "in-time"))
    clock.skip(5)
    assert leader.leads
    with pytest.raises(NotLeading):
        await leader.cluster.create(make(CONFIG_MAP, "late"))


async def test_a_write_without_an_answer_ends_with_the_lead(store: LeaseStore, clock: FakeClock, pair: tuple[Candidate, Candidate]) -> None:
    """A write that is still unanswered when the lead runs out is given up: it could arrive under another leader."""
    leader, _ = pair
    config = await leader.cluster.create(make(CONFIG_MAP, "c"))
    store.silence = asyncio.Event()
    writing = asyncio.create_task(leader.cluster.update({**config, "data": {"a": "late"}}))
    await pass_time(store, clock, 10.5)
    with pytest.raises(StoreUnavailable, match="ran out"):
        await writing
    store.silence.set()
    await quiet(store)
    assert "data" not in await store.get(CONFIG_MAP, "arena", "c")
