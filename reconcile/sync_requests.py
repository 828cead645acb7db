"""Asking a project's controller for a look at its repository: one stamp, however many ask at once.

The only writer of the annotation `requested-sync` inside the server. Whether and when a look follows is the controller's to decide.
"""

import asyncio
import secrets
from weakref import WeakValueDictionary

from reconcile.cluster.port import ARENA_PROJECT, Cluster, ObjectKey
from reconcile.kinds.names import REQUESTED_SYNC


class SyncRequests:
    """Stamps ArenaProjects. Those who ask for the same one while a stamp is being written share the next."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._turns: WeakValueDictionary[ObjectKey, _Turn] = WeakValueDictionary()

    async def request(self, project: ObjectKey, origin: str) -> str:
        """Stamp the project with a new value, `<origin>-<random>`, or wait for one whose writing begins after this call; return it.

        A look that this value asks for sees everything that was there before the call.

        Raises:
            NotFound: the project is gone. Any other ClusterError: the stamp may be missing; nothing else happened.
        """
        turn = self._turns.get(project)
        if turn is None:
            turn = self._turns[project] = _Turn()
        needed = turn.begun + 1
        async with turn.lock:
            if turn.done < needed:
                turn.begun = begun = turn.begun + 1
                value = f"{origin}-{secrets.token_hex(6)}"
                await self._cluster.patch(ARENA_PROJECT, project.namespace, project.name, {"metadata": {"annotations": {REQUESTED_SYNC: value}}})
                turn.done, turn.value = begun, value
            return turn.value


class _Turn:
    """How many stamps of one project were begun and done, and the last one. Lives as long as somebody asks."""

    __slots__ = ("__weakref__", "begun", "done", "lock", "value")

    def __init__(self) -> None:
        self.begun = 0
        self.done = 0
        self.lock = asyncio.Lock()
        self.value = ""
