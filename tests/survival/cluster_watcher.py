"""One who lists, then watches, and reads late: what it has heard, replayed over its listing, must be what the store holds.

Knows nothing of the model; it follows the journal of all events that the machine keeps.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from reconcile.cluster.port import Cluster, Object, ObjectKey, ResourceKind, WatchEvent

Known = dict[ObjectKey, Object]
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Selection:
    """What is watched."""

    kind: ResourceKind
    namespace: str | None = None
    label: str | None = None

    @property
    def labels(self) -> dict[str, str] | None:
        """The label that is asked for."""
        return None if self.label is None else {"t": self.label}

    def covers(self, obj: Object) -> bool:
        """Say whether an object is selected."""
        metadata = obj["metadata"]
        return self.namespace in (None, metadata["namespace"]) and self.label in (None, (metadata.get("labels") or {}).get("t"))


@dataclass(slots=True)
class Watcher:
    """A watch that is read late. `known` is the listing with all events replayed, `heard` the events since the last listing."""

    selection: Selection
    known: Known
    cursor: str
    heard: list[WatchEvent] = field(default_factory=list)
    began_at: str = ""
    _stream: AsyncGenerator[WatchEvent, None] | None = None
    _pending: "asyncio.Task[WatchEvent | None] | None" = None

    async def read(self, cluster: Cluster) -> None:
        """Take every event that the store has.

        Raises:
            Gone: the store's log does not reach back to the cursor.
        """
        while (event := await self._next(cluster)) is not None:
            self._replay(event)

    async def relist(self, cluster: Cluster) -> None:
        """List, and watch from there."""
        await self.end()
        listing = await cluster.list(self.selection.kind, self.selection.namespace, self.selection.labels)
        self.known = {ObjectKey.of(obj): obj for obj in listing.items}
        self.cursor = self.began_at = listing.resource_version
        self.heard = []

    async def end(self) -> None:
        """Stop listening; a later `read` goes on at the cursor."""
        if self._pending is not None:
            self._pending.cancel()
            await asyncio.gather(self._pending, return_exceptions=True)
        if self._stream is not None:
            await self._stream.aclose()
        self._pending = self._stream = None

    async def _next(self, cluster: Cluster) -> WatchEvent | None:
        """Return the next event; None when the store has none now: after some rounds through its queue of work the watch still waits."""
        if self._stream is None:
            selection = self.selection
            self._stream = cluster.watch(selection.kind, selection.namespace, self.cursor, labels=selection.labels)
        if self._pending is None:
            self._pending = asyncio.create_task(_step(self._stream))
        for _ in range(_ROUNDS):
            if not self._pending.done():
                await cluster.list(self.selection.kind, "nowhere")
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        if not self._pending.done():
            return None
        pending, self._pending = self._pending, None
        return pending.result()

    def _replay(self, event: WatchEvent) -> None:
        key, version = ObjectKey.of(event.object), event.object["metadata"]["resourceVersion"]
        assert int(version) > int(self.cursor), f"{event.type} of {key} was told again"
        assert (key in self.known) == (event.type != "ADDED"), f"{event.type} of {key}, which was {'' if key in self.known else 'not '}there"
        if event.type == "DELETED":
            del self.known[key]
        else:
            self.known[key] = event.object
        self.cursor = version
        self.heard.append(event)


async def _step(stream: AsyncGenerator[WatchEvent, None]) -> WatchEvent | None:
    return await anext(stream, None)
