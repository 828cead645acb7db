"""From a run to its worker Job: pure, no I/O.

Owns the names a worker's container sees: mount points and environment. What runs it, a cluster or the local job runner, reads only the Job.
"""

from dataclasses import dataclass
from typing import Any

from engine import worker_settings
from reconcile.kinds.names import RUN_LABEL
from reconcile.naming import MAX_LABEL, MAX_RUN_NAME, fit, label

SNAPSHOT_MOUNT = "/workspace-content"
OUTPUT_MOUNT = "/arena-output"
CONTENT_CLAIM = "arena-content"
RETRIES_PER_WORKER = 3


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What the Job of one run needs to know. Paths are relative to the namespace's subtree of the content volume."""

    run: str
    namespace: str
    uid: str
    api_version: str
    workers: int
    image: str
    content_path: str
    output_path: str
    subtree: str
    verbose: bool
    ttl_s: int


def worker_job_name(run: str) -> str:
    """Return the Job's name: a DNS label, so short that its pods' host names are labels too, whatever a hand-written run is called."""
    return f"{label(run, MAX_RUN_NAME)}-worker"


def worker_job(spec: WorkerSpec) -> dict[str, Any]:
    """Return the batch/v1 Job that works a run's queue (resources.md, "Worker Job").

    Every worker of it pulls from the same queue; an index only gives a worker its name and its own count of failures.
    """
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": worker_job_name(spec.run),
            "namespace": spec.namespace,
            "labels": {"app.kubernetes.io/name": "arena-worker", RUN_LABEL: fit(spec.run, MAX_LABEL)},
            "ownerReferences": [
                {
                    "apiVersion": spec.api_version,
                    "kind": "ArenaRun",
                    "name": spec.run,
                    "uid": spec.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                },
            ],
        },
        "spec": {
            "parallelism": spec.workers,
            "completions": spec.workers,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": RETRIES_PER_WORKER,
            "maxFailedIndexes": spec.workers,
            "ttlSecondsAfterFinished": spec.ttl_s,
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
            "template": {
                "metadata": {"labels": {"app.kubernetes.io/name": "arena-worker", RUN_LABEL: fit(spec.run, MAX_LABEL)}},
                "spec": _pod(spec),
            },
        },
    }


def _pod(spec: WorkerSpec) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
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
                    {"name": "content", "mountPath": SNAPSHOT_MOUNT, "subPath": f"{spec.subtree}/{spec.content_path}", "readOnly": True},
                    {"name": "content", "mountPath": OUTPUT_MOUNT, "subPath": f"{spec.subtree}/{spec.output_path}"},
                ],
            },
        ],
        "volumes": [{"name": "content", "persistentVolumeClaim": {"claimName": CONTENT_CLAIM}}],
    }


def _environment(spec: WorkerSpec) -> list[dict[str, Any]]:
    values = {
        worker_settings.RUN_NAME: spec.run,
        worker_settings.RUN_UID: spec.uid,
        worker_settings.CONTENT: SNAPSHOT_MOUNT,
        worker_settings.OUTPUT: OUTPUT_MOUNT,
    }
    if spec.verbose:
        values |= {"LOG_LEVEL": "debug", worker_settings.VERBOSE: "true"}
    return [{"name": name, "value": value} for name, value in values.items()]
