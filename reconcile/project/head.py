"""The head of a project: its tip exported as a snapshot and shown, and the snapshots that nobody needs removed.

Knows no difference between a hosted and a mirrored repository.
"""

from foundation.crash import crash_point
from reconcile.cluster.port import ARENA_RUN
from reconcile.kinds.reasons import EventReason
from reconcile.project.needs import named_commit
from reconcile.project.scope import ProjectScope
from reconcile.run.source import snapshot_limits
from reconcile.runtime.conditions import timestamp


async def export_head(project: ProjectScope, ref: str, commit: str) -> None:
    """Export the default branch's tip and describe it in the status; `ref` is the branch's full name.

    Raises:
        SnapshotUnexportable: the tree holds what no snapshot may hold.
    """
    world, key, status = project.world, project.project, project.status
    snapshot = await world.snapshots.export(key, commit, snapshot_limits(project.spec.snapshots))
    if (status.get("head") or {}).get("commit") == commit:
        return
    await world.snapshots.set_head(key, commit)
    crash_point("head.written")
    summary, refs = await world.repositories.describe(key, commit), await world.repositories.refs(key)
    status["head"] = {
        "commit": commit,
        "ref": ref,
        "contentPath": snapshot.content_path,
        "author": summary.author,
        "message": summary.message,
        "time": timestamp(summary.time),
    }
    status["display"]["head"] = commit[:12]
    status["lastFetchTime"] = timestamp(project.scope.clock.now())
    status["refs"] = {"branches": refs.branches, "tags": refs.tags, "newest": [{"name": name, "commit": tip} for name, tip in refs.newest]}
    for path in snapshot.lfs_pointers[:10]:
        await project.scope.event("Warning", EventReason.LFS_POINTER, f"'{path}' is a Git LFS pointer and was exported as it is")


def forget_head(project: ProjectScope) -> None:
    """Show no head: there is no commit, or none any more."""
    project.status.pop("head", None)
    project.status["display"].pop("head", None)


async def prune_snapshots(project: ProjectScope) -> None:
    """Remove snapshots beyond `spec.snapshots.retain` that neither the head nor a run needs."""

    async def needed() -> set[str]:
        head = await project.world.repositories.head(project.project)
        runs = (await project.scope.cluster.list(ARENA_RUN, project.project.namespace)).items
        return {commit for run in runs if (commit := named_commit(run, project.project))} | ({head} if head else set())

    usage = await project.world.snapshots.prune(project.project, needed=needed, retain=project.spec.snapshots.retain)
    project.status["snapshots"] = {"count": usage.count, "bytes": usage.bytes}
