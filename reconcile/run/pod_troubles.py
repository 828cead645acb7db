"""Why worker pods do not run: from what a cluster says of pods to one sentence for the run's message. Pure.

Sources: the kubelet's and the scheduler's words in a pod's status, and events where the status is silent: while a volume cannot be mounted, a pod only
reads ContainerCreating.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from reconcile.cluster.port import Object

MAX_CAUSE: Final = 400
"""Characters of a cluster's own words that are shown."""
_NO_CLAIMS: Final = " no new claims to deallocate,"
"""What the scheduler of Kubernetes 1.34 says of every pod, beside what it says of preempting others."""
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_WAITING: Final = {
    **dict.fromkeys(
        (
            "ErrImagePull",
            "ImagePullBackOff",
            "InvalidImageName",
            "ErrImageNeverPull",
            "ImageInspectError",
            "RegistryUnavailable",
            "SignatureValidationFailed",
        ),
        "cannot pull image '{image}'",
    ),
    "CreateContainerConfigError": "cannot be configured",
    **dict.fromkeys(
        ("CreateContainerError", "RunContainerError", "CrashLoopBackOff", "PreCreateHookError", "PreStartHookError", "PostStartHookError"),
        "cannot start",
    ),
}
"""What a container waits for, by the kubelet's reason."""
_MOUNT: Final = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_SANDBOX: Final = frozenset({"FailedCreatePodSandBox", "NetworkNotReady", "FailedPodSandBoxStatus"})
_SHUT_DOWN: Final = frozenset({"NodeShutdown", "Terminated"})
_REFUSED: Final = frozenset(
    {"UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage"}
)


def workers_trouble(pods: Sequence[Object], events: Sequence[Object] = ()) -> str:
    """Return what keeps a Job's workers from working, such as `2 of 3 pods cannot be scheduled: …`; "" when nothing does.

    Of several pods of an index only the newest counts; of several troubles the most frequent is told, of equally frequent ones that of the lowest
    name. `events` are those of the namespace, in any order; without a pod the Job's own tell why none could be made.
    """
    newest = _newest(pods)
    if not newest:
        return next((f"no pod can be made: {_cause(event)}" for event in _latest_first(events) if event.get("reason") == "FailedCreate"), "")
    troubles = Counter(trouble for pod in newest if (trouble := pod_trouble(pod, events)))
    if not troubles:
        return ""
    (trouble, count), *_ = troubles.most_common(1)
    return f"{count} of {len(newest)} pods {trouble}" if len(newest) > 1 else f"the pod {trouble}"


def pod_trouble(pod: Object, events: Sequence[Object] = ()) -> str:
    """Return what is wrong with one pod, as the rest of a sentence that begins with it; "" when nothing is, or nothing is known."""
    status = pod.get("status") or {}
    if status.get("phase") == "Succeeded":
        return ""
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    return (
        _lost(status, conditions.get("DisruptionTarget") or {})
        or _unscheduled(conditions.get("PodScheduled") or {})
        or next((trouble for container in _containers(status) if (trouble := _container_trouble(container))), "")
        or _from_events(pod, events)
        or (f"failed: {_cause(status)}" if status.get("phase") == "Failed" and _cause(status) else "")
    )


def _lost(status: Mapping[str, Any], disruption: Mapping[str, Any]) -> str:
    reason = status.get("reason")
    if reason == "Evicted":
        return f"was evicted: {_cause(status)}"
    if reason == "NodeLost" or status.get("phase") == "Unknown":
        return "is lost: its node is gone or does not answer"
    if disruption.get("status") == "True" or reason in _SHUT_DOWN:
        return f"was removed from its node: {_cause(disruption or status)}"
    return f"was refused by its node: {_cause(status)}" if reason in _REFUSED else ""


def _unscheduled(scheduled: Mapping[str, Any]) -> str:
    if scheduled.get("status") != "False":
        return ""
    return f"cannot be scheduled: {_cause(scheduled).partition(' preemption:')[0].removesuffix(_NO_CLAIMS)}"


def _containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _container_trouble(container: Mapping[str, Any]) -> str:
    state = container.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    if trouble := _WAITING.get(waiting.get("reason", "")):
        return f"{trouble.format(image=container.get('image', ''))}: {_cause(waiting)}"
    if not ended or ended.get("exitCode") == 0:
        return ""
    if ended.get("reason") == "OOMKilled":
        return "was killed: out of memory"
    if ended.get("reason") in {"StartError", "ContainerCannotRun"}:
        return f"cannot start: {_cause(ended)}"
    said = ended.get("message") or ""
    return f"ended with exit code {ended.get('exitCode')}" + (f": {_line(said)}" if said else "")


def _from_events(pod: Object, events: Sequence[Object]) -> str:
    """Say what the newest warning about a pod is that has a node but no container yet."""
    if any("running" in (container.get("state") or {}) for container in _containers(pod.get("status") or {})):
        return ""
    for event in _latest_first(events):
        if (event.get("involvedObject") or {}).get("uid") != pod["metadata"].get("uid"):
            continue
        if event.get("reason") in _MOUNT:
            return f"cannot mount its volumes: {_cause(event)}"
        if event.get("reason") in _SANDBOX:
            return f"cannot be set up: {_cause(event)}"
    return ""


def _latest_first(events: Sequence[Object]) -> list[Object]:
    warnings = (event for event in events if event.get("type") == "Warning")
    return sorted(warnings, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "", reverse=True)


def _newest(pods: Sequence[Object]) -> list[Object]:
    """Return the newest pod of each index, in the order of their names; one that is being deleted counts no more."""
    found: dict[str, Object] = {}
    living = (pod for pod in pods if not pod["metadata"].get("deletionTimestamp"))
    for pod in sorted(living, key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"])):
        metadata = pod["metadata"]
        found[(metadata.get("annotations") or {}).get(_INDEX) or metadata["name"]] = pod
    return sorted(found.values(), key=lambda pod: str(pod["metadata"]["name"]))


def _cause(said: Mapping[str, Any]) -> str:
    return _line(said.get("message") or said.get("reason") or "")


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CAUSE else f"{line[: MAX_CAUSE - 1]}…"
