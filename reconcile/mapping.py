"""Which objects a change of another object concerns. A watch of those wakes a reconciler; the regular interval is only the floor."""

from collections.abc import Callable

from reconcile.arena_run import finished
from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, Object, ObjectKey, ResourceKind
from reconcile.keeping import OF_PROJECT, WAITS_FOR
from reconcile.runtime.cache import Known


def project_of_ended_run(run: Object) -> list[ObjectKey]:
    """Map a run that has ended, or goes, to its project: a deleted project waits for it."""
    ended = finished(run) or "deletionTimestamp" in run["metadata"]
    return [ObjectKey(run["metadata"]["namespace"], run["spec"]["template"]["sourceRef"]["name"])] if ended else []


def jobs_of_project(known: Known) -> Callable[[Object], tuple[ObjectKey, ...]]:
    """Return the mapper from a project to the jobs that test it.

    What is known will do: a job that is not known yet gets a pass of its own when it is, and so does one whose source changes.
    """
    return _found(known, ARENA_JOB, OF_PROJECT)


def runs_of_project(known: Known) -> Callable[[Object], tuple[ObjectKey, ...]]:
    """Return the mapper from a project to the runs that wait for it: those that have pinned no commit yet. As with jobs, what is known will do."""
    return _found(known, ARENA_RUN, WAITS_FOR)


def _found(known: Known, kind: ResourceKind, index: str) -> Callable[[Object], tuple[ObjectKey, ...]]:
    return lambda obj: known.keys(kind, index, str(ObjectKey.of(obj))) or ()
