"""The work queue as an installation uses it: the control plane with its own credential, the workers of each run as that run's user."""

from collections.abc import Sequence

from engine.items import ItemError, RunUID
from engine.queue.port import Counted, Lease, QueueState
from engine.queue.redis import RedisWorkQueue
from engine.records import Record


class QueueAsUser(RedisWorkQueue):
    """The queue of the control plane, but what workers ask goes over a connection of the run's user."""

    def __init__(self, url: str, *, installation: str) -> None:
        super().__init__(url, installation=installation)
        self._users = self.users(url)
        self._workers: dict[RunUID, RedisWorkQueue] = {}

    async def _worker(self, run: RunUID) -> RedisWorkQueue:
        if run not in self._workers:
            await self._users.make(run, "password")
            self._workers[run] = RedisWorkQueue(self._users.url(run, "password"), installation=self.installation)
        return self._workers[run]

    async def plan(self, run: RunUID) -> bytes:
        """Ask as a worker."""
        return await (await self._worker(run)).plan(run)

    async def lease(self, run: RunUID, *, worker: str, limit: int, seconds: float) -> list[Lease]:
        """Ask as a worker."""
        return await (await self._worker(run)).lease(run, worker=worker, limit=limit, seconds=seconds)

    async def wait(self, run: RunUID, *, seen: str, seconds: float) -> str:
        """Ask as a worker."""
        return await (await self._worker(run)).wait(run, seen=seen, seconds=seconds)

    async def renew(self, run: RunUID, leases: Sequence[Lease]) -> list[Lease]:
        """Ask as a worker."""
        return await (await self._worker(run)).renew(run, leases)

    async def complete(self, run: RunUID, completions: Sequence[tuple[Lease, Record]]) -> list[Counted]:
        """Ask as a worker."""
        return await (await self._worker(run)).complete(run, completions)

    async def retry(self, run: RunUID, lease: Lease, *, delay_s: float, error: ItemError) -> bool:
        """Ask as a worker."""
        return await (await self._worker(run)).retry(run, lease, delay_s=delay_s, error=error)

    async def hand_back(self, run: RunUID, leases: Sequence[Lease]) -> None:
        """Ask as a worker."""
        await (await self._worker(run)).hand_back(run, leases)

    async def state(self, run: RunUID) -> QueueState:
        """Ask as a worker; the control plane asks it, too, and may do everything."""
        return await (await self._worker(run)).state(run)

    async def close(self) -> None:
        """Close all connections."""
        for worker in self._workers.values():
            await worker.close()
        await super().close()
