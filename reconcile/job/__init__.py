"""ArenaJob: what starts runs, which of them are active, which are kept.

Owns scheduling only: what a run does is `reconcile.run`'s. Every run it creates has a cause, and a cause has one run.
"""

from collections.abc import Mapping
from typing import Any

from foundation.crash import crash_point
from gitops.content import ContentVolume, ProjectKey
from gitops.repositories import Repositories
from reconcile.cluster.port import ARENA_JOB, ResourceKind
from reconcile.errors import Stalled
from reconcile.job.history import prune
from reconcile.job.known_refs import KnownRefs
from reconcile.job.pushes import PushWatch
from reconcile.job.runs import JobRuns
from reconcile.kinds.admission import spec_problems
from reconcile.kinds.job import ArenaJobSpec
from reconcile.kinds.job_checks import schedule_problems
from reconcile.kinds.names import REQUESTED_RUN, request_of
from reconcile.kinds.not_supported import unsupported_fields
from reconcile.kinds.reasons import EventReason, JobReason
from reconcile.naming import first_cause, request_cause
from reconcile.runtime.reconciler import Done, Pass, Result, Silent

__all__ = ["JobReconciler"]


class JobReconciler:
    """Drive one ArenaJob: the runs that are due, the list of active ones, the history.

    `in_cluster`: workers are pods, so what only pods can have is supported.
    """

    kind: ResourceKind = ARENA_JOB

    def __init__(self, repositories: Repositories, volume: ContentVolume, *, in_cluster: bool = False) -> None:
        self._refs = KnownRefs(repositories)
        self._volume = volume
        self._in_cluster = in_cluster

    async def reconcile(self, scope: Pass) -> Result:
        """Do one pass over a job."""
        if scope.deleting:
            return Silent()
        spec = ArenaJobSpec.model_validate(scope.obj["spec"])
        runs = await JobRuns.of(scope)
        runs.show(scope.status)
        _check(scope.obj["spec"], spec, in_cluster=self._in_cluster)
        trouble: Stalled | None = None
        if spec.suspend:
            await self._suspend(scope)
        else:
            trouble = await self._start(scope, runs, spec)
        runs.show(scope.status)
        # Written before anything goes: a run that is pruned before the job knows of it would be started again.
        await scope.save()
        crash_point("start.status_written")
        await prune(scope, runs, spec, self._volume)
        if trouble is not None:
            raise trouble
        if spec.suspend:
            return Done(JobReason.SUSPENDED, "suspended: no run starts until spec.suspend is false")
        return Done(JobReason.SCHEDULED)

    async def _start(self, scope: Pass, runs: JobRuns, spec: ArenaJobSpec) -> Stalled | None:
        """Start the runs that are due; return what keeps pushes from starting any, which is said when all else is done."""
        await self._start_first(scope, runs)
        await self._start_requested(scope, runs)
        if spec.on_push is not None:
            project = ProjectKey(scope.key.namespace, spec.source_ref.name)
            try:
                await PushWatch(scope, runs, self._refs, project).look(spec, spec.on_push)
            except Stalled as error:
                return error
        return None

    async def _suspend(self, scope: Pass) -> None:
        scope.status.pop("nextScheduleTime", None)
        ready: Mapping[str, Any] = next((c for c in scope.status.get("conditions", []) if c["type"] == "Ready"), {})
        if ready.get("reason") != JobReason.SUSPENDED:
            await scope.event("Normal", EventReason.SUSPENDED, "no run starts until spec.suspend is false")

    async def _start_first(self, scope: Pass, runs: JobRuns) -> None:
        """Start the run of first sight. It is due only while no run of this job was ever made: pruning or deleting runs starts none."""
        if scope.status.get("lastRunRef") or runs.all:
            return
        await runs.refresh()
        if not runs.all:
            await runs.start(first_cause(), trigger="Manual")

    async def _start_requested(self, scope: Pass, runs: JobRuns) -> None:
        request = request_of(scope.obj["metadata"].get("annotations"), REQUESTED_RUN)
        if request and request != scope.status.get("lastHandledRun"):
            await runs.start(request_cause(request), trigger="Manual")
            scope.status["lastHandledRun"] = request


def _check(raw: Mapping[str, Any], spec: ArenaJobSpec, *, in_cluster: bool) -> None:
    """Refuse what keeps the job from ever starting a run by the clock; anything else is said by the run that meets it."""
    problems = schedule_problems(raw)
    if problems:
        raise Stalled(JobReason.INVALID_SCHEDULE, f"{problems[0].path}: {problems[0].message}")
    if spec.cron:
        invalid = spec_problems(raw)
        if invalid:
            raise Stalled(JobReason.INVALID_SPEC, f"{invalid[0].path}: {invalid[0].message}")
        fields = unsupported_fields("ArenaJob", raw, in_cluster=in_cluster)
        raise Stalled(JobReason.NOT_SUPPORTED, f"not supported yet: {', '.join(fields)}")
