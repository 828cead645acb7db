"""Which objects a change of another object concerns. A watch of those wakes a reconciler; the regular interval is only the floor."""

from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, Cluster, Object, ObjectKey
from reconcile.kinds.names import TERMINAL_PHASES


def project_of_ended_run(run: Object) -> list[ObjectKey]:
    """Map a run that has ended, or goes, to its project: a deleted project waits for it."""
    ended = (run.get("status") or {}).get("phase") in TERMINAL_PHASES or "deletionTimestamp" in run["metadata"]
    return [ObjectKey(run["metadata"]["namespace"], run["spec"]["template"]["sourceRef"]["name"])] if ended else []


class JobsOfProject:
    """Maps a project to the jobs that test it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def keys(self, project: Object) -> list[ObjectKey]:
        """Return the jobs whose source is the project."""
        jobs = (await self._cluster.list(ARENA_JOB, project["metadata"]["namespace"])).items
        return [ObjectKey.of(job) for job in jobs if job["spec"]["sourceRef"]["name"] == project["metadata"]["name"]]


class RunsOfProject:
    """Maps a project to the runs that wait for it: those that have pinned no commit yet."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def keys(self, project: Object) -> list[ObjectKey]:
        """Return the runs whose source is the project and whose commit is not pinned."""
        runs = (await self._cluster.list(ARENA_RUN, project["metadata"]["namespace"])).items
        return [ObjectKey.of(run) for run in runs if _waits_for(run, project["metadata"]["name"])]


def _waits_for(run: Object, project: str) -> bool:
    status = run.get("status") or {}
    return run["spec"]["template"]["sourceRef"]["name"] == project and "source" not in status and status.get("phase") not in TERMINAL_PHASES
