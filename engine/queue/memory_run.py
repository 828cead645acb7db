"""One run of the queue in memory: what the scripts do, in plain Python, one step a method.

Must not know of other runs, and never awaits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.errors import PutRefused
from engine.items import RunUID
from engine.queue.accounting import NANO_PER_USD, Share, nano_usd, share_of
from engine.queue.keys import RETURNED
from engine.queue.port import BUDGET, REFUSED, CellCounts, Counted, Lease, QueueState, Refusal, RunMeta, StopReason
from engine.records import Record
from foundation.clock import Clock


@dataclass(slots=True)
class _Entry:
    index: int
    item: str
    attempt: int = 1
    crashes: int = 0
    holder: str = ""
    deliveries: int = 0
    since_s: float = 0.0


@dataclass(slots=True)
class _Totals:
    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    cost_nano_usd: int = 0
    partial: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class MemoryRun:
    """The sets and sums of one run; entries in the order in which they were queued."""

    def __init__(self, run: RunUID, meta: RunMeta, clock: Clock) -> None:
        self.meta = meta
        self.plan: bytes | None = None
        self.stopped: StopReason = ""
        self.refusal: Refusal | None = None
        self.records: dict[int, bytes] = {}
        self.cells: dict[str, CellCounts] = {}
        self._run = run
        self._clock = clock
        self._complete = False
        self._chunks: set[int] = set()
        self._entries: dict[str, _Entry] = {}
        self._delayed: list[tuple[float, _Entry]] = []
        self._totals = _Totals()
        self._retries: dict[str, int] = {}
        self._entry_number = 0
        self._changes = 0
        self._lease_s = 0.0
        self._budget = None if meta.budget_usd is None else nano_usd(meta.budget_usd)

    def cursor(self) -> str:
        """Return what changes when waiting workers should look."""
        due = sum(due <= self._clock.monotonic() for due, _ in self._delayed)
        return f"{self._entry_number} {self._changes} {due}"

    def put(self, chunk: int | None, items: Sequence[tuple[int, str]], *, last: bool) -> None:
        """Queue `items` without a record, once a chunk number; always for chunk None."""
        if self.stopped:
            raise PutRefused(f"cannot put items of run '{self._run}': it is stopped")
        if chunk is None or chunk not in self._chunks:
            for index, item in items:
                if index not in self.records:
                    self._add(_Entry(index, item))
        if chunk is not None:
            self._chunks.add(chunk)
        self._complete = self._complete or last
        self._changes += last

    def lease(self, worker: str, limit: int, seconds: float) -> list[Lease]:
        """Promote due retries, then take handed back, expired and new entries."""
        if self.stopped or limit < 1:
            return []
        self._lease_s = seconds
        now = self._clock.monotonic()
        for due, entry in [row for row in self._delayed if row[0] <= now]:
            self._delayed.remove((due, entry))
            self._add(entry)
        returned = [key for key, entry in self._entries.items() if entry.holder == RETURNED]
        expired = [key for key in self._entries if self._is_expired(key)]
        fresh = [key for key, entry in self._entries.items() if not entry.holder]
        return [self._take(key, worker) for key in (returned + expired + fresh)[:limit]]

    def renew(self, leases: Sequence[Lease]) -> list[Lease]:
        """Extend what is still held; return the rest."""
        for lease in leases:
            if self._is_held(lease):
                self._entries[lease.entry].since_s = self._clock.monotonic()
        return [lease for lease in leases if not self._is_held(lease)]

    def complete(self, lease: Lease, record: Record) -> Counted:
        """Count one item and release its lease."""
        mine = self._is_held(lease)
        if record.index not in self.records and not mine:
            return "stale"
        if mine:
            del self._entries[lease.entry]
        return "counted" if self.count(record) else "duplicate"

    def count(self, record: Record) -> bool:
        """Count a record unless its item has one; stop the run when that crosses the budget."""
        if record.index in self.records:
            return False
        self.records[record.index] = record.to_bytes()
        share = share_of(record)
        totals = self._totals
        setattr(totals, share.verdict, getattr(totals, share.verdict) + 1)
        totals.cost_nano_usd += share.cost_nano_usd
        totals.partial += share.partial
        totals.input_tokens += share.input_tokens
        totals.output_tokens += share.output_tokens
        self.cells[share.cell] = _added(self.cells.get(share.cell, CellCounts()), share)
        if self._is_over_budget():
            self.stop(BUDGET)
        self._changes += self.state().drained
        return True

    def retry(self, lease: Lease, delay_s: float, kind: str) -> bool:
        """Delay another attempt."""
        if self.stopped or not self._is_held(lease):
            return False
        del self._entries[lease.entry]
        if lease.index in self.records:
            return False
        entry = _Entry(lease.index, lease.item, attempt=lease.attempt + 1, crashes=lease.crashes)
        self._delayed.append((self._clock.monotonic() + delay_s, entry))
        self._retries[kind] = self._retries.get(kind, 0) + 1
        self._changes += 1
        return True

    def hand_back(self, leases: Sequence[Lease]) -> None:
        """Return entries without a crash on their account."""
        for lease in leases:
            if self._is_held(lease):
                entry = self._entries[lease.entry]
                entry.holder, entry.deliveries = RETURNED, lease.deliveries - 1
                self._changes += 1

    def stop(self, reason: StopReason) -> None:
        """Keep the first reason."""
        if not self.stopped:
            self.stopped = reason
            self._changes += 1

    def refuse(self, refusal: Refusal) -> None:
        """Stop, and keep why, unless the run is stopped already."""
        if not self.stopped:
            self.refusal = refusal
            self.stop(REFUSED)

    def take_remaining(self, limit: int, *, whoever_holds_them: bool) -> list[tuple[int, str, int]]:
        """Take (index, item, crashes) of what nobody living has begun, or of all that is left, out of every set."""
        taken: list[tuple[int, str, int]] = []
        for key in list(self._entries):
            entry = self._entries[key]
            free = entry.holder in ("", RETURNED)
            if (free or whoever_holds_them or self._is_expired(key)) and len(taken) < limit:
                taken.append((entry.index, entry.item, entry.crashes + entry.deliveries))
                del self._entries[key]
        while self._delayed and len(taken) < limit:
            _, entry = self._delayed.pop()
            taken.append((entry.index, entry.item, entry.crashes))
        return taken

    def missing(self) -> list[int]:
        """Return the indexes in no set."""
        if not self._complete:
            return []
        held = {entry.index for entry in self._entries.values()} | {entry.index for _, entry in self._delayed}
        return [index for index in range(self.meta.items) if index not in self.records and index not in held]

    def lose(self, indexes: Sequence[int]) -> None:
        """Forget the queue entries of `indexes`."""
        self._entries = {key: entry for key, entry in self._entries.items() if entry.index not in indexes}

    def state(self) -> QueueState:
        """Return one look at the run."""
        free = sum(entry.holder in ("", RETURNED) for entry in self._entries.values())
        totals = self._totals
        return QueueState(
            plan_digest=self.meta.plan_digest,
            items=self.meta.items,
            complete=self._complete,
            stopped=self.stopped,
            queued=free,
            leased=len(self._entries) - free,
            delayed=len(self._delayed),
            recorded=len(self.records),
            passed=totals.passed,
            failed=totals.failed,
            errors=totals.errors,
            skipped=totals.skipped,
            cost_usd=totals.cost_nano_usd / NANO_PER_USD,
            cost_is_partial=totals.partial > 0,
            input_tokens=totals.input_tokens,
            output_tokens=totals.output_tokens,
            budget_breached=self.stopped == BUDGET or self._is_over_budget(),
            retries=dict(self._retries),
            refusal=self.refusal,
        )

    def _add(self, entry: _Entry) -> None:
        self._entry_number += 1
        self._entries[f"{self._entry_number}-0"] = entry

    def _take(self, key: str, worker: str) -> Lease:
        entry = self._entries[key]
        if entry.holder != worker:
            entry.deliveries += 1
        entry.holder, entry.since_s = worker, self._clock.monotonic()
        crashes = entry.crashes + entry.deliveries - 1
        return Lease(self._run, entry.index, entry.item, worker, key, entry.deliveries, attempt=entry.attempt, crashes=crashes)

    def _is_held(self, lease: Lease) -> bool:
        entry = self._entries.get(lease.entry)
        return entry is not None and (entry.holder, entry.deliveries) == (lease.worker, lease.deliveries)

    def _is_expired(self, key: str) -> bool:
        entry = self._entries[key]
        return entry.holder not in ("", RETURNED) and self._clock.monotonic() - entry.since_s >= self._lease_s

    def _is_over_budget(self) -> bool:
        return self._budget is not None and self._totals.cost_nano_usd > self._budget


def _added(counts: CellCounts, share: Share) -> CellCounts:
    durations = dict(counts.durations)
    if share.bucket is not None:
        durations[share.bucket] = durations.get(share.bucket, 0) + 1
    return replace(
        counts,
        passed=counts.passed + (share.verdict == "passed"),
        failed=counts.failed + (share.verdict == "failed"),
        errors=counts.errors + (share.verdict == "errors"),
        skipped=counts.skipped + (share.verdict == "skipped"),
        cost_usd=(nano_usd(counts.cost_usd) + share.cost_nano_usd) / NANO_PER_USD,
        durations=durations,
    )
