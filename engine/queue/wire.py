"""What crosses the wire to the scripts and back: arguments from values, values from answers. Pure.

Must not know how a script is run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.items import RunUID
from engine.queue.accounting import NANO_PER_USD, share_of
from engine.queue.port import BUDGET, CellCounts, Counted, Lease, QueueState, Refusal
from engine.records import Record

SEPARATOR = "\x1f"
ANSWERS: dict[int, Counted] = {1: "counted", 2: "duplicate", 3: "stale"}
_LEASE_FIELDS = 6
_VERDICTS = ("passed", "failed", "errors", "skipped")

Argument = str | bytes | int


def span(leases: Sequence[Lease]) -> list[Argument]:
    """Return the lowest and the highest entry of `leases`."""
    entries = sorted((lease.entry for lease in leases), key=_entry_order)
    return [entries[0], entries[-1]]


def tokens(leases: Sequence[Lease]) -> list[Argument]:
    """Return entry and deliveries of each lease, in order."""
    return [word for lease in leases for word in (lease.entry, lease.deliveries)]


def counting(record: Record) -> list[Argument]:
    """Return the nine arguments by which the scripts count a record."""
    share = share_of(record)
    return [
        record.index,
        share.verdict,
        share.cell,
        "" if share.bucket is None else share.bucket,
        share.cost_nano_usd,
        share.partial,
        share.input_tokens,
        share.output_tokens,
        record.to_bytes(),
    ]


def read_leases(run: RunUID, worker: str, answer: Sequence[Any]) -> list[Lease]:
    """Return the leases of the lease script's answer, its leading time left out."""
    leases = []
    for at in range(1, len(answer), _LEASE_FIELDS):
        entry, deliveries, index, item, attempt, crashes = answer[at : at + _LEASE_FIELDS]
        leases.append(
            Lease(run, int(index), item.decode(), worker, entry.decode(), int(deliveries), attempt=int(attempt), crashes=int(crashes)),
        )
    return leases


def read_state(answer: Sequence[Any]) -> QueueState:
    """Return the state script's answer."""
    meta, totals = _pairs(answer[0]), _pairs(answer[1])
    entries, pending, returned, delayed, recorded = (int(number) for number in answer[2:])
    cost, budget = int(totals.get("cost", 0)), meta.get("budget")
    stopped = meta.get("stopped", "")
    return QueueState(
        plan_digest=meta["digest"],
        items=int(meta["items"]),
        complete="complete" in meta,
        stopped=stopped,
        queued=entries - pending + returned,
        leased=pending - returned,
        delayed=delayed,
        recorded=recorded,
        passed=int(totals.get("passed", 0)),
        failed=int(totals.get("failed", 0)),
        errors=int(totals.get("errors", 0)),
        skipped=int(totals.get("skipped", 0)),
        cost_usd=cost / NANO_PER_USD,
        cost_is_partial=int(totals.get("partial", 0)) > 0,
        input_tokens=int(totals.get("input_tokens", 0)),
        output_tokens=int(totals.get("output_tokens", 0)),
        budget_breached=stopped == BUDGET or (budget is not None and cost > int(budget)),
        retries={field.removeprefix("retries:"): int(count) for field, count in totals.items() if field.startswith("retries:")},
        refusal=Refusal(meta["refusal_kind"], meta["refusal"]) if "refusal_kind" in meta else None,
    )


def read_cells(cells: Mapping[bytes, bytes], sketches: Mapping[bytes, bytes]) -> dict[str, CellCounts]:
    """Return the hashes of cells and sketches by `scenario/provider`."""
    found: dict[str, CellCounts] = {}
    for field, amount in cells.items():
        cell, _, name = field.decode().rpartition(SEPARATOR)
        counts = found.get(cell, CellCounts())
        found[cell] = replace(counts, **({name: int(amount)} if name in _VERDICTS else {"cost_usd": int(amount) / NANO_PER_USD}))
    for field, amount in sketches.items():
        cell, _, bucket = field.decode().rpartition(SEPARATOR)
        counts = found.get(cell, CellCounts())
        found[cell] = replace(counts, durations={**counts.durations, int(bucket): int(amount)})
    return found


def _pairs(flat: Sequence[bytes]) -> dict[str, str]:
    return {flat[at].decode(): flat[at + 1].decode() for at in range(0, len(flat), 2)}


def _entry_order(entry: str) -> tuple[int, int]:
    milliseconds, _, sequence = entry.partition("-")
    return int(milliseconds), int(sequence)
