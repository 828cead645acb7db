"""What the control plane remembers of its kinds: how much of an object, where it is found, and when nothing is left to do for it.

Pure. A terminal run whose keys are gone is final; there are thousands of them, so only what others than the run controller read of one is kept.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from reconcile.arena_run import CAUSE, finished
from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, JOB, Object, ObjectKey
from reconcile.runtime.cache import Keeping
from reconcile.runtime.conditions import READY, find_condition

OWNED_BY: Final = "owner"
"""Index of ArenaRuns by the uid of each of their owners."""
OF_PROJECT: Final = "project"
"""Index of ArenaJobs by the project that they test, as `namespace/name`."""
WAITS_FOR: Final = "waits"
"""Index of ArenaRuns that have pinned no commit yet, by their project, as `namespace/name`."""

_METADATA = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
_OWNER = ("apiVersion", "kind", "name", "uid")
_STATUS = ("phase", "completionTime")


def is_final(run: Object) -> bool:
    """Say whether a run has ended and nothing is left to do for it: its verdict was said for the generation that it has, and its keys are gone."""
    status, metadata = run.get("status") or {}, run["metadata"]
    return (
        finished(run)
        and "deletionTimestamp" not in metadata
        and ("queue" not in status or bool(status.get("tidied")))
        and status.get("observedGeneration") == metadata.get("generation")
        and find_condition(status.get("conditions") or (), READY) is not None
    )


def run_projection(run: Object) -> Object:
    """Return what others than its own reconciler read of a run, in the shape that it has in the whole object."""
    metadata, spec, status = run["metadata"], run.get("spec") or {}, run.get("status") or {}
    template = _picked(spec.get("template") or {}, ("ref",)) | {"sourceRef": {"name": _project(run)}}
    kept = _picked(metadata, _METADATA)
    cause = _picked(metadata.get("annotations") or {}, (CAUSE,))
    owners = [_picked(owner, _OWNER) for owner in metadata.get("ownerReferences") or ()]
    kept |= ({"annotations": cause} if cause else {}) | ({"ownerReferences": owners} if owners else {})
    source = _picked(status.get("source") or {}, ("ref", "commit"))
    return {
        "apiVersion": ARENA_RUN.api_version,
        "kind": ARENA_RUN.kind,
        "metadata": kept,
        "spec": {"template": template},
        "status": _picked(status, _STATUS) | ({"source": source} if source else {}),
    }


def waits(run: Object) -> bool:
    """Say whether a run waits for its project: it has pinned no commit yet and has not ended."""
    return "source" not in (run.get("status") or {}) and not finished(run)


def _picked(value: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value[key] for key in keys if key in value}


def _project(run: Object) -> str:
    name = (((run.get("spec") or {}).get("template") or {}).get("sourceRef") or {}).get("name")
    return name if isinstance(name, str) else ""


def _owners(run: Object) -> Iterator[str]:
    return (str(owner.get("uid")) for owner in run["metadata"].get("ownerReferences") or ())


def _awaited(run: Object) -> tuple[str, ...]:
    return (str(ObjectKey(run["metadata"].get("namespace", ""), _project(run))),) if waits(run) else ()


def _tested(job: Object) -> tuple[str, ...]:
    name = ((job.get("spec") or {}).get("sourceRef") or {}).get("name", "")
    return (str(ObjectKey(job["metadata"].get("namespace", ""), name)),)


def _has_ended(worker_job: Object) -> bool:
    conditions = (worker_job.get("status") or {}).get("conditions") or ()
    return any(find_condition(conditions, end) is not None for end in ("Complete", "Failed"))


def _worker_job_projection(worker_job: Object) -> Object:
    """Return what a run's pass looks at before it reads the Job itself; ended Jobs stay for a while, and their pod template is long."""
    metadata = _picked(worker_job["metadata"], (*_METADATA, "ownerReferences"))
    return {**_picked(worker_job, ("apiVersion", "kind", "status")), "metadata": metadata}


KEEPING: Final = (
    Keeping(ARENA_RUN, is_final, run_projection, {OWNED_BY: _owners, WAITS_FOR: _awaited}),
    Keeping(ARENA_JOB, indexes={OF_PROJECT: _tested}),
    Keeping(JOB, _has_ended, _worker_job_projection),
)
"""The kinds that are not simply kept whole."""
