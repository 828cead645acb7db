"""One reflector a kind, shared by all controllers of a process: one listing and one watch of a kind, however many ask about it.

Owns what is followed, and that our own writes are remembered at once. Must not know who asks.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from foundation.clock import Clock
from reconcile.cluster.port import Cluster, Object, ObjectKey, ResourceKind
from reconcile.runtime.cache import Keeping
from reconcile.runtime.learning import LearningCluster
from reconcile.runtime.reflector import Mapper, Reflector, Subscription


class Informers:
    """What is known of the kinds that somebody subscribed to (a `Known`), and the `cluster` to write through.

    `keeping` says how kinds are kept; those that are not named are kept whole, without index. `namespace`: None is all. May be run again after it
    was cancelled: it then lists afresh, and knows nothing before.
    """

    def __init__(self, cluster: Cluster, clock: Clock, keeping: Iterable[Keeping] = (), *, namespace: str | None = None) -> None:
        self.cluster: Cluster = LearningCluster(cluster, self._learn, self._doubt)
        self._store = cluster
        self._clock = clock
        self._keeping = {each.kind: each for each in keeping}
        self._namespace = namespace
        self._reflectors: dict[ResourceKind, Reflector] = {}
        self._listed: set[ResourceKind] = set()
        self._synced = asyncio.Event()

    def subscribe(self, kind: ResourceKind, mapper: Mapper, enqueue: Callable[[ObjectKey], None], *, own: bool = False) -> None:
        """Hear of changes of a kind (see `Subscription`). All subscribe before `run`."""
        if kind not in self._reflectors:
            self._reflectors[kind] = Reflector(self._store, self._keeping.get(kind) or Keeping(kind), self._clock, namespace=self._namespace)
        self._reflectors[kind].subscribe(Subscription(mapper, enqueue, own))

    async def run(self) -> None:
        """Follow every kind until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for kind, reflector in self._reflectors.items():
                    tasks.create_task(reflector.run(partial(self._note_listed, kind)))
        finally:
            self._listed.clear()
            self._synced.clear()

    async def synced(self) -> None:
        """Wait until every kind has been listed: before that, what is not known may exist all the same."""
        await self._synced.wait()

    @property
    def is_synced(self) -> bool:
        """Whether every kind has been listed."""
        return self._synced.is_set()

    def is_final(self, kind: ResourceKind, key: ObjectKey) -> bool:
        """Say whether an object is known to be final: a pass over it would do nothing."""
        return kind in self._listed and self._reflectors[kind].cache.is_final(key)

    def all_keys(self, kind: ResourceKind) -> tuple[ObjectKey, ...]:
        """Return the objects of a kind that exist, as far as is known."""
        return self._reflectors[kind].cache.all_keys() if kind in self._reflectors else ()

    def find(self, kind: ResourceKind, key: ObjectKey) -> Object | None:
        """Return an object as it was last told (see `Known.find`)."""
        return self._reflectors[kind].cache.get(key) if kind in self._listed else None

    def select(self, kind: ResourceKind, index: str, value: str) -> list[Object] | None:
        """Return the objects found under a value of an index (see `Known.select`)."""
        return self._reflectors[kind].cache.select(index, value) if kind in self._listed else None

    def keys(self, kind: ResourceKind, index: str, value: str) -> tuple[ObjectKey, ...] | None:
        """Return the keys of the objects found under a value of an index (see `Known.keys`)."""
        return self._reflectors[kind].cache.keys_of(index, value) if kind in self._listed else None

    def _learn(self, kind: ResourceKind, obj: Object) -> None:
        if kind in self._listed and self._namespace in (None, obj["metadata"].get("namespace")):
            self._reflectors[kind].cache.learn(obj)

    def _doubt(self, kind: ResourceKind, key: ObjectKey) -> None:
        if kind in self._listed:
            self._reflectors[kind].cache.doubt(key)

    def _note_listed(self, kind: ResourceKind) -> None:
        self._listed.add(kind)
        if self._listed >= self._reflectors.keys():
            self._synced.set()
