"""The summary of a run, computed from its accounting records alone.

Owns the keys of `summary.json`. The builder streams: its memory is bounded by scenarios x providers and their checks, not by items.
"""

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from engine.items import Item, Verdict
from engine.permissions import Permissions
from engine.records import Record
from engine.results.intervals import Interval, flakiness, pass_rate
from engine.results.jsonl import encode, timestamp
from engine.results.lines import cost_json, usage_json
from engine.results.reproduce import repeat_command
from engine.results.sketches import Sketch
from engine.results.spec_summary import spec_summary
from engine.results.tally import CheckTally, Tally
from engine.results.verdicts import Counts, RunVerdict, verdict_of

MAX_ERRORS = 100
"""So many errors are listed, the first in item order; `totals.errors` counts all."""

PERCENTILES = (50, 90, 95, 99)


class MockUse(Protocol):
    """That every provider was replaced by the mock."""

    @property
    def config(self) -> str | None:
        """Return the file of mock answers, None for generic answers."""


class PlanView(Protocol):
    """What results need of a plan; `engine.plan.Plan` is one."""

    @property
    def items(self) -> Sequence[Item]:
        """Return all items, each at its index."""

    @property
    def mocked(self) -> MockUse | None:
        """Return how providers were replaced by the mock, None when they were not."""

    @property
    def arena_file(self) -> str:
        """Return the config file, relative to the bundle."""

    @property
    def permissions(self) -> Permissions:
        """Return what the operator let the bundle do."""

    @property
    def own_providers(self) -> bool:
        """Say whether the bundle's own models are asked, and not a job's."""


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What a run is called and what it tested; "" where there is none (`arena eval` has no job and may have no commit)."""

    run: str = ""
    job: str = ""
    namespace: str = ""
    commit: str = ""
    ref: str = ""
    repository: str = ""
    mocked: bool = False


@dataclass(frozen=True, slots=True)
class ListedError:
    """One item that could not be run to its end."""

    index: int
    item: str
    kind: str
    message: str

    def to_json(self) -> dict[str, str]:
        """Return the keys of `errors[]`."""
        return {"item": self.item, "kind": self.kind, "message": self.message}


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run adds up to.

    Scenarios, providers and cells are in plan order. `stopped` is the queue's word for a stop that took effect, "" without one;
    `error_kinds` counts all errors by kind, `errors` lists the first. `again` is the command that runs everything again.
    """

    identity: RunIdentity
    verdict: RunVerdict
    total: Tally
    rate: Interval
    scenarios: dict[str, Tally]
    providers: dict[str, Tally]
    cells: dict[tuple[str, str], Tally]
    errors: tuple[ListedError, ...] = ()
    error_kinds: tuple[tuple[str, int], ...] = ()
    stopped: str = ""
    lost_transcripts: int = 0
    again: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the content of summary.json, keys in their documented order.

        `mocked`, `stopped`, `drainedItems`, `budgetBreached`, `costIsPartial`, `lostTranscripts`, `again` (where something failed) and `uncountedChecks` (outcomes that `assertions` lacks, because
        their records had no room) appear only when they apply.
        """
        identity, total = self.identity, self.total
        counts = total.counts
        names = ("run", "job", "commit", "ref", "repository")
        return {
            **{name: getattr(identity, name) or None for name in names},
            **({"mocked": True} if identity.mocked else {}),
            "verdict": self.verdict.value,
            **self._stop_json(),
            "totals": {
                "items": counts.items,
                "passed": counts.passed,
                "failed": counts.failed,
                "errors": counts.errors,
                "skipped": counts.skipped,
                "reused": total.reused,
            },
            "passRate": interval_json(self.rate),
            "usage": usage_json(total.usage),
            **cost_json(total.cost_usd, is_partial=total.cost_is_partial),
            "latencyMs": latency_json(total.latency),
            **self.breakdown_json(),
            "errors": [error.to_json() for error in self.errors],
            "thresholds": [],
            "comparison": None,
            "startedAt": _time(total.started_at),
            "endedAt": _time(total.ended_at),
            **({"lostTranscripts": self.lost_transcripts} if self.lost_transcripts else {}),
            **({"again": self.again} if self.again and counts.failed + counts.errors else {}),
            **({"uncountedChecks": total.uncounted_checks} if total.uncounted_checks else {}),
        }

    def breakdown_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return `scenarios`, `providers`, `cells` and `assertions`, each in plan order."""
        return {
            "scenarios": [{"scenario": name, **_group_json(tally, self.scenario_rate(name))} for name, tally in self.scenarios.items()],
            "providers": [{"provider": name, **_group_json(tally, self.provider_rate(name))} for name, tally in self.providers.items()],
            "cells": [_cell_json(scenario, provider, tally, self.rate.confidence) for (scenario, provider), tally in self.cells.items()],
            "assertions": [
                _assertion_json({"scenario": scenario, "provider": provider, "scope": scope.value, "turn": turn, "index": ordinal}, check)
                for (scenario, provider), tally in self.cells.items()
                for (scope, turn, ordinal), check in tally.ordered_checks()
            ],
        }

    def to_bytes(self) -> bytes:
        """Return `to_json` as compact UTF-8 JSON."""
        return encode(self.to_json())

    def spec_summary(self) -> dict[str, str]:
        """Return the string map of `status.result.summary`."""
        return spec_summary(self)

    def scenario_rate(self, scenario: str) -> Interval:
        """Return the pass rate of one scenario over all its providers and trials."""
        return pass_rate([self.scenarios[scenario].cluster], self.rate.confidence)

    def provider_rate(self, provider: str) -> Interval:
        """Return the pass rate of one provider over all its scenarios."""
        return pass_rate([tally.cluster for (_, name), tally in self.cells.items() if name == provider], self.rate.confidence)

    def with_lost_transcripts(self, count: int) -> "Summary":
        """Return this summary saying that `count` items were executed and their transcripts are gone."""
        return replace(self, lost_transcripts=count)

    def _stop_json(self) -> dict[str, Any]:
        drained = self.total.counts.skipped
        return {
            **({"stopped": self.stopped} if self.stopped else {}),
            **({"budgetBreached": True} if self.stopped == "budget" else {}),
            **({"drainedItems": drained} if drained or self.stopped else {}),
        }


class SummaryBuilder:
    """Add records in any order, each once; build at any time."""

    def __init__(self, identity: RunIdentity, plan: PlanView, confidence: float = 0.95, min_pass_rate: float | None = None) -> None:
        """Prepare counters for the cells of `plan`. `confidence` and `min_pass_rate` are 0 to 1; None demands that every item passes."""
        self._identity = replace(identity, mocked=identity.mocked or plan.mocked is not None)
        self._items = plan.items
        self._again = repeat_command(plan)
        self._confidence = confidence
        self._min_pass_rate = min_pass_rate
        self._cells: dict[tuple[str, str], Tally] = {(item.scenario, item.provider): Tally() for item in plan.items}
        self._errors: list[tuple[int, ListedError]] = []
        self._kinds: dict[str, int] = {}

    def add(self, record: Record) -> None:
        """Count one record.

        Raises:
            IndexError: the plan has no such item.
        """
        item = self._items[record.index]
        self._cells[item.scenario, item.provider].add(record)
        if record.verdict is Verdict.ERROR:
            self._add_error(item, record)

    @property
    def counts(self) -> Counts:
        """Return what was added so far, by verdict."""
        total = Tally()
        for cell in self._cells.values():
            for verdict, number in cell.verdicts.items():
                total.verdicts[verdict] += number
        return total.counts

    def build(self, *, stopped: str = "", lost_transcripts: int = 0) -> Summary:
        """Return the summary of what was added so far. `stopped`: see `verdict_of`."""
        total, scenarios, providers = Tally(), _groups(item.scenario for item in self._items), _groups(item.provider for item in self._items)
        for (scenario, provider), cell in self._cells.items():
            for group in (total, scenarios[scenario], providers[provider]):
                group.merge(cell)
        rate = pass_rate([tally.cluster for tally in scenarios.values()], self._confidence)
        return Summary(
            identity=self._identity,
            verdict=verdict_of(total.counts, rate, min_pass_rate=self._min_pass_rate, stopped=stopped, tolerated=self._tolerated()),
            total=total,
            rate=rate,
            scenarios=scenarios,
            providers=providers,
            cells=dict(self._cells),
            errors=tuple(error for _, error in self._errors),
            error_kinds=tuple(sorted(self._kinds.items())),
            stopped=stopped,
            lost_transcripts=lost_transcripts,
            again=self._again,
        )

    def _tolerated(self) -> bool:
        return all(cell.tolerated for cell in self._cells.values() if cell.counts.failed)

    def _add_error(self, item: Item, record: Record) -> None:
        kind, message = (record.error.kind, record.error.message) if record.error else ("unknown", "")
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        insort(self._errors, (record.index, ListedError(record.index, item.id, kind, message)), key=lambda entry: entry[0])
        del self._errors[MAX_ERRORS:]


def interval_json(rate: Interval) -> dict[str, Any]:
    """Return the keys of `passRate`, shares rounded to six decimals."""
    value, low, high = (None if share is None else round(share, 6) for share in (rate.value, rate.low, rate.high))
    return {"value": value, "low": low, "high": high, "confidence": rate.confidence, "method": rate.method}


def latency_json(sketch: Sketch) -> dict[str, float | None]:
    """Return mean (exact) and percentiles (within 1 percent) in milliseconds, rounded to a microsecond; null without values."""
    values = {"mean": sketch.mean, **{f"p{percent}": sketch.quantile(percent / 100) for percent in PERCENTILES}}
    return {name: None if value is None else round(value, 3) for name, value in values.items()}


def _groups(names: Iterable[str]) -> dict[str, Tally]:
    return {name: Tally() for name in dict.fromkeys(names)}


def _counts_json(tally: Tally) -> dict[str, int]:
    counts = tally.counts
    return {"items": counts.items, "passed": counts.passed, "failed": counts.failed, "errors": counts.errors}


def _group_json(tally: Tally, rate: Interval) -> dict[str, Any]:
    return {
        **_counts_json(tally),
        "skipped": tally.counts.skipped,
        "passRate": interval_json(rate),
        "usage": usage_json(tally.usage),
        **cost_json(tally.cost_usd, is_partial=tally.cost_is_partial),
        "latencyMs": latency_json(tally.latency),
    }


def _cell_json(scenario: str, provider: str, tally: Tally, confidence: float) -> dict[str, Any]:
    counts = tally.counts
    return {
        "scenario": scenario,
        "provider": provider,
        **_counts_json(tally),
        "passRate": interval_json(pass_rate([tally.cluster], confidence)),
        "flakiness": _rounded(flakiness(counts.passed, counts.failed)),
        **cost_json(tally.cost_usd, is_partial=tally.cost_is_partial),
        "latencyMs": latency_json(tally.latency),
    }


def _assertion_json(key: dict[str, Any], check: CheckTally) -> dict[str, Any]:
    judged = check.passed + check.failed
    return {
        **key,
        "type": check.type,
        "name": check.name,
        "passed": check.passed,
        "failed": check.failed,
        "errors": check.errors,
        "skipped": check.skipped,
        "passRate": _rounded(check.passed / judged) if judged else None,
        "flakiness": _rounded(flakiness(check.passed, check.failed)),
        **({} if check.tolerance is None else {"passThreshold": check.tolerance, "holds": check.holds}),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else timestamp(moment)
