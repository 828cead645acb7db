"""The summary: every key of resources.md and of the specification, from records alone."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.items import Item, ItemError, ItemResult, Verdict
from engine.records import Record, bare_record, record_of
from engine.results.lines import item_json
from engine.results.spec_summary import MAX_DETAILS_BYTES
from engine.results.summary import MAX_ERRORS, RunIdentity, Summary, SummaryBuilder

RECORD_TIME = datetime(2026, 3, 1, tzinfo=UTC)
IDENTITY = RunIdentity(run="r1", job="eval", namespace="default", commit="4f1c9e2a", ref="main", repository="hosted")
PlanOf = Callable[..., Any]
ResultOf = Callable[..., ItemResult]


def summary_of(plan: Any, records: list[Record], **build: Any) -> Summary:
    """Return the summary of `records`."""
    builder = SummaryBuilder(IDENTITY, plan)
    for record in records:
        builder.add(record)
    return builder.build(**build)


def test_keys_and_their_order(plan_of: PlanOf, result_of: ResultOf) -> None:
    """summary.json has the documented keys in the documented order, and no other unless it applies."""
    plan = plan_of()
    summary = summary_of(plan, [record_of(result_of(item)) for item in plan.items]).to_json()
    assert list(summary) == [
        "run",
        "job",
        "commit",
        "ref",
        "repository",
        "verdict",
        "totals",
        "passRate",
        "usage",
        "costUsd",
        "latencyMs",
        "scenarios",
        "providers",
        "cells",
        "assertions",
        "errors",
        "thresholds",
        "comparison",
        "startedAt",
        "endedAt",
    ]
    assert list(summary["totals"]) == ["items", "passed", "failed", "errors", "skipped", "reused"]
    assert list(summary["passRate"]) == ["value", "low", "high", "confidence", "method"]
    assert list(summary["latencyMs"]) == ["mean", "p50", "p90", "p95", "p99"]
    assert list(summary["cells"][0])[:8] == ["scenario", "provider", "items", "passed", "failed", "errors", "passRate", "flakiness"]


def test_item_keys_and_their_order(plan_of: PlanOf, result_of: ResultOf) -> None:
    """A line of results.jsonl has the documented keys in the documented order."""
    item = item_json(result_of(plan_of().items[0]), "r1")
    assert list(item) == [
        "item",
        "run",
        "scenario",
        "provider",
        "trial",
        "perturbation",
        "attempt",
        "verdict",
        "reused",
        "error",
        "checks",
        "turns",
        "messages",
        "usage",
        "costUsd",
        "providerLatencyMs",
        "ttftMs",
        "itemDurationMs",
        "startedAt",
        "endedAt",
        "digest",
    ]
    assert list(item["checks"]["results"][0]) == [
        "scope",
        "turn",
        "type",
        "name",
        "passed",
        "score",
        "value",
        "message",
        "explanation",
        "error",
        "skipped",
    ]


def test_the_specifications_keys(plan_of: PlanOf, result_of: ResultOf) -> None:
    """The string map counts errors as failed, leaves skipped out, and sets tokens and cost only above zero."""
    plan = plan_of(scenarios="abcd")
    verdicts = (Verdict.PASS, Verdict.FAIL, Verdict.ERROR)
    records = [record_of(result_of(item, verdict)) for item, verdict in zip(plan.items, verdicts, strict=False)]
    records.append(bare_record(3, "d/p/1", Verdict.SKIPPED, at=records[0].started_at))
    summary = summary_of(plan, records, stopped="cancelled").spec_summary()
    details = json.loads(summary.pop("details"))
    assert summary == {
        "verdict": "cancelled",
        "passRate": "33.3",
        "totalItems": "3",
        "passedItems": "1",
        "failedItems": "2",
        "avgDurationMs": "20",
        "totalTokens": "36",
        "totalCost": "0.0006",
        "drainedItems": "1",
    }
    assert list(details) == ["scenarios", "providers", "cells", "assertions", "errors"]
    assert details["errors"] == [{"item": "c/p/1", "kind": "provider.timeout", "message": "hello"}]


def test_a_run_without_cost_or_tokens_says_neither(plan_of: PlanOf) -> None:
    """Zero tokens and no price leave their keys out of the string map, and the cost is null in summary.json."""
    plan = plan_of(scenarios="a")
    summary = summary_of(plan, [bare_record(0, "a/p/1", Verdict.PASS, at=RECORD_TIME)])
    assert {"totalTokens", "totalCost"} & summary.spec_summary().keys() == set()
    assert summary.to_json()["costUsd"] is None


def test_a_budget_stop_says_so(plan_of: PlanOf, result_of: ResultOf) -> None:
    """A breached budget fails the run and gives budgetBreached, totalCost and drainedItems."""
    plan = plan_of()
    records = [record_of(result_of(plan.items[0])), bare_record(1, "b/p/1", Verdict.SKIPPED, at=RECORD_TIME)]
    summary = summary_of(plan, records, stopped="budget")
    spec = summary.spec_summary()
    assert (summary.verdict, spec["budgetBreached"], spec["totalCost"], spec["drainedItems"]) == ("fail", "true", "0.0002", "1")
    assert summary.to_json()["budgetBreached"] is True


def test_a_mocked_run_says_so(plan_of: PlanOf, result_of: ResultOf) -> None:
    """A plan whose providers are mocked is marked in summary.json and in the string map."""
    plan = plan_of().with_mock("m.yaml")
    summary = summary_of(plan, [record_of(result_of(item)) for item in plan.items])
    assert (summary.to_json()["mocked"], summary.spec_summary()["mocked"]) == (True, "true")


def test_assertions_of_one_type_are_not_merged(plan_of: PlanOf, result_of: ResultOf) -> None:
    """Each check of each cell has its own statistics over trials, with its flakiness."""
    plan = plan_of(scenarios="a", trials=4)
    verdicts = (Verdict.PASS, Verdict.FAIL, Verdict.PASS, Verdict.FAIL)
    summary = summary_of(plan, [record_of(result_of(item, verdict)) for item, verdict in zip(plan.items, verdicts, strict=True)]).to_json()
    turn, conversation = summary["assertions"]
    assert (turn["passed"], turn["failed"], turn["passRate"], turn["flakiness"]) == (2, 2, 0.5, 1.0)
    assert (conversation["scope"], conversation["passed"], conversation["flakiness"]) == ("conversation", 4, 0.0)
    assert summary["cells"][0]["flakiness"] == 1.0


def test_errors_do_not_touch_flakiness_or_latency(plan_of: PlanOf, result_of: ResultOf) -> None:
    """An outage is an error with its own count: no trial, and no latency unless a provider was timed."""
    plan = plan_of(scenarios="a", trials=3)
    records = [record_of(result_of(item)) for item in plan.items[:2]] + [record_of(result_of(plan.items[2], Verdict.ERROR, latency_ms=0.0))]
    summary = summary_of(plan, records).to_json()
    assert summary["cells"][0]["flakiness"] == 0.0
    assert summary["latencyMs"]["mean"] == 10.0


def test_listed_errors_are_the_first(plan_of: PlanOf) -> None:
    """At most 100 errors are listed, the first in item order however the records come; all are counted."""
    plan = plan_of(scenarios="a", trials=150)
    records = [bare_record(item.index, item.id, Verdict.ERROR, at=RECORD_TIME, error=ItemError("worker_lost", "gone")) for item in plan.items]
    summary = summary_of(plan, records[::-1])
    assert [error.index for error in summary.errors] == list(range(MAX_ERRORS))
    assert summary.error_kinds == (("worker_lost", 150),)


def test_details_stay_within_their_limit(plan_of: PlanOf) -> None:
    """Over 256 KiB, details say `truncated` and keep the first 20 errors."""
    plan = plan_of(scenarios=[f"scenario-{number:04}" for number in range(1500)])
    error = ItemError("worker_lost", "gone " * 150)
    summary = summary_of(plan, [bare_record(item.index, item.id, Verdict.ERROR, at=RECORD_TIME, error=error) for item in plan.items])
    text = summary.spec_summary()["details"]
    details = json.loads(text)
    assert len(text.encode()) <= MAX_DETAILS_BYTES
    assert (details["truncated"], len(details["errors"])) == (True, 20)


@settings(max_examples=25)
@given(data=st.data())
def test_the_order_of_records_does_not_matter(plan_of: PlanOf, result_of: ResultOf, data: st.DataObject) -> None:
    """Records in any order give a byte-equal summary, floats included."""
    plan = plan_of(scenarios="abc", providers=("p", "q"), trials=3)
    records = []
    for item in plan.items:
        result = result_of(item, data.draw(st.sampled_from([Verdict.PASS, Verdict.FAIL, Verdict.ERROR])), latency_ms=data.draw(st.floats(0, 1e6)))
        result.cost_usd = data.draw(st.none() | st.floats(0, 10))
        records.append(record_of(result))
    assert summary_of(plan, records).to_bytes() == summary_of(plan, data.draw(st.permutations(records))).to_bytes()


@pytest.mark.parametrize("trials", [pytest.param(1, id="one trial"), pytest.param(5, id="five trials")])
def test_the_rate_names_its_method(plan_of: PlanOf, result_of: ResultOf, trials: int) -> None:
    """Repeated scenarios make the interval a clustered one, and the JSON says which it is."""
    plan = plan_of(scenarios="abc", trials=trials)
    items: tuple[Item, ...] = plan.items
    rate = summary_of(plan, [record_of(result_of(item)) for item in items]).to_json()["passRate"]
    assert (rate["value"], rate["method"]) == (1.0, "wilson" if trials == 1 else "wilson-clustered")


def test_outcomes_without_room_are_counted(plan_of: PlanOf, result_of: ResultOf) -> None:
    """A summary whose records had no room for all outcomes says how many its assertions lack; otherwise it has no such key."""
    plan = plan_of()
    record = record_of(result_of(plan.items[0]))
    assert "uncountedChecks" not in summary_of(plan, [record]).to_json()
    assert summary_of(plan, [replace(record, outcomes_cut=3)]).to_json()["uncountedChecks"] == 3
