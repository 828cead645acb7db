"""From a change of a repository to a look at it: what the git server of either mode tells the project controller."""

import contextlib

from gitops.content import ProjectKey
from reconcile.cluster.port import Cluster, ObjectKey
from reconcile.errors import NotFound
from reconcile.sync_requests import SyncRequests


class Announcer:
    """Tells the project controller that a repository has changed: ten pushes become one look."""

    def __init__(self, cluster: Cluster) -> None:
        self._syncs = SyncRequests(cluster)

    async def announce(self, project: ProjectKey) -> None:
        """Stamp the ArenaProject; one that is gone needs no look."""
        with contextlib.suppress(NotFound):
            await self._syncs.request(ObjectKey(project.namespace, project.name), "push")
