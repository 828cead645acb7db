"""The reconcilers of the spine on a real API server, beside its own Job, garbage and namespace controllers: no controller knows the difference."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from engine.queue.memory import MemoryWorkQueue
from foundation.clock import FakeClock
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, JOB, POD, Object, ResourceKind
from reconcile.errors import NotFound
from tests.apiserver.server_fixture import REAL
from tests.reconcile.conftest import NAMESPACE, World, cancel, condition, started

pytestmark = REAL


@pytest.fixture
def world(tmp_path: Path, cluster: KubeCluster) -> World:
    """A control plane over the real server in which nothing has happened yet."""
    clock = FakeClock()
    return World(tmp_path, MemoryWorkQueue(clock), clock, cluster=cluster)


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the server's own controllers have done their part."""
    async with asyncio.timeout(30):
        while not await check():  # noqa: ASYNC110 - the test is nobody's watcher
            await asyncio.sleep(0.05)


async def is_gone(world: World, kind: ResourceKind, name: str) -> bool:
    """Say whether an object no longer exists."""
    try:
        await world.get(kind, name)
    except NotFound:
        return True
    return False


async def versions(world: World) -> dict[str, str]:
    """Return the version of every object of ours."""
    objects: list[Object] = [obj for kind in (ARENA_PROJECT, ARENA_JOB, ARENA_RUN) for obj in (await world.cluster.list(kind)).items]
    return {obj["metadata"]["uid"]: obj["metadata"]["resourceVersion"] for obj in objects}


async def test_from_a_commit_to_a_verdict(world: World) -> None:
    """A run is pinned, planned, given a worker Job that the real Job controller makes pods of, counted and settled."""
    run = await started(world, trials=3)
    name = run["metadata"]["name"]
    assert condition(run)["reason"] == "WorkersRunning"

    async def has_a_pod() -> bool:
        return bool((await world.cluster.list(POD, NAMESPACE, {"batch.kubernetes.io/job-name": f"{name}-worker"})).items)

    await eventually(has_a_pod)
    assert await world.work(run) == 3
    await world.look_at_all(2)
    run = await world.run()
    assert (run["status"]["phase"], run["status"]["display"]["progress"]) == ("Succeeded", "3/3")
    assert (await world.get(ARENA_JOB, "eval"))["status"]["lastRunRef"]["name"] == name


async def test_an_unchanged_world_is_not_written(world: World) -> None:
    """Passes that find nothing new write nothing, while a run works and after it has ended."""
    run = await started(world)
    await world.look_at_all(2)
    before = await versions(world)
    await world.look_at_all(2)
    assert await versions(world) == before
    await world.work(run)
    await world.look_at_all(3)
    before = await versions(world)
    await world.look_at_all(2)
    assert await versions(world) == before


async def test_a_run_that_is_cancelled(world: World) -> None:
    """A cancelled run ends, and its worker Job and pods go."""
    run = await started(world, trials=3)
    await cancel(world)
    await world.look_at_all(4)
    run = await world.run()
    assert (run["status"]["phase"], condition(run)["reason"]) == ("Cancelled", "Cancelled")
    await eventually(lambda: is_gone(world, JOB, f"{run['metadata']['name']}-worker"))


async def test_a_job_that_is_deleted(world: World) -> None:
    """Deleting a job takes its runs with it, whose finalizers are let go by their reconciler, and their worker Jobs."""
    run = await started(world, trials=3)
    name = run["metadata"]["name"]
    await world.cluster.delete(ARENA_JOB, NAMESPACE, "eval")

    async def is_over() -> bool:
        await world.look_at_all()
        return await is_gone(world, ARENA_RUN, name)

    await eventually(is_over)
    await eventually(lambda: is_gone(world, JOB, f"{name}-worker"))
    assert not world.volume.run(NAMESPACE, name).exists()
