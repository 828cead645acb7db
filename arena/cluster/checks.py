"""What the processes of a cluster need of others to do their work, as checks that a probe asks."""

from engine.queue.redis import RedisWorkQueue
from reconcile.cluster.kube import KubeCluster


class ApiServerAnswers:
    """The API server answers us."""

    def __init__(self, cluster: KubeCluster) -> None:
        self._cluster = cluster

    async def __call__(self) -> str:
        """Ask it for its version, which needs no permission."""
        await self._cluster.version()
        return ""


class QueueAnswers:
    """The queue answers us."""

    def __init__(self, queue: RedisWorkQueue) -> None:
        self._queue = queue

    async def __call__(self) -> str:
        """Ask it for its settings; what is wrong with those keeps no run from being worked."""
        await self._queue.check()
        return ""
