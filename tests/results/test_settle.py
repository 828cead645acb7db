"""Settling: files in item order, byte-equal when repeated, whole or not at all."""

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import OutputUnavailable
from engine.items import Item, ItemError, ItemResult, Verdict
from engine.records import Record, bare_record
from engine.results.parts import PARTS
from engine.results.reader import read_failed_items, read_items, read_summary
from engine.results.settle import PassRule, settle_files, summarize_only
from engine.results.summary import RunIdentity

IDENTITY = RunIdentity(run="r1", job="eval", commit="4f1c9e2a7b10", ref="main", repository="hosted")
FILES = ["junit.xml", "report.md", "results.jsonl", "summary.json"]
PlanOf = Callable[..., Any]
ResultOf = Callable[..., ItemResult]
WriteParts = Callable[..., list[Record]]
Stream = Callable[[Iterable[Record]], AsyncIterator[Record]]


def files_in(directory: Path) -> dict[str, bytes]:
    """Return the files of a run, parts aside."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()}


async def test_lines_are_merged_in_item_order(
    plan_of: PlanOf, result_of: ResultOf, write_parts: WriteParts, stream: Stream, run_directory: Path
) -> None:
    """results.jsonl has every line of every part, in the plan's order, whatever order the queue gives."""
    plan = plan_of(scenarios="abc", trials=3)
    records = write_parts(result_of(item, text=f"answer {item.index}") for item in reversed(plan.items))
    settled = await settle_files(run_directory, stream(records), plan, IDENTITY)
    lines = list(read_items(run_directory))
    assert [line["item"] for line in lines] == [item.id for item in plan.items]
    assert [line["messages"][1]["content"] for line in lines] == [f"answer {item.index}" for item in plan.items]
    assert (settled.written, settled.lost_transcripts, list(files_in(run_directory))) == (True, 0, FILES)


async def test_settling_twice_writes_equal_bytes(
    plan_of: PlanOf, result_of: ResultOf, write_parts: WriteParts, stream: Stream, run_directory: Path
) -> None:
    """A second settling, with the records in another order, changes no byte."""
    plan = plan_of(scenarios="abc", providers=("p", "q"), trials=2)
    records = write_parts(result_of(item, Verdict.FAIL if item.index % 5 == 0 else Verdict.PASS, latency_ms=0.1 * item.index) for item in plan.items)
    await settle_files(run_directory, stream(records), plan, IDENTITY)
    before = files_in(run_directory)
    await settle_files(run_directory, stream(records[::-1]), plan, IDENTITY)
    assert files_in(run_directory) == before


async def test_missing_records_write_nothing(
    plan_of: PlanOf, result_of: ResultOf, write_parts: WriteParts, stream: Stream, run_directory: Path
) -> None:
    """With fewer records than planned items, repeats not counted, nothing is written or renamed."""
    plan = plan_of(scenarios="abc")
    records = write_parts(result_of(item) for item in plan.items[:2])
    settled = await settle_files(run_directory, stream([*records, records[0]]), plan, IDENTITY)
    assert (settled.written, settled.summary.total.counts.items, files_in(run_directory)) == (False, 2, {})


async def test_a_lost_transcript_is_counted_and_its_line_kept(
    plan_of: PlanOf, result_of: ResultOf, write_parts: WriteParts, stream: Stream, run_directory: Path
) -> None:
    """A line whose part is gone is made from its record: verdict, checks, figures; no messages; the summary counts it."""
    plan = plan_of(scenarios="abcd")
    records = write_parts(result_of(item, Verdict.FAIL, text="because") for item in plan.items)
    (run_directory / PARTS / "w-1.jsonl").unlink()
    settled = await settle_files(run_directory, stream(records), plan, IDENTITY)
    whole, rebuilt = list(read_items(run_directory))[:2]
    assert (settled.lost_transcripts, read_summary(run_directory)["lostTranscripts"]) == (2, 2)
    assert rebuilt["messages"] == []
    assert rebuilt["checks"]["results"][0]["message"] == "because"
    differing = {"item", "scenario", "messages", "startedAt", "endedAt", "checks"}
    assert {key: value for key, value in rebuilt.items() if key not in differing} == {k: v for k, v in whole.items() if k not in differing}


async def test_what_never_ran_is_not_lost(plan_of: PlanOf, result_of: ResultOf, write_parts: WriteParts, stream: Stream, run_directory: Path) -> None:
    """Skipped items and items whose worker vanished have a line without messages and count as no lost transcript."""
    plan = plan_of(scenarios="abc")
    (done,) = write_parts([result_of(plan.items[0])])
    gone = ItemError("worker_lost", "the worker vanished")
    others = [
        bare_record(1, "b/p/1", Verdict.SKIPPED, at=done.ended_at),
        bare_record(2, "c/p/1", Verdict.ERROR, at=done.ended_at, error=gone),
    ]
    settled = await settle_files(run_directory, stream([done, *others]), plan, IDENTITY, PassRule(stopped="cancelled"))
    lines = list(read_items(run_directory))
    assert (settled.lost_transcripts, settled.summary.verdict) == (0, "cancelled")
    assert [line["verdict"] for line in lines] == ["pass", "skipped", "error"]
    assert [line["startedAt"] is None for line in lines] == [False, True, False]


async def test_failed_items_are_read_back(plan_of: PlanOf, result_of: ResultOf, write_parts: WriteParts, stream: Stream, run_directory: Path) -> None:
    """`arena show --failed` gets failed and error items with their transcripts, and no other."""
    plan = plan_of(scenarios="abc")
    verdicts = (Verdict.PASS, Verdict.FAIL, Verdict.ERROR)
    texts = ('"verdict":"fail"', "no", "down")
    records = write_parts(result_of(*entry[:2], text=entry[2]) for entry in zip(plan.items, verdicts, texts, strict=True))
    await settle_files(run_directory, stream(records), plan, IDENTITY)
    assert [(item["item"], item["messages"][1]["content"]) for item in read_failed_items(run_directory)] == [("b/p/1", "no"), ("c/p/1", "down")]


async def test_a_directory_that_cannot_be_written(plan_of: PlanOf, stream: Stream, tmp_path: Path) -> None:
    """When the directory cannot be written, the error says so, names it, and nothing is left."""
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with pytest.raises(OutputUnavailable, match="cannot write results to"):
        await settle_files(blocked / "r1", stream([]), plan_of(scenarios="a"), IDENTITY)


async def test_a_summary_without_files(plan_of: PlanOf, result_of: ResultOf, write_parts: WriteParts, stream: Stream) -> None:
    """When output is lost, the records alone give verdict and summary, and every executed item's transcript counts as lost."""
    plan = plan_of(scenarios="ab")
    records = write_parts(result_of(item) for item in plan.items)
    settled = await summarize_only(stream([*records, records[0]]), plan, IDENTITY)
    assert (settled.written, settled.lost_transcripts, settled.summary.verdict) == (False, 2, "pass")
    assert settled.summary.spec_summary()["totalItems"] == "2"


async def test_settling_needs_flat_memory(plan_of: PlanOf, result_of: ResultOf, write_parts: WriteParts, stream: Stream, run_directory: Path) -> None:
    """Transcripts never stand in memory together: 40 MB of them settle within 8 MB."""
    plan = plan_of(scenarios="a", trials=80)
    records = write_parts(result_of(item, text="x" * 500_000) for item in plan.items)
    tracemalloc.start()
    try:
        await settle_files(run_directory, stream(records), plan, IDENTITY)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (run_directory / "results.jsonl").stat().st_size > 40_000_000
    assert peak < 8_000_000


KILLED = """
import asyncio, sys
from pathlib import Path
from foundation.crash import arm
from engine.items import Item, Verdict
from engine.records import bare_record
from engine.results.settle import settle_files
from engine.results.summary import RunIdentity
from datetime import UTC, datetime
from types import SimpleNamespace
from engine.permissions import NO_PERMISSIONS

async def main():
    arm(sys.argv[2])
    items = (Item(0, "a", "p", 1),)
    plan = SimpleNamespace(items=items, mocked=None, arena_file="config.arena.yaml", permissions=NO_PERMISSIONS, own_providers=True)
    async def records():
        yield bare_record(0, "a/p/1", Verdict.PASS, at=datetime(2026, 3, 1, tzinfo=UTC))
    await settle_files(Path(sys.argv[1]), records(), plan, RunIdentity(run="r1"))

asyncio.run(main())
"""


@pytest.mark.parametrize("point", ["settle.written", "settle.renamed", "none"])
def test_a_kill_leaves_all_or_nothing(run_directory: Path, point: str) -> None:
    """Killed while settling, the run has either none of its files or all; settling again completes it and removes what was left behind."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}

    def settle(at: str) -> list[str]:
        subprocess.run([sys.executable, "-c", KILLED, str(run_directory), at], env=environment, check=False, timeout=60)
        return list(files_in(run_directory))

    assert [name for name in settle(point) if not name.startswith(".tmp-")] == ([] if point == "settle.written" else FILES)
    assert settle("none") == FILES


def test_a_line_keeps_what_a_model_says(plan_of: PlanOf, result_of: ResultOf, write_parts: WriteParts, run_directory: Path) -> None:
    """A lone surrogate, NaN and nesting without end become valid UTF-8 and valid JSON on one line."""
    item: Item = plan_of(scenarios="a").items[0]
    result = result_of(item, text="\ud800 line\u2028end\n")
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    result.messages.append({"role": "tool", "content": "", "meta": {"nan": float("nan"), "deep": nested, "set": {1}}})
    write_parts([result])
    data = (run_directory / PARTS / "w-0.jsonl").read_bytes()
    line = json.loads(data.decode())
    assert data.count(b"\n") == 1
    assert line["messages"][1]["content"] == "\ufffd line\u2028end\n"
    assert line["messages"][2]["meta"]["nan"] is None
