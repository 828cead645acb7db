"""The files of a finished run: results.jsonl, summary.json, junit.xml, report.md; all or none becomes visible.

Owns their names and the merge in item order. The same records and lines give the same bytes. Blocking; must not know where records came from.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from engine.errors import OutputUnavailable
from engine.items import Item, Verdict
from engine.records import Record
from engine.results.junit import write_junit
from engine.results.lines import line_without_transcript
from engine.results.report import write_report
from engine.results.spools import RecordSpool
from engine.results.summary import PlanView, Summary
from foundation.crash import crash_point
from foundation.files import TEMPORARY_PREFIX, replace_file

RESULTS = "results.jsonl"
SUMMARY = "summary.json"
JUNIT = "junit.xml"
REPORT = "report.md"

LineOf = Callable[[Record], bytes | None]
"""Find a record's line; None when it is lost."""


@dataclass(frozen=True, slots=True)
class SettledFiles:
    """What settling came to. `written` is False when nothing was changed, because records were missing or because no files were asked for."""

    written: bool
    lost_transcripts: int
    summary: Summary


def make_writable(directory: Path) -> None:
    """Make `directory` when it is missing, and see that files can be made in it: asked before work is paid for whose results go there. Idempotent.

    Raises:
        OutputUnavailable: it cannot be made or written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise _unavailable(directory, error) from error


def write_files(directory: Path, plan: PlanView, records: RecordSpool, line_of: LineOf, summary: Summary) -> SettledFiles:
    """Write the four files into `directory`, which is made when missing.

    Each is written under a temporary name, synced and renamed, summary.json last; nothing is renamed before all are written.
    Nothing is written unless every item of the plan has a record.

    Raises:
        OutputUnavailable: the directory cannot be written or a part cannot be read; no file is half there.
    """
    if records.count != len(plan.items):
        return SettledFiles(written=False, lost_transcripts=0, summary=summary)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(directory)
        with ExitStack() as stack:
            files = {name: stack.enter_context(replace_file(directory / name)) for name in (SUMMARY, REPORT, JUNIT, RESULTS)}
            summary = summary.with_lost_transcripts(_merge(files[RESULTS], plan, records, line_of, summary.identity.run))
            write_junit(files[JUNIT], summary, _by_scenario(plan, records))
            write_report(files[REPORT], summary, plan, ((plan.items[record.index], record) for record in records))
            files[SUMMARY].write(summary.to_bytes() + b"\n")
            crash_point("settle.written")
        crash_point("settle.renamed")
    except OSError as error:
        raise _unavailable(directory, error) from error
    return SettledFiles(written=True, lost_transcripts=summary.lost_transcripts, summary=summary)


def _unavailable(directory: Path, error: OSError) -> OutputUnavailable:
    return OutputUnavailable(f"cannot write results to '{directory}': {error.strerror or error}")


def _merge(out: BinaryIO, plan: PlanView, records: RecordSpool, line_of: LineOf, run: str) -> int:
    """Write all lines in item order and return how many transcripts are lost."""
    lost = 0
    for record in records:
        line = line_of(record)
        if line is None:
            lost += _had_transcript(record)
            line = line_without_transcript(record, plan.items[record.index], run)
        out.write(line)
        out.write(b"\n")
    return lost


def _had_transcript(record: Record) -> bool:
    """Say whether a worker held this conversation: what the controller recorded itself has neither line nor worker."""
    return record.verdict is not Verdict.SKIPPED and bool(record.part or record.worker)


def _remove_left_behind(directory: Path) -> None:
    """Remove temporary files that a killed process left.

    One that lives on another machine may lose its own to us; its rename then fails and it tries again.
    """
    for path in directory.glob(f"{TEMPORARY_PREFIX}*"):
        pid = path.name.removeprefix(TEMPORARY_PREFIX).partition("-")[0]
        if pid.isdigit() and (int(pid) == os.getpid() or not _is_alive(int(pid))):
            path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _by_scenario(plan: PlanView, records: RecordSpool) -> Iterator[tuple[Item, Record]]:
    """Yield items with their records, all of a scenario together, scenarios in the order of their first item."""
    indexes: dict[str, list[int]] = {}
    for item in plan.items:
        indexes.setdefault(item.scenario, []).append(item.index)
    for group in indexes.values():
        for index in group:
            yield plan.items[index], records[index]
