"""The contract of WorkQueue, on every adapter: how a run is stopped, settled, dropped, rebuilt and waited for."""

import asyncio
from uuid import uuid4

import pytest

from engine.errors import PutRefused, RunSettled, RunUnknown
from engine.items import ItemError, RunUID, Verdict
from engine.queue.memory import MemoryWorkQueue
from engine.queue.port import QueueState, Refusal, RunMeta, WorkQueue
from engine.records import Record
from tests.contracts.queue_items import AT, DEADLINE_S, DIGEST, LONG, SHORT, eventually, items_of, lease_one, put_items, record_of_lease


async def test_stop_refuses_put_lease_and_retry(queue: WorkQueue, run: RunUID) -> None:
    """A stopped run takes no items, leases none and retries none, but a begun item is still counted; the first reason stays."""
    await put_items(queue, run, 3)
    lease, other = await queue.lease(run, worker="a", limit=2, seconds=LONG)
    await queue.stop(run, "cancelled")
    await queue.stop(run, "deadline")
    with pytest.raises(PutRefused):
        await queue.put(run, 7, items_of([2]), last=False)
    assert await queue.lease(run, worker="b", limit=1, seconds=LONG) == []
    assert not await queue.retry(run, lease, delay_s=0, error=ItemError("x", ""))
    assert await queue.renew(run, [lease, other]) == []
    assert await queue.complete(run, [(lease, record_of_lease(lease))]) == ["counted"]
    assert (await queue.state(run)).stopped == "cancelled"


async def test_stopped_run_drains_by_skipping(queue: WorkQueue, run: RunUID) -> None:
    """After a stop the unbegun, handed back and delayed items are recorded as skipped in chunks; a begun one is left to its worker."""
    await put_items(queue, run, 7)
    begun, back, later = await queue.lease(run, worker="a", limit=3, seconds=LONG)
    await queue.hand_back(run, [back])
    assert await queue.retry(run, later, delay_s=60, error=ItemError("x", ""))
    await queue.stop(run, "cancelled")
    counts = [await queue.skip_unbegun(run, at=AT, limit=4) for _ in range(3)]
    assert counts == [4, 2, 0]
    assert not (await queue.state(run)).drained
    await queue.complete(run, [(begun, record_of_lease(begun))])
    state = await queue.state(run)
    assert (state.drained, state.skipped, state.passed, state.queued, state.delayed) == (True, 6, 1, 0, 0)


async def test_an_item_queued_twice_hides_no_other_from_skipping(queue: WorkQueue, run: RunUID) -> None:
    """Skipping answers 0 only when nothing is left, also when all of a chunk are second entries of counted items."""
    await queue.pin(run, RunMeta(DIGEST, 2))
    await queue.put(run, 0, items_of([0]), last=False)
    await queue.put_again(run, items_of([0]))
    await queue.put(run, 1, items_of([1]), last=True)
    await queue.stop(run, "cancelled")
    assert [await queue.skip_unbegun(run, at=AT, limit=1) for _ in range(3)] == [1, 1, 0]


async def test_orphans_of_a_stopped_run_are_skipped(queue: WorkQueue, run: RunUID) -> None:
    """A begun item whose worker is gone becomes skipped once its lease has run out, and the late worker cannot count it."""
    await put_items(queue, run, 1)
    late = await lease_one(queue, run, "a", SHORT)
    await queue.stop(run, "cancelled")
    await eventually(lambda: queue.skip_unbegun(run, at=AT))
    assert await queue.complete(run, [(late, record_of_lease(late))]) == ["duplicate"]
    state = await queue.state(run)
    assert (state.skipped, state.recorded, state.drained) == (1, 1, True)


async def test_remaining_items_fail_whoever_holds_them(queue: WorkQueue, run: RunUID) -> None:
    """When the workers are gone for good, every uncounted item becomes an error, leases or not; counted ones stay."""
    await put_items(queue, run, 4)
    done, _held = await queue.lease(run, worker="a", limit=2, seconds=LONG)
    await queue.complete(run, [(done, record_of_lease(done))])
    await queue.stop(run, "workers_failed")
    error = ItemError("worker_lost", "the worker job failed")
    counts = [await queue.fail_remaining(run, error, at=AT, limit=2) for _ in range(3)]
    assert counts == [2, 1, 0]
    assert {record.error for record in [record async for record in queue.records(run)] if record.verdict is Verdict.ERROR} == {error}
    state = await queue.state(run)
    assert (state.passed, state.errors, state.drained) == (1, 3, True)


@pytest.mark.parametrize("name", ["skip", "fail"])
async def test_only_a_stopped_run_is_cut_short(queue: WorkQueue, run: RunUID, name: str) -> None:
    """Items of a run that was not stopped are neither skipped nor failed."""
    await put_items(queue, run, 1)
    with pytest.raises(PutRefused):
        await (queue.skip_unbegun(run, at=AT) if name == "skip" else queue.fail_remaining(run, ItemError("x", ""), at=AT))


async def test_budget_stops_the_run_in_the_same_step(queue: WorkQueue, run: RunUID) -> None:
    """Spending exactly the budget is allowed; the completion that crosses it stops the run with reason budget."""
    await put_items(queue, run, 4, budget_usd=0.5)
    leases = await queue.lease(run, worker="a", limit=3, seconds=LONG)
    await queue.complete(run, [(lease, record_of_lease(lease)) for lease in leases[:2]])
    assert (await queue.state(run)).stopped == ""
    await queue.complete(run, [(leases[2], record_of_lease(leases[2], cost_usd=1e-9))])
    state = await queue.state(run)
    assert (state.stopped, state.budget_breached) == ("budget", True)
    assert await queue.lease(run, worker="a", limit=1, seconds=LONG) == []


async def test_records_come_back_each_once(queue: WorkQueue, run: RunUID) -> None:
    """Every record is read once and as it was completed, in however many batches."""
    await put_items(queue, run, 1200)
    completed: dict[int, Record] = {}
    while leases := await queue.lease(run, worker="a", limit=400, seconds=LONG):
        batch = [(lease, record_of_lease(lease)) for lease in leases]
        completed |= {record.index: record for _, record in batch}
        await queue.complete(run, batch)
    found = [record async for record in queue.records(run, batch=100)]
    assert len(found) == 1200
    assert {record.index: record for record in found} == completed


async def test_cells_count_by_scenario_and_provider(queue: WorkQueue, run: RunUID) -> None:
    """Verdicts, cost and durations are counted by scenario/provider, whatever the trial and the perturbation are called."""
    await queue.pin(run, RunMeta(DIGEST, 3))
    await queue.put(run, 0, [(0, "a/p/1"), (1, "a/p/2/tone=rude/very"), (2, "b/q/1")], last=True)
    leases = await queue.lease(run, worker="w", limit=3, seconds=LONG)
    await queue.complete(run, [(lease, record_of_lease(lease, Verdict.FAIL if lease.index else Verdict.PASS)) for lease in leases])
    cells = await queue.cells(run)
    assert {name: (counts.passed, counts.failed, counts.cost_usd) for name, counts in cells.items()} == {"a/p": (1, 1, 0.5), "b/q": (0, 1, 0.25)}
    assert [sum(counts.durations.values()) for counts in cells.values()] == [2, 1] or [
        sum(counts.durations.values()) for counts in cells.values()
    ] == [1, 2]


async def test_settled_run_leaves_a_mark(queue: WorkQueue, run: RunUID) -> None:
    """After settling, everything about the run says settled, and it cannot be pinned again."""
    await put_items(queue, run, 1)
    await queue.settle(run)
    await queue.settle(run)
    assert await queue.state(run) == QueueState(settled=True)
    with pytest.raises(RunSettled):
        await queue.lease(run, worker="a", limit=1, seconds=LONG)
    with pytest.raises(RunSettled):
        await queue.pin(run, RunMeta(DIGEST, 1))
    assert [record async for record in queue.records(run)] == []


async def test_dropped_run_leaves_nothing(queue: WorkQueue, run: RunUID) -> None:
    """A dropped run is unknown, as one that was never put."""
    await put_items(queue, run, 1)
    await queue.drop(run)
    await queue.drop(run)
    with pytest.raises(RunUnknown):
        await queue.state(run)
    with pytest.raises(RunUnknown):
        await queue.lease(run, worker="a", limit=1, seconds=LONG)
    assert await queue.runs() == []


async def test_runs_never_meet(queue: WorkQueue, run: RunUID) -> None:
    """Two runs of the same items have their own leases, records and totals; both are listed until dropped."""
    other = RunUID(str(uuid4()))
    for each in (run, other):
        await put_items(queue, each, 1)
    lease = await lease_one(queue, run)
    await queue.complete(run, [(lease, record_of_lease(lease))])
    assert ((await queue.state(run)).recorded, (await queue.state(other)).recorded) == (1, 0)
    assert await queue.complete(other, [(lease, record_of_lease(lease))]) == ["stale"]
    assert sorted(await queue.runs()) == sorted([run, other])


async def test_a_rebuilt_run_counts_what_was_recorded_and_puts_the_rest(queue: WorkQueue, run: RunUID) -> None:
    """Recorded items are counted once, spend included, and a put leaves them out."""
    await queue.pin(run, RunMeta(DIGEST, 3))
    kept = Record("greeting/mock/2", 1, Verdict.FAIL, AT, AT, cost_usd=0.5)
    assert await queue.record(run, [kept]) == 1
    assert await queue.record(run, [kept]) == 0
    await queue.put(run, 0, items_of(range(3)), last=True)
    state = await queue.state(run)
    assert (state.queued, state.recorded, state.failed, state.cost_usd, state.whole) == (2, 1, 1, 0.5, True)


async def test_an_item_queued_twice_is_counted_once(queue: WorkQueue, run: RunUID) -> None:
    """Two entries of one item, as a rebuilt queue may have, run twice; the second completion is a duplicate and releases its lease."""
    await put_items(queue, run, 1)
    await queue.put_again(run, items_of([0]))
    leases = await queue.lease(run, worker="a", limit=2, seconds=LONG)
    assert await queue.complete(run, [(lease, record_of_lease(lease)) for lease in leases]) == ["counted", "duplicate"]
    state = await queue.state(run)
    assert (state.recorded, state.leased, state.queued) == (1, 0, 0)


async def test_nothing_is_missing_from_a_whole_run(queue: WorkQueue, run: RunUID) -> None:
    """Queued, leased, delayed and recorded items are all found."""
    await put_items(queue, run, 4)
    done, later, _held = await queue.lease(run, worker="a", limit=3, seconds=LONG)
    await queue.complete(run, [(done, record_of_lease(done))])
    await queue.retry(run, later, delay_s=60, error=ItemError("x", ""))
    assert await queue.missing(run) == []
    assert (await queue.state(run)).whole


async def test_waiting_ends_when_items_come(queue: WorkQueue, run: RunUID) -> None:
    """A waiting worker is woken by a put; the first call returns at once, so that nothing that came before is missed."""
    await queue.pin(run, RunMeta(DIGEST, 1))
    seen = await queue.wait(run, seen="", seconds=DEADLINE_S)
    async with asyncio.timeout(DEADLINE_S / 2), asyncio.TaskGroup() as group:
        waiting = group.create_task(queue.wait(run, seen=seen, seconds=DEADLINE_S))
        await queue.put(run, 0, items_of([0]), last=False)
    assert waiting.result() != seen


@pytest.mark.parametrize("event", ["stop", "drained", "handed back"])
async def test_waiting_ends_when_the_run_does(queue: WorkQueue, run: RunUID, event: str) -> None:
    """A waiting worker is woken when the run is stopped, is drained, or gets an item back."""
    await put_items(queue, run, 1)
    lease = await lease_one(queue, run)
    seen = await queue.wait(run, seen="", seconds=DEADLINE_S)
    async with asyncio.timeout(DEADLINE_S / 2), asyncio.TaskGroup() as group:
        waiting = group.create_task(queue.wait(run, seen=seen, seconds=DEADLINE_S))
        if event == "stop":
            await queue.stop(run, "cancelled")
        elif event == "drained":
            await queue.complete(run, [(lease, record_of_lease(lease))])
        else:
            await queue.hand_back(run, [lease])
    assert waiting.result() != seen


async def test_waiting_gives_up(queue: WorkQueue, run: RunUID) -> None:
    """Without any change a wait ends after its seconds, with the same answer."""
    await put_items(queue, run, 1)
    seen = await queue.wait(run, seen="", seconds=0)
    assert await queue.wait(run, seen=seen, seconds=0.01) == seen


async def test_the_memory_queue_names_what_it_lost(run: RunUID) -> None:
    """Items in no set are named, and putting them again makes the run whole."""
    queue = MemoryWorkQueue()
    await put_items(queue, run, 3)
    queue.lose(run, [1])
    assert await queue.missing(run) == [1]
    await queue.put_again(run, items_of([1]))
    assert await queue.missing(run) == []


async def test_a_refusal_stops_the_run_and_says_why(queue: WorkQueue, run: RunUID) -> None:
    """A worker that cannot begin stops the run with its cause; a second refusal changes nothing, and the run drains like any stopped one."""
    await put_items(queue, run, 2)
    await queue.refuse(run, Refusal("credential_missing", "provider 'gpt' needs OPENAI_API_KEY"))
    await queue.refuse(run, Refusal("not_supported", "later"))
    assert await queue.lease(run, worker="a", limit=1, seconds=LONG) == []
    assert await queue.skip_unbegun(run, at=AT) == 2
    state = await queue.state(run)
    assert (state.stopped, state.refusal, state.drained) == ("refused", Refusal("credential_missing", "provider 'gpt' needs OPENAI_API_KEY"), True)


async def test_a_stopped_run_is_not_refused_any_more(queue: WorkQueue, run: RunUID) -> None:
    """Whoever comes after a stop adds no cause to it."""
    await put_items(queue, run, 1)
    await queue.stop(run, "cancelled")
    await queue.refuse(run, Refusal("credential_missing", "m"))
    state = await queue.state(run)
    assert (state.stopped, state.refusal) == ("cancelled", None)
