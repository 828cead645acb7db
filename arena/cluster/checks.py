"""What the processes of a cluster need of others to do their work, as checks that a probe asks."""

import structlog

from engine.queue.redis import RedisWorkQueue
from reconcile.cluster.kube import KubeCluster

log = structlog.get_logger(__name__)


class ApiServerAnswers:
    """The API server answers us."""

    def __init__(self, cluster: KubeCluster) -> None:
        self._cluster = cluster

    async def __call__(self) -> str:
        """Ask it for its version, which needs no permission."""
        await self._cluster.version()
        return ""


class QueueAnswers:
    """The queue answers us. What is wrong with its settings keeps no run from being worked: that is logged, whenever it changes."""

    def __init__(self, queue: RedisWorkQueue) -> None:
        self._queue = queue
        self._told: list[str] = []

    async def __call__(self) -> str:
        """Ask it for its settings."""
        problems = await self._queue.check()
        if problems != self._told:
            log.warning("queue.settings", problems=problems)
        self._told = problems
        return ""
