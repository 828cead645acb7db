"""What an ended run accounts for, and how it differs from the same run undisturbed."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.results.parts import PARTS

_TIMES = ("startedAt", "endedAt", "itemDurationMs", "providerLatencyMs", "ttftMs")
_OF_DEATHS = ("costIsPartial",)
"""What an item says of the workers that died with it: nobody knows what they had spent."""

_STATUS = ("verdict", "totalItems", "passedItems", "failedItems", "errorItems", "totalCost", "passRate")
_SUMMARY = ("verdict", "totals", "passRate", "usage", "costUsd", "errors", "lostTranscripts")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Account:
    """One run's items and sums.

    `lines` holds each item's line of results.jsonl but for its times, the run's name, and what it says of dead workers; `counts` how many lines each item has. `sums` are those of
    the status, of summary.json and of the lines. `again` counts the lines that workers wrote for items which ran more than once.
    """

    phase: str
    lines: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    sums: Mapping[str, Any] = field(default_factory=dict)
    again: int = 0

    def double(self, items: int) -> int:
        """Return how many lines there are beyond one an item, or how many items were counted beyond `items` if that is more."""
        return max(sum(self.counts.values()) - len(self.counts), self._counted - items)

    def lost(self, whole: "Account") -> int:
        """Return how many items of `whole` have no line here, or were not counted if that is more."""
        return max(len(set(whole.counts) - set(self.counts)), len(whole.counts) - self._counted)

    @property
    def _counted(self) -> int:
        progress = self.sums.get("progress") or {}
        return int(progress.get("completed", 0)) + int(progress.get("failed", 0))


def account_of(run: Mapping[str, Any], directory: Path) -> Account:
    """Read the accounts of an ended run from its status and its directory."""
    status = run.get("status") or {}
    phase = str(status.get("phase", ""))
    try:
        lines = [json.loads(line) for line in (directory / "results.jsonl").read_bytes().splitlines()]
        summary = json.loads((directory / "summary.json").read_bytes())
    except (OSError, ValueError):
        return Account(phase)
    counted = (status.get("result") or {}).get("summary") or {}
    sums = {
        "progress": status.get("progress"),
        "workers": status.get("activeWorkers"),
        **{f"status {key}": counted.get(key) for key in _STATUS},
        **{f"summary {key}": summary.get(key) for key in _SUMMARY},
        "input tokens": sum(line["usage"]["inputTokens"] for line in lines),
        "output tokens": sum(line["usage"]["outputTokens"] for line in lines),
        "cost": round(sum(line["costUsd"] or 0 for line in lines), 9),
    }
    counts = Counter(line["item"] for line in lines)
    written = sum(part.read_bytes().count(b"\n") for part in (directory / PARTS).iterdir())
    return Account(phase, {line["item"]: _timeless(line) for line in lines}, counts, sums, written - len(counts))


def differences(account: Account, whole: Account) -> Iterator[str]:
    """Yield what is wrong with an account, in words, beside that of an undisturbed run."""
    if account.phase != "Succeeded":
        yield f"phase is {account.phase}"
    if lost := sorted(set(whole.counts) - set(account.counts)):
        yield f"{len(lost)} items are lost: {', '.join(lost[:_SHOWN])}"
    if double := account.double(len(whole.counts)):
        yield f"{double} items are double: {', '.join([item for item, count in account.counts.items() if count > 1][:_SHOWN])}"
    if list(account.counts) != list(whole.counts):
        yield "the lines are not in item order"
    for key, value in whole.sums.items():
        if account.sums.get(key) != value:
            yield f"{key} is {account.sums.get(key)}, undisturbed {value}"
    unequal = [item for item, line in account.lines.items() if item in whole.lines and line != whole.lines[item]]
    if unequal:
        yield f"{len(unequal)} lines differ from the undisturbed run's: {', '.join(unequal[:_SHOWN])}"


def _timeless(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line without its run, its times, and what it says of dead workers."""
    kept = {key: value for key, value in line.items() if key not in (*_TIMES, *_OF_DEATHS, "run")}
    kept["messages"] = [{key: value for key, value in message.items() if key != "latencyMs"} for message in line["messages"]]
    return kept
