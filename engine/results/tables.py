"""Finished results as rows: one an item, or one a check, for spreadsheets and data frames.

Owns the names, types and order of the columns. Must not know where rows are written; `write_csv` is here because it needs nothing more.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO

from engine.results.jsonl import whole_text

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class ColumnType(StrEnum):
    """What a column holds; every column but `item` may be empty in a row."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name (unit included), its type, and how it is read from an item and, in a table of checks, one of its checks."""

    name: str
    type: ColumnType
    read: Callable[[Mapping[str, Any], Mapping[str, Any]], Any]


def _item(name: str, type_: ColumnType, *path: str) -> Column:
    def read(item: Mapping[str, Any], _check: Mapping[str, Any]) -> Any:
        value: Any = item
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    return Column(name, type_, read)


def _check(name: str, type_: ColumnType) -> Column:
    return Column(name if name in {"scope", "turn"} else f"check_{name}", type_, lambda _item, check: check.get(name))


_KEY = (
    _item("run", ColumnType.TEXT, "run"),
    _item("item", ColumnType.TEXT, "item"),
    _item("scenario", ColumnType.TEXT, "scenario"),
    _item("provider", ColumnType.TEXT, "provider"),
    _item("trial", ColumnType.INTEGER, "trial"),
    _item("perturbation", ColumnType.TEXT, "perturbation"),
    _item("verdict", ColumnType.TEXT, "verdict"),
)

ITEM_COLUMNS = (
    *_KEY,
    _item("attempt", ColumnType.INTEGER, "attempt"),
    _item("reused", ColumnType.BOOLEAN, "reused"),
    _item("error_kind", ColumnType.TEXT, "error", "kind"),
    _item("error_message", ColumnType.TEXT, "error", "message"),
    _item("checks_passed", ColumnType.INTEGER, "checks", "passed"),
    _item("checks_total", ColumnType.INTEGER, "checks", "total"),
    _item("turns", ColumnType.INTEGER, "turns"),
    _item("input_tokens", ColumnType.INTEGER, "usage", "inputTokens"),
    _item("output_tokens", ColumnType.INTEGER, "usage", "outputTokens"),
    _item("cached_tokens", ColumnType.INTEGER, "usage", "cachedTokens"),
    _item("reasoning_tokens", ColumnType.INTEGER, "usage", "reasoningTokens"),
    _item("cost_usd", ColumnType.NUMBER, "costUsd"),
    Column("cost_is_partial", ColumnType.BOOLEAN, lambda item, _check: item.get("costIsPartial", False)),
    _item("provider_latency_ms", ColumnType.NUMBER, "providerLatencyMs"),
    _item("ttft_ms", ColumnType.NUMBER, "ttftMs"),
    _item("duration_ms", ColumnType.NUMBER, "itemDurationMs"),
    _item("started_at", ColumnType.TIME, "startedAt"),
    _item("ended_at", ColumnType.TIME, "endedAt"),
)

CHECK_COLUMNS = (
    *_KEY,
    _check("scope", ColumnType.TEXT),
    _check("turn", ColumnType.INTEGER),
    _check("type", ColumnType.TEXT),
    _check("name", ColumnType.TEXT),
    _check("passed", ColumnType.BOOLEAN),
    _check("skipped", ColumnType.BOOLEAN),
    _check("score", ColumnType.NUMBER),
    _check("message", ColumnType.TEXT),
    _check("explanation", ColumnType.TEXT),
    _check("error", ColumnType.TEXT),
)


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, and rows with one value a column: None, bool, int, float or str (times as RFC 3339). The rows are read once."""

    columns: tuple[Column, ...]
    rows: Iterator[list[Any]]


def item_table(items: Iterable[Mapping[str, Any]]) -> Table:
    """Return a row for each item, as `engine.results.reader.read_items` yields them."""
    return Table(ITEM_COLUMNS, (_row(ITEM_COLUMNS, item, {}) for item in items))


def check_table(items: Iterable[Mapping[str, Any]]) -> Table:
    """Return a row for each check of each item, turns counted from 0 as in results.jsonl."""
    return Table(CHECK_COLUMNS, (_row(CHECK_COLUMNS, item, check) for item in items for check in item["checks"]["results"]))


def write_csv(out: BinaryIO, table: Table) -> None:
    """Write `table` as RFC 4180 CSV in UTF-8, with a header line.

    A text that a spreadsheet would take for a formula gets an apostrophe before it (OWASP, "CSV injection"): a model's words compute nothing.
    Empty cells are unknown values.
    """
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=False)
    writer = csv.writer(text)
    writer.writerow([column.name for column in table.columns])
    for row in table.rows:
        writer.writerow([_cell(value) for value in row])
    text.flush()
    text.detach()


def _row(columns: tuple[Column, ...], item: Mapping[str, Any], check: Mapping[str, Any]) -> list[Any]:
    return [_typed(column.type, column.read(item, check)) for column in columns]


def _typed(type_: ColumnType, value: Any) -> Any:
    """Return `value` as its column's type, None when it is none: a score may be any JSON, a table's cell may not."""
    match type_:
        case ColumnType.INTEGER:
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        case ColumnType.NUMBER:
            return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        case ColumnType.BOOLEAN:
            return value if isinstance(value, bool) else None
        case _:
            return whole_text(value) if isinstance(value, str) else None


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return float(f"{value:.10g}")  # a clock has no more digits than that, and no price
    if isinstance(value, str):
        # A NUL ends the text for some readers.
        shown = value.replace("\0", "\ufffd")
        return f"'{shown}" if shown.startswith(_FORMULA) else shown
    return value
