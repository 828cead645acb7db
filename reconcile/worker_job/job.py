"""The worker Job of a run, as a cluster and the local job runner get it.

Owns the names that every worker's container sees: mount points and environment. What runs it reads only the Job.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from engine import worker_settings
from reconcile.kinds.job_pods import PodOverrides
from reconcile.kinds.names import RUN_LABEL
from reconcile.naming import MAX_LABEL, MAX_RUN_NAME, fit, label
from reconcile.worker_job.overrides import lay_over, lay_over_process
from reconcile.worker_job.pods import CONTENT_VOLUME, ClusterPods, SecretValue, pod_environment, scratch_mount, scratch_volume, secret_variable
from reconcile.worker_job.queue_secret import owner_reference, queue_secret_value

SNAPSHOT_MOUNT = "/workspace-content"
OUTPUT_MOUNT = "/arena-output"
CONTENT_CLAIM = "arena-content"
RETRIES_PER_WORKER = 3
WAITING: Final = "Waiting"
"""The condition of a Job whose processes cannot be started, since what a variable refers to is not there; only where they are no pods."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What the Job of one run needs to know. Paths are relative to the namespace's subtree of the content volume.

    `queue` holds the queue server's address for this run; None: whoever starts the workers tells them. `credentials` are the keys of the providers of
    the run's plan, by the variable that holds each. `overrides` are what the job's author lays over the workers.
    `pods` is what a cluster's pods get beyond that; None where workers are processes of this machine.
    """

    run: str
    namespace: str
    uid: str
    workers: int
    image: str
    content_path: str
    output_path: str
    subtree: str
    verbose: bool
    ttl_s: int
    queue: SecretValue | None = None
    pods: ClusterPods | None = None
    credentials: Mapping[str, SecretValue] = field(default_factory=dict)
    overrides: PodOverrides | None = None


_ANY = WorkerSpec(
    run="any",
    namespace="any",
    uid="",
    workers=1,
    image="",
    content_path="",
    output_path="",
    subtree="",
    verbose=True,
    ttl_s=0,
    queue=queue_secret_value("any"),
)
"""A run whose worker has every variable that Arena ever sets."""


def worker_job_name(run: str) -> str:
    """Return the Job's name: a DNS label, so short that its pods' host names are labels too, whatever a hand-written run is called."""
    return f"{label(run, MAX_RUN_NAME)}-worker"


def worker_job(spec: WorkerSpec) -> dict[str, Any]:
    """Return the batch/v1 Job that works a run's queue (resources.md, "Worker Job").

    Every worker of it pulls from the same queue; an index only gives a worker its name and its own count of failures.

    Raises:
        OverridesRefused: the overrides would replace something of Arena's, or reach what a worker may not.
    """
    template = {"metadata": {"labels": _labels(spec)}, "spec": _pod(spec)}
    if spec.pods:
        _complete(template["spec"], spec.pods)
    if spec.overrides:
        (lay_over if spec.pods else lay_over_process)(template, spec.overrides)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": worker_job_name(spec.run),
            "namespace": spec.namespace,
            "labels": _labels(spec),
            "ownerReferences": [owner_reference(spec.run, spec.uid)],
        },
        "spec": {
            "parallelism": spec.workers,
            "completions": spec.workers,
            "completionMode": "Indexed",
            **_backoff(spec),
            "ttlSecondsAfterFinished": spec.ttl_s,
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
            "template": template,
        },
    }


def check_overrides(pods: ClusterPods | None, overrides: PodOverrides) -> None:
    """Check overrides before there is a run to make a Job for: what is Arena's own has the same names in every worker.

    Raises:
        OverridesRefused: as `worker_job` would.
    """
    worker_job(replace(_ANY, pods=pods, overrides=overrides))


def _labels(spec: WorkerSpec) -> dict[str, str]:
    return {"app.kubernetes.io/name": "arena-worker", RUN_LABEL: fit(spec.run, MAX_LABEL)}


def _backoff(spec: WorkerSpec) -> dict[str, int]:
    if spec.pods and not spec.pods.backoff_by_index:
        return {"backoffLimit": RETRIES_PER_WORKER * spec.workers}
    return {"backoffLimitPerIndex": RETRIES_PER_WORKER, "maxFailedIndexes": spec.workers}


def _pod(spec: WorkerSpec) -> dict[str, Any]:
    """Return the pod. No token of its service account, not even of one that the overrides name: what gives a pod a cloud identity brings its own."""
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "worker",
                "image": spec.image,
                "command": ["arena", "worker"],
                "env": _environment(spec),
                "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [
                    {"name": CONTENT_VOLUME, "mountPath": SNAPSHOT_MOUNT, "subPath": f"{spec.subtree}/{spec.content_path}", "readOnly": True},
                    {"name": CONTENT_VOLUME, "mountPath": OUTPUT_MOUNT, "subPath": f"{spec.subtree}/{spec.output_path}"},
                ],
            },
        ],
        "volumes": [{"name": CONTENT_VOLUME, "persistentVolumeClaim": {"claimName": spec.pods.claim if spec.pods else CONTENT_CLAIM}}],
    }


def _complete(pod: dict[str, Any], pods: ClusterPods) -> None:
    """Add to a pod what a process of this machine has from its surroundings."""
    (container,) = pod["containers"]
    container["env"] += pod_environment(pods)
    container["volumeMounts"].append(scratch_mount())
    pod["volumes"].append(scratch_volume())
    # A Service named arena-x would otherwise put ARENA_X_PORT into the worker's environment.
    pod["enableServiceLinks"] = False


def _environment(spec: WorkerSpec) -> list[dict[str, Any]]:
    values = {
        worker_settings.RUN_NAME: spec.run,
        worker_settings.RUN_UID: spec.uid,
        worker_settings.CONTENT: SNAPSHOT_MOUNT,
        worker_settings.OUTPUT: OUTPUT_MOUNT,
        worker_settings.WORKERS: str(spec.workers),
    }
    if spec.verbose:
        values |= {"LOG_LEVEL": "debug", worker_settings.VERBOSE: "true"}
    variables: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in values.items()]
    secrets = {**({worker_settings.REDIS_URL: spec.queue} if spec.queue else {}), **spec.credentials}
    return [*variables, *(secret_variable(name, secret) for name, secret in secrets.items())]
