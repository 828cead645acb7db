"""A run whose workers are pods of a cluster: what it says of pods that do not run, and what it makes of podOverrides."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconcile.cluster.port import EVENT, JOB, POD, Object
from reconcile.cluster.port import NAMESPACE as NAMESPACE_KIND
from reconcile.kinds.names import RUN_LABEL
from reconcile.run import RunReconciler
from reconcile.run.worker_pods import LOOK_EVERY_S
from reconcile.runtime.controller import Controller, ControllerOptions
from reconcile.worker_job import SecretValue
from tests.reconcile.conftest import NAMESPACE, World, condition, started
from tests.reconcile.worker_job_cases import PODS


@pytest.fixture
def podded(world: World) -> World:
    """A control plane whose runs are worked by pods."""
    reconciler = RunReconciler(replace(world.runs_world, pods=PODS, shared_queue=SecretValue("queue", "url")))
    world.controllers["ArenaRun"] = Controller(world.cluster, reconciler, clock=world.clock, options=ControllerOptions(debug=True))
    return world


async def set_pod(world: World, run: Object, status: Mapping[str, Any]) -> Object:
    """Create a pod of a run's worker, if there is none, and give it a status."""
    name = f"{run['metadata']['name']}-worker-0-abcde"
    if not (await world.cluster.list(POD, NAMESPACE)).items:
        labels = {RUN_LABEL: run["metadata"]["name"]}
        await world.apply(POD, name, {"containers": [{"name": "worker", "image": "arena:test"}]}, labels=labels)
    return await world.cluster.patch_status(POD, NAMESPACE, name, {"phase": "Pending", **status})


async def said(world: World) -> str:
    """Look at the run once more, after the time that a look holds, and return its message."""
    await world.clock.advance(LOOK_EVERY_S)
    await world.look_at_all()
    return str(condition(await world.run())["message"])


async def test_an_unschedulable_pod_is_told(podded: World) -> None:
    """A run says why its pod has no node, as long as it has none."""
    run = await started(podded)
    blocked = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}
    await set_pod(podded, run, {"conditions": [blocked]})
    assert await said(podded) == "1 worker; the pod cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu."
    await set_pod(podded, run, {"conditions": [{"type": "PodScheduled", "status": "True"}], "phase": "Running"})
    assert await said(podded) == "1 worker"


async def test_a_failing_mount_is_told(podded: World) -> None:
    """A run says why its pod's volume cannot be mounted, which events alone tell."""
    run = await started(podded)
    pod = await set_pod(podded, run, {"conditions": [{"type": "PodScheduled", "status": "True"}]})
    event = {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": "e", "namespace": NAMESPACE},
        "type": "Warning",
        "reason": "FailedMount",
        "message": "exit status 32",
        "involvedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    await podded.cluster.create(event)
    assert await said(podded) == "1 worker; the pod cannot mount its volumes: exit status 32"


async def test_workers_of_a_namespace_that_is_deleted_are_let_go(podded: World) -> None:
    """When the namespace of a run is being deleted, the run deletes its Job, which otherwise keeps a pod that the namespace waits for; not before."""
    run = await started(podded)
    held = {"name": "pod", "namespace": NAMESPACE, "labels": {RUN_LABEL: run["metadata"]["name"]}, "finalizers": ["batch.kubernetes.io/job-tracking"]}
    spec = {"containers": [{"name": "worker", "image": "arena:test"}]}
    await podded.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": held, "spec": spec})
    await podded.cluster.delete(POD, NAMESPACE, "pod")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "finalizers": ["example.com/pods"]}}
    await podded.cluster.create(namespace)
    await said(podded)
    assert await podded.worker_jobs()
    await podded.cluster.delete(NAMESPACE_KIND, None, NAMESPACE)
    await podded.clock.advance(LOOK_EVERY_S)  # looks that find the same become rarer
    assert await said(podded) == "1 worker; the namespace is being deleted"
    assert await podded.worker_jobs() == []


async def test_a_machine_of_processes_has_no_pods(world: World) -> None:
    """Where workers are processes nothing looks at pods, even if there are some."""
    run = await started(world)
    await set_pod(world, run, {"phase": "Unknown"})
    assert await said(world) == "1 worker"


async def test_what_processes_wait_for_is_told(world: World) -> None:
    """Where workers are processes their Job says what they wait for, and the run says it."""
    run = await started(world)
    waiting = {"type": "Waiting", "status": "True", "reason": "NotThere", "message": "Secret 'team'", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await world.cluster.patch_status(JOB, NAMESPACE, f"{run['metadata']['name']}-worker", {"conditions": [waiting]})
    assert await said(world) == "1 worker; the workers wait for Secret 'team'"


async def test_an_unchanged_trouble_is_not_written_twice(podded: World) -> None:
    """Looks that find the same write nothing."""
    run = await started(podded)
    await set_pod(podded, run, {"phase": "Unknown"})
    await said(podded)
    before = (await podded.run())["metadata"]["resourceVersion"]
    await said(podded)
    assert (await podded.run())["metadata"]["resourceVersion"] == before


async def test_overrides_reach_the_pods(podded: World) -> None:
    """On a cluster a job's podOverrides are laid over its pods."""
    await started(podded, workers={"podOverrides": {"nodeSelector": {"pool": "batch"}}})
    (job,) = await podded.worker_jobs()
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "batch"}


async def test_overrides_that_clash_start_nothing(podded: World) -> None:
    """A run whose podOverrides clash with what is Arena's fails before anything starts, naming the field."""
    run = await started(podded, workers={"podOverrides": {"extraEnv": [{"name": "LOG_LEVEL", "value": "x"}]}})
    assert (run["status"]["phase"], condition(run)["reason"]) == ("Failed", "InvalidSpec")
    assert "extraEnv[0]: variable 'LOG_LEVEL' is Arena's own" in condition(run)["message"]
    assert await podded.worker_jobs() == []


async def test_overrides_on_one_machine(world: World) -> None:
    """Where workers are processes they get the variables of podOverrides, and the run says of the other fields that nothing comes of them."""
    await started(world, workers={"podOverrides": {"nodeSelector": {"pool": "batch"}, "extraEnv": [{"name": "TEAM", "value": "support"}]}})
    (job,) = await world.worker_jobs()
    pod = job["spec"]["template"]["spec"]
    assert ({"name": "TEAM", "value": "support"} in pod["containers"][0]["env"], "nodeSelector" in pod) == (True, False)
    (ignored,) = await world.events("FieldIgnored")
    assert "spec.workers.podOverrides.nodeSelector" in ignored


@pytest.mark.parametrize(
    ("overrides", "reason", "message"),
    [
        pytest.param({"extraVolumes": [{"name": "v", "emptyDir": {}}]}, "NotSupported", "podOverrides.extraVolumes", id="volumes"),
        pytest.param(
            {"extraEnv": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
            "InvalidSpec",
            "extraEnv[0]: 'fieldRef' is known of pods alone",
            id="a fact of a pod",
        ),
        pytest.param({"extraEnv": [{"name": "REDIS_URL"}]}, "InvalidSpec", "variable 'REDIS_URL' is Arena's own", id="a variable of ours"),
    ],
)
async def test_what_only_pods_have_starts_nothing_on_one_machine(world: World, overrides: Mapping[str, Any], reason: str, message: str) -> None:
    """A process of this machine has no volumes and no node, so a run that needs them fails by name before anything starts."""
    run = await started(world, workers={"podOverrides": overrides})
    assert (run["status"]["phase"], condition(run)["reason"]) == ("Failed", reason)
    assert message in condition(run)["message"]
    assert await world.worker_jobs() == []
