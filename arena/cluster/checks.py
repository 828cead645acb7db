"""What the processes of a cluster need to do their work, each as a check that a probe asks."""

import os
import secrets
import threading
from pathlib import Path

import anyio.to_thread

from engine.queue.redis import RedisWorkQueue
from gitops.storage_errors import storage
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


class ContentIsWritable:
    """The content volume takes a file. A volume that hangs keeps one thread waiting, not one for each look."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._turn = threading.Lock()

    async def __call__(self) -> str:
        """Write a file and remove it."""
        return await anyio.to_thread.run_sync(self._look, abandon_on_cancel=True)

    def _look(self) -> str:
        if not self._turn.acquire(blocking=False):
            return "an earlier look at the content volume has not come back"
        try:
            with storage("write to the content volume"):
                path = self._root / f".arena-ready-{secrets.token_hex(6)}"
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
                path.unlink()
        finally:
            self._turn.release()
        return ""
