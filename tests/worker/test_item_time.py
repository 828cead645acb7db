"""Rules of an item's time: what it waits for a turn does not count."""

import asyncio

from engine.item_time import counted_by, not_counted


async def test_a_wait_for_a_turn_does_not_count() -> None:
    """An item that waits far beyond its time for a turn does not time out, and has the rest of its time afterwards."""
    opened = asyncio.Event()

    async def item() -> float:
        async with asyncio.timeout(0.05) as limit:
            with counted_by(limit):
                with not_counted():
                    assert limit.when() is None
                    await opened.wait()
                when = limit.when()
                assert when is not None
                return when - asyncio.get_running_loop().time()

    running = asyncio.create_task(item())
    await asyncio.wait([running], timeout=0.2)
    opened.set()
    assert 0 < await running <= 0.051  # times of a loop are to the millisecond


async def test_time_goes_on_once_nobody_waits() -> None:
    """Of two branches that wait at once, the last one starts the time again."""
    async with asyncio.timeout(60) as limit:
        with counted_by(limit):
            with not_counted():
                with not_counted():
                    pass
                assert limit.when() is None
            await asyncio.sleep(0)
            assert limit.when() is not None


async def test_branches_count_to_the_item_that_started_them() -> None:
    """A task within the item stops the item's time, and a task of another item does not."""
    waiting, opened = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        with not_counted():
            waiting.set()
            await opened.wait()

    async def item(limit: asyncio.Timeout) -> None:
        with counted_by(limit):
            async with asyncio.TaskGroup() as group:
                group.create_task(wait())

    async with asyncio.timeout(60) as mine, asyncio.timeout(60) as other:
        running = asyncio.create_task(item(mine))
        with counted_by(other):
            await waiting.wait()
            assert mine.when() is None
            assert other.when() is not None
        opened.set()
        await running
        assert mine.when() is not None


async def test_outside_of_items_nothing_changes() -> None:
    """A judge that is asked where no item runs waits as it likes."""
    with not_counted():
        await asyncio.sleep(0)
