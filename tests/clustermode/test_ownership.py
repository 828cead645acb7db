"""Two clusters that share an installation name on one queue or volume: the second one leads nothing, and is told why."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from arena.cluster.ownership import MARK, Ownership
from engine.errors import QueueUnavailable
from engine.queue.embedded import EmbeddedServer
from engine.queue.redis import RedisWorkQueue
from foundation.clock import FakeClock, SystemClock
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.errors import LeadershipLost

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}


@pytest.fixture
async def queue_url(tmp_path: Path) -> AsyncIterator[str]:
    """Return the address of a real queue server."""
    server = EmbeddedServer(tmp_path / "queue", clock=SystemClock())
    yield await server.start()
    await server.stop()


async def owner(name: str, queue: RedisWorkQueue, volume: Path, clock: FakeClock) -> Ownership:
    """Return what a leader of a cluster of its own asks; its store lies on the volume, too."""
    cluster = SqliteCluster(volume / f"{name}.db", SystemClock())
    await cluster.create(NAMESPACE)
    return Ownership(cluster, queue, volume, clock)


async def test_the_first_cluster_marks_both(tmp_path: Path, queue_url: str) -> None:
    """And finds them its own ever after, whoever of its replicas leads."""
    queue = RedisWorkQueue(queue_url, installation="arena")
    first = await owner("a", queue, tmp_path, FakeClock())
    assert await first.take()
    assert await first.take()
    await first.know()
    assert (tmp_path / MARK).read_text() == await queue.claim("somebody else")
    assert [name for name in os.listdir(tmp_path) if name.startswith(MARK)] == [MARK]  # noqa: PTH208 - nothing waits
    await queue.close()


@pytest.mark.parametrize(("shared", "words"), [("queue", "delete the key arena:arena:cluster"), ("volume", f"delete the file {MARK}")])
async def test_the_second_cluster_waits(tmp_path: Path, queue_url: str, shared: str, words: str) -> None:
    """It does not lead while either belongs to another, says whose it is and what to do, and begins when the mark is gone."""
    clock, (mine, theirs) = FakeClock(), (tmp_path / "mine", tmp_path / "theirs")
    mine.mkdir()
    theirs.mkdir()
    first = RedisWorkQueue(queue_url, installation="arena")
    second = RedisWorkQueue(queue_url, installation="arena" if shared == "queue" else "other")
    assert await (await owner("a", first, mine, clock)).take()
    late = await owner("b", second, theirs if shared == "queue" else mine, clock)
    with pytest.raises(LeadershipLost, match="cannot lead"):
        await late.know()
    waiting = asyncio.create_task(late.take())
    async with asyncio.timeout(30):
        while not late.trouble:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    assert words in late.trouble
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await first.close()
    await second.close()


async def test_a_queue_that_is_away_keeps_nobody_from_leading(tmp_path: Path, queue_url: str) -> None:
    """Projects are served without it; what would be swept waits until it is known whose it is."""

    class Away(RedisWorkQueue):
        async def claim(self, owner: str) -> str:
            del owner
            raise QueueUnavailable("cannot use the queue's store: nobody answers")

    queue = Away(queue_url, installation="arena")
    assert not await (await owner("a", queue, tmp_path, FakeClock())).take()
    await queue.close()
