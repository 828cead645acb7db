"""The test kubelet under the real Job controller: hand-made Jobs complete, fail by index, and end when they are deleted."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.port import EVENT, JOB, POD, Object
from reconcile.run.pod_troubles import workers_trouble
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.kubelet import Kubelet, kubelet
from tests.apiserver.server_fixture import REAL

pytestmark = REAL
NAMESPACE = "arena"


@pytest.fixture
async def node(control_plane: ControlPlane, cluster: KubeCluster, tmp_path: Path) -> AsyncIterator[Kubelet]:
    """A node that has one claim, `content`."""
    content = tmp_path / "content"
    content.mkdir()
    async with kubelet(control_plane, cluster, tmp_path / "node", namespaces=[NAMESPACE], claims={"content": content}) as own:
        yield own


def job(script: str, *, workers: int = 2, volumes: tuple[dict[str, Any], ...] = (), **container: Any) -> Object:
    """Return an Indexed Job of a shell script."""
    worker = {"name": "worker", "image": "none", "command": ["/bin/sh", "-c", script], **container}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": "hand-made", "namespace": NAMESPACE},
        "spec": {
            "parallelism": workers,
            "completions": workers,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 0,
            "maxFailedIndexes": workers,
            "template": {"spec": {"restartPolicy": "Never", "containers": [worker], "volumes": list(volumes), "terminationGracePeriodSeconds": 20}},
        },
    }


async def eventually(check: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until something is there, and return it."""
    async with asyncio.timeout(60):
        while not (found := await check()):  # noqa: ASYNC110 - the test is nobody's watcher
            await asyncio.sleep(0.05)
    return found


async def ended(cluster: KubeCluster) -> Object:
    """Return the Job when it has ended."""

    async def look() -> Object | None:
        found = await cluster.get(JOB, NAMESPACE, "hand-made")
        return found if any(c["type"] in ("Complete", "Failed") for c in found.get("status", {}).get("conditions", ())) else None

    found: Object = await eventually(look)
    return found


async def pods(cluster: KubeCluster) -> list[Object]:
    """Return the Job's pods."""
    return (await cluster.list(POD, NAMESPACE)).items


async def test_a_job_completes(node: Kubelet, cluster: KubeCluster, tmp_path: Path) -> None:
    """A Job's containers run with their environment and volumes, and the Job is complete when all of them have ended well."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": NAMESPACE}, "type": "Opaque"}
    await cluster.create({**secret, "data": {"key": base64.b64encode(b"hidden").decode()}})
    fields = {"NAME": "metadata.name", "INDEX": "metadata.labels['batch.kubernetes.io/job-completion-index']"}
    env: list[dict[str, Any]] = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    env += [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}}, {"name": "OUT", "value": "/out/$(INDEX)"}]
    mounts = [{"name": "content", "mountPath": "/out", "subPath": "a/b"}, {"name": "s", "mountPath": "/s"}, {"name": "t", "mountPath": "/scratch"}]
    volumes = ({"name": "content", "persistentVolumeClaim": {"claimName": "content"}}, {"name": "s", "secret": {"secretName": "s"}})
    script = 'echo "$HOSTNAME $KEY $(cat "$1"/key)" > "$OUT"; touch "$2"/x; echo said'
    made = job(script, env=env, args=["sh", "/s", "/scratch"], volumeMounts=mounts, volumes=(*volumes, {"name": "t", "emptyDir": {}}))
    await cluster.create(made)
    status = (await ended(cluster))["status"]
    assert (status["succeeded"], status["completedIndexes"]) == (2, "0,1")
    assert [(tmp_path / "content/a/b" / index).read_text() for index in "01"] == [f"hand-made-{index} hidden hidden\n" for index in "01"]
    assert [node.log(pod, "worker").read_text() for pod in await pods(cluster)] == ["said\n"] * 2


async def test_a_job_fails_by_index(node: Kubelet, cluster: KubeCluster) -> None:
    """The index whose container fails is failed, with its exit code, and the other is complete."""
    assert node
    index = {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}
    await cluster.create(job('exit "$((INDEX * 3))"', env=[index]))
    status = (await ended(cluster))["status"]
    assert (status["completedIndexes"], status["failedIndexes"], status["failed"]) == ("0", "1", 1)
    assert workers_trouble(await pods(cluster)) == "1 of 2 pods ended with exit code 3"


async def test_a_job_that_is_deleted(node: Kubelet, cluster: KubeCluster) -> None:
    """The processes of a deleted Job are told to end, have time for it, and then the pods are gone."""
    await cluster.create(job("trap 'echo bye; exit 0' TERM; echo hi; while :; do sleep 0.1; done"))

    async def all_say_hi() -> list[Object]:
        found = await pods(cluster)
        logs = [node.log(pod, "worker") for pod in found]
        return found if len(found) == 2 and all(log.exists() and log.read_text() == "hi\n" for log in logs) else []

    running = await eventually(all_say_hi)
    await cluster.delete(JOB, NAMESPACE, "hand-made")

    async def none_left() -> bool:
        return not await pods(cluster)

    await eventually(none_left)
    assert [node.log(pod, "worker").read_text() for pod in running] == ["hi\nbye\n"] * 2


@pytest.mark.parametrize(
    ("made", "trouble"),
    [
        pytest.param(
            job("true", workers=1, env=[{"name": "K", "valueFrom": {"secretKeyRef": {"name": "later", "key": "key"}}}]),
            'the pod cannot be configured: secret "later" not found',
            id="a Secret of the environment",
        ),
        pytest.param(
            job("true", workers=1, volumes=({"name": "v", "secret": {"secretName": "later"}},)),
            'the pod cannot mount its volumes: secret "later" not found',
            id="a Secret of a volume",
        ),
    ],
)
async def test_a_pod_waits_for_what_it_needs(node: Kubelet, cluster: KubeCluster, made: Object, trouble: str) -> None:
    """A pod that names a Secret that is not there says so, and starts when it comes."""
    assert node
    await cluster.create(made)

    async def is_said() -> bool:
        return workers_trouble(await pods(cluster), await events(cluster)) == trouble

    await eventually(is_said)
    await cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "later", "namespace": NAMESPACE}, "stringData": {"key": "x"}})
    assert (await ended(cluster))["status"]["succeeded"] == 1


async def events(cluster: KubeCluster) -> list[Object]:
    """Return the namespace's events."""
    return (await cluster.list(EVENT, NAMESPACE)).items
