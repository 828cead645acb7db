"""What the controllers ask of a real API server: every request of a run, and nothing but a look now and then while nothing happens."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from engine.queue.embedded import EmbeddedServer
from engine.queue.memory import MemoryWorkQueue
from engine.queue.redis import RedisWorkQueue
from foundation.clock import FakeClock, SystemClock
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.kube_access import by_kubeconfig
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, JOB, POD
from reconcile.control_plane import ControlPlane as Controllers
from reconcile.control_plane import Reconcilers
from reconcile.job import JobReconciler
from reconcile.kinds.names import REQUESTED_RUN, TERMINAL_PHASES
from reconcile.project import ProjectReconciler, ProjectWorld
from reconcile.run import RunReconciler
from reconcile.runtime.controller import ControllerOptions
from reconcile.worker_job import ClusterPods
from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane, kubeconfig
from tests.apiserver.kubelet import kubelet
from tests.apiserver.proxy import ApiProxy, proxied
from tests.apiserver.server_fixture import REAL
from tests.apiserver.test_runs_under_kubelet import eventually, nothing_left, pushed
from tests.reconcile.conftest import BUNDLE, NAMESPACE, World

pytestmark = REAL
USUAL, OFTEN = timedelta(seconds=30), timedelta(seconds=1)
"""How often everything is looked at."""
CLAIM = "arena-content"

OF_A_RUN: Mapping[str, int] = {
    "create arenaruns": 1,
    "patch arenaruns": 1,
    "patch arenaruns/status": 15,
    "patch arenajobs/status": 4,
    "create jobs": 1,
    "create secrets": 1,
    "create events": 3,
    "delete secrets": 1,
    "get arenajobs": 2,
    "get arenaprojects": 2,
    "get arenaruns": 3,
    "get jobs": 6,
    "get namespaces": 2,
    "get workspaces": 2,
    "get secrets": 5,
    "list arenaruns": 3,
    "list events": 6,
    "list pods": 3,
}
"""The most that one run, which waits for nothing and ends well, may ask for, by verb and resource; what is not named it may not ask for.

Where it depends on how long a worker takes to start and to end, that is half as much again as was measured."""


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[ApiProxy]:
    """A proxy that counts what the controllers ask for, and nobody else."""
    async with proxied(control_plane) as own:
        yield own


@pytest.fixture
async def counted(proxy: ApiProxy, tmp_path: Path) -> AsyncIterator[KubeCluster]:
    """The controllers' client, which goes through the proxy."""
    config = tmp_path / "proxied"
    config.write_text(yaml.safe_dump(kubeconfig(proxy.url, proxy.plane.ca_file, {"token": ADMIN_TOKEN})))
    client = KubeCluster(by_kubeconfig(str(config)), SystemClock())
    yield client
    await client.close()


@pytest.fixture
def resync() -> timedelta:
    """How often the controllers look at everything."""
    return USUAL


@pytest.fixture
async def world(control_plane: ControlPlane, cluster: KubeCluster, counted: KubeCluster, resync: timedelta, tmp_path: Path) -> AsyncIterator[World]:
    """An installation at work on the real server, with a node; what a test does itself is not counted."""
    async with kubelet(control_plane, cluster, tmp_path / "node", namespaces=[NAMESPACE], claims={CLAIM: tmp_path / "content"}):
        clock = FakeClock()
        world = World(tmp_path, MemoryWorkQueue(clock), clock, cluster=cluster)
        async with controllers(world, counted, tmp_path / "queue", resync):
            yield world
            for kind in (ARENA_JOB, ARENA_RUN, ARENA_PROJECT):
                for obj in (await cluster.list(kind, NAMESPACE)).items:
                    await cluster.delete(kind, NAMESPACE, obj["metadata"]["name"])
            await eventually(lambda: nothing_left(world, ARENA_JOB, ARENA_RUN, ARENA_PROJECT, JOB, POD))


@asynccontextmanager
async def controllers(world: World, cluster: KubeCluster, folder: Path, resync: timedelta) -> AsyncIterator[None]:
    """Run the reconcilers."""
    server = EmbeddedServer(folder)
    url = await server.start()
    queue = RedisWorkQueue(url, installation="test")
    runs = replace(world.runs_world, queue=queue, installation="test", users=queue.users(url), pods=ClusterPods("test", CLAIM))
    projects = ProjectWorld(world.repositories, world.snapshots, world.remotes, "http://arena/git")
    reconcilers = Reconcilers(ProjectReconciler(projects), JobReconciler(world.repositories, world.volume), RunReconciler(runs))
    running = asyncio.ensure_future(Controllers(cluster, reconcilers, SystemClock(), options=ControllerOptions(resync=resync)).run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await queue.close()
        await server.stop()


async def quiet(proxy: ApiProxy, seconds: float = 3.0) -> None:
    """Wait until nothing was written for some seconds."""
    async with asyncio.timeout(60):
        while True:
            before = writes(proxy.asked)
            await asyncio.sleep(seconds)
            if writes(proxy.asked) == before:
                return


def writes(asked: Mapping[str, int]) -> dict[str, int]:
    """Return the requests that change something."""
    return {words: number for words, number in asked.items() if words.split()[0] not in ("get", "list", "watch")}


async def all_ended(world: World) -> bool:
    """Say whether there are runs, and each has ended and was tidied."""
    runs = await world.runs()
    return bool(runs) and all((run.get("status") or {}).get("phase") in TERMINAL_PHASES and run["status"].get("tidied") for run in runs)


def beyond(asked: Mapping[str, int], most: Mapping[str, int], aside: Iterable[str] = ()) -> dict[str, int]:
    """Return what was asked for more often than it may be."""
    return {words: number for words, number in asked.items() if words not in aside and number > most.get(words, 0)}


async def test_the_requests_of_a_run(world: World, proxy: ApiProxy) -> None:
    """A run, from the request for it to the end of its tidying, asks no more of the API server than the table says."""
    await pushed(world, trials=3)
    await world.job()
    await eventually(lambda: all_ended(world))
    await quiet(proxy)
    proxy.asked.clear()
    await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"metadata": {"annotations": {REQUESTED_RUN: "again"}}})

    async def has_begun() -> bool:
        return len(await world.runs()) > 1

    await eventually(has_begun)
    await eventually(lambda: all_ended(world))
    await quiet(proxy)
    asked = Counter(proxy.asked)
    assert beyond(asked, OF_A_RUN) == {}, dict(sorted(asked.items()))


@pytest.mark.parametrize("resync", [OFTEN])
async def test_an_idle_installation_writes_nothing(world: World, proxy: ApiProxy) -> None:
    """However often everything is looked at, nothing is written while nothing happens.

    There is a run that has ended, one that waits, a job that is suspended, a project that is, and one whose remote is polled: that a fetch was good
    is written after each poll, and nothing else.
    """
    await pushed(world)
    await world.job()
    await eventually(lambda: all_ended(world))
    await world.apply(ARENA_PROJECT, "empty", {"hosted": {}})
    await world.apply(ARENA_JOB, "waits", {"sourceRef": {"name": "empty"}})
    await world.apply(ARENA_JOB, "rests", {"sourceRef": {"name": "src"}, "suspend": True})
    upstream = world.remotes.upstream()
    upstream.commit(files={name: text.encode() for name, text in BUNDLE.items()})
    await world.apply(ARENA_PROJECT, "mirror", {"external": {"url": upstream.url, "pollInterval": "10s"}})
    await world.apply(ARENA_PROJECT, "still", {"external": {"url": upstream.url}, "suspend": True})

    await next_poll(world)
    await quiet(proxy)
    await next_poll(world)
    await quiet(proxy)  # so what that poll wrote is there, and the next one is seconds away
    proxy.asked.clear()
    polls = len(world.remotes.fetched)
    await next_poll(world)
    await quiet(proxy)
    polled = len(world.remotes.fetched) - polls
    assert beyond(writes(proxy.asked), {"patch arenaprojects/status": polled}) == {}, dict(sorted(proxy.asked.items()))


async def next_poll(world: World) -> None:
    """Wait until a remote has been fetched once more."""
    before = len(world.remotes.fetched)

    async def has_polled() -> bool:
        return len(world.remotes.fetched) > before

    await eventually(has_polled)


async def test_a_server_that_turns_requests_away(counted: KubeCluster, proxy: ApiProxy) -> None:
    """Requests that are answered with 429 come again after the time that the server named, and all are answered."""
    proxy.busy = 3
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(60):
        await asyncio.gather(*(counted.list(ARENA_RUN, NAMESPACE) for _ in range(3)))
    assert asyncio.get_running_loop().time() - began >= proxy.retry_after_s
    assert proxy.asked["list arenaruns"] == 6
