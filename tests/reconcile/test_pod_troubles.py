"""Why worker pods do not run: statuses and events as kubelets and schedulers write them."""

from typing import Any

import pytest

from reconcile.run.pod_troubles import MAX_CAUSE, pod_trouble, workers_trouble

IMAGE = "registry.example.com/arena:1.2.3"
SCHEDULED = {"type": "PodScheduled", "status": "True"}
CREATING = {"waiting": {"reason": "ContainerCreating"}}


def pod(state: dict[str, Any] | None = None, *, name: str = "w-0-abcde", index: str = "0", made: str = "12:00:00", **status: Any) -> dict[str, Any]:
    """Return a pod of one container in a state."""
    found = {"containerStatuses": [{"name": "worker", "image": IMAGE, "state": state}]} if state else {}
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "creationTimestamp": f"2026-01-01T{made}Z",
        "annotations": {"batch.kubernetes.io/job-completion-index": index},
    }
    return {"metadata": metadata, "status": {"phase": "Pending", "conditions": [SCHEDULED], **found, **status}}


def warning(reason: str, message: str, *, of: str = "w-0-abcde", at: str = "12:00:00") -> dict[str, Any]:
    """Return an event about a pod."""
    about = {"kind": "Pod", "name": of, "uid": f"uid-{of}"}
    return {"type": "Warning", "reason": reason, "message": message, "involvedObject": about, "lastTimestamp": f"2026-01-01T{at}Z"}


def unschedulable(message: str, reason: str = "Unschedulable") -> dict[str, Any]:
    """Return the conditions of a pod that has no node."""
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(pod(CREATING), "", id="being created"),
        pytest.param(pod({"running": {"startedAt": "2026-01-01T12:00:00Z"}}, phase="Running"), "", id="running"),
        pytest.param(pod({"terminated": {"exitCode": 0, "reason": "Completed"}}, phase="Succeeded"), "", id="done"),
        pytest.param({"metadata": {"name": "w"}}, "", id="nothing known yet"),
        pytest.param(
            pod(**unschedulable("0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found.")),
            "cannot be scheduled: 0/3 nodes are available: 3 Insufficient cpu.",
            id="no room",
        ),
        pytest.param(
            pod(
                **unschedulable(
                    "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found."
                )
            ),
            "cannot be scheduled: 0/3 nodes are available: 3 Insufficient cpu.",
            id="no room, as of Kubernetes 1.34",
        ),
        pytest.param(
            pod(**unschedulable('0/1 nodes are available: persistentvolumeclaim "arena-content" not found. not found')),
            'cannot be scheduled: 0/1 nodes are available: persistentvolumeclaim "arena-content" not found. not found',
            id="no such claim",
        ),
        pytest.param(
            pod(**unschedulable("Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated")),
            "cannot be scheduled: Scheduling is blocked due to non-empty scheduling gates",
            id="gated",
        ),
        pytest.param(
            pod({"waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{IMAGE}"'}}),
            f"cannot pull image '{IMAGE}': Back-off pulling image \"{IMAGE}\"",
            id="pulling is put off",
        ),
        pytest.param(
            pod({"waiting": {"reason": "ErrImagePull", "message": "rpc error: code = NotFound desc = failed to pull:\n  not found"}}),
            f"cannot pull image '{IMAGE}': rpc error: code = NotFound desc = failed to pull: not found",
            id="no such image",
        ),
        pytest.param(
            pod({"waiting": {"reason": "InvalidImageName", "message": 'couldn\'t parse image name "A": invalid reference format'}}),
            f"cannot pull image '{IMAGE}': couldn't parse image name \"A\": invalid reference format",
            id="an image name that is none",
        ),
        pytest.param(
            pod({"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "eval-queue" not found'}}),
            'cannot be configured: secret "eval-queue" not found',
            id="a Secret is missing",
        ),
        pytest.param(
            pod({"waiting": {"reason": "CreateContainerConfigError", "message": "container has runAsNonRoot and image will run as root"}}),
            "cannot be configured: container has runAsNonRoot and image will run as root",
            id="root is not allowed",
        ),
        pytest.param(
            pod({"waiting": {"reason": "CreateContainerError", "message": "failed to generate container spec"}}),
            "cannot start: failed to generate container spec",
            id="the runtime refuses",
        ),
        pytest.param(
            pod(
                {"terminated": {"exitCode": 128, "reason": "StartError", "message": 'exec: "arena": executable file not found in $PATH'}},
                phase="Failed",
            ),
            'cannot start: exec: "arena": executable file not found in $PATH',
            id="no such program",
        ),
        pytest.param(pod({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, phase="Failed"), "was killed: out of memory", id="out of memory"),
        pytest.param(pod({"terminated": {"exitCode": 1, "reason": "Error"}}, phase="Failed"), "ended with exit code 1", id="failed"),
        pytest.param(
            pod(phase="Failed", reason="Evicted", message="The node was low on resource: ephemeral-storage. "),
            "was evicted: The node was low on resource: ephemeral-storage.",
            id="evicted",
        ),
        pytest.param(
            pod(
                {"terminated": {"exitCode": 137, "reason": "Error"}},
                phase="Failed",
                conditions=[
                    SCHEDULED,
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "DeletionByTaintManager",
                        "message": "Taint manager: deleting due to NoExecute taint",
                    },
                ],
            ),
            "was removed from its node: Taint manager: deleting due to NoExecute taint",
            id="drained",
        ),
        pytest.param(pod({"running": {}}, phase="Running", reason="NodeLost"), "is lost: its node is gone or does not answer", id="the node is gone"),
        pytest.param(pod(phase="Unknown"), "is lost: its node is gone or does not answer", id="the node does not answer"),
        pytest.param(
            pod(phase="Failed", reason="OutOfcpu", message="Pod was rejected: Node didn't have enough resource: cpu"),
            "was refused by its node: Pod was rejected: Node didn't have enough resource: cpu",
            id="the node refuses",
        ),
        pytest.param(
            pod(phase="Failed", reason="DeadlineExceeded", message="Pod was active on the node longer than the specified deadline"),
            "failed: Pod was active on the node longer than the specified deadline",
            id="another failure",
        ),
    ],
)
def test_what_a_status_says(found: dict[str, Any], said: str) -> None:
    """A pod's status becomes the rest of a sentence about it, in the cluster's own words."""
    assert pod_trouble(found) == said


def test_a_mount_that_fails_is_told_by_events_alone() -> None:
    """While a volume cannot be mounted the status says nothing; the newest warning about this very pod does."""
    found = [
        warning("FailedMount", "old", at="12:00:00"),
        warning("FailedMount", 'MountVolume.SetUp failed for volume "pvc-1" : mount failed: exit status 32', at="12:02:00"),
        warning("FailedMount", "another pod", of="other", at="12:03:00"),
    ]
    assert pod_trouble(pod(CREATING), found) == 'cannot mount its volumes: MountVolume.SetUp failed for volume "pvc-1" : mount failed: exit status 32'
    assert pod_trouble(pod({"running": {}}, phase="Running"), found) == ""


def test_the_most_frequent_trouble_is_told() -> None:
    """Of several pods the trouble that most of them have is told, with how many have it."""
    pods = [pod(name=f"w-{index}", index=str(index), **unschedulable("no room")) for index in range(2)]
    pods.append(pod({"terminated": {"exitCode": 1}}, phase="Failed", name="w-2", index="2"))
    assert workers_trouble(pods) == "2 of 3 pods cannot be scheduled: no room"
    assert workers_trouble(pods[:1]) == "the pod cannot be scheduled: no room"


def test_only_the_newest_pod_of_an_index_counts() -> None:
    """A pod that failed and was replaced is the past; so is one that is being deleted."""
    failed = pod({"terminated": {"exitCode": 1}}, phase="Failed", name="z", made="12:00:00")
    again = pod({"running": {}}, phase="Running", name="a", made="12:00:10")
    leaving = pod({"terminated": {"exitCode": 1}}, phase="Failed", name="b", made="12:00:20")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:21Z"
    assert workers_trouble([leaving, again, failed]) == ""
    assert workers_trouble([failed]) == "the pod ended with exit code 1"


def test_no_pod_at_all() -> None:
    """Where the Job controller may make no pod, its event says why."""
    refusal = warning(
        "FailedCreate", 'Error creating: pods "w-0-" is forbidden: exceeded quota: team, requested: pods=1, used: pods=10, limited: pods=10'
    )
    assert workers_trouble([], [refusal]).startswith('no pod can be made: Error creating: pods "w-0-" is forbidden: exceeded quota')
    assert workers_trouble([]) == ""


def test_a_long_cause_is_cut() -> None:
    """A message has room for one sentence."""
    assert len(pod_trouble(pod(**unschedulable("x" * 5000)))) < MAX_CAUSE + 50
