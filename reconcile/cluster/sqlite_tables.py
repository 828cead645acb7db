"""The tables of the embedded store: rows in and out, and the log that watches read.

Owns every SQL statement on objects and log. Used from the store's thread only, inside a transaction that the thread opens; must not know
the rules of a write.
"""

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from reconcile.cluster.port import EventType, Object, ResourceKind
from reconcile.cluster.selectors import Selector

MAX_LOG_EVENTS = 20_000
MAX_LOG_BYTES = 64 * 1024 * 1024
MAX_LOG_AGE_S = 3600.0


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How much of the past watches can be resumed from; what exceeds any limit goes, oldest first."""

    events: int = MAX_LOG_EVENTS
    size_bytes: int = MAX_LOG_BYTES
    age_s: float = MAX_LOG_AGE_S


@dataclass(frozen=True, slots=True)
class Row:
    """A stored object: its row id and its JSON."""

    id: int
    body: str

    def load(self) -> Object:
        """Return a fresh copy of the object."""
        obj: Object = json.loads(self.body)
        return obj


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One change as the log keeps it. `old_labels` is given where the change changed the labels, a removal by an update among them."""

    version: int
    type: EventType
    body: str
    old_labels: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class LogPage:
    """A page of the log: entries after a version, what the store's version was, and up to where the kind's log has been compacted."""

    entries: list[LogEntry]
    version: int
    compacted: int


class Tables:
    """The store's rows. `touched` collects the kinds that were changed, for the watches; its owner empties it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.touched: set[str] = set()
        self._log_count = self._log_bytes = 0
        self._measure_log()

    def version(self) -> int:
        """Return the store-wide version of the last change."""
        (version,) = self._db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        return int(version)

    def next_version(self) -> int:
        """Count one change, and return its version."""
        (version,) = self._db.execute("UPDATE meta SET value = value + 1 WHERE key = 'version' RETURNING value").fetchone()
        return int(version)

    def find(self, kind: ResourceKind, namespace: str, name: str) -> Row | None:
        """Return the row of an object, None when there is none."""
        query = "SELECT id, body FROM objects WHERE kind = ? AND namespace = ? AND name = ?"
        found = self._db.execute(query, (kind.kind, namespace, name)).fetchone()
        return Row(*found) if found else None

    def uid_of(self, kind: ResourceKind, namespace: str, name: str) -> str | None:
        """Return the uid of the object of that name, None when there is none."""
        query = "SELECT uid FROM objects WHERE kind = ? AND namespace = ? AND name = ?"
        found = self._db.execute(query, (kind.kind, namespace, name)).fetchone()
        return str(found[0]) if found else None

    def select(self, kind: ResourceKind, namespace: str | None, labels: Selector, fields: Selector) -> list[Object]:
        """Return the selected objects, ordered by namespace and name. `fields` may name selectable fields of the kind only."""
        query, values = "SELECT body FROM objects WHERE kind = ?", [kind.kind]
        if namespace:
            query += " AND namespace = ?"
            values.append(namespace)
        for key, value in labels.exact().items():
            query += " AND id IN (SELECT object FROM labels WHERE key = ? AND value = ?)"
            values += [key, value]
        for term in fields.requirements:
            negation, places = "NOT " if term.operator == "notin" else "", ", ".join("?" * len(term.values))
            query += f" AND id IN (SELECT object FROM fields WHERE key = ? AND value {negation}IN ({places}))"  # noqa: S608 - question marks only
            values += [term.key, *sorted(term.values)]
        bodies = self._db.execute(query + " ORDER BY namespace, name", values)
        objects = (json.loads(body) for (body,) in bodies)
        return [obj for obj in objects if labels.matches(labels_of(obj))]

    def page(self, kind: ResourceKind, namespace: str | None, after: tuple[str, str], limit: int) -> list[Object]:
        """Return up to `limit` objects beyond a place (namespace, name), in that order."""
        query, values = "SELECT body FROM objects WHERE kind = ? AND (namespace, name) > (?, ?)", [kind.kind, *after]
        if namespace:
            query += " AND namespace = ?"
            values.append(namespace)
        return [json.loads(body) for (body,) in self._db.execute(f"{query} ORDER BY namespace, name LIMIT {int(limit)}", values)]

    def dependents(self, owner_uid: str) -> list[Row]:
        """Return the objects that name the uid among their owners."""
        query = "SELECT o.id, o.body FROM owners w JOIN objects o ON o.id = w.object WHERE w.owner = ? ORDER BY o.id"
        return [Row(*found) for found in self._db.execute(query, (owner_uid,))]

    def older_than(self, kind: ResourceKind, changed_before: float, limit: int) -> list[Row]:
        """Return objects of a kind whose last change was before a moment (epoch seconds), oldest first."""
        query = "SELECT id, body FROM objects WHERE kind = ? AND changed < ? ORDER BY changed LIMIT ?"
        return [Row(*found) for found in self._db.execute(query, (kind.kind, changed_before, limit))]

    def insert(self, kind: ResourceKind, obj: Object, body: str, now: float) -> None:
        """Store a new object, with its indexes and its log entry."""
        metadata = obj["metadata"]
        place = (kind.kind, metadata.get("namespace", ""), metadata["name"])
        cursor = self._db.execute(
            "INSERT INTO objects (kind, namespace, name, uid, changed, body) VALUES (?, ?, ?, ?, ?, ?)", (*place, metadata["uid"], now, body)
        )
        identity = int(cursor.lastrowid or 0)
        self._index_labels(identity, labels_of(obj))
        self._index_fields(identity, fields_of(kind, obj))
        self._index_owners(identity, obj)
        self._log(kind, "ADDED", obj, LogEntry(int(metadata["resourceVersion"]), "ADDED", body, None), now)

    def replace(self, kind: ResourceKind, row: Row, old: Object, change: tuple[Object, str], now: float) -> None:
        """Store the next state (object, JSON) of the object in `row`."""
        obj, body = change
        self._db.execute("UPDATE objects SET body = ?, changed = ? WHERE id = ?", (body, now, row.id))
        labels_changed = labels_of(old) != labels_of(obj)
        if labels_changed:
            self._db.execute("DELETE FROM labels WHERE object = ?", (row.id,))
            self._index_labels(row.id, labels_of(obj))
        if fields_of(kind, old) != fields_of(kind, obj):
            self._db.execute("DELETE FROM fields WHERE object = ?", (row.id,))
            self._index_fields(row.id, fields_of(kind, obj))
        if old["metadata"].get("ownerReferences") != obj["metadata"].get("ownerReferences"):
            self._db.execute("DELETE FROM owners WHERE object = ?", (row.id,))
            self._index_owners(row.id, obj)
        entry = LogEntry(int(obj["metadata"]["resourceVersion"]), "MODIFIED", body, labels_of(old) if labels_changed else None)
        self._log(kind, "MODIFIED", obj, entry, now)

    def remove(self, kind: ResourceKind, row: Row, last: tuple[Object, str], now: float) -> None:
        """Remove the object in `row`; `last` is its last state (object, JSON), with the version of the removal."""
        obj, body = last
        before, last_labels = labels_of(row.load()), labels_of(obj)
        self._db.execute("DELETE FROM objects WHERE id = ?", (row.id,))
        for table in ("labels", "fields", "owners"):
            self._db.execute(f"DELETE FROM {table} WHERE object = ?", (row.id,))  # noqa: S608 - names of our own tables
        entry = LogEntry(int(obj["metadata"]["resourceVersion"]), "DELETED", body, before if before != last_labels else None)
        self._log(kind, "DELETED", obj, entry, now)

    def log_after(self, kind: ResourceKind, namespace: str | None, version: int, limit: int) -> LogPage:
        """Return up to `limit` changes of a kind after a version, oldest first."""
        query, values = "SELECT version, type, body, labels FROM log WHERE kind = ? AND version > ?", [kind.kind, version]
        if namespace:
            query += " AND namespace = ?"
            values.append(namespace)
        rows = self._db.execute(f"{query} ORDER BY version LIMIT {int(limit)}", values)
        entries = [LogEntry(at, event, body, json.loads(labels) if labels is not None else None) for at, event, body, labels in rows]
        found = self._db.execute("SELECT version FROM compacted WHERE kind = ?", (kind.kind,)).fetchone()
        return LogPage(entries, self.version(), int(found[0]) if found else 0)

    def compact(self, limits: LogLimits, now: float) -> int:
        """Drop what the log keeps beyond its limits, at least a tenth at a time; return how many entries went."""
        (upto,) = self._db.execute("SELECT coalesce(max(version), 0) FROM log WHERE at < ?", (now - limits.age_s,)).fetchone()
        self._measure_log()
        surplus = self._log_count - limits.events
        if surplus > 0:
            upto = max(upto, self._version_at(surplus + limits.events // 10))
        if self._log_bytes > limits.size_bytes:
            upto = max(upto, self._version_over(limits.size_bytes))
        if not upto:
            return 0
        self._db.execute(
            "INSERT INTO compacted (kind, version) SELECT kind, max(version) FROM log WHERE version <= ? GROUP BY kind"
            " ON CONFLICT (kind) DO UPDATE SET version = excluded.version",
            (upto,),
        )
        dropped = self._db.execute("DELETE FROM log WHERE version <= ?", (upto,)).rowcount
        self._measure_log()
        return dropped

    def is_log_over(self, limits: LogLimits) -> bool:
        """Say whether the log has outgrown its count or size, roughly: writes that were rolled back are counted until the next `compact`."""
        return self._log_count > limits.events or self._log_bytes > limits.size_bytes

    def _measure_log(self) -> None:
        count, size = self._db.execute("SELECT count(*), coalesce(sum(length(body)), 0) FROM log").fetchone()
        self._log_count, self._log_bytes = int(count), int(size)

    def _version_at(self, place: int) -> int:
        """Return the version of the entry at a place from the oldest (1), 0 when there are fewer."""
        found = self._db.execute("SELECT version FROM log ORDER BY version LIMIT 1 OFFSET ?", (max(place, 1) - 1,)).fetchone()
        return int(found[0]) if found else 0

    def _version_over(self, size_bytes: int) -> int:
        """Return the newest version that no longer fits when the newest entries may fill nine tenths of `size_bytes`."""
        kept = 0
        for version, size in self._sizes_newest_first():
            kept += size
            if kept > size_bytes * 9 // 10:
                return version
        return 0

    def _sizes_newest_first(self) -> Iterator[tuple[int, int]]:
        yield from self._db.execute("SELECT version, length(body) FROM log ORDER BY version DESC")

    def _log(self, kind: ResourceKind, event: EventType, obj: Object, entry: LogEntry, now: float) -> None:
        labels = None if entry.old_labels is None else json.dumps(entry.old_labels)
        values = (entry.version, now, kind.kind, obj["metadata"].get("namespace", ""), event, labels, entry.body)
        self._db.execute("INSERT INTO log (version, at, kind, namespace, type, labels, body) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        self._log_count += 1
        self._log_bytes += len(entry.body)
        self.touched.add(kind.kind)

    def _index_labels(self, identity: int, labels: dict[str, str]) -> None:
        self._db.executemany("INSERT INTO labels (key, value, object) VALUES (?, ?, ?)", [(key, value, identity) for key, value in labels.items()])

    def _index_fields(self, identity: int, fields: dict[str, str]) -> None:
        self._db.executemany("INSERT INTO fields (key, value, object) VALUES (?, ?, ?)", [(key, value, identity) for key, value in fields.items()])

    def _index_owners(self, identity: int, obj: Object) -> None:
        owners = {owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ()}
        self._db.executemany("INSERT INTO owners (owner, object) VALUES (?, ?)", [(uid, identity) for uid in owners])


def labels_of(obj: Object) -> dict[str, str]:
    """Return an object's labels, {} when it has none."""
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels


def fields_of(kind: ResourceKind, obj: Object) -> dict[str, str]:
    """Return an object's selectable fields; one that is not there, or is no string, is ""."""
    return {path: _field(obj, path) for path in kind.selectable}


def _field(obj: Object, path: str) -> str:
    value: object = obj
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""
