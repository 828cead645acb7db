"""A cluster whose answers are remembered: who writes reads its own writes, though the watch that will tell of them is behind.

Owns which answer says what about an object. Must not know how it is remembered.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from reconcile.cluster.port import Cluster, Fields, Labels, Listing, Object, ObjectKey, ResourceKind, WatchEvent, kind_of
from reconcile.errors import Invalid

T = TypeVar("T", Object, Object | None)


class LearningCluster:
    """A `Cluster` over another one. `learn` gets every object that the store returned by name, as it is now.

    `doubt` gets the place of an object of which a write was refused as stale or had no answer: what is known of it may be older than the store's.
    Listings are not learned.
    """

    def __init__(self, cluster: Cluster, learn: Callable[[ResourceKind, Object], None], doubt: Callable[[ResourceKind, ObjectKey], None]) -> None:
        self._cluster = cluster
        self._learn = learn
        self._doubt = doubt

    async def get(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        """Return one object (see `Cluster.get`)."""
        obj = await self._cluster.get(kind, namespace, name)
        self._learn(kind, obj)
        return obj

    async def list(self, kind: ResourceKind, namespace: str | None = None, labels: Labels | None = None, *, fields: Fields | None = None) -> Listing:
        """Return the selected objects (see `Cluster.list`)."""
        return await self._cluster.list(kind, namespace, labels, fields=fields)

    def pages(self, kind: ResourceKind, namespace: str | None = None) -> AsyncGenerator[Listing, None]:
        """Yield all objects (see `Cluster.pages`)."""
        return self._cluster.pages(kind, namespace)

    async def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Store a new object (see `Cluster.create`)."""
        if dry_run:
            return await self._cluster.create(obj, dry_run=True)
        new = await self._cluster.create(obj)
        self._learn(kind_of(new), new)
        return new

    async def update(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Replace an object (see `Cluster.update`)."""
        if dry_run:
            return await self._cluster.update(obj, dry_run=True)
        return await self._written(kind_of(obj), ObjectKey.of(obj), self._cluster.update(obj))

    async def patch(
        self, kind: ResourceKind, namespace: str | None, name: str, merge_patch: Object, *, resource_version: str | None = None, dry_run: bool = False
    ) -> Object:
        """Apply a merge patch (see `Cluster.patch`)."""
        if dry_run:
            return await self._cluster.patch(kind, namespace, name, merge_patch, resource_version=resource_version, dry_run=True)
        patch = self._cluster.patch(kind, namespace, name, merge_patch, resource_version=resource_version)
        return await self._written(kind, ObjectKey(namespace or "", name), patch)

    async def patch_status(
        self, kind: ResourceKind, namespace: str | None, name: str, status: Object, *, resource_version: str | None = None
    ) -> Object:
        """Apply a merge patch to the status (see `Cluster.patch_status`)."""
        patch = self._cluster.patch_status(kind, namespace, name, status, resource_version=resource_version)
        return await self._written(kind, ObjectKey(namespace or "", name), patch)

    async def delete(
        self, kind: ResourceKind, namespace: str | None, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> Object | None:
        """Delete an object (see `Cluster.delete`). What is gone at once stays known until the watch tells, since only that knows the version."""
        return await self._written(
            kind, ObjectKey(namespace or "", name), self._cluster.delete(kind, namespace, name, uid=uid, resource_version=resource_version)
        )

    def watch(
        self, kind: ResourceKind, namespace: str | None, resource_version: str, *, labels: Labels | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield changes (see `Cluster.watch`)."""
        return self._cluster.watch(kind, namespace, resource_version, labels=labels)

    async def _written(self, kind: ResourceKind, key: ObjectKey, write: Awaitable[T]) -> T:
        try:
            obj = await write
        except Invalid:
            raise  # refused for what it said, not for what it was based on
        except BaseException:
            self._doubt(kind, key)
            raise
        if obj is None:
            self._doubt(kind, key)
        else:
            self._learn(kind, obj)
        return obj
