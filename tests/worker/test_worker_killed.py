"""What a killed worker or a killed queue server leaves behind: nothing lost, nothing counted twice."""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from engine.items import Item, ItemResult
from engine.queue.embedded import EmbeddedServer
from engine.queue.redis import RedisWorkQueue
from engine.results.parts import read_line
from engine.worker import ExitReason
from engine.worker_settings import WorkerSettings
from tests.queue.conftest import synced
from tests.worker.conftest import OPTIONS, RecordingRunner, Scene, passes, result_of, until

ROOT = Path(__file__).parents[2]
ITEMS = 12
LEASE_S = 0.5


def settings_of(scene: Scene, url: str, crash_at: str) -> WorkerSettings:
    """Return the settings of a worker process with short leases that dies at `crash_at`."""
    return WorkerSettings(
        scene.run, url, scene.queue.installation, ROOT, output=scene.output, run_name="demo", concurrency=4, lease_s=LEASE_S, crash_at=crash_at
    )


async def start(settings: WorkerSettings, log: Path) -> asyncio.subprocess.Process:
    """Start a worker process."""
    program = str(ROOT / "tests/worker/killable_worker.py")
    environment = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), **settings.to_environment()}
    return await asyncio.create_subprocess_exec(sys.executable, program, str(log), env=environment, stdout=asyncio.subprocess.DEVNULL)


@pytest.mark.parametrize("point", ["worker.leased", "worker.line_written", "worker.counted"])
async def test_a_worker_killed_anywhere_loses_and_doubles_nothing(scene: Scene, redis_url: str, tmp_path: Path, point: str) -> None:
    """Killed with leases, after its lines, or after its count: another worker ends the run, each item is counted once, each record finds its line and knows that its cost lacks what went with a worker."""
    await scene.put(ITEMS)
    log = tmp_path / "requests.log"
    killed = await start(settings_of(scene, redis_url, point), log)
    assert await killed.wait() == -signal.SIGKILL
    assert ((await scene.queue.state(scene.run)).recorded > 0) is (point == "worker.counted")
    left = await scene.worker(RecordingRunner(passes), replace(OPTIONS, lease_s=LEASE_S)).work()
    records = await scene.records()
    state = await scene.queue.state(scene.run)
    assert left.reason is ExitReason.DRAINED
    assert ([record.index for record in records], state.passed, state.cost_usd) == (list(range(ITEMS)), ITEMS, 0.12)
    assert all(read_line(scene.output, record) for record in records)
    assert max(record.crashes for record in records) <= 1
    assert [record.cost_is_partial for record in records] == [record.crashes > 0 for record in records]


async def test_a_restarted_queue_server_is_survived(tmp_path: Path) -> None:
    """The server is killed while items run: the worker keeps them, and counts them when the server is back on its files."""
    server = EmbeddedServer(tmp_path / "state")
    url = await server.start()
    scene = Scene(RedisWorkQueue(url, installation=uuid4().hex), tmp_path)
    await scene.put(8)
    release = asyncio.Event()

    async def waits(item: Item, attempt: int) -> ItemResult:
        await release.wait()
        return result_of(item, attempt)

    runner = RecordingRunner(waits)
    working = asyncio.ensure_future(scene.worker(runner, replace(OPTIONS, lease_s=5.0)).work())
    await until(lambda: len(runner.now_running) == 4)
    await synced(url)
    watching = asyncio.ensure_future(server.supervise())
    os.kill(first := server.pid, signal.SIGKILL)
    release.set()
    left = await working
    state = await scene.queue.state(scene.run)
    watching.cancel()
    assert (left.reason, state.passed, server.pid != first) == (ExitReason.DRAINED, 8, True)
    assert sorted(runner.began) == [(index, 1) for index in range(8)]
    await scene.queue.close()
    await server.stop()


async def test_a_lost_second_is_run_again_and_counted_once(tmp_path: Path) -> None:
    """The append-only file's tail is cut wherever: what the store forgot is run again, by the same worker too, and every sum is right in the end."""
    server = EmbeddedServer(tmp_path / "state")
    url = await server.start()
    scene = Scene(RedisWorkQueue(url, installation=uuid4().hex), tmp_path)
    count = 60  # more than three times what a worker counts between two looks
    await scene.put(count)
    await scene.queue.lease(scene.run, worker="gone", limit=1, seconds=LEASE_S)
    await synced(url)
    files = tmp_path / "state/queue/appendonlydir"

    async def moves_on(item: Item, attempt: int) -> ItemResult:
        await asyncio.sleep(0.02)
        return result_of(item, attempt)

    working = asyncio.ensure_future(scene.worker(RecordingRunner(moves_on), replace(OPTIONS, lease_s=LEASE_S)).work())
    for cut in (1, 700, 5000):
        recorded = (await scene.queue.state(scene.run)).recorded
        await until_recorded(scene, min(count, recorded + 3))
        os.kill(server.pid, signal.SIGKILL)
        await until(lambda: not server.is_running)
        (log,) = files.glob("*.incr.aof")
        os.truncate(log, max(6000, log.stat().st_size - cut))
        await server.start()
    left = await working
    state = await scene.queue.state(scene.run)
    records = await scene.records()
    assert (left.reason, state.passed, state.cost_usd) == (ExitReason.DRAINED, count, 0.6)
    assert all(read_line(scene.output, record) for record in records)
    await scene.queue.close()
    await server.stop()


async def until_recorded(scene: Scene, count: int) -> None:
    """Wait until `count` items are counted."""
    async with asyncio.timeout(60):
        while True:
            if (await scene.queue.state(scene.run)).recorded >= count:
                return
            await asyncio.sleep(0.005)
