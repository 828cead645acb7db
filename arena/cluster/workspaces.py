"""Which workspace's subtree of the content volume a namespace has: `<root>/<workspace>/<namespace>/arena`.

The subtree itself is the fact. Who comes first makes it, under a lock that all processes of all nodes share, where the namespace's label says;
from then on the label is read no more, so that one which changes moves nothing away. Must not know what lies in a subtree.
"""

import fcntl
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio.to_thread
import structlog

from foundation.clock import Clock
from gitops.content import ContentVolume
from gitops.errors import StorageFailed
from gitops.freshness import look_at
from gitops.storage_errors import storage
from reconcile.cluster.port import NAMESPACE, Cluster
from reconcile.kinds.names import WORKSPACE_LABEL

LOCK: Final = ".arena-workspaces.lock"
_OURS: Final = "arena"
_LOCK_WAIT_S: Final = 10.0
_LOCK_STEP_S: Final = 0.05

log = structlog.get_logger(__name__)


class Workspaces:
    """The subtrees of namespaces on one content volume, as this process knows them.

    `settle` a namespace before anything of it is looked for; `of` then answers without waiting, as `ContentVolume` asks.
    """

    def __init__(self, root: Path, cluster: Cluster, clock: Clock) -> None:
        self._root = root
        self._cluster = cluster
        self._clock = clock
        self._known: dict[str, str] = {}

    def of(self, namespace: str) -> str:
        """Return the workspace of a namespace that has its subtree.

        Raises:
            StorageFailed: it has none yet, or several.
        """
        found = self._known.get(namespace) or self._find(namespace)
        if not found:
            raise StorageFailed(f"cannot find the content of namespace '{namespace}': the content volume has no place for it yet")
        return found

    async def settle(self, namespace: str) -> None:
        """See to it that a namespace has its subtree, and that this process knows which.

        Raises:
            ClusterError: the store does not answer, or there is no such namespace.
            StorageFailed: the content volume refused, has the namespace twice, or is kept locked by another process.
            UnsafeName: the namespace's label names no workspace.
        """
        if namespace in self._known or bool(await anyio.to_thread.run_sync(self._find, namespace)):
            return
        labels: Mapping[str, str] = (await self._cluster.get(NAMESPACE, None, namespace))["metadata"].get("labels") or {}
        place = ContentVolume(self._root, lambda _: labels.get(WORKSPACE_LABEL) or namespace).namespace(namespace)
        with storage(f"make a place for namespace '{namespace}'"):
            async with self._locked(namespace):
                await anyio.to_thread.run_sync(self._make, namespace, place)

    def _find(self, namespace: str) -> str:
        """Return the workspace in which the volume has the namespace, "" for none."""
        with storage(f"find the content of namespace '{namespace}'"):
            found = sorted(path.parent.parent.name for path in self._root.glob(f"*/{namespace}/{_OURS}"))
        if len(found) > 1:
            raise StorageFailed(
                f"cannot find the content of namespace '{namespace}': workspaces {', '.join(found)} have a directory of it",
                hint=f"leave one of the directories WORKSPACE/{namespace}/{_OURS} on the content volume, and move the others away",
            )
        if found:
            self._known[namespace] = found[0]
        return found[0] if found else ""

    def _make(self, namespace: str, place: Path) -> None:
        """Make the subtree, unless another process was first, on whatever machine."""
        look_at(self._root)
        if self._find(namespace):
            return
        (place / _OURS).mkdir(parents=True, exist_ok=True)
        self._known[namespace] = place.parent.name
        log.info("workspace.settled", namespace=namespace, workspace=place.parent.name)

    @asynccontextmanager
    async def _locked(self, namespace: str) -> AsyncIterator[None]:
        descriptor = os.open(self._root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o660)
        try:
            end = self._clock.monotonic() + _LOCK_WAIT_S
            while not _try(descriptor):
                if self._clock.monotonic() > end:
                    raise StorageFailed(f"cannot make a place for namespace '{namespace}': another process keeps the content volume locked")
                await self._clock.sleep(_LOCK_STEP_S)
            yield
        finally:
            os.close(descriptor)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
