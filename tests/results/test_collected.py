"""Results of one process: `{"summary": …, "items": […]}` and the same files as a run's."""

import io
import json
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.items import ItemResult, Verdict
from engine.records import Record
from engine.results.collected import CollectedResults
from engine.results.parts import PARTS
from engine.results.recovery import recover_records
from engine.results.settle import settle_files
from engine.results.summary import RunIdentity

PlanOf = Callable[..., Any]
ResultOf = Callable[..., ItemResult]
WriteParts = Callable[..., list[Record]]
Stream = Callable[[Iterable[Record]], AsyncIterator[Record]]


def test_the_document_is_in_item_order(plan_of: PlanOf, result_of: ResultOf) -> None:
    """The document is one JSON object with items in plan order, whatever order they ended in; a repeated item counts once."""
    plan = plan_of(scenarios="abc")
    out = io.BytesIO()
    with CollectedResults(RunIdentity(), plan) as collected:
        for item in (*reversed(plan.items), plan.items[0]):
            collected.add(result_of(item, text="\ud800"))
        collected.write_document(out)
    document = json.loads(out.getvalue())
    assert list(document) == ["summary", "items"]
    assert [item["item"] for item in document["items"]] == ["a/p/1", "b/p/1", "c/p/1"]
    assert (document["summary"]["verdict"], document["summary"]["totals"]["items"]) == ("pass", 3)


def test_what_a_stop_left_is_skipped(plan_of: PlanOf, result_of: ResultOf, tmp_path: Path) -> None:
    """What has ended keeps its result, the rest is there as skipped, and there is no verdict on the whole: it was cancelled. Files are written as ever."""
    plan, out = plan_of(scenarios="abc"), io.BytesIO()
    with CollectedResults(RunIdentity(), plan) as collected:
        collected.add(result_of(plan.items[1]))
        collected.stop("cancelled", datetime(2026, 3, 1, tzinfo=UTC))
        collected.write_document(out)
        assert collected.write_files(tmp_path).written
    document = json.loads(out.getvalue())
    summary = document["summary"]
    assert [item["verdict"] for item in document["items"]] == ["skipped", "pass", "skipped"]
    assert (summary["verdict"], summary["stopped"], summary["drainedItems"], summary["totals"]["passed"]) == ("cancelled", "cancelled", 2, 1)
    assert len((tmp_path / "results.jsonl").read_bytes().splitlines()) == 3


async def test_files_equal_those_of_a_run(
    plan_of: PlanOf, result_of: ResultOf, write_parts: WriteParts, stream: Stream, run_directory: Path, tmp_path: Path
) -> None:
    """`arena eval --out` writes byte for byte what a run with the same results settles to."""
    plan = plan_of(scenarios="ab", trials=2)
    results = [result_of(item, Verdict.FAIL if item.index == 1 else Verdict.PASS) for item in plan.items]
    identity = RunIdentity(run="r1")
    with CollectedResults(identity, plan) as collected:
        for result in results:
            collected.add(result)
        assert collected.write_files(tmp_path / "out").written
    await settle_files(run_directory, stream(write_parts(results)), plan, identity)
    for name in ("results.jsonl", "summary.json", "junit.xml", "report.md"):
        assert (tmp_path / "out" / name).read_bytes() == (run_directory / name).read_bytes()


def test_records_come_back_from_lines(plan_of: PlanOf, result_of: ResultOf, write_parts: WriteParts, run_directory: Path) -> None:
    """After a lost queue each item with a whole line has its record again, from the line of its highest attempt."""
    plan = plan_of(scenarios="abc")
    first, second = result_of(plan.items[0], Verdict.ERROR), result_of(plan.items[0])
    second.attempt = 2
    records = write_parts([second, result_of(plan.items[1]), first, result_of(plan.items[2])])
    part = run_directory / PARTS / "w-1.jsonl"
    part.write_bytes(part.read_bytes()[:-9])
    recovered = list(recover_records(run_directory, plan))
    assert [(record.index, record.verdict, record.attempt) for record in recovered] == [(0, Verdict.PASS, 2), (1, Verdict.PASS, 1)]
    assert (recovered[0].line, recovered[0].outcomes, recovered[0].cost_usd) == (records[0].line, records[0].outcomes, records[0].cost_usd)
