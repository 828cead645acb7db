"""How the tasks of a server end: at once, and also when a cancellation was swallowed deep inside."""

import asyncio
import contextlib

import pytest

import arena.signals
from arena.signals import ended


async def forever() -> None:
    """Live until cancelled."""
    await asyncio.Event().wait()


async def deaf(times: int) -> None:
    """Swallow so many cancellations, as a library does that takes one for its own."""
    for _ in range(times):
        with contextlib.suppress(asyncio.CancelledError):
            await forever()
    await forever()


async def group_of(times: int) -> None:
    """Wait for children, one of which is deaf."""
    async with asyncio.TaskGroup() as group:
        group.create_task(forever())
        group.create_task(deaf(times))


@pytest.mark.parametrize("times", [0, 1, 3])
async def test_tasks_end_however_deaf_they_are(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """A child that swallowed its cancellation is asked again, though its group passes no second one on."""
    monkeypatch.setattr(arena.signals, "AGAIN_S", 0.05)
    tasks = [asyncio.create_task(group_of(times)), asyncio.create_task(forever())]
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await ended(tasks)
    assert all(task.done() for task in tasks)


async def test_nothing_to_end() -> None:
    """No tasks, no waiting."""
    await ended([])
