"""ArenaProject: a repository that is there, seeded once, its head exported as a snapshot.

Owns the order of a project's steps. What a repository and a snapshot are belongs to `gitops`.
"""

from gitops.content import ContentVolume
from gitops.errors import SnapshotUnexportable, StorageFailed
from gitops.repositories import Repositories
from gitops.snapshots import Snapshots
from reconcile.cluster.port import ARENA_PROJECT, ResourceKind
from reconcile.errors import Stalled, Waiting
from reconcile.kinds.names import PROJECT_FINALIZER, REQUESTED_SYNC, request_of
from reconcile.kinds.not_supported import unsupported_fields
from reconcile.kinds.project import Hosted
from reconcile.kinds.reasons import ProjectReason
from reconcile.project.head import export_head, forget_head, prune_snapshots
from reconcile.project.hosted import DEFAULT_BRANCH, look_at_hosted
from reconcile.project.removal import remove
from reconcile.project.scope import LOOK_AGAIN, ProjectScope, ProjectWorld
from reconcile.runtime.reconciler import Done, Pass, Result

__all__ = ["LOOK_AGAIN", "ProjectReconciler"]


class ProjectReconciler:
    """Drive one ArenaProject: create, seed, export the head, prune."""

    kind: ResourceKind = ARENA_PROJECT

    def __init__(self, repositories: Repositories, snapshots: Snapshots, volume: ContentVolume, clone_url: str) -> None:
        """`clone_url` is the address that `/<namespace>/<project>.git` is appended to."""
        self._world = ProjectWorld(repositories, snapshots, volume, clone_url)

    async def reconcile(self, scope: Pass) -> Result:
        """Do one pass over a project."""
        project = ProjectScope(scope, self._world)
        if scope.deleting:
            return await remove(project)
        fields = unsupported_fields("ArenaProject", scope.obj["spec"])
        if fields or project.spec.hosted is None:
            raise Stalled(ProjectReason.NOT_SUPPORTED, f"not supported yet: {', '.join(fields)}")
        await scope.add_finalizer(PROJECT_FINALIZER)
        _describe(project)
        if project.spec.suspend:
            return _suspended(project)
        try:
            return await _sync(project, project.spec.hosted)
        except SnapshotUnexportable as error:
            raise Stalled(ProjectReason.SNAPSHOT_UNEXPORTABLE, error.message, hint=error.hint) from error
        except StorageFailed as error:
            raise Waiting(ProjectReason.STORAGE_FAILED, error.message, LOOK_AGAIN, hint=error.hint) from error


def _describe(project: ProjectScope) -> None:
    project.status["repositoryURL"] = f"{project.world.clone_url}/{project.project.namespace}/{project.project.name}.git"
    project.status["defaultBranch"] = DEFAULT_BRANCH
    project.status.setdefault("display", {})["kind"] = "hosted"


def _suspended(project: ProjectScope) -> Result:
    """A suspended project keeps what it last exported, so its runs go on; it looks at nothing new."""
    if project.status.get("head"):
        return Done(ProjectReason.SUSPENDED, "suspended: the head is not looked at until spec.suspend is false")
    raise Stalled(ProjectReason.SUSPENDED, "suspended before its first look at the repository; set spec.suspend to false")


async def _sync(project: ProjectScope, hosted: Hosted) -> Result:
    head = await look_at_hosted(project, hosted)
    requested = request_of(project.scope.obj["metadata"].get("annotations"), REQUESTED_SYNC)
    if requested:
        project.status["lastHandledSync"] = requested
    if head is None:
        forget_head(project)
        raise Waiting(ProjectReason.REPOSITORY_EMPTY, f"no commit yet: git push {project.status['repositoryURL']} HEAD:{DEFAULT_BRANCH}", LOOK_AGAIN)
    await export_head(project, f"refs/heads/{DEFAULT_BRANCH}", head)
    await prune_snapshots(project)
    await project.world.repositories.maintain(project.project)
    return Done(ProjectReason.SUCCEEDED, f"{DEFAULT_BRANCH} is {head[:12]}", look_again=LOOK_AGAIN)
