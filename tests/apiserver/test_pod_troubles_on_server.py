"""What the real scheduler and the real Job controller say of worker pods, as our sentence has it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.port import EVENT, JOB, POD, Object
from reconcile.run.pod_troubles import workers_trouble
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.server_fixture import REAL, connected
from tests.contracts.cluster_objects import NS
from tests.reconcile.worker_job_cases import golden

pytestmark = REAL


@pytest.fixture
async def scheduled(fragile: ControlPlane) -> AsyncIterator[KubeCluster]:
    """Give a client of a cluster that has a scheduler and a Job controller, and no node."""
    fragile.start_controllers()
    fragile.start_scheduler()
    kube = connected(fragile)
    yield kube
    await kube.close()


async def trouble(cluster: KubeCluster, words: str) -> str:
    """Wait until what is wrong with the pods is said in these words, and return it: a scheduler may not have seen a new node yet."""
    found = ""
    try:
        async with asyncio.timeout(60):
            while words not in found:
                await asyncio.sleep(0.1)
                pods, events = [(await cluster.list(kind, NS)).items for kind in (POD, EVENT)]
                found = workers_trouble(pods, events)
    except TimeoutError:
        raise AssertionError(f"not {words!r}, but {found!r}") from None
    return found


def worker_job(**pod: object) -> Object:
    """Return the golden Job of one worker, with no owner and a changed pod."""
    job = golden("cluster")
    job["metadata"] = {"name": "w", "namespace": NS}
    job["spec"] |= {"parallelism": 1, "completions": 1, "maxFailedIndexes": 1}
    job["spec"]["template"]["spec"] |= pod
    return job


async def test_pods_that_nothing_can_hold(fragile: ControlPlane, scheduled: KubeCluster) -> None:
    """A cluster without a node, a missing claim, and a namespace that refuses pods are told in the words of those who found out."""
    await scheduled.create(worker_job())
    words = "the pod cannot be scheduled: no nodes available to schedule pods"
    assert await trouble(scheduled, words) == words
    await removed(scheduled)
    fragile.ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}}).close()
    await scheduled.create(worker_job())
    await trouble(scheduled, 'cannot be scheduled: 0/1 nodes are available: persistentvolumeclaim "arena-content" not found.')
    await removed(scheduled)
    await scheduled.create(worker_job(volumes=[{"name": name, "emptyDir": {}} for name in ("content", "scratch")]))
    words = "the pod cannot be scheduled: 0/1 nodes are available: 1 Too many pods."
    assert await trouble(scheduled, words) == words
    await removed(scheduled)
    assert fragile.kubectl("label", "namespace", NS, "pod-security.kubernetes.io/enforce=restricted").returncode == 0
    await scheduled.create(worker_job(securityContext={}))
    found = await trouble(scheduled, "violates PodSecurity")
    assert found.startswith("no pod can be made: Error creating: pods")


async def removed(cluster: KubeCluster) -> None:
    """Delete the Job and wait until no pod is left."""
    await cluster.delete(JOB, NS, "w")
    async with asyncio.timeout(60):
        while (await cluster.list(POD, NS)).items:  # noqa: ASYNC110 - the test is nobody's watcher
            await asyncio.sleep(0.1)
