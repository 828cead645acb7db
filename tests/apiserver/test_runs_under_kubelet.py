"""Runs from push to verdict on a real API server: our controllers, its Job controller, and real `arena worker` processes under the test kubelet."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.queue.embedded import EmbeddedServer
from engine.queue.memory import MemoryWorkQueue
from engine.queue.redis import RedisWorkQueue
from foundation.clock import FakeClock, SystemClock
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, JOB, POD, SECRET, Object, ObjectKey, ResourceKind
from reconcile.control_plane import ControlPlane as Controllers
from reconcile.control_plane import Reconcilers
from reconcile.job import JobReconciler
from reconcile.project import ProjectReconciler, ProjectWorld
from reconcile.run import RunReconciler
from reconcile.worker_job import ClusterPods
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.kubelet import Kubelet, kubelet
from tests.apiserver.server_fixture import REAL
from tests.e2e.bundles import bundle
from tests.reconcile.conftest import NAMESPACE, World

pytestmark = REAL
INSTALLATION = "test"
TEAM_SECRET = "team"
CLAIM = "arena-content"


@pytest.fixture
async def node(control_plane: ControlPlane, cluster: KubeCluster, tmp_path: Path) -> AsyncIterator[Kubelet]:
    """A node that mounts the content volume of `world`."""
    async with kubelet(control_plane, cluster, tmp_path / "node", namespaces=[NAMESPACE], claims={CLAIM: tmp_path / "content"}) as own:
        yield own


@pytest.fixture
async def world(node: Kubelet, cluster: KubeCluster, tmp_path: Path) -> AsyncIterator[World]:
    """An installation at work on the real server: controllers, queue server, content volume and a node."""
    assert node
    server = EmbeddedServer(tmp_path / "queue")
    url = await server.start()
    queue = RedisWorkQueue(url, installation=INSTALLATION)
    clock = FakeClock()
    world = World(tmp_path, MemoryWorkQueue(clock), clock, cluster=cluster)
    runs = replace(world.runs_world, queue=queue, installation=INSTALLATION, users=queue.users(url), pods=ClusterPods(INSTALLATION, CLAIM))
    projects = ProjectWorld(world.repositories, world.snapshots, world.remotes, "http://arena/git")
    reconcilers = Reconcilers(ProjectReconciler(projects), JobReconciler(world.repositories, world.volume), RunReconciler(runs))
    controllers = asyncio.ensure_future(Controllers(cluster, reconcilers, SystemClock()).run())
    try:
        yield world
        await removed(world)
    finally:
        controllers.cancel()
        await asyncio.gather(controllers, return_exceptions=True)
        await queue.close()
        await server.stop()


async def removed(world: World) -> None:
    """Delete what a test has made, while there is somebody to let go of it."""
    for kind in (ARENA_JOB, ARENA_PROJECT):
        for obj in (await world.cluster.list(kind, NAMESPACE)).items:
            await world.cluster.delete(kind, NAMESPACE, obj["metadata"]["name"])
    await eventually(lambda: nothing_left(world, ARENA_JOB, ARENA_RUN, ARENA_PROJECT, JOB, POD))


async def nothing_left(world: World, *kinds: ResourceKind) -> bool:
    """Say whether no object of these kinds is left."""
    return not any([(await world.cluster.list(kind, NAMESPACE)).items for kind in kinds])


async def eventually(check: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until something is so, and return it."""
    async with asyncio.timeout(90):
        while not (found := await check()):  # noqa: ASYNC110 - the test is nobody's watcher
            await asyncio.sleep(0.1)
    return found


async def pushed(world: World, **files: Any) -> None:
    """Create the project and push a bundle to it."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": {}})

    async def is_there() -> bool:
        return condition_of(await world.get(ARENA_PROJECT, "src"), "reason") == "RepositoryEmpty"

    await eventually(is_there)
    await world.commit(bundle(**files))
    await world.runs_world.sync_requests.request(ObjectKey(NAMESPACE, "src"), "push")


def condition_of(obj: Object, field: str) -> str:
    """Return a field of Ready, "" before anybody has looked."""
    conditions = obj.get("status", {}).get("conditions") or ()
    return next((str(found[field]) for found in conditions if found["type"] == "Ready"), "")


async def run_in(world: World, *phases: str) -> Object:
    """Wait until the only run is in one of the phases, and return it."""

    async def look() -> Object | None:
        runs = await world.runs()
        return runs[0] if runs and runs[0].get("status", {}).get("phase") in phases else None

    found: Object = await eventually(look)
    return found


async def test_from_a_push_to_a_verdict(world: World) -> None:
    """Workers that are pods work a run to its verdict as a user of the queue that goes with its Secret, and their Job is complete."""
    await pushed(world, trials=3)
    await world.job(workers={"replicas": 2, "podOverrides": {"labels": {"team": "support"}}})
    run = await run_in(world, "Succeeded", "Failed")
    assert (run["status"]["phase"], run["status"]["display"]["progress"]) == ("Succeeded", "3/3"), run["status"]
    pods = (await world.cluster.list(POD, NAMESPACE, {"team": "support"})).items
    assert "Failed" not in {pod["status"]["phase"] for pod in pods}
    assert len(pods) == 2
    await eventually(lambda: nothing_left(world, SECRET))


async def test_a_run_that_is_cancelled(world: World) -> None:
    """A cancelled run ends, and its workers' pods with it, long before their work would have been done."""
    await pushed(world, trials=200, latency_ms=2000)
    await world.job()
    run = await run_in(world, "Running")

    async def is_worked() -> bool:
        return any(pod["status"]["phase"] == "Running" for pod in (await world.cluster.list(POD, NAMESPACE)).items)

    await eventually(is_worked)
    await world.cluster.patch(ARENA_RUN, NAMESPACE, run["metadata"]["name"], {"spec": {"cancelled": True}})
    run = await run_in(world, "Cancelled", "Succeeded", "Failed")
    assert run["status"]["phase"] == "Cancelled"
    await eventually(lambda: nothing_left(world, JOB, POD))


async def test_overrides_that_the_server_refuses(world: World) -> None:
    """A run whose podOverrides make a Job that the server does not take fails for good, in the server's words."""
    await pushed(world)
    await world.job(workers={"podOverrides": {"labels": {"team": "not a label!"}}})
    run = await run_in(world, "Failed", "Succeeded")
    assert (run["status"]["phase"], condition_of(run, "reason")) == ("Failed", "InvalidSpec")
    assert condition_of(run, "message").startswith("spec.workers.podOverrides: ")
    assert "not a label!" in condition_of(run, "message")


async def test_a_pod_that_cannot_start(world: World) -> None:
    """A run says why its pod does not start, and goes on when the cause is gone."""
    await pushed(world)
    reference = {"name": "TEAM_KEY", "valueFrom": {"secretKeyRef": {"name": TEAM_SECRET, "key": "key"}}}
    await world.job(workers={"podOverrides": {"extraEnv": [reference]}})

    async def is_said() -> bool:
        runs = await world.runs()
        said = "1 worker; the pod cannot be configured: "
        return bool(runs and condition_of(runs[0], "message") == f'{said}secret "{TEAM_SECRET}" not found')

    await eventually(is_said)
    metadata = {"name": TEAM_SECRET, "namespace": NAMESPACE}
    await world.cluster.create({"apiVersion": "v1", "kind": SECRET.kind, "metadata": metadata, "stringData": {"key": "k"}})
    assert (await run_in(world, "Succeeded", "Failed"))["status"]["phase"] == "Succeeded"


async def test_a_worker_that_is_killed(world: World) -> None:
    """What a killed worker had begun is worked again by the pod that the Job controller makes in its place, and counted once."""
    await pushed(world, trials=40, latency_ms=400)
    await world.job(workers={"concurrency": 2})
    await run_in(world, "Running")

    async def workers() -> list[int]:
        runs = (await world.cluster.list(ARENA_RUN, NAMESPACE)).items
        return (
            [pid for pid in children() if has_run(pid, runs[0]["metadata"]["uid"])] if runs[0]["status"].get("progress", {}).get("completed") else []
        )

    (pid,) = await eventually(workers)
    os.kill(pid, signal.SIGKILL)
    run = await run_in(world, "Succeeded", "Failed")
    assert (run["status"]["phase"], run["status"]["display"]["progress"]) == ("Succeeded", "40/40"), run["status"]
    (job,) = await world.worker_jobs()
    assert job["status"]["failed"] == 1


async def test_a_node_that_is_lost(world: World, node: Kubelet, control_plane: ControlPlane) -> None:
    """What the workers of a lost node had begun returns when its leases end, and is worked elsewhere, counted once and held against nobody."""
    await pushed(world, trials=30, latency_ms=400)
    await world.job(workers={"concurrency": 2})
    await eventually(lambda: has_progress(world))
    await node.lose_power()
    for pod in (await world.cluster.list(POD, NAMESPACE)).items:  # as the pod garbage collector does when a node's object is gone
        name = pod["metadata"]["name"]
        gone = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}
        await world.cluster.patch_status(POD, NAMESPACE, name, {"phase": "Failed", "conditions": [gone]})
        control_plane.ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", {"gracePeriodSeconds": 0}).close()
    run = await run_in(world, "Succeeded", "Failed")
    assert (run["status"]["phase"], run["status"]["display"]["progress"]) == ("Succeeded", "30/30"), run["status"]
    (job,) = await world.worker_jobs()
    assert job["status"].get("failed", 0) == 0


async def has_progress(world: World) -> bool:
    """Say whether an item of the only run is counted."""
    return any((run.get("status") or {}).get("progress", {}).get("completed") for run in await world.runs())


def children() -> list[int]:
    """Return the processes that this one has started."""
    return [int(pid) for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()]


def has_run(pid: int, uid: str) -> bool:
    """Say whether a process is a worker of a run; one that has just ended is none."""
    try:
        return f"ARENA_RUN_UID={uid}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
