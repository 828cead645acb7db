"""Follow the objects of one kind, and say which keys each change concerns.

Owns list, watch, and listing again when the log was compacted. Must not know what is done with a key.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from foundation.clock import Clock
from reconcile.cluster.port import Cluster, Object, ObjectKey, ResourceKind
from reconcile.errors import ClusterError, Gone
from reconcile.runtime.keyqueue import Backoff

Mapper = Callable[[Object], Iterable[ObjectKey] | Awaitable[Iterable[ObjectKey]]]
"""Which keys an object concerns; a coroutine function where that takes a look at the world."""

_BACKOFF = Backoff(first_s=0.1, limit_s=30.0)
_RESUME_AFTER_S = 0.1

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Following:
    """What to follow: a kind, in one namespace or in all, and the mapper of its objects."""

    kind: ResourceKind
    mapper: Mapper
    namespace: str | None = None


class Reflector:
    """Calls `enqueue` with every key that an object of the kind concerns, as the object is and as it was before.

    Objects that vanish between a watch and the next listing are noticed too. Errors of the store are retried with backoff, for ever.
    """

    def __init__(self, cluster: Cluster, following: Following, enqueue: Callable[[ObjectKey], None], clock: Clock) -> None:
        self._cluster = cluster
        self._following = following
        self._enqueue = enqueue
        self._clock = clock
        self._seen: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        self._log = _log.bind(kind=following.kind.kind)

    @property
    def keys(self) -> tuple[ObjectKey, ...]:
        """The objects that exist, as far as is known."""
        return tuple(self._seen)

    async def run(self) -> None:
        """Follow until cancelled."""
        failures = 0
        while True:
            try:
                version = await self._list()
                failures = 0
                await self._watch(version)
            except Gone:
                self._log.info("watch.gone")
            except ClusterError as error:
                self._log.warning("watch.failed", error=error.message)
                await self._clock.sleep(_BACKOFF.delay_s(failures))
                failures += 1

    async def _list(self) -> str:
        listing = await self._cluster.list(self._following.kind, self._following.namespace)
        vanished = set(self._seen) - {ObjectKey.of(obj) for obj in listing.items}
        for key in vanished:
            self._tell(self._seen.pop(key))
        for obj in listing.items:
            await self._see(obj)
        return listing.resource_version

    async def _watch(self, version: str) -> None:
        """Watch for ever; a watch that ends by itself goes on where it was."""
        while True:
            async with aclosing(self._cluster.watch(self._following.kind, self._following.namespace, version)) as events:
                async for event in events:
                    version = event.object["metadata"]["resourceVersion"]
                    await self._see(event.object)
                    if event.type == "DELETED":
                        self._seen.pop(ObjectKey.of(event.object), None)
            await self._clock.sleep(_RESUME_AFTER_S)

    async def _see(self, obj: Object) -> None:
        key = ObjectKey.of(obj)
        now = await self._mapped(obj)
        self._tell({*now, *self._seen.get(key, ())})
        self._seen[key] = now

    async def _mapped(self, obj: Object) -> tuple[ObjectKey, ...]:
        """Return the keys an object concerns; a mapper that fails costs this change only, since the regular interval looks again."""
        try:
            mapped = self._following.mapper(obj)
            return tuple(await mapped if inspect.isawaitable(mapped) else mapped)
        except Exception:  # noqa: BLE001 - a fault of one mapper must not end the watch
            self._log.exception("mapper.failed", key=str(ObjectKey.of(obj)))
            return ()

    def _tell(self, keys: Iterable[ObjectKey]) -> None:
        for key in keys:
            self._enqueue(key)


def by_itself(obj: Object) -> Iterable[ObjectKey]:
    """Map an object to its own key."""
    return (ObjectKey.of(obj),)


def by_owner(owner: ResourceKind) -> Mapper:
    """Return the mapper from an object to the objects of kind `owner` that own it."""

    def owners(obj: Object) -> Iterable[ObjectKey]:
        namespace = obj["metadata"].get("namespace", "") if owner.namespaced else ""
        references = obj["metadata"].get("ownerReferences") or ()
        group = owner.api_version.rpartition("/")[0]
        return [
            ObjectKey(namespace, reference["name"])
            for reference in references
            if reference["kind"] == owner.kind and reference["apiVersion"].rpartition("/")[0] == group
        ]

    return owners
