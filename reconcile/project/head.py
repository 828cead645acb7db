"""The head of a project: its tip exported as a snapshot and shown, and the snapshots that nobody needs removed.

Knows no difference between a hosted and a mirrored repository.
"""

from foundation.crash import crash_point
from reconcile.errors import Stalled
from reconcile.kinds.reasons import EventReason, ProjectReason
from reconcile.live_runs import live_runs
from reconcile.project.limits import snapshot_limits
from reconcile.project.needs import named_commit
from reconcile.project.scope import ProjectScope
from reconcile.runtime.conditions import timestamp
from reconcile.runtime.reconciler import Done, Result

LONGEST_REF = 512
"""Characters of a ref's name that a status can hold."""


async def export_head(project: ProjectScope, ref: str, commit: str) -> bool:
    """Export the default branch's tip and describe it in the status; `ref` is the branch's full name. Say whether the head has moved.

    Raises:
        SnapshotUnexportable: the tree holds what no snapshot may hold.
        StorageFailed: the volume refused.
    """
    world, key, status = project.world, project.project, project.status
    snapshot = await world.snapshots.export(key, commit, snapshot_limits(project.spec.snapshots))
    shown = status.get("head") or {}
    if (shown.get("commit"), shown.get("ref")) == (commit, ref):
        return False
    await world.snapshots.set_head(key, commit)
    crash_point("head.written")
    summary = await world.repositories.describe(key, commit)
    status["head"] = {
        "commit": commit,
        "ref": ref,
        "contentPath": snapshot.content_path,
        "author": summary.author,
        "message": summary.message,
        "time": timestamp(summary.time),
    }
    status["display"]["head"] = commit[:12]
    for path in snapshot.lfs_pointers[:10]:
        await project.scope.event("Warning", EventReason.LFS_POINTER, f"'{path}' is a Git LFS pointer and was exported as it is")
    return True


async def show_refs(project: ProjectScope) -> None:
    """Show how many branches and tags there are, and the newest of them."""
    refs = await project.world.repositories.refs(project.project)
    newest = [{"name": name, "commit": tip} for name, tip in refs.newest if len(name) <= LONGEST_REF]
    project.status["refs"] = {"branches": refs.branches, "tags": refs.tags, "newest": newest}


async def forget_head(project: ProjectScope) -> None:
    """Show no head, in the status and beside the snapshots: there is no commit, or none any more."""
    await project.world.snapshots.forget_head(project.project)
    project.status.pop("head", None)
    project.status["display"].pop("head", None)


async def prune_snapshots(project: ProjectScope, head: str) -> None:
    """Remove snapshots beyond `spec.snapshots.retain` that neither the head nor a run needs, and now and then read one of the others in full."""

    async def needed() -> set[str]:
        runs = await live_runs(project.scope.cluster, project.scope.key)
        return {commit for run in runs if (commit := named_commit(run))} | {head}

    usage = await project.world.snapshots.prune(project.project, needed=needed, retain=project.spec.snapshots.retain)
    project.status["snapshots"] = {"count": usage.count, "bytes": usage.bytes}
    await project.world.snapshots.scrub_next(project.project)


def suspended(project: ProjectScope) -> Result:
    """A suspended project keeps what it last exported, so its runs go on; it looks at nothing new.

    Raises:
        Stalled: it was suspended before it had exported anything.
    """
    if project.status.get("head"):
        return Done(ProjectReason.SUSPENDED, "suspended: the head is not looked at until spec.suspend is false")
    raise Stalled(ProjectReason.SUSPENDED, "suspended before its first look at the repository; set spec.suspend to false")
