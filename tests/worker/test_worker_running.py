"""What a worker runs and counts, against a real queue."""

import asyncio
from dataclasses import replace

from engine.items import Item, ItemError, ItemResult, Verdict
from engine.queue.port import MAX_CRASHES
from engine.results.parts import read_line
from engine.worker import ExitReason
from tests.worker.conftest import OPTIONS, RecordingRunner, Scene, passes, result_of, until


async def test_every_item_is_run_written_and_counted(scene: Scene) -> None:
    """A worker runs every item once, counts it with the place of its whole line, closes its engine and leaves with 0."""
    await scene.put(50)
    runner = RecordingRunner(passes)
    left = await scene.worker(runner).work()
    records = await scene.records()
    assert (left.reason, left.code, runner.closed) == (ExitReason.DRAINED, 0, True)
    assert [record.index for record in records] == list(range(50))
    assert sorted(runner.began) == [(index, 1) for index in range(50)]
    lines = [read_line(scene.output, record) for record in records]
    assert all(line is not None and f'"{record.item}"'.encode() in line for line, record in zip(lines, records, strict=True))
    assert len({record.part for record in records}) == 1


async def test_no_more_than_concurrency_items_at_once(scene: Scene) -> None:
    """As many items as the worker's concurrency are in flight, and never more."""
    await scene.put(12)

    async def all_slots_are_used(item: Item, attempt: int) -> ItemResult:
        await until(lambda: max(runner.together.values()) == 3)
        return result_of(item, attempt)

    runner = RecordingRunner(all_slots_are_used)
    await scene.worker(runner, replace(OPTIONS, concurrency=3)).work()
    assert max(runner.together.values()) == 3


async def test_a_retryable_error_is_tried_again(scene: Scene) -> None:
    """An item whose first attempt fails in a way that may pass is run again as attempt two, and only that result is counted."""
    await scene.put(1)

    async def second_time_lucky(item: Item, attempt: int) -> ItemResult:
        return result_of(item, attempt, error=ItemError("provider.timeout", "slow") if attempt == 1 else None, retryable=attempt == 1)

    runner = RecordingRunner(second_time_lucky)
    await scene.worker(runner).work()
    (record,) = await scene.records()
    assert (runner.began, record.verdict, record.attempt) == ([(0, 1), (0, 2)], Verdict.PASS, 2)


async def test_used_up_attempts_are_an_error(scene: Scene) -> None:
    """An item that fails retryably at its last attempt is counted as an error."""
    await scene.put(1, attempts=2)

    async def never_answers(item: Item, attempt: int) -> ItemResult:
        return result_of(item, attempt, error=ItemError("provider.unavailable", "down"), retryable=True)

    await scene.worker(RecordingRunner(never_answers)).work()
    (record,) = await scene.records()
    assert (record.verdict, record.attempt, record.error) == (Verdict.ERROR, 2, ItemError("provider.unavailable", "down"))


async def test_an_item_that_takes_too_long_is_an_error(scene: Scene) -> None:
    """An item past its timeout is cut short and, when no attempt is left, counted as `item_timeout`."""
    await scene.put(1, attempts=1, timeout_s=0.05)

    async def hangs(_item: Item, _attempt: int) -> ItemResult:
        await asyncio.Event().wait()
        raise AssertionError

    await scene.worker(RecordingRunner(hangs)).work()
    (record,) = await scene.records()
    assert record.error is not None
    assert record.error.kind == "item_timeout"


async def test_a_fault_of_the_engine_is_one_items_error(scene: Scene) -> None:
    """An exception out of the engine is counted as that item's error; the others go on."""
    await scene.put(3)

    async def breaks_one(item: Item, attempt: int) -> ItemResult:
        if item.index == 1:
            raise ZeroDivisionError("oops")
        return result_of(item, attempt)

    await scene.worker(RecordingRunner(breaks_one)).work()
    assert [record.error and record.error.kind for record in await scene.records()] == [None, "engine", None]


async def test_long_items_keep_their_lease(scene: Scene) -> None:
    """An item that runs for longer than a lease lasts is renewed, and not taken over by a worker that looks all the time."""
    await scene.put(1)
    release = asyncio.Event()

    async def waits(item: Item, attempt: int) -> ItemResult:
        await release.wait()
        return result_of(item, attempt)

    first, second = RecordingRunner(waits), RecordingRunner(passes)
    options = replace(OPTIONS, lease_s=2.0, renew_s=0.2)  # a lease that outlasts a busy machine
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        group.create_task(scene.worker(first, options).work())
        await until(lambda: bool(first.now_running))
        group.create_task(scene.worker(second, options).work())
        loop.call_later(2.2 * options.lease_s, release.set)
    assert (len(first.began), second.began) == (1, [])


async def test_lost_work_is_aborted(scene: Scene) -> None:
    """A worker whose lease went to another stops working on the item at its next renewal; the other's count stands alone."""
    await scene.put(1)

    async def hangs(_item: Item, _attempt: int) -> ItemResult:
        await asyncio.Event().wait()
        raise AssertionError

    runner = RecordingRunner(hangs)
    worker = scene.worker(runner, replace(OPTIONS, lease_s=60.0, renew_s=1.5))
    working = asyncio.ensure_future(worker.work())
    await until(lambda: bool(runner.now_running))

    await scene.crash(1)
    await until(lambda: runner.cut_short == [0])
    worker.stop()
    await working
    assert await scene.records() == []


async def test_an_item_that_cost_five_workers_is_not_run_again(scene: Scene) -> None:
    """The sixth worker counts it as the error `crashed` and does not begin it."""
    await scene.put(1)
    await scene.crash(MAX_CRASHES)
    runner = RecordingRunner(passes)
    await scene.worker(runner, replace(OPTIONS, lease_s=0.05, renew_s=0.02)).work()
    (record,) = await scene.records()
    assert record.error is not None
    assert (record.error.kind, runner.began) == ("crashed", [])
    assert record.crashes >= MAX_CRASHES


async def test_a_poison_item_runs_alone(scene: Scene) -> None:
    """An item that has cost two workers runs while nothing else does in its worker, so that it cannot take neighbours along."""
    await scene.put(9)
    await scene.crash(2)

    async def takes_a_moment(item: Item, attempt: int) -> ItemResult:
        await asyncio.sleep(0.02)
        return result_of(item, attempt)

    runner = RecordingRunner(takes_a_moment)
    await scene.worker(runner, replace(OPTIONS, concurrency=4)).work()
    assert (await scene.queue.state(scene.run)).passed == 9
    assert runner.together[0] == 1
    assert max(runner.together.values()) > 1


async def test_accounting_goes_on_without_a_directory(scene: Scene) -> None:
    """When lines cannot be written anywhere, every item is counted all the same, and no record names a line."""
    await scene.put(5)
    scene.output = scene.output / "gone"
    left = await scene.worker(RecordingRunner(passes)).work()
    assert left.reason is ExitReason.DRAINED
    assert [record.part for record in await scene.records()] == [""] * 5
