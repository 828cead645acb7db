"""Results as tables: the same rows in CSV and Parquet, typed, and harmless in a spreadsheet."""

import csv
import io
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.items import Verdict
from engine.results.parquet import write_parquet
from engine.results.tables import CHECK_COLUMNS, ITEM_COLUMNS, Table, check_table, item_table, write_csv

ITEM: dict[str, Any] = {
    "item": "a/p/1",
    "run": "r",
    "scenario": "a",
    "provider": "p",
    "trial": 1,
    "perturbation": "",
    "attempt": 2,
    "verdict": Verdict.FAIL.value,
    "reused": False,
    "error": None,
    "checks": {
        "passed": 1,
        "total": 2,
        "results": [
            {
                "scope": "turn",
                "turn": 0,
                "type": "contains",
                "name": "",
                "passed": True,
                "score": 1.0,
                "message": "",
                "explanation": "",
                "error": "",
                "skipped": False,
            },
            {
                "scope": "conversation",
                "turn": None,
                "type": "judge",
                "name": "tone",
                "passed": False,
                "score": 0.25,
                "message": "=1+1",
                "explanation": "a\nb",
                "error": "",
                "skipped": False,
            },
        ],
    },
    "turns": 1,
    "usage": {"inputTokens": 3, "outputTokens": 4, "cachedTokens": 0, "reasoningTokens": 0},
    "costUsd": None,
    "providerLatencyMs": 12.5,
    "ttftMs": None,
    "itemDurationMs": 20,
    "startedAt": "2026-03-01T12:00:00.500Z",
    "endedAt": None,
}

TableOf = Callable[[Any], Table]


def rows_of(table: Table) -> list[dict[str, str]]:
    """Return the table's CSV, read again."""
    out = io.BytesIO()
    write_csv(out, table)
    return list(csv.DictReader(io.StringIO(out.getvalue().decode(), newline="")))


def test_a_row_an_item() -> None:
    """Every fact of an item has its column; what is unknown is empty, not 0."""
    (row,) = rows_of(item_table([ITEM]))
    assert list(row) == [column.name for column in ITEM_COLUMNS]
    assert (row["item"], row["attempt"], row["checks_passed"], row["output_tokens"]) == ("a/p/1", "2", "1", "4")
    assert (row["cost_usd"], row["ttft_ms"], row["error_kind"], row["ended_at"]) == ("", "", "", "")
    assert (row["provider_latency_ms"], row["duration_ms"], row["reused"]) == ("12.5", "20.0", "false")


def test_a_row_a_check() -> None:
    """Every check of every item, with its item's key before it."""
    first, second = rows_of(check_table([ITEM]))
    assert list(first) == [column.name for column in CHECK_COLUMNS]
    assert (first["item"], first["turn"], first["check_type"], first["check_passed"]) == ("a/p/1", "0", "contains", "true")
    assert (second["turn"], second["check_name"], second["check_score"], second["check_explanation"]) == ("", "tone", "0.25", "a\nb")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1"])
def test_a_models_words_compute_nothing(text: str) -> None:
    """What a spreadsheet would run as a formula is shown as a text."""
    (row,) = rows_of(item_table([{**ITEM, "error": {"kind": "x", "message": text}}]))
    assert row["error_message"] == f"'{text}"


@pytest.mark.parametrize(("value", "shown"), [("a\ud800b", "a\ufffdb"), ("a\0b", "a\ufffdb"), ("é", "é")], ids=["surrogate", "nul", "accent"])
def test_the_file_is_utf8(value: str, shown: str) -> None:
    """Half characters and NULs are replaced, other text is kept."""
    (row,) = rows_of(item_table([{**ITEM, "error": {"kind": "x", "message": value}}]))
    assert row["error_message"] == shown


def test_a_value_of_another_type_is_left_out() -> None:
    """A score that is no number makes no column of mixed types."""
    check = {**ITEM["checks"]["results"][0], "score": {"votes": 2}, "turn": True}
    (row,) = rows_of(check_table([{**ITEM, "checks": {"results": [check]}}]))
    assert (row["check_score"], row["turn"]) == ("", "")


def test_parquet_has_the_same_rows_with_types(tmp_path: Path) -> None:
    """Names and rows as in CSV; times are times, unknown values null."""
    with (tmp_path / "x.parquet").open("wb") as stream:
        write_parquet(stream, item_table([ITEM] * 3))
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.column_names == [column.name for column in ITEM_COLUMNS]
    row = table.to_pylist()[2]
    assert row["started_at"] == datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
    assert (row["ended_at"], row["cost_usd"], row["trial"], row["reused"]) == (None, None, 1, False)


def test_an_empty_table_has_its_columns(tmp_path: Path) -> None:
    """Nothing to show is not nothing to read."""
    assert rows_of(item_table([])) == []
    with (tmp_path / "x.parquet").open("wb") as stream:
        write_parquet(stream, check_table([]))
    assert pq.read_table(tmp_path / "x.parquet").column_names == [column.name for column in CHECK_COLUMNS]


def test_numbers_have_the_digits_that_mean_something() -> None:
    """A latency is written with at most ten digits, not with those of its binary form."""
    out = io.BytesIO()
    write_csv(out, item_table([ITEM | {"providerLatencyMs": 0.20668800061685033}]))
    row = dict(zip(*csv.reader(out.getvalue().decode().splitlines()), strict=True))
    assert row["provider_latency_ms"] == "0.2066880006"
