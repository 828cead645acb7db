"""Results collected in one process, without a queue: what `arena eval` prints and writes.

Lines go to an anonymous temporary file, so memory does not grow with the items.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

from engine.items import ItemResult, Verdict
from engine.records import PlacedLine, Record, bare_record, record_of
from engine.results.lines import item_line, line_without_transcript
from engine.results.spools import RecordSpool, Spool
from engine.results.summary import PlanView, RunIdentity, Summary, SummaryBuilder
from engine.results.verdicts import Counts

if TYPE_CHECKING:
    from engine.results.files import SettledFiles


class CollectedResults:
    """Take results in any order; give summary, document and files in item order. One thread at a time; close it, or use `with`."""

    def __init__(self, identity: RunIdentity, plan: PlanView, *, confidence: float = 0.95, min_pass_rate: float | None = None) -> None:
        """Open the temporary files for the items of `plan`. Raises: OSError: the system's temporary directory cannot be written."""
        self._identity = identity
        self._plan = plan
        self._builder = SummaryBuilder(identity, plan, confidence, min_pass_rate)
        self._lines = Spool(len(plan.items))
        self._records = RecordSpool(len(plan.items))
        self._stopped = ""

    def add(self, result: ItemResult) -> Record:
        """Keep `result` and return its record; a second result of an item changes nothing.

        Raises:
            OSError: the temporary directory is full.
        """
        line = item_line(result, self._identity.run)
        record = record_of(result, line=PlacedLine("eval", 0, len(line), ""))
        self._keep(record, line)
        return record

    def stop(self, stopped: str, at: datetime, begun: Collection[str] = ()) -> None:
        """Count every item that has no result yet as skipped. `stopped` says why, as in `engine.results.verdicts.verdict_of`, and is the summary's from now on.

        What the items of `begun` (ids) spent until then is not known, so costs are partial where they count.

        Raises:
            OSError: the temporary directory is full.
        """
        self._stopped = stopped
        for index, item in enumerate(self._plan.items):
            record = replace(bare_record(index, item.id, Verdict.SKIPPED, at=at), cost_is_partial=item.id in begun)
            self._keep(record, line_without_transcript(record, item, self._identity.run))

    def _keep(self, record: Record, line: bytes) -> None:
        if self._records.add(record):
            self._lines.put(record.index, line)
            self._builder.add(record)

    def summary(self) -> Summary:
        """Return the summary of what was added."""
        return self._builder.build(stopped=self._stopped)

    @property
    def counts(self) -> Counts:
        """Return what was added so far, by verdict."""
        return self._builder.counts

    def records(self) -> Iterator[Record]:
        """Yield the records in item order."""
        return iter(self._records)

    def write_document(self, out: BinaryIO) -> None:
        """Stream `{"summary": …, "items": […]}` to `out` as UTF-8 JSON, an item a line, with a line end."""
        out.write(b'{"summary": ' + self.summary().to_bytes() + b',\n"items": [')
        for number, line in enumerate(self._lines.values()):
            out.write(b",\n" if number else b"\n")
            out.write(line)
        out.write(b"\n]}\n")

    def write_files(self, directory: Path) -> "SettledFiles":
        """Write results.jsonl, summary.json, junit.xml and report.md into `directory`; nothing when an item has no result.

        Raises:
            OutputUnavailable: the directory cannot be written.
        """
        from engine.results.files import write_files  # noqa: PLC0415 - only who wants files pays for junit and report

        return write_files(directory, self._plan, self._records, lambda record: self._lines.get(record.index), self.summary())

    def write_report(self, out: BinaryIO) -> None:
        """Write report.md to `out`."""
        from engine.results.report import write_report  # noqa: PLC0415 - as above

        cases = ((self._plan.items[record.index], record) for record in self._records)
        write_report(out, self.summary(), self._plan, cases)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of results.jsonl in item order, without their ends."""
        return iter(self._lines.values())

    def close(self) -> None:
        """Forget everything; any number of times."""
        self._lines.close()
        self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
