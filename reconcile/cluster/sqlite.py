"""The embedded adapter of the Cluster port: Kubernetes' semantics over one SQLite file.

Owns the async face of the store, its watches and its upkeep. One process uses a file at a time (its owner locks the state directory), from
one event loop: watches are woken by this process's own commits, without polling.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path

from foundation.clock import Clock
from reconcile.cluster.port import Admission, EventType, Fields, Labels, Listing, Object, ObjectKey, ResourceKind, StatusAdmission, WatchEvent
from reconcile.cluster.selectors import Selector
from reconcile.cluster.sqlite_file import open_file
from reconcile.cluster.sqlite_tables import LogEntry, LogLimits, LogPage, Tables, labels_of
from reconcile.cluster.sqlite_thread import StoreThread
from reconcile.cluster.sqlite_writes import Verbs, Warn
from reconcile.cluster.writes import Rules
from reconcile.errors import FieldError, Gone, Invalid

EVENT_LIFETIME_S = 24 * 3600.0
UPKEEP_INTERVAL_S = 60.0
DEFAULT_LOG_LIMITS = LogLimits()
_PAGE = 200
_LISTED = 100
"""Objects in a page of a listing: a page costs a millisecond to ask for here, and 15 kB of memory an object."""
_VERSION = re.compile(r"[0-9]{1,18}")
"""SQLite's integers have 63 bits."""

_warnings: ContextVar[list[str] | None] = ContextVar("admission_warnings", default=None)


@contextmanager
def admission_warnings() -> Iterator[list[str]]:
    """Collect what admission warns of in the writes of this block, in order; outside of one, warnings are dropped."""
    collected: list[str] = []
    token = _warnings.set(collected)
    try:
        yield collected
    finally:
        _warnings.reset(token)


class SqliteCluster:
    """A `Cluster` in a SQLite file, or in memory for ":memory:".

    Opens, and where needed makes and migrates, the file at once. `admit` and `admit_status` are the rules of kinds; they run inside the
    write. `log_limits` says how far back a watch can resume. v1 Events expire a day after their last change.

    Raises:
        StoreCorrupt, StoreReadOnly, StoreFull, StoreTooNew, StoreUnavailable: the file cannot be used; nothing was changed.
    """

    def __init__(
        self,
        path: Path | str,
        clock: Clock,
        *,
        admit: Admission | None = None,
        admit_status: StatusAdmission | None = None,
        log_limits: LogLimits = DEFAULT_LOG_LIMITS,
    ) -> None:
        connection = open_file(path)
        self._clock = clock
        self._log_limits = log_limits
        self._tables = Tables(connection)
        self._verbs = Verbs(self._tables, Rules(admit, admit_status), clock)
        self._watches: dict[asyncio.Event, str] = {}
        self._last_upkeep_s = clock.monotonic()
        self._closed = False
        self._thread = StoreThread(connection, str(path), self._take_touched)

    async def close(self) -> None:
        """End all watches and close the file. Closing twice is fine; every other call then raises StoreUnavailable."""
        self._closed = True
        self._wake(set(self._watches.values()))
        await self._thread.close()

    async def get(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        """Return one object (see `Cluster.get`)."""
        return await self._thread.run(lambda: self._verbs.get(kind, namespace, name), writes=False)

    async def list(self, kind: ResourceKind, namespace: str | None = None, labels: Labels | None = None, *, fields: Fields | None = None) -> Listing:
        """Return the selected objects (see `Cluster.list`)."""
        selection = _selector(labels), _field_selector(kind, fields)
        return await self._thread.run(lambda: self._listing(kind, namespace, *selection), writes=False)

    async def pages(self, kind: ResourceKind, namespace: str | None = None) -> AsyncGenerator[Listing, None]:
        """Yield all objects, page by page (see `Cluster.pages`)."""
        after, first = ("", ""), ""
        while True:
            page = await self._thread.run(partial(self._page_of, kind, namespace, after), writes=False)
            first = first or page.resource_version
            yield Listing(page.items, first)
            if len(page.items) < _LISTED:
                return
            last = ObjectKey.of(page.items[-1])
            after = (last.namespace, last.name)

    async def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Store a new object (see `Cluster.create`)."""
        return await self._write(lambda warn: self._verbs.create(obj, warn), dry_run=dry_run)

    async def update(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Replace an object (see `Cluster.update`)."""
        return await self._write(lambda warn: self._verbs.update(obj, warn), dry_run=dry_run)

    async def patch(
        self, kind: ResourceKind, namespace: str | None, name: str, merge_patch: Object, *, resource_version: str | None = None, dry_run: bool = False
    ) -> Object:
        """Apply a merge patch (see `Cluster.patch`)."""
        return await self._write(lambda warn: self._verbs.patch(kind, (namespace, name), merge_patch, resource_version, warn), dry_run=dry_run)

    async def patch_status(
        self, kind: ResourceKind, namespace: str | None, name: str, status: Object, *, resource_version: str | None = None
    ) -> Object:
        """Apply a merge patch to the status (see `Cluster.patch_status`)."""
        return await self._thread.run(lambda: self._verbs.patch_status(kind, (namespace, name), status, resource_version), writes=True)

    async def delete(
        self, kind: ResourceKind, namespace: str | None, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> Object | None:
        """Delete an object (see `Cluster.delete`)."""
        return await self._thread.run(lambda: self._verbs.delete(kind, (namespace, name), uid, resource_version), writes=True)

    async def watch(
        self, kind: ResourceKind, namespace: str | None, resource_version: str, *, labels: Labels | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield changes (see `Cluster.watch`)."""
        selector, changed = _selector(labels), asyncio.Event()
        self._watches[changed] = kind.kind
        try:
            if resource_version in ("", "0"):
                listing = await self.list(kind, namespace, selector)
                for obj in listing.items:
                    yield WatchEvent("ADDED", obj)
                resource_version = listing.resource_version
            cursor = _version(resource_version)
            while not self._closed:
                changed.clear()
                page = await self._page(kind, namespace, cursor)
                for entry in page.entries:
                    event = _event(entry, selector)
                    if event is not None:
                        yield event
                if len(page.entries) < _PAGE:
                    cursor = page.version
                    await changed.wait()
                else:
                    cursor = page.entries[-1].version
        finally:
            del self._watches[changed]

    async def compact(self) -> None:
        """Drop what the log keeps beyond its limits, and expired Events, now; it also happens by itself, at most every minute."""
        await self._thread.run(self._upkeep, writes=True)

    async def _write(self, verb: Callable[[Warn], Object], *, dry_run: bool) -> Object:
        sink = _warnings.get()

        def call() -> tuple[Object, list[str]]:
            collected: list[str] = []
            return verb(collected.extend), collected

        obj, warnings = await self._thread.run(call, writes=True, discard=dry_run)
        if sink is not None:
            sink += warnings
        return obj

    async def _page(self, kind: ResourceKind, namespace: str | None, cursor: int) -> LogPage:
        page = await self._thread.run(lambda: self._tables.log_after(kind, namespace, cursor, _PAGE), writes=False)
        if cursor < page.compacted or cursor > page.version:
            cause = "it has been compacted" if cursor < page.compacted else f"the store is at {page.version}"
            raise Gone(f"cannot watch {kind} from resourceVersion '{cursor}': {cause}", kind=kind.kind, hint="list again, and watch from there")
        return page

    def _listing(self, kind: ResourceKind, namespace: str | None, labels: Selector, fields: Selector) -> Listing:
        return Listing(self._tables.select(kind, namespace, labels, fields), str(self._tables.version()))

    def _page_of(self, kind: ResourceKind, namespace: str | None, after: tuple[str, str]) -> Listing:
        return Listing(self._tables.page(kind, namespace, after, _LISTED), str(self._tables.version()))

    def _upkeep(self) -> None:
        self._last_upkeep_s = self._clock.monotonic()
        self._verbs.expire_events(EVENT_LIFETIME_S)
        self._tables.compact(self._log_limits, self._clock.now().timestamp())

    def _take_touched(self) -> Callable[[], None]:
        touched, self._tables.touched = self._tables.touched, set()
        due = self._tables.is_log_over(self._log_limits) or self._clock.monotonic() - self._last_upkeep_s > UPKEEP_INTERVAL_S
        return lambda: self._wake(touched, upkeep=due)

    def _wake(self, kinds: set[str], *, upkeep: bool = False) -> None:
        for event, kind in self._watches.items():
            if kind in kinds:
                event.set()
        if upkeep and not self._closed:
            self._last_upkeep_s = self._clock.monotonic()
            self._thread.post(self._upkeep)


def _selector(labels: Labels | None) -> Selector:
    if isinstance(labels, Selector):
        return labels
    return Selector.equal(labels or {})


def _field_selector(kind: ResourceKind, fields: Fields | None) -> Selector:
    selector = _selector(fields)
    for term in selector.requirements:
        if term.key not in kind.selectable or term.operator not in ("in", "notin") or (term.operator == "in" and len(term.values) != 1):
            raise Invalid([FieldError("fieldSelector", f"Invalid value: {term.key!r}: {kind.plural} cannot be selected by this term")])
    return selector


def _version(resource_version: str) -> int:
    if not _VERSION.fullmatch(resource_version):
        raise Invalid([FieldError("resourceVersion", f"Invalid value: {resource_version!r}: must be one that this store gave")])
    return int(resource_version)


def _event(entry: LogEntry, selector: Selector) -> WatchEvent | None:
    """Return a change as one who watches a selection sees it, None when it does not concern it."""
    obj: Object = json.loads(entry.body)
    if not selector.requirements:
        return WatchEvent(entry.type, obj)
    now = selector.matches(labels_of(obj))
    before = now if entry.old_labels is None else selector.matches(entry.old_labels)
    if entry.type != "MODIFIED":
        return WatchEvent(entry.type, obj) if before else None
    seen: dict[tuple[bool, bool], EventType] = {(True, True): "MODIFIED", (False, True): "ADDED", (True, False): "DELETED"}
    event_type = seen.get((before, now))
    return WatchEvent(event_type, obj) if event_type else None
