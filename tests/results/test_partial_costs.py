"""A cost of which something is not known is the least that was spent, and everything that shows it says so."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from engine.items import ItemError, Spending, Usage, Verdict
from engine.records import Record, bare_record, record_of
from engine.results.collected import CollectedResults
from engine.results.jsonl import encode
from engine.results.lines import item_json, line_without_transcript
from engine.results.page import write_page
from engine.results.reader import read_items
from engine.results.recovery import result_from_json
from engine.results.summary import RunIdentity
from engine.results.tables import item_table
from engine.results.tally import Tally
from tests.results.conftest import AT, FakePlan, PlanOf, ResultOf

ATTEMPT = {"kind": "rate_limit", "message": "busy", "latencyMs": 1.0, "waitedMs": 500.0}


def shown(plan: FakePlan, results: list[Any], directory: Path) -> dict[str, str]:
    """Return what the files of these results say, by name."""
    with CollectedResults(RunIdentity(), plan) as collected:
        for result in results:
            collected.add(result)
        collected.write_files(directory)
    summary, page = json.loads((directory / "summary.json").read_bytes()), io.BytesIO()
    write_page(page, summary, read_items(directory))
    return {"report": (directory / "report.md").read_text(), "page": page.getvalue().decode(), "junit": (directory / "junit.xml").read_text()}


@pytest.mark.parametrize(
    ("cost_usd", "partial", "text"),
    [
        pytest.param(0.0123, False, "$0.0123", id="all known"),
        pytest.param(0.0123, True, "at least $0.0123", id="something unknown"),
        pytest.param(0.00002, False, "<$0.0001", id="little"),
    ],
)
def test_reports_say_what_is_known(plan_of: PlanOf, result_of: ResultOf, tmp_path: Path, cost_usd: float, partial: bool, text: str) -> None:  # noqa: FBT001 - a row
    """The report and the page show a sum as what it is: exact, the least that was spent, or too little for its digits."""
    plan = plan_of(scenarios="a")
    result = result_of(plan.items[0])
    result.cost_usd, result.cost_is_partial = cost_usd, partial
    files = shown(plan, [result], tmp_path)
    assert f"| {text} |" in files["report"]
    assert files["page"].count(f">{text.replace('<', '&lt;')}<") == 3  # the run, its provider, the item
    assert ('name="cost-is-partial"' in files["junit"]) is partial


def test_an_item_that_was_cut_off_makes_the_sums_partial(plan_of: PlanOf, result_of: ResultOf) -> None:
    """It is in no rate, but what its lost worker spent on it is missing in the sum."""
    plan = plan_of(scenarios="ab")
    tally = Tally()
    tally.add(record_of(result_of(plan.items[0]), line=None))
    assert not tally.cost_is_partial
    tally.add(bare_record(1, plan.items[1].id, Verdict.SKIPPED, at=AT, crashes=1))
    assert (tally.cost_is_partial, tally.counts.executed) == (True, 1)


def test_one_partial_cost_makes_the_sums_partial(plan_of: PlanOf, result_of: ResultOf) -> None:
    """The run, and each scenario, provider and cell that the item belongs to; no other."""
    plan = plan_of(scenarios="ab")
    known, partial = (result_of(item) for item in plan.items)
    partial.cost_is_partial = True
    with CollectedResults(RunIdentity(), plan) as collected:
        collected.add(known)
        collected.add(partial)
        summary = collected.summary()
    document = summary.to_json()
    assert (document["costUsd"], document["costIsPartial"]) == (0.0004, True)
    assert [part.get("costIsPartial") for part in document["scenarios"]] == [None, True]
    assert [part.get("costIsPartial") for part in document["cells"]] == [None, True]
    assert [part.get("costIsPartial") for part in document["providers"]] == [True]
    assert summary.spec_summary()["costIsPartial"] == "true"


def test_an_item_without_any_known_cost_makes_sums_partial(plan_of: PlanOf, result_of: ResultOf) -> None:
    """A model without a price beside one that has one: the sum is of the other alone, and says so."""
    plan = plan_of(scenarios="ab")
    known, unknown = (result_of(item) for item in plan.items)
    unknown.cost_usd, unknown.cost_is_partial = None, True
    with CollectedResults(RunIdentity(), plan) as collected:
        collected.add(known)
        collected.add(unknown)
        total = collected.summary().total
    assert (total.cost_usd, total.cost_is_partial) == (0.0002, True)


def test_a_record_keeps_that_a_cost_is_partial(plan_of: PlanOf, result_of: ResultOf) -> None:
    """It survives the record, the line that is made of a record alone, and the result that is read from a line."""
    result = result_of(plan_of(scenarios="a").items[0])
    assert not Record.from_bytes(record_of(result).to_bytes()).cost_is_partial
    result.cost_is_partial = True
    record = Record.from_bytes(record_of(result).to_bytes())
    assert record.cost_is_partial
    assert json.loads(line_without_transcript(record, result.item, "r"))["costIsPartial"] is True
    assert result_from_json(item_json(result, "r"), result.item).cost_is_partial


def test_what_was_written_before_reads_as_complete(plan_of: PlanOf, result_of: ResultOf) -> None:
    """Records and lines without the mark are of costs of which all was known."""
    result = result_of(plan_of(scenarios="a").items[0])
    wire = json.loads(record_of(result).to_bytes())
    assert "partial" not in wire
    assert not Record.from_bytes(encode(wire)).cost_is_partial
    line = item_json(result, "r")
    assert "costIsPartial" not in line
    [row] = item_table([line]).rows
    columns = [column.name for column in item_table([]).columns]
    assert row[columns.index("cost_is_partial")] is False


def test_lines_keep_what_was_tried(plan_of: PlanOf, result_of: ResultOf) -> None:
    """Attempts of judges and of what failed for good are in the line, and are read from it; where there were none, nothing is said."""
    result = result_of(plan_of(scenarios="a").items[0], Verdict.ERROR)
    assert "attempts" not in json.dumps(item_json(result, "r"))
    result.error, result.judges = ItemError("provider.timeout", "late", (ATTEMPT,)), Spending(attempts=(ATTEMPT,))
    line = json.loads(encode(item_json(result, "r")))
    assert (line["error"]["attempts"], line["judges"]["attempts"]) == ([ATTEMPT], [ATTEMPT])
    read = result_from_json(line, result.item)
    assert (read.error, read.judges) == (result.error, result.judges)


def test_each_cost_of_an_item_says_what_it_lacks(plan_of: PlanOf, result_of: ResultOf) -> None:
    """What judges cost can be known where a simulated user's cost is not: each says it for itself, the item for all."""
    result = result_of(plan_of(scenarios="a").items[0])
    result.selfplay, result.judges, result.cost_is_partial = Spending(Usage(1), 0.25, cost_is_partial=True), Spending(Usage(2), 0.5), True
    line = json.loads(encode(item_json(result, "r")))
    assert [part.get("costIsPartial", False) for part in (line, line["selfPlay"], line["judges"])] == [True, True, False]
    read = result_from_json(line, result.item)
    assert (read.selfplay, read.judges, read.cost_usd) == (result.selfplay, result.judges, result.cost_usd)


@pytest.mark.parametrize("crashes", [0, 1])
def test_what_a_lost_worker_spent_is_not_known(crashes: int) -> None:
    """An item that lost its worker cost something that nobody can say; one that was never begun cost nothing."""
    assert bare_record(0, "s/p/1", Verdict.ERROR, at=AT, crashes=crashes).cost_is_partial is (crashes > 0)
