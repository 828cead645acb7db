"""What a cluster's worker pods get beyond a worker process of this machine: a home, a writable scratch; and how a variable refers to a Secret.

Owns the names of those volumes and variables. Must not know what an ArenaJob's author adds (`overrides`).
"""

from dataclasses import dataclass
from typing import Any, Final

from engine import worker_settings

CONTENT_VOLUME: Final = "content"
SCRATCH_VOLUME: Final = "scratch"
SCRATCH_MOUNT: Final = "/tmp"  # noqa: S108 - in the container, a directory of this pod alone
SCRATCH_LIMIT: Final = "64Mi"


@dataclass(frozen=True, slots=True)
class SecretValue:
    """One key of a Secret of the run's namespace."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class ClusterPods:
    """What the pods of one run's workers get on a Kubernetes cluster.

    `claim` is the namespace's PersistentVolumeClaim of the content volume. `backoff_by_index`: the server is Kubernetes 1.33 or newer and counts
    failures for each worker; an older one counts them for all together.
    """

    installation: str
    claim: str
    backoff_by_index: bool = True


def pod_environment(pods: ClusterPods) -> list[dict[str, Any]]:
    """Return the variables that only a pod needs."""
    return [
        {"name": worker_settings.INSTALLATION, "value": pods.installation},
        {"name": "HOME", "value": SCRATCH_MOUNT},
    ]


def secret_variable(name: str, secret: SecretValue) -> dict[str, Any]:
    """Return a variable whose value is a Secret's, by reference alone."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}


def scratch_mount() -> dict[str, Any]:
    """Return the mount of the one directory outside the content volume that a worker may write to: the root is read-only."""
    return {"name": SCRATCH_VOLUME, "mountPath": SCRATCH_MOUNT}


def scratch_volume() -> dict[str, Any]:
    """Return the volume behind `scratch_mount`; it goes with the pod."""
    return {"name": SCRATCH_VOLUME, "emptyDir": {"sizeLimit": SCRATCH_LIMIT}}
