"""Reading a settled run back: items, failed items, summary."""

import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from engine.errors import OutputUnavailable
from engine.items import Verdict
from engine.results.files import RESULTS, SUMMARY

FAILED = frozenset({Verdict.FAIL, Verdict.ERROR})


def read_items(directory: Path, verdicts: Collection[Verdict] = frozenset(Verdict)) -> Iterator[dict[str, Any]]:
    """Yield the items of `directory`'s results.jsonl with one of `verdicts`, transcripts included, in item order, one in memory at a time.

    Raises:
        OutputUnavailable: the file is not there, cannot be read, or holds a line that is not an item.
    """
    path = directory / RESULTS
    try:
        with path.open("rb") as stream:
            yield from items_of(stream, verdicts, str(path))
    except OSError as error:
        raise OutputUnavailable(f"cannot read results '{path}': {error.strerror or error}") from error


def items_of(lines: Iterable[bytes], verdicts: Collection[Verdict] = frozenset(Verdict), source: str = "results") -> Iterator[dict[str, Any]]:
    """Yield the items of result lines with one of `verdicts`; other lines are not even decoded. `source` names the lines in an error.

    Raises:
        OutputUnavailable: a line is not an item.
    """
    marks = [f'"verdict":"{verdict.value}"'.encode() for verdict in verdicts]
    for number, line in enumerate(lines, 1):
        if any(mark in line for mark in marks) and (item := _item(line, source, number))["verdict"] in verdicts:
            yield item


def read_failed_items(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield the items that failed or could not be run to their end; see `read_items`."""
    return read_items(directory, FAILED)


def read_summary(directory: Path) -> dict[str, Any]:
    """Return the content of `directory`'s summary.json.

    Raises:
        OutputUnavailable: the file is not there or is no JSON object.
    """
    path = directory / SUMMARY
    try:
        summary = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise OutputUnavailable(f"cannot find results in '{directory}': it has no {SUMMARY}", hint="a run writes it when it ends") from None
    except (OSError, ValueError) as error:
        raise OutputUnavailable(f"cannot read summary '{path}': {error}") from error
    if not isinstance(summary, dict):
        raise OutputUnavailable(f"cannot read summary '{path}': it is not an object")
    return summary


def _item(line: bytes, source: str, number: int) -> dict[str, Any]:
    try:
        item = json.loads(line)
    except ValueError as error:
        raise OutputUnavailable(f"cannot read results '{source}': line {number}: {error}") from error
    if not isinstance(item, dict) or "verdict" not in item:
        raise OutputUnavailable(f"cannot read results '{source}': line {number}: not an item")
    return item
