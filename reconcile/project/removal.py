"""A deleted project goes once no pinned run needs it."""

from foundation.crash import crash_point
from reconcile.kinds.names import PROJECT_FINALIZER
from reconcile.kinds.reasons import ProjectReason
from reconcile.live_runs import live_runs
from reconcile.project.needs import needs_source
from reconcile.project.scope import LOOK_AGAIN, ProjectScope
from reconcile.runtime.reconciler import Progressing, Result, Silent


async def remove(project: ProjectScope) -> Result:
    """Let a deleted project go once no pinned run needs it: its sources go, its repository is kept aside or removed."""
    key, scope, repositories = project.project, project.scope, project.world.repositories
    runs = await live_runs(scope.cluster, scope.key)
    pinned = sorted(run["metadata"]["name"] for run in runs if needs_source(run))
    if pinned:
        return Progressing(ProjectReason.PROJECT_IN_USE, f"waiting for runs of this project to end: {', '.join(pinned[:10])}", look_again=LOOK_AGAIN)
    hosted = project.spec.hosted
    if await repositories.exists(key):
        if hosted is not None and hosted.reclaim_policy == "Retain":
            await repositories.retain(key, scope.uid)
        else:
            await repositories.remove(key)
    crash_point("remove.repository_gone")
    await project.world.snapshots.remove_all(key)
    crash_point("remove.snapshots_gone")
    await scope.remove_finalizer(PROJECT_FINALIZER)
    return Silent()
