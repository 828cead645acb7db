"""When and how a worker leaves, against a real queue."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from engine.errors import CredentialMissing, EngineError, FeatureNotSupported
from engine.items import Item, ItemResult
from engine.plan import Plan
from engine.queue.port import Refusal
from engine.queue.store import MAX_BLOCK_S
from engine.worker import ExitReason, Worker
from foundation.clock import SystemClock
from tests.worker.conftest import LEASE_S, OPTIONS, RecordingRunner, Scene, passes, result_of, until


async def test_a_clean_stop_ends_the_begun_and_hands_back_the_rest(scene: Scene) -> None:
    """After `stop` nothing new begins; what runs is counted; what was leased ahead is in the queue at once, without a crash."""
    await scene.put(40)
    release = asyncio.Event()

    async def waits(item: Item, attempt: int) -> ItemResult:
        if item.index >= 4:
            await release.wait()
        return result_of(item, attempt)

    runner = RecordingRunner(waits)
    worker = scene.worker(runner, replace(OPTIONS, concurrency=4))
    working = asyncio.ensure_future(worker.work())
    await until(lambda: len(runner.now_running) == 4)
    worker.stop()
    release.set()
    left = await working
    state = await scene.queue.state(scene.run)
    assert (left.reason, left.code) == (ExitReason.SIGNALLED, 143)
    assert (state.recorded, state.leased, state.queued) == (len(runner.began), 0, 40 - len(runner.began))
    assert {lease.crashes for lease in await scene.queue.lease(scene.run, worker="next", limit=40, seconds=LEASE_S)} == {0}


@pytest.mark.parametrize("how", ["the grace is over", "a second stop"])
async def test_begun_items_that_do_not_end_are_handed_back(scene: Scene, how: str) -> None:
    """What does not end within the grace, or before a second stop, is cut short and can be leased at once without a crash."""
    await scene.put(1)

    async def hangs(_item: Item, _attempt: int) -> ItemResult:
        await asyncio.Event().wait()
        raise AssertionError

    runner = RecordingRunner(hangs)
    worker = scene.worker(runner, replace(OPTIONS, grace_s=0.05 if how == "the grace is over" else 60.0))
    working = asyncio.ensure_future(worker.work())
    await until(lambda: bool(runner.now_running))
    worker.stop()
    if how == "a second stop":
        worker.stop()
    await working
    (lease,) = await scene.queue.lease(scene.run, worker="next", limit=1, seconds=LEASE_S)
    assert (lease.crashes, lease.attempt, runner.cut_short) == (0, 1, [0])


async def test_a_plan_of_another_version_is_not_touched(scene: Scene) -> None:
    """A worker of another engine version leases nothing, says so, and has an exit code of its own."""
    await scene.put(1, version="0-other")
    runner = RecordingRunner(passes)
    left = await scene.worker(runner).work()
    assert (left.reason, left.code, runner.began) == (ExitReason.VERSION_MISMATCH, 78, [])
    assert "0-other" in left.message
    assert (await scene.queue.state(scene.run)).queued == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(CredentialMissing("provider 'gpt' needs OPENAI_API_KEY", hint="set it"), "credential_missing", id="a key is missing"),
        pytest.param(FeatureNotSupported("arena[vertex] is not installed", hint="set it"), "not_supported", id="an extra is missing"),
    ],
)
async def test_a_run_that_cannot_be_begun_is_refused(scene: Scene, error: EngineError, kind: str) -> None:
    """What every worker of a run lacks stops the run before its first item, with the cause, and the worker leaves with 0: nothing is left to do."""
    await scene.put(2)

    def refuse(_plan: Plan) -> RecordingRunner:
        raise error

    left = await Worker(scene.queue, scene.run, refuse, scene.output, OPTIONS, SystemClock()).work()
    state = await scene.queue.state(scene.run)
    assert (left.reason, left.code, state.stopped, state.leased) == (ExitReason.REFUSED, 0, "refused", 0)
    assert state.refusal == Refusal(kind, f"{error.message}; set it")


async def test_a_settled_run_is_left_with_zero(scene: Scene) -> None:
    """A late worker that finds the mark `settled` has nothing to do."""
    await scene.put(1)
    await scene.queue.settle(scene.run)
    left = await scene.worker(RecordingRunner(passes)).work()
    assert (left.reason, left.code) == (ExitReason.SETTLED, 0)


async def test_an_unknown_run_is_asked_for_until_patience_ends(scene: Scene) -> None:
    """Neither keys nor mark: the worker asks again for its patience, then leaves with 1."""
    left = await scene.worker(RecordingRunner(passes), replace(OPTIONS, patience_s=0.2)).work()
    assert (left.reason, left.code) == (ExitReason.QUEUE_LOST, 1)


async def test_a_run_that_is_put_late_is_worked_on(scene: Scene) -> None:
    """A worker that came before the run's keys finds them when they come."""
    working = asyncio.ensure_future(scene.worker(RecordingRunner(passes)).work())
    await scene.put(3)
    assert (await working).reason is ExitReason.DRAINED


async def test_a_stopped_run_is_left_when_the_begun_have_ended(scene: Scene) -> None:
    """After a stop the worker begins nothing, ends what it has begun, and leaves with 0; the rest can be skipped at once."""
    await scene.put(20)
    release = asyncio.Event()

    async def waits(item: Item, attempt: int) -> ItemResult:
        await release.wait()
        return result_of(item, attempt)

    runner = RecordingRunner(waits)
    working = asyncio.ensure_future(scene.worker(runner, replace(OPTIONS, concurrency=4)).work())
    await until(lambda: len(runner.now_running) == 4)
    await scene.queue.stop(scene.run, "cancelled")
    skipped = await scene.queue.skip_unbegun(scene.run, at=datetime.now(UTC))
    release.set()
    left = await working
    state = await scene.queue.state(scene.run)
    assert left.reason in {ExitReason.STOPPED, ExitReason.DRAINED}  # whichever it hears of first
    assert (left.code, skipped, state.passed, state.drained) == (0, 16, 4, True)


async def test_an_idle_worker_leaves_as_the_run_drains(scene: Scene) -> None:
    """A worker without work is woken by the last count of another, and leaves long before its next look."""
    await scene.put(1)
    release = asyncio.Event()

    async def waits(item: Item, attempt: int) -> ItemResult:
        await release.wait()
        return result_of(item, attempt)

    busy = RecordingRunner(waits)
    first = asyncio.ensure_future(scene.worker(busy, replace(OPTIONS, lease_s=30.0)).work())
    await until(lambda: bool(busy.now_running))
    idle = asyncio.ensure_future(scene.worker(RecordingRunner(passes), replace(OPTIONS, lease_s=30.0)).work())
    release.set()
    async with asyncio.timeout(MAX_BLOCK_S - 1):  # after which it would have looked by itself
        exits = [(await each).reason for each in (first, idle)]
    assert set(exits) == {ExitReason.DRAINED}
