"""Follow the objects of one kind: list, watch, remember, and say which keys each change concerns.

Owns listing again when the log was compacted or a watch failed. Must not know what is done with a key.
"""

import inspect
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from foundation.clock import Clock
from reconcile.cluster.port import Cluster, Object, ObjectKey, ResourceKind
from reconcile.errors import ClusterError, Gone
from reconcile.runtime.cache import Keeping, ObjectCache
from reconcile.runtime.keyqueue import Backoff

Mapper = Callable[[Object], Iterable[ObjectKey] | Awaitable[Iterable[ObjectKey]]]
"""Which keys an object concerns; a coroutine function where that takes a look at the world. It sees an object as it is, and the projection it had."""

_BACKOFF = Backoff(first_s=0.05, limit_s=15.0)
_HEALTHY_S = 120.0
"""A watch that has lasted so long was a good one: the next failure is the first again. The numbers are client-go's but for a quicker start."""
_RESUME_AFTER_S = 0.1

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Who hears of changes: `enqueue` gets every key that `mapper` says an object concerns, as it is and as it was before.

    `own`: the keys are the objects' own, and a final object is passed over. Others hear only of changes of what the projection shows.
    """

    mapper: Mapper
    enqueue: Callable[[ObjectKey], None]
    own: bool = False


class Reflector:
    """Keeps a cache of a kind's objects up to date, and tells its subscribers of changes.

    Objects that vanish between a watch and the next listing are noticed too. Errors of the store are retried with backoff, for ever. While a
    watch is broken the cache keeps what it last held.
    """

    def __init__(self, cluster: Cluster, keeping: Keeping, clock: Clock, *, namespace: str | None = None) -> None:
        self.cache = ObjectCache(keeping)
        self._cluster = cluster
        self._kind = keeping.kind
        self._namespace = namespace
        self._clock = clock
        self._subscriptions: list[Subscription] = []
        self._log = _log.bind(kind=keeping.kind.kind)

    def subscribe(self, subscription: Subscription) -> None:
        """Tell a subscriber of changes from now on; before `run`, so that it hears of every object."""
        self._subscriptions.append(subscription)

    async def run(self, on_listed: Callable[[], None]) -> None:
        """Follow until cancelled; `on_listed` is called after every listing."""
        failures = 0
        while True:
            began = self._clock.monotonic()
            try:
                version = await self._list()
                on_listed()
                await self._watch(version)
            except Gone:
                self._log.info("watch.gone")
            except ClusterError as error:
                self._log.warning("watch.failed", error=error.message)
            failures = 0 if self._clock.monotonic() - began > _HEALTHY_S else failures + 1
            jitter = random.uniform(1, 2)  # noqa: S311 - spreads load, guards nothing
            await self._clock.sleep(_BACKOFF.delay_s(failures) * jitter)

    async def _list(self) -> str:
        seen: set[ObjectKey] = set()
        version = ""
        async with aclosing(self._cluster.pages(self._kind, self._namespace)) as pages:
            async for page in pages:
                version = page.resource_version
                for obj in page.items:
                    seen.add(ObjectKey.of(obj))
                    await self._see(obj)
        for key in self.cache.all_keys():
            if key not in seen:
                await self._tell_gone(self.cache.remove(key))
        return version

    async def _watch(self, version: str) -> None:
        """Watch for ever; a watch that ends by itself goes on where it was."""
        while True:
            async with aclosing(self._cluster.watch(self._kind, self._namespace, version)) as events:
                async for event in events:
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type == "DELETED":
                        before = self.cache.remove(ObjectKey.of(event.object), version)
                        await self._tell_gone(before, event.object)
                    else:
                        await self._see(event.object)
            await self._clock.sleep(_RESUME_AFTER_S)

    async def _see(self, obj: Object) -> None:
        change = self.cache.tell(obj)
        if change is None:
            return
        final = self.cache.is_final(ObjectKey.of(obj))
        for subscription in self._subscriptions:
            if not final if subscription.own else change.shown:
                await self._tell(subscription, obj, change.before)

    async def _tell_gone(self, *states: Object | None) -> None:
        for subscription in self._subscriptions:
            await self._tell(subscription, *states)

    async def _tell(self, subscription: Subscription, *states: Object | None) -> None:
        for key in {key for state in states if state is not None for key in await self._mapped(subscription.mapper, state)}:
            subscription.enqueue(key)

    async def _mapped(self, mapper: Mapper, obj: Object) -> tuple[ObjectKey, ...]:
        """Return the keys an object concerns; a mapper that fails costs this change only, since the regular interval looks again."""
        try:
            mapped = mapper(obj)
            return tuple(await mapped if inspect.isawaitable(mapped) else mapped)
        except Exception:  # noqa: BLE001 - a fault of one mapper must not end the watch
            self._log.exception("mapper.failed", key=str(ObjectKey.of(obj)))
            return ()


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
