"""Which Workspace a namespace belongs to (resources.md, "The neighbours")."""

from reconcile.cluster.port import NAMESPACE, WORKSPACE, Cluster, Object
from reconcile.errors import KindNotServed, NotFound
from reconcile.kinds.names import WORKSPACE_LABEL


async def find_workspace(cluster: Cluster, namespace: str) -> Object | None:
    """Return the Workspace that the namespace's label names, otherwise the one of the namespace's own name.

    None when there is none, or the cluster has no Workspaces at all: who installs Arena may leave the neighbours out.
    """
    try:
        labels = (await cluster.get(NAMESPACE, None, namespace))["metadata"].get("labels") or {}
    except NotFound:
        labels = {}
    try:
        return await cluster.get(WORKSPACE, None, labels.get(WORKSPACE_LABEL) or namespace)
    except (NotFound, KindNotServed):
        return None
