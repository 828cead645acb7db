"""A Cluster on which only a leader writes: reads pass, and a write is refused once the lead is not certain.

What was sent while the lead was certain may still arrive after it is lost; that is why facts are set once and written on top of a resourceVersion
(design: "More than one of us"). Nothing is sent later.
"""

from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

from foundation.clock import Clock
from reconcile.cluster.port import Cluster, Fields, Labels, Listing, Object, ResourceKind, WatchEvent
from reconcile.errors import NotLeading, StoreUnavailable
from reconcile.runtime.deadline import within
from reconcile.runtime.leader import Leadership

T = TypeVar("T")


class FencedCluster:
    """A `Cluster` whose writes need the lead. Every write may raise NotLeading: nothing was changed.

    A write that has no answer when the lead runs out is given up: StoreUnavailable, and whether it took effect is unknown.
    """

    def __init__(self, cluster: Cluster, leadership: Leadership, clock: Clock) -> None:
        self._cluster = cluster
        self._leadership = leadership
        self._clock = clock

    async def get(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        """Return one object (see `Cluster.get`)."""
        return await self._cluster.get(kind, namespace, name)

    async def list(self, kind: ResourceKind, namespace: str | None = None, labels: Labels | None = None, *, fields: Fields | None = None) -> Listing:
        """Return the selected objects (see `Cluster.list`)."""
        return await self._cluster.list(kind, namespace, labels, fields=fields)

    def pages(self, kind: ResourceKind, namespace: str | None = None) -> AsyncGenerator[Listing, None]:
        """Yield all objects, page by page (see `Cluster.pages`)."""
        return self._cluster.pages(kind, namespace)

    def watch(
        self, kind: ResourceKind, namespace: str | None, resource_version: str, *, labels: Labels | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield changes (see `Cluster.watch`)."""
        return self._cluster.watch(kind, namespace, resource_version, labels=labels)

    async def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Store a new object (see `Cluster.create`)."""
        return await self._as_leader(self._cluster.create(obj, dry_run=dry_run))

    async def update(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Replace an object (see `Cluster.update`)."""
        return await self._as_leader(self._cluster.update(obj, dry_run=dry_run))

    async def patch(
        self, kind: ResourceKind, namespace: str | None, name: str, merge_patch: Object, *, resource_version: str | None = None, dry_run: bool = False
    ) -> Object:
        """Apply a merge patch (see `Cluster.patch`)."""
        return await self._as_leader(self._cluster.patch(kind, namespace, name, merge_patch, resource_version=resource_version, dry_run=dry_run))

    async def patch_status(
        self, kind: ResourceKind, namespace: str | None, name: str, status: Object, *, resource_version: str | None = None
    ) -> Object:
        """Apply a merge patch to the status (see `Cluster.patch_status`)."""
        return await self._as_leader(self._cluster.patch_status(kind, namespace, name, status, resource_version=resource_version))

    async def delete(
        self, kind: ResourceKind, namespace: str | None, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> Object | None:
        """Delete an object (see `Cluster.delete`)."""
        return await self._as_leader(self._cluster.delete(kind, namespace, name, uid=uid, resource_version=resource_version))

    async def _as_leader(self, write: Coroutine[Any, Any, T]) -> T:
        remaining_s = self._leadership.remaining_s()
        if remaining_s <= 0:
            write.close()
            raise NotLeading("cannot write: this process does not lead")
        answer = await within(remaining_s, _boxed(write), self._clock)
        if answer is None:
            raise StoreUnavailable("cannot write: the lead ran out before the store answered")
        return answer[0]


async def _boxed(write: Coroutine[Any, Any, T]) -> tuple[T]:
    """Return an answer that may be None as something that is not."""
    return (await write,)
