"""MemoryWorkQueue: the work queue in one process, for tests and for what needs no store.

Keeps every rule of the port (the same contract suite runs on it), on a Clock that a test may move. Must not outlive its process.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from hashlib import sha256

from engine.errors import PutRefused, RunSettled, RunUnknown
from engine.items import ItemError, RunUID, Verdict
from engine.queue.memory_run import MemoryRun
from engine.queue.port import CellCounts, Counted, Lease, QueueState, Refusal, RunMeta, StopReason
from engine.records import Record, bare_record
from foundation.clock import Clock, SystemClock

_WAIT_STEP_S = 0.01


class MemoryWorkQueue:
    """WorkQueue in memory. Each method is one step: nothing awaits while it changes a run."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._runs: dict[RunUID, MemoryRun] = {}
        self._settled: set[RunUID] = set()

    async def pin(self, run: RunUID, meta: RunMeta) -> None:
        """Create the run, or find it as it is."""
        known = self._runs.get(run)
        if known is None:
            if run in self._settled:
                raise RunSettled(f"cannot pin run '{run}': it is settled")
            self._runs[run] = MemoryRun(run, meta, self._clock)
        elif (known.meta.plan_digest, known.meta.items) != (meta.plan_digest, meta.items):
            raise PutRefused(f"cannot pin run '{run}': it is pinned to plan {known.meta.plan_digest}")

    async def publish_plan(self, run: RunUID, data: bytes) -> None:
        """Lay the plan where workers find it."""
        known = self._run(run)
        if _digest(data) != known.meta.plan_digest:
            raise PutRefused(f"cannot publish the plan of run '{run}': it is pinned to plan {known.meta.plan_digest}")
        known.plan = data

    async def plan(self, run: RunUID) -> bytes:
        """Return the published plan."""
        data = self._run(run).plan
        if data is None:
            raise RunUnknown(f"cannot read the plan of run '{run}': it is not published")
        return data

    async def put(self, run: RunUID, chunk: int, items: Sequence[tuple[int, str]], *, last: bool) -> None:
        """Queue one chunk of items, once a chunk number."""
        self._run(run).put(chunk, items, last=last)

    async def lease(self, run: RunUID, *, worker: str, limit: int, seconds: float) -> list[Lease]:
        """Take up to `limit` items."""
        return self._run(run).lease(worker, limit, seconds)

    async def wait(self, run: RunUID, *, seen: str, seconds: float) -> str:
        """Wait until something may have changed since `seen`."""
        deadline = self._clock.monotonic() + seconds
        while (cursor := self._cursor(run)) == seen and self._clock.monotonic() < deadline:
            await self._clock.sleep(_WAIT_STEP_S)
        return cursor

    async def renew(self, run: RunUID, leases: Sequence[Lease]) -> list[Lease]:
        """Extend leases; return the lost ones."""
        return self._run(run).renew(leases)

    async def complete(self, run: RunUID, completions: Sequence[tuple[Lease, Record]]) -> list[Counted]:
        """Count items and release their leases."""
        known = self._run(run)
        return [known.complete(lease, record) for lease, record in completions]

    async def retry(self, run: RunUID, lease: Lease, *, delay_s: float, error: ItemError) -> bool:
        """Give an item back for another attempt."""
        return self._run(run).retry(lease, delay_s, error.kind)

    async def hand_back(self, run: RunUID, leases: Sequence[Lease]) -> None:
        """Return items that were not run to their end."""
        self._run(run).hand_back(leases)

    async def stop(self, run: RunUID, reason: StopReason) -> None:
        """Refuse put, lease and retry from now on."""
        self._run(run).stop(reason)

    async def refuse(self, run: RunUID, refusal: Refusal) -> None:
        """Stop the run because a worker cannot begin it."""
        self._run(run).refuse(refusal)

    async def skip_unbegun(self, run: RunUID, *, at: datetime, limit: int = 500) -> int:
        """Record unbegun, delayed and orphaned items of a stopped run as skipped."""
        return self._record_remaining(run, lambda index, item, crashes: bare_record(index, item, Verdict.SKIPPED, at=at, crashes=crashes), limit)

    async def fail_remaining(self, run: RunUID, error: ItemError, *, at: datetime, limit: int = 500) -> int:
        """Record all uncounted items of a stopped run as errors."""

        def failed(index: int, item: str, crashes: int) -> Record:
            return bare_record(index, item, Verdict.ERROR, at=at, error=error, crashes=crashes)

        return self._record_remaining(run, failed, limit, whoever_holds_them=True)

    async def state(self, run: RunUID) -> QueueState:
        """Return one consistent look at the run."""
        try:
            return self._run(run).state()
        except RunSettled:
            return QueueState(settled=True)

    async def cells(self, run: RunUID) -> dict[str, CellCounts]:
        """Return the counters by `scenario/provider`."""
        return dict(self._runs[run].cells) if run in self._runs else {}

    async def records(self, run: RunUID, *, batch: int = 500) -> AsyncIterator[Record]:
        """Yield every record once, unordered."""
        known = self._runs.get(run)
        for position, data in enumerate(list(known.records.values()) if known else []):
            if position % batch == 0:
                await asyncio.sleep(0)
            yield Record.from_bytes(data)

    async def missing(self, run: RunUID) -> list[int]:
        """Return the indexes of the plan that are in no set."""
        return self._run(run).missing()

    async def put_again(self, run: RunUID, items: Sequence[tuple[int, str]]) -> None:
        """Queue items that `missing` named."""
        self._run(run).put(None, items, last=False)

    async def record(self, run: RunUID, records: Sequence[Record]) -> int:
        """Count records that no lease stands behind."""
        known = self._run(run)
        return sum(known.count(record) for record in records)

    async def settle(self, run: RunUID) -> None:
        """Drop the run and leave the mark."""
        self._runs.pop(run, None)
        self._settled.add(run)

    async def drop(self, run: RunUID) -> None:
        """Forget the run without a trace."""
        self._runs.pop(run, None)
        self._settled.discard(run)

    async def runs(self) -> list[RunUID]:
        """Return the runs that are here."""
        return sorted(self._runs)

    async def check(self) -> list[str]:
        """Return nothing: memory has no settings."""
        return []

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def lose(self, run: RunUID, indexes: Sequence[int] | None = None) -> None:
        """Lose a run, or some of its items, as a store does that loses its last second; for tests."""
        if indexes is None:
            self._runs.pop(run, None)
        else:
            self._run(run).lose(indexes)

    def _run(self, run: RunUID) -> MemoryRun:
        if run in self._runs:
            return self._runs[run]
        if run in self._settled:
            raise RunSettled(f"cannot use run '{run}': it is settled")
        raise RunUnknown(f"cannot use run '{run}': no such run")

    def _cursor(self, run: RunUID) -> str:
        return self._runs[run].cursor() if run in self._runs else "0"

    def _record_remaining(self, run: RunUID, make: Callable[[int, str, int], Record], limit: int, *, whoever_holds_them: bool = False) -> int:
        known = self._run(run)
        if not known.stopped:
            raise PutRefused(f"cannot record the rest of run '{run}': it is not stopped")
        while taken := known.take_remaining(limit, whoever_holds_them=whoever_holds_them):
            if counted := sum(known.count(make(*place)) for place in taken):
                return counted
        return 0


def _digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"
