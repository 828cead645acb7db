"""Settling: from a run's records, in whatever order the queue gives them, to its files and its summary.

From the records alone; transcripts are copied, never judged. Must not know phases, conditions or which queue it reads.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from engine.errors import OutputUnavailable
from engine.records import Record
from engine.results.files import SettledFiles, write_files
from engine.results.parts import PartReader
from engine.results.spools import RecordSpool
from engine.results.summary import PlanView, RunIdentity, SummaryBuilder

_BATCH = 500
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PassRule:
    """When a run passes. `stopped` is the queue's word for a stop that took effect ("" for none, or when the run had drained before it)."""

    confidence: float = 0.95
    min_pass_rate: float | None = None
    stopped: str = ""


async def settle_files(
    directory: Path,
    records: AsyncIterator[Record],
    plan: PlanView,
    identity: RunIdentity,
    rule: PassRule | None = None,
) -> SettledFiles:
    """Write results.jsonl, summary.json, junit.xml and report.md into the run's `directory` from `records` (each item once, any order).

    Lines come from the directory's parts; a line that is lost is made from its record, without messages, and counted in the summary.
    Memory is flat but for 32 bytes an item. Repeating it on the same records and parts writes the same bytes.
    With fewer records than the plan has items nothing is written and `written` is False.

    Raises:
        OutputUnavailable: the directory cannot be written or read; nothing half is left, and trying again is safe.
    """
    rule = rule or PassRule()
    limiter = CapacityLimiter(1)
    builder = SummaryBuilder(identity, plan, rule.confidence, rule.min_pass_rate)
    try:
        spool = await _in_thread(limiter, lambda: _open_spool(len(plan.items), directory))
        try:
            async for batch in _batches(records):
                for record in await _in_thread(limiter, lambda batch=batch: spool.add_all(batch)):  # type: ignore[misc]
                    builder.add(record)
            summary = builder.build(stopped=rule.stopped)
            reader = PartReader(directory)
            try:
                return await _in_thread(limiter, lambda: write_files(directory, plan, spool, reader.line, summary))
            finally:
                reader.close()
        finally:
            spool.close()
    except OSError as error:
        raise OutputUnavailable(f"cannot write results to '{directory}': {error.strerror or error}") from error


async def summarize_only(records: AsyncIterator[Record], plan: PlanView, identity: RunIdentity, rule: PassRule | None = None) -> SettledFiles:
    """Return what `settle_files` would say when no directory can be had: no files, and every transcript of an executed item lost."""
    rule = rule or PassRule()
    builder = SummaryBuilder(identity, plan, rule.confidence, rule.min_pass_rate)
    seen = bytearray(len(plan.items))
    async for record in records:
        if not seen[record.index]:
            seen[record.index] = 1
            builder.add(record)
    summary = builder.build(stopped=rule.stopped)
    lost = summary.total.counts.executed
    return SettledFiles(written=False, lost_transcripts=lost, summary=summary.with_lost_transcripts(lost))


def _open_spool(size: int, directory: Path) -> RecordSpool:
    directory.mkdir(parents=True, exist_ok=True)
    return RecordSpool(size, directory)


async def _batches(records: AsyncIterator[Record]) -> AsyncIterator[list[Record]]:
    batch: list[Record] = []
    async for record in records:
        batch.append(record)
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def _in_thread(limiter: CapacityLimiter, work: Callable[[], _T]) -> _T:
    return await to_thread.run_sync(work, limiter=limiter)
