"""The content volume as a process shares it: looked at before anything of it is touched, and what a probe is told of it."""

import asyncio
from pathlib import Path

import anyio.to_thread
import pytest

from arena.cluster.content import AGAIN_S, SharedContent
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
    await ended(keeping)
    root.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageFailed, match="cannot write to the content volume"):
        await content.look()


async def says(content: SharedContent, trouble: str) -> None:
    """Wait until a look finds this."""
    async with asyncio.timeout(20):
        while await content.look() != trouble:  # noqa: ASYNC110 - the test is nobody's watcher
            await asyncio.sleep(0.01)


async def ended(task: asyncio.Task[None]) -> None:
    """End a task."""
    task.cancel()
    await asyncio.wait({task})
