"""Objects as rows: the printer columns of each kind, and what a cell says."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from arena.cli.screen import printable
from foundation.clock import SystemClock
from reconcile.cluster.port import ResourceKind
from reconcile.kinds.columns import PRINTER_COLUMNS, Column

_NAME = Column("Name", ".metadata.name", "Name of the object.")
_AGE = Column("Age", ".metadata.creationTimestamp", "Time since the object was created.", "date")
_CORE_COLUMNS: dict[str, tuple[Column, ...]] = {
    "Event": (
        Column("Last Seen", ".lastTimestamp", "When it happened last.", "date"),
        Column("Type", ".type", "Normal or Warning."),
        Column("Reason", ".reason", "What it is about."),
        Column("Object", ".involvedObject.name", "What it happened to."),
        Column("Message", ".message", "What happened."),
    ),
    "Job": (
        Column("Active", ".status.active", "Running workers.", "integer"),
        Column("Succeeded", ".status.succeeded", "Ended workers.", "integer"),
        _AGE,
    ),
}


def columns_of(kind: ResourceKind, *, wide: bool) -> tuple[Column, ...]:
    """Return the columns of a kind's table, name first."""
    columns = PRINTER_COLUMNS.get(kind.kind) or _CORE_COLUMNS.get(kind.kind) or (_AGE,)
    return (_NAME, *(column for column in columns if wide or column.priority == 0))


def cells(columns: Sequence[Column], item: dict[str, Any]) -> list[str]:
    """Return the texts of one row."""
    return [_cell(column, item) for column in columns]


def _cell(column: Column, item: dict[str, Any]) -> str:
    value = at_path(item, column.json_path)
    if value is None:
        return ""
    if column.type == "date":
        return age(str(value), SystemClock().now())
    return str(value).lower() if isinstance(value, bool) else printable(" ".join(str(value).split()))


def at_path(item: Any, path: str) -> Any:
    """Return what a printer column's JSON path names: fields, and `[?(@.key=="value")]` over a list. None when there is nothing."""
    head, _, condition = path.partition("[?(@.")
    for part in head.strip(".").split("."):
        item = item.get(part) if isinstance(item, dict) else None
    if not condition:
        return item
    test, _, rest = condition.partition(")]")
    key, _, wanted = test.partition("==")
    found = next((entry for entry in item or [] if entry.get(key) == wanted.strip('"')), None)
    return at_path(found, rest) if rest else found


def age(timestamp: str, now: datetime) -> str:
    """Return the time since a timestamp as kubectl writes it: `42s`, `5m`, `3h`, `9d`."""
    seconds = int((now - datetime.fromisoformat(timestamp).astimezone(UTC)).total_seconds())
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "m"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{max(0, seconds) // divisor}{unit}"
    return f"{seconds // 86400}d"


def qualified(kind: ResourceKind) -> str:
    """Return a kind's name with its group, as kubectl prints it: `arenarun.omnia.altairalabs.ai`."""
    return f"{kind.singular}.{kind.group}" if kind.group else kind.singular
