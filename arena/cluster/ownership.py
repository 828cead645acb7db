"""Whose queue and whose content volume these are: one cluster's, whose first leader says so there.

Two clusters of one installation name on one queue or one volume would take each other's runs for orphans and sweep them. Owns both marks and what is
said to the second cluster. Must not know what lies in the queue or on the volume besides.
"""

import os
import secrets
from pathlib import Path
from typing import Final

import anyio.to_thread
import structlog

from engine.errors import QueueUnavailable
from engine.queue.redis import RedisWorkQueue
from foundation.clock import Clock
from gitops.errors import StorageFailed
from gitops.storage_errors import storage
from reconcile.cluster.port import NAMESPACE, Cluster
from reconcile.errors import ClusterError, LeadershipLost

MARK: Final = ".arena-cluster"
AGAIN_S: Final = 5.0
_IDENTITY: Final = "kube-system"
"""The namespace whose uid tells clusters apart: it is never deleted."""

log = structlog.get_logger(__name__)


class Ownership:
    """Of one installation's queue and content volume. `trouble` is what keeps us from leading, "" when nothing does; a probe asks it."""

    def __init__(self, cluster: Cluster, queue: RedisWorkQueue, root: Path, clock: Clock) -> None:
        self._cluster = cluster
        self._queue = queue
        self._root = root
        self._clock = clock
        self.trouble = ""

    async def take(self) -> bool:
        """Return when nothing is known to be another cluster's: True when both are ours, False while the queue does not answer, which keeps nobody from leading."""
        while True:
            try:
                self.trouble = await self._foreign()
            except QueueUnavailable:
                self.trouble = ""
                return False
            except (ClusterError, StorageFailed) as error:
                self.trouble = error.message
            if not self.trouble:
                return True
            log.error("lead.not_ours", cause=self.trouble)
            await self._clock.sleep(AGAIN_S)

    async def know(self) -> None:
        """Return when both are known to be ours, at the latest when the queue answers.

        Raises:
            LeadershipLost: one of them is another cluster's.
        """
        while True:
            try:
                self.trouble = await self._foreign()
            except (ClusterError, QueueUnavailable, StorageFailed) as error:
                log.warning("ownership.unknown", cause=error.message)
            else:
                if self.trouble:
                    raise LeadershipLost(f"cannot lead: {self.trouble}")
                return
            await self._clock.sleep(AGAIN_S)

    async def _foreign(self) -> str:
        own, name = str((await self._cluster.get(NAMESPACE, None, _IDENTITY))["metadata"]["uid"]), self._queue.installation
        if (other := await anyio.to_thread.run_sync(_marked, self._root, own)) != own:
            return (
                f"the content volume belongs to the cluster whose {_IDENTITY} has uid {other}: mount another one; if that cluster is gone, delete the "
                f"file {MARK} in the volume's root"
            )
        if (other := await self._queue.claim(own)) != own:
            return (
                f"the queue of installation '{name}' belongs to the cluster whose {_IDENTITY} has uid {other}: choose another --installation or another "
                f"queue; if that cluster is gone, delete the key arena:{name}:cluster"
            )
        return ""


def _marked(root: Path, own: str) -> str:
    """Mark the volume unless it is marked, and return whose it is. The mark appears whole or not at all, and one of two who race makes it."""
    with storage("mark the content volume"):
        temporary = root / f"{MARK}-{secrets.token_hex(6)}"
        temporary.write_text(own, encoding="ascii")
        try:
            os.link(temporary, root / MARK)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
        return (root / MARK).read_text(encoding="ascii").strip()
