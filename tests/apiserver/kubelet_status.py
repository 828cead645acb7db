"""What a kubelet writes of a pod: its status, and the events of mounts that fail. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reconcile.cluster.port import EVENT, Object
from tests.apiserver.kubelet_container import NotStartable


@dataclass(frozen=True, slots=True)
class Seen:
    """A container: its exit code, None while it runs, since when it runs, and how often it was started again."""

    name: str
    code: int | None
    since: str
    restarts: int = 0


def pod_status(pod: Object, phase: str, containers: Sequence[Seen], *, is_ready: bool) -> dict[str, Any]:
    """Return the status of a pod whose containers have been started."""
    ready = str(is_ready)
    kinds = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": ready, "Ready": ready}
    images = {container["name"]: container["image"] for container in pod["spec"]["containers"]}
    return {
        "phase": phase,
        "conditions": [{"type": kind, "status": value, "lastTransitionTime": now()} for kind, value in kinds.items()],
        "startTime": containers[0].since if containers else now(),
        "containerStatuses": [
            {
                "name": each.name,
                "image": images[each.name],
                "imageID": "",
                "ready": is_ready,
                "started": phase == "Running",
                "restartCount": each.restarts,
                "state": _state(each),
            }
            for each in containers
        ],
    }


def waiting_status(pod: Object, trouble: NotStartable) -> dict[str, Any]:
    """Return the status of a pod that cannot be started; a mount that fails is told by an event."""
    container = pod["spec"]["containers"][0]
    waiting = {"reason": "ContainerCreating"} if _is_of_mounts(trouble) else {"reason": trouble.reason, "message": str(trouble)}
    shown = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"waiting": waiting},
    }
    return {"phase": "Pending", "containerStatuses": [shown]}


def mount_event(pod: Object, trouble: NotStartable) -> Mapping[str, Any] | None:
    """Return the event of a mount that fails; None when something else is the matter."""
    if not _is_of_mounts(trouble):
        return None
    metadata = pod["metadata"]
    about = {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": f"{metadata['name']}.mount", "namespace": metadata["namespace"]},
        "type": "Warning",
        "reason": trouble.reason,
        "message": str(trouble),
        "involvedObject": about,
        "lastTimestamp": now(),
    }


def now() -> str:
    """Return the time as the API has it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_of_mounts(trouble: NotStartable) -> bool:
    return trouble.reason == "FailedMount"


def _state(seen: Seen) -> dict[str, Any]:
    if seen.code is None:
        return {"running": {"startedAt": seen.since}, "terminated": None}
    number = 128 - seen.code if seen.code < 0 else seen.code
    ended = {"exitCode": number, "reason": "Error" if number else "Completed", "startedAt": seen.since, "finishedAt": now()}
    return {"running": None, "terminated": ended}
