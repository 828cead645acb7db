"""From a job to one of its runs: pure, no I/O. What a run is called, looks like when it is created, and tells by its status."""

from collections.abc import Mapping
from typing import Any

from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, Object
from reconcile.kinds.names import JOB_LABEL, MOCK_CONFIG, MOCK_PROVIDER, PREFIX, REQUESTED_REF, TERMINAL_PHASES, TRIGGER_LABEL
from reconcile.naming import MAX_LABEL, fit

CAUSE = f"{PREFIX}/cause"
"""Annotation on an ArenaRun: what it was created for; two controllers that see one cause create one run."""

_COPIED = (MOCK_PROVIDER, MOCK_CONFIG, REQUESTED_REF)


def run_object(job: Object, name: str, cause: str, *, trigger: str, ref: str = "", commit: str = "") -> Object:
    """Return the ArenaRun of a job for a cause, with a frozen copy of the job's spec.

    `ref` replaces the template's; with `commit` the template is pinned to that SHA, and `ref` is what the run shows as asked for.
    """
    metadata = job["metadata"]
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key in _COPIED}
    pinned = commit or ref
    return {
        "apiVersion": ARENA_RUN.api_version,
        "kind": ARENA_RUN.kind,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {JOB_LABEL: fit(metadata["name"], MAX_LABEL), TRIGGER_LABEL: trigger},
            "annotations": {**annotations, CAUSE: cause, **({REQUESTED_REF: ref} if ref else {})},
            "ownerReferences": [
                {
                    "apiVersion": ARENA_JOB.api_version,
                    "kind": ARENA_JOB.kind,
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                },
            ],
        },
        "spec": {"jobRef": {"name": metadata["name"]}, "trigger": trigger, "template": {**job["spec"], **({"ref": pinned} if pinned else {})}},
    }


def created(run: Mapping[str, Any]) -> tuple[str, str]:
    """Return the order in which runs were created."""
    return run["metadata"]["creationTimestamp"], run["metadata"]["name"]


def finished(run: Mapping[str, Any]) -> bool:
    """Say whether a run has ended."""
    return (run.get("status") or {}).get("phase") in TERMINAL_PHASES


def cause_of(run: Mapping[str, Any]) -> str:
    """Return what a run was created for, "" for one that a person wrote."""
    return str((run["metadata"].get("annotations") or {}).get(CAUSE, ""))
