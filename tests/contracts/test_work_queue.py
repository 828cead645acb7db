"""The contract of WorkQueue, on every adapter: putting, leasing, counting. How a run ends has a file of its own."""

import pytest

from engine.errors import PutRefused, RunUnknown
from engine.items import ItemError, RunUID, Verdict
from engine.queue.port import MAX_CRASHES, Lease, RunMeta, WorkQueue
from tests.contracts.queue_items import DIGEST, LONG, PLAN, SHORT, eventually, items_of, lease_one, put_items, record_of_lease, take_over


async def test_items_are_leased_oldest_first(queue: WorkQueue, run: RunUID) -> None:
    """Items are leased in the order in which they were put, each to one worker, with its index, id, first attempt and no crash."""
    await put_items(queue, run, 3)
    first = await queue.lease(run, worker="a", limit=2, seconds=LONG)
    second = await queue.lease(run, worker="b", limit=2, seconds=LONG)
    assert [(lease.index, lease.item, lease.worker, lease.attempt, lease.crashes) for lease in first + second] == [
        (0, "greeting/mock/1", "a", 1, 0),
        (1, "greeting/mock/2", "a", 1, 0),
        (2, "greeting/mock/3", "b", 1, 0),
    ]


async def test_nothing_to_lease_is_an_empty_answer(queue: WorkQueue, run: RunUID) -> None:
    """A lease of a run whose items are all in other hands returns nothing and raises nothing."""
    await put_items(queue, run, 1)
    await lease_one(queue, run)
    assert await queue.lease(run, worker="b", limit=1, seconds=LONG) == []


async def test_a_chunk_is_put_once(queue: WorkQueue, run: RunUID) -> None:
    """A chunk that is put again, as after a lost answer, queues nothing more; another chunk does."""
    await queue.pin(run, RunMeta(DIGEST, 4))
    for chunk in (0, 0, 1, 1):
        await queue.put(run, chunk, items_of([2 * chunk, 2 * chunk + 1]), last=chunk == 1)
    state = await queue.state(run)
    assert (state.queued, state.complete, state.whole) == (4, True, True)


async def test_a_run_is_complete_with_its_last_chunk(queue: WorkQueue, run: RunUID) -> None:
    """Until the last chunk is put a run is neither complete nor drained, however few items it has left."""
    await queue.pin(run, RunMeta(DIGEST, 2))
    await queue.put(run, 0, items_of([0]), last=False)
    assert not (await queue.state(run)).complete


async def test_pin_is_idempotent_and_refuses_another_plan(queue: WorkQueue, run: RunUID) -> None:
    """A run has one plan digest and one number of items for life."""
    await queue.pin(run, RunMeta(DIGEST, 2))
    await queue.pin(run, RunMeta(DIGEST, 2))
    with pytest.raises(PutRefused):
        await queue.pin(run, RunMeta("sha256:other", 2))
    with pytest.raises(PutRefused):
        await queue.pin(run, RunMeta(DIGEST, 3))


async def test_plan_reaches_workers_unchanged(queue: WorkQueue, run: RunUID) -> None:
    """The plan is read as it was published, and only bytes of the pinned digest can be published."""
    await queue.pin(run, RunMeta(DIGEST, 1))
    with pytest.raises(RunUnknown):
        await queue.plan(run)
    with pytest.raises(PutRefused):
        await queue.publish_plan(run, b"another")
    await queue.publish_plan(run, PLAN)
    assert await queue.plan(run) == PLAN


async def test_completion_counts_once(queue: WorkQueue, run: RunUID) -> None:
    """A completed item is in the totals once; completing it again answers duplicate and changes nothing."""
    await put_items(queue, run, 2)
    lease = await lease_one(queue, run)
    assert await queue.complete(run, [(lease, record_of_lease(lease))]) == ["counted"]
    once = await queue.state(run)
    assert await queue.complete(run, [(lease, record_of_lease(lease, Verdict.FAIL))]) == ["duplicate"]
    assert await queue.state(run) == once
    assert (once.recorded, once.passed, once.leased, once.queued) == (1, 1, 0, 1)
    assert (once.cost_usd, once.input_tokens, once.output_tokens) == (0.25, 3, 4)


async def test_batch_sums_and_answers_in_order(queue: WorkQueue, run: RunUID) -> None:
    """A batch counts each item by its verdict; its answers are in the order of the completions."""
    await put_items(queue, run, 5)
    leases = await queue.lease(run, worker="a", limit=5, seconds=LONG)
    await queue.complete(run, [(leases[2], record_of_lease(leases[2]))])
    verdicts = [Verdict.PASS, Verdict.FAIL, Verdict.PASS, Verdict.ERROR, Verdict.FAIL]
    batch = [(lease, record_of_lease(lease, verdict)) for lease, verdict in zip(leases, verdicts, strict=True)]
    assert await queue.complete(run, batch[::-1]) == ["counted", "counted", "duplicate", "counted", "counted"]
    state = await queue.state(run)
    assert (state.passed, state.failed, state.errors, state.recorded, state.drained) == (2, 2, 1, 5, True)


async def test_money_adds_up_exactly(queue: WorkQueue, run: RunUID) -> None:
    """Costs are summed in nano-USD: a hundred times a tenth of a cent is ten cents."""
    await put_items(queue, run, 100)
    leases = await queue.lease(run, worker="a", limit=100, seconds=LONG)
    await queue.complete(run, [(lease, record_of_lease(lease, cost_usd=0.001)) for lease in leases])
    assert (await queue.state(run)).cost_usd == 0.1


async def test_a_cost_that_lacks_something_says_so(queue: WorkQueue, run: RunUID) -> None:
    """One item of which a cost is not known makes the run's sum the least that was spent."""
    await put_items(queue, run, 2)
    leases = await queue.lease(run, worker="a", limit=2, seconds=LONG)
    await queue.complete(run, [(leases[0], record_of_lease(leases[0]))])
    assert not (await queue.state(run)).cost_is_partial
    await queue.complete(run, [(leases[1], record_of_lease(leases[1], partial=True))])
    assert (await queue.state(run)).cost_is_partial


async def test_stale_lease_cannot_complete(queue: WorkQueue, run: RunUID) -> None:
    """An item whose lease ran out and went to another worker is counted by that worker alone."""
    await put_items(queue, run, 1)
    late = await lease_one(queue, run, "a", SHORT)
    lease = await take_over(queue, run, "b")
    assert (lease.index, lease.crashes, lease.deliveries) == (0, 1, 2)
    assert await queue.complete(run, [(late, record_of_lease(late))]) == ["stale"]
    assert (await queue.state(run)).recorded == 0
    assert await queue.complete(run, [(lease, record_of_lease(lease))]) == ["counted"]


async def test_renewal_extends_own_leases_and_names_lost_ones(queue: WorkQueue, run: RunUID) -> None:
    """Renewal returns leases that another worker has taken over, and does not take these back."""
    await put_items(queue, run, 1)
    late = await lease_one(queue, run, "a", SHORT)
    assert await queue.renew(run, [late]) == []
    lease = await take_over(queue, run, "b")
    assert await queue.renew(run, [late]) == [late]
    assert await queue.renew(run, [lease]) == []
    assert await queue.complete(run, [(lease, record_of_lease(lease))]) == ["counted"]


async def test_a_renewed_lease_is_not_taken_over(queue: WorkQueue, run: RunUID) -> None:
    """A lease that is renewed in time stays with its worker while the clock passes its lease time; one that is not goes."""
    await put_items(queue, run, 2)
    kept, left = await queue.lease(run, worker="a", limit=2, seconds=1.5)

    async def renew_and_look() -> list[Lease]:
        assert await queue.renew(run, [kept]) == []
        return await queue.lease(run, worker="b", limit=2, seconds=1.5)

    assert [lease.index for lease in await eventually(renew_and_look)] == [left.index]


async def test_crashes_count_up_to_the_limit(queue: WorkQueue, run: RunUID) -> None:
    """Each worker that vanishes with an item adds one crash, so the lease says when the item is for counting, not for running."""
    await put_items(queue, run, 1)
    await lease_one(queue, run, "w0", SHORT)
    crashes = [(await take_over(queue, run, f"w{number}")).crashes for number in range(1, MAX_CRASHES + 1)]
    assert crashes == [1, 2, 3, 4, 5]


async def test_retry_comes_back_later_with_its_crashes(queue: WorkQueue, run: RunUID) -> None:
    """A retried item is delayed, then leased as its next attempt; the crashes of earlier attempts are carried along."""
    await put_items(queue, run, 1)
    await lease_one(queue, run, "a", SHORT)
    lease = await take_over(queue, run, "b")
    assert await queue.retry(run, lease, delay_s=0.05, error=ItemError("provider.timeout", "slow"))
    state = await queue.state(run)
    assert (state.delayed, state.leased, state.queued, state.retries) == (1, 0, 0, {"provider.timeout": 1})
    (again,) = await eventually(lambda: queue.lease(run, worker="c", limit=1, seconds=LONG))
    assert (again.index, again.item, again.attempt, again.crashes) == (0, lease.item, 2, 1)


async def test_retry_of_a_stale_lease_changes_nothing(queue: WorkQueue, run: RunUID) -> None:
    """A late worker cannot give back what another worker has."""
    await put_items(queue, run, 1)
    late = await lease_one(queue, run, "a", SHORT)
    lease = await take_over(queue, run, "b")
    assert not await queue.retry(run, late, delay_s=0, error=ItemError("x", ""))
    assert await queue.renew(run, [lease]) == []


async def test_handed_back_items_are_leased_at_once_without_a_crash(queue: WorkQueue, run: RunUID) -> None:
    """An item that a worker hands back can be leased immediately, before newer ones, and no crash is counted."""
    await put_items(queue, run, 2)
    lease = await lease_one(queue, run, "a")
    await queue.hand_back(run, [lease])
    state = await queue.state(run)
    assert (state.queued, state.leased) == (2, 0)
    again = await lease_one(queue, run, "b")
    assert (again.index, again.crashes, again.attempt) == (0, 0, 1)
    assert await queue.complete(run, [(lease, record_of_lease(lease))]) == ["stale"]


async def test_handing_back_keeps_earlier_crashes(queue: WorkQueue, run: RunUID) -> None:
    """Handing an item back neither adds nor forgets crashes."""
    await put_items(queue, run, 1)
    await lease_one(queue, run, "a", SHORT)
    lease = await take_over(queue, run, "b")
    await queue.hand_back(run, [lease])
    assert (await lease_one(queue, run, "c")).crashes == 1
