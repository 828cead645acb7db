"""ArenaProject: where the commits come from, hosted here or mirrored, and the head exported as a snapshot.

Owns what both kinds of project have in common. What a repository, a mirror and a snapshot are belongs to `gitops`.
"""

from gitops.errors import StorageFailed
from reconcile.cluster.port import ARENA_PROJECT, ResourceKind
from reconcile.errors import Stalled, Waiting
from reconcile.kinds.names import PROJECT_FINALIZER
from reconcile.kinds.not_supported import unsupported_fields
from reconcile.kinds.reasons import ProjectReason
from reconcile.project.external import look_at_external
from reconcile.project.hosted import look_at_hosted
from reconcile.project.removal import remove
from reconcile.project.scope import LOOK_AGAIN, ProjectScope, ProjectWorld
from reconcile.runtime.reconciler import Pass, Result

__all__ = ["LOOK_AGAIN", "ProjectReconciler", "ProjectWorld"]


class ProjectReconciler:
    """Drive one ArenaProject: a repository that is there, its head exported, what nobody needs removed."""

    kind: ResourceKind = ARENA_PROJECT

    def __init__(self, world: ProjectWorld) -> None:
        self._world = world

    async def reconcile(self, scope: Pass) -> Result:
        """Do one pass over a project."""
        project = ProjectScope(scope, self._world)
        if scope.deleting:
            return await remove(project)
        fields = unsupported_fields("ArenaProject", scope.obj["spec"])
        if fields:
            project.answer_request()
            raise Stalled(ProjectReason.NOT_SUPPORTED, f"not supported yet: {', '.join(fields)}")
        await scope.add_finalizer(PROJECT_FINALIZER)
        try:
            if project.spec.hosted is not None:
                return await look_at_hosted(project, project.spec.hosted)
            if project.spec.external is not None:
                return await look_at_external(project, project.spec.external)
        except StorageFailed as error:
            raise Waiting(ProjectReason.STORAGE_FAILED, error.message, LOOK_AGAIN, hint=error.hint) from error
        raise Stalled(ProjectReason.INVALID_SPEC, "a project has exactly one of spec.hosted and spec.external")
