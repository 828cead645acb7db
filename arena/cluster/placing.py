"""Nobody looks for a namespace's content before it has its place on the content volume: reconcilers and git clients wait for that first."""

from collections.abc import Mapping

from arena.cluster.workspaces import Workspaces
from gitops.errors import AuthorizerUnavailable
from gitops.serving import Access, Authorizer
from reconcile.cluster.port import ResourceKind
from reconcile.control_plane import Reconcilers
from reconcile.errors import ClusterError
from reconcile.runtime.reconciler import Pass, Reconciler, Result


class PlacedReconciler:
    """A reconciler, each of whose passes begins when the namespace has its place."""

    def __init__(self, reconciler: Reconciler, workspaces: Workspaces) -> None:
        self._reconciler = reconciler
        self._workspaces = workspaces

    @property
    def kind(self) -> ResourceKind:
        """The kind whose objects are reconciled."""
        return self._reconciler.kind

    async def reconcile(self, scope: Pass) -> Result:
        """Do one pass (see `Reconciler.reconcile`)."""
        await self._workspaces.settle(scope.key.namespace)
        return await self._reconciler.reconcile(scope)


def placed(reconcilers: Reconcilers, workspaces: Workspaces) -> Reconcilers:
    """Return the reconcilers of a content volume with workspaces."""
    return Reconcilers(
        project=PlacedReconciler(reconcilers.project, workspaces),
        job=PlacedReconciler(reconcilers.job, workspaces),
        run=PlacedReconciler(reconcilers.run, workspaces),
    )


class PlacedAuthorizer:
    """An authorizer of git clients, who are let in when the namespace has its place."""

    def __init__(self, authorize: Authorizer, workspaces: Workspaces) -> None:
        self._authorize = authorize
        self._workspaces = workspaces

    async def __call__(self, headers: Mapping[str, str], namespace: str, project: str, *, write: bool, source: str) -> Access:
        """Return what the caller may reach (see `Authorizer`)."""
        access = await self._authorize(headers, namespace, project, write=write, source=source)
        try:
            await self._workspaces.settle(access.project.namespace)
        except ClusterError as error:
            raise AuthorizerUnavailable(f"cannot look up namespace '{namespace}': the store does not answer", hint="try again soon") from error
        return access
