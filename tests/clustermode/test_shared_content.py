"""The content volume as a process shares it: looked at before anything of it is touched, and what a probe is told of it."""

import asyncio
import errno
import threading
from pathlib import Path

import anyio.to_thread
import pytest

from arena.cluster.content import AGAIN_S, HUNG_S, SharedContent
from foundation.clock import FakeClock
from gitops.errors import StorageFailed


async def test_a_volume_that_comes_late(tmp_path: Path) -> None:
    """A volume that cannot be written is looked at again and again; nothing begins before it is fit, and a probe says why."""
    clock, root = FakeClock(), tmp_path / "content"
    content = SharedContent(root, clock)
    keeping = asyncio.create_task(content.keep())
    await says(content, "the content volume cannot be read or written: No such file or directory")
    fit = asyncio.create_task(content.fit())
    root.mkdir()
    assert not fit.done()
    async with asyncio.timeout(20):
        while not fit.done():
            await clock.advance(AGAIN_S)
            await anyio.to_thread.run_sync(lambda: None)
    await says(content, "")
    await beaten(root)
    await ended(keeping)
    assert [path.name for path in root.iterdir()] == [".replicas"]


async def test_a_volume_that_goes(tmp_path: Path) -> None:
    """A volume that no longer takes a file is told of at the next look."""
    root = tmp_path / "content"
    root.mkdir()
    content = SharedContent(root, FakeClock())
    keeping = asyncio.create_task(content.keep())
    await content.fit()
    await says(content, "")
    await beaten(root)  # one that is cancelled on its way would make the folders again
    await ended(keeping)
    root.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageFailed, match="cannot write to the content volume"):
        await content.look()


async def test_a_volume_that_hangs(tmp_path: Path) -> None:
    """A volume that has not answered for a minute is told of; until then, and while it answers, it is not. A look that hangs keeps one thread."""
    clock, answering, looks = FakeClock(), threading.Event(), 0

    def touch(_: Path) -> None:
        nonlocal looks
        looks += 1
        answering.wait(60)

    answering.set()
    content = SharedContent(tmp_path, clock, touch=touch)
    hung = asyncio.create_task(content.hung())
    await passing(clock, 2 * HUNG_S)
    assert (hung.done(), looks) == (False, 0), "a volume was touched before it was known to be fit"
    keeping = asyncio.create_task(content.keep())
    await content.fit()
    await passing(clock, 2 * HUNG_S)
    assert not hung.done()
    answering.clear()
    before = looks
    await passing(clock, HUNG_S / 2)
    assert not hung.done()
    await passing(clock, HUNG_S)
    answering.set()
    async with asyncio.timeout(20):
        await hung
    assert looks <= before + 1
    await ended(keeping)


async def test_a_volume_that_refuses(tmp_path: Path) -> None:
    """A volume that refuses has answered: a full one is emptied by those who work on."""
    clock = FakeClock()

    def touch(_: Path) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    content = SharedContent(tmp_path, clock, touch=touch)
    keeping = asyncio.create_task(content.keep())
    await content.fit()
    hung = asyncio.create_task(content.hung())
    await passing(clock, 3 * HUNG_S)
    assert not hung.done()
    await ended(hung)
    await ended(keeping)


async def passing(clock: FakeClock, seconds: float) -> None:
    """Let time pass, second by second, so that threads have their turns."""
    for _ in range(int(seconds)):
        await clock.advance(1)
        await anyio.to_thread.run_sync(lambda: None)


async def says(content: SharedContent, trouble: str) -> None:
    """Wait until a look finds this."""
    async with asyncio.timeout(20):
        while await content.look() != trouble:  # noqa: ASYNC110 - the test is nobody's watcher
            await asyncio.sleep(0.01)


async def beaten(root: Path) -> None:
    """Wait until the process counts among those who share the volume."""
    async with asyncio.timeout(20):
        while not [*root.glob(".replicas/*")]:  # noqa: ASYNC110, ASYNC240 - the test is nobody's watcher
            await asyncio.sleep(0.01)


async def ended(task: asyncio.Task[None]) -> None:
    """End a task."""
    task.cancel()
    await asyncio.wait({task})
