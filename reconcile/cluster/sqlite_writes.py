"""The verbs of the embedded store, as they run in its thread.

Joins the pure rules of `writes.py` with the rows of `sqlite_tables.py`, and owns what spans objects: removal and the owner cascade. Each
verb is one transaction of its caller's.
"""

import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from foundation.clock import Clock
from reconcile.cluster import writes
from reconcile.cluster.merge import is_same
from reconcile.cluster.metadata import generated_name
from reconcile.cluster.port import EVENT, KINDS, Object, ResourceKind, kind_of
from reconcile.cluster.sqlite_tables import Row, Tables
from reconcile.cluster.writes import Rules, Stamp
from reconcile.errors import AlreadyExists, NotFound

_NAME_ATTEMPTS = 8
_EXPIRED_AT_ONCE = 500

Warn = Callable[[list[str]], None]


class Verbs:
    """Reads and writes of whole objects. Returned objects are the caller's own."""

    def __init__(self, tables: Tables, rules: Rules, clock: Clock) -> None:
        self._tables = tables
        self._rules = rules
        self._clock = clock

    def get(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        """Return the object, or raise NotFound."""
        return self._stored(kind, namespace, name)[1]

    def create(self, obj: Object, warn: Warn) -> Object:
        """Store a new object."""
        kind = kind_of(obj)
        metadata: dict[str, Any] = {} if writes.shape_problems(obj) else obj["metadata"]
        name = self._free_name(kind, metadata)
        new, warnings = writes.admitted(kind, writes.created(kind, obj, Stamp(name, str(uuid.uuid4()), self._time())), None, self._rules)
        namespace = new["metadata"].get("namespace", "")
        if self._tables.uid_of(kind, namespace, name) is not None:
            raise AlreadyExists(kind.kind, namespace, name)
        body = self._encode(kind, new)
        self._tables.insert(kind, new, body, self._now())
        warn(warnings)
        self._collect_if_orphaned(kind, new)
        return new

    def update(self, obj: Object, warn: Warn) -> Object:
        """Replace an object but for its status."""
        kind = kind_of(obj)
        problems = writes.shape_problems(obj)
        metadata: dict[str, Any] = {} if problems else obj["metadata"]
        row, old = self._stored(kind, metadata.get("namespace"), str(metadata.get("name", "")))
        return self._store(kind, row, old, writes.replaced(kind, old, obj), warn)

    def patch(self, kind: ResourceKind, key: tuple[str | None, str], merge_patch: Object, resource_version: str | None, warn: Warn) -> Object:
        """Apply a merge patch to all but the status."""
        row, old = self._stored(kind, *key)
        writes.check_preconditions(kind, old, resource_version=resource_version)
        return self._store(kind, row, old, writes.patched(kind, old, merge_patch), warn)

    def patch_status(self, kind: ResourceKind, key: tuple[str | None, str], status: Object, resource_version: str | None) -> Object:
        """Apply a merge patch to the status."""
        row, old = self._stored(kind, *key)
        writes.check_preconditions(kind, old, resource_version=resource_version)
        new = writes.status_patched(kind, old, status, self._rules)
        return old if is_same(new, old) else self._replace(kind, row, old, new)

    def delete(self, kind: ResourceKind, key: tuple[str | None, str], uid: str | None, resource_version: str | None) -> Object | None:
        """Delete an object and what it alone owns; return it while finalizers hold it."""
        row, old = self._stored(kind, *key)
        writes.check_preconditions(kind, old, uid=uid, resource_version=resource_version)
        freed: deque[str] = deque()
        held = self._begin_deletion(kind, row, old, freed)
        self._cascade(freed)
        return held

    def expire_events(self, older_than_s: float) -> None:
        """Remove v1 Events that have not changed for that long, some hundreds at a time."""
        for row in self._tables.older_than(EVENT, self._now() - older_than_s, _EXPIRED_AT_ONCE):
            self._remove(EVENT, row, row.load(), deque())

    def _stored(self, kind: ResourceKind, namespace: str | None, name: str) -> tuple[Row, Object]:
        row = self._tables.find(kind, (namespace or "") if kind.namespaced else "", name)
        if row is None:
            raise NotFound(kind.kind, namespace, name)
        return row, row.load()

    def _free_name(self, kind: ResourceKind, metadata: dict[str, Any]) -> str:
        base = metadata.get("generateName")
        if metadata.get("name") or not isinstance(base, str) or not base:
            return str(metadata.get("name") or "")
        name = generated_name(base)
        for _ in range(_NAME_ATTEMPTS - 1):
            if self._tables.uid_of(kind, metadata.get("namespace") or "", name) is None:
                break
            name = generated_name(base)
        return name

    def _store(self, kind: ResourceKind, row: Row, old: Object, draft: Object, warn: Warn) -> Object:
        new, warnings = writes.admitted(kind, draft, old, self._rules)
        warn(warnings)
        if is_same(new, old):
            return old
        if "deletionTimestamp" in old["metadata"] and not new["metadata"].get("finalizers"):
            freed: deque[str] = deque()
            stored = old["metadata"]["resourceVersion"]
            self._remove(kind, row, old, freed)  # as it was last stored: nobody hears of what this write made of it
            self._cascade(freed)
            return {**new, "metadata": {**new["metadata"], "resourceVersion": stored}}
        new = self._replace(kind, row, old, new)
        if not is_same(new["metadata"].get("ownerReferences"), old["metadata"].get("ownerReferences")):
            self._collect_if_orphaned(kind, new)
        return new

    def _replace(self, kind: ResourceKind, row: Row, old: Object, new: Object) -> Object:
        new = {**new, "metadata": dict(new["metadata"])}
        self._tables.replace(kind, row, old, (new, self._encode(kind, new)), self._now())
        return new

    def _encode(self, kind: ResourceKind, obj: Object) -> str:
        """Give the object the next version, and return it as JSON."""
        obj["metadata"]["resourceVersion"] = str(self._tables.next_version())
        return writes.encode(kind, obj)

    def _begin_deletion(self, kind: ResourceKind, row: Row, old: Object, freed: deque[str]) -> Object | None:
        """Remove an object, or mark it when finalizers hold it; an object that is marked already stays as it is."""
        if not old["metadata"].get("finalizers"):
            self._remove(kind, row, old, freed)
            return None
        if "deletionTimestamp" in old["metadata"]:
            return old
        metadata = {**old["metadata"], "deletionTimestamp": self._time(), "deletionGracePeriodSeconds": 0}
        if kind.has_generation:
            metadata["generation"] = int(metadata.get("generation", 0)) + 1
        return self._replace(kind, row, old, {**old, "metadata": metadata})

    def _remove(self, kind: ResourceKind, row: Row, last: Object, freed: deque[str]) -> None:
        last["metadata"] = dict(last["metadata"])
        self._tables.remove(kind, row, (last, self._encode(kind, last)), self._now())
        freed.append(last["metadata"]["uid"])

    def _cascade(self, freed: deque[str]) -> None:
        """Delete what the removed owners alone owned, and what that owned, until nothing is left to do."""
        while freed:
            for row in self._tables.dependents(freed.popleft()):
                dependent = row.load()
                kind = kind_of(dependent)
                if self._is_orphaned(kind, dependent):
                    self._begin_deletion(kind, row, dependent, freed)
                else:
                    self._forget_gone_owners(kind, row, dependent)

    def _collect_if_orphaned(self, kind: ResourceKind, obj: Object) -> None:
        if not self._is_orphaned(kind, obj):
            return
        metadata = obj["metadata"]
        row, stored = self._stored(kind, metadata.get("namespace"), metadata["name"])
        freed: deque[str] = deque()
        self._begin_deletion(kind, row, stored, freed)
        self._cascade(freed)

    def _is_orphaned(self, kind: ResourceKind, obj: Object) -> bool:
        owners = obj["metadata"].get("ownerReferences") or ()
        return bool(owners) and not any(self._lives(kind, obj, owner) for owner in owners)

    def _lives(self, kind: ResourceKind, obj: Object, owner: Object) -> bool:
        """Say whether an owner exists, by name and uid. One of a kind we do not serve, or that cannot own this object, is left in peace, as Kubernetes does."""
        owner_kind = KINDS.get(owner["kind"])
        if owner_kind is None or owner_kind.group != owner["apiVersion"].rpartition("/")[0] or (owner_kind.namespaced and not kind.namespaced):
            return True
        namespace = obj["metadata"].get("namespace", "") if owner_kind.namespaced else ""
        return self._tables.uid_of(owner_kind, namespace, owner["name"]) == str(owner["uid"])

    def _forget_gone_owners(self, kind: ResourceKind, row: Row, obj: Object) -> None:
        owners = obj["metadata"]["ownerReferences"]
        living = [owner for owner in owners if self._lives(kind, obj, owner)]
        if len(living) < len(owners):
            self._replace(kind, row, obj, {**obj, "metadata": {**obj["metadata"], "ownerReferences": living}})

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _time(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
