"""The small steps of the queue's model test: what a machine does to its bench, and what it remembers of it.

Must not decide what happens; the machine's rules do.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis.stateful import RuleBasedStateMachine

from engine.errors import EngineError
from engine.items import ItemError, RunUID, Usage, Verdict
from engine.queue.port import Lease, RunMeta, WorkQueue
from engine.records import Record
from tests.survival.queue_bench import Bench
from tests.survival.queue_reference import Reference, Token, token_of

T = TypeVar("T")
AT = datetime(2026, 1, 2, tzinfo=UTC)
DIGEST = "sha256:model"
ERROR = ItemError("provider.timeout", "slow")
_NUMBERS = count(1)


class QueueDriver(RuleBasedStateMachine):
    """One run on one bench. `lines` are what the workers have written of their items: they outlive the store."""

    meta: RunMeta

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.uid = RunUID(f"run-{next(_NUMBERS)}")
        self.reference: Reference | None = None
        self.settled = False
        self.leases: list[Lease] = []
        self.lines: dict[int, Record] = {}
        self.in_one_step = True
        bench.begin(self.uid)

    @property
    def queue(self) -> WorkQueue:
        """The queue, which may be another after a lost tail."""
        return self.bench.queue

    @property
    def live(self) -> Reference:
        """The reference of a run that is known."""
        assert self.reference is not None
        return self.reference

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        """Make a call."""
        return self.bench.run(call)

    def refuses(self, error: type[EngineError], call: Coroutine[Any, Any, object]) -> None:
        """Make a call that must be refused."""
        with pytest.raises(error):
            self.bench.run(call)

    def named(self, indexes: Sequence[int]) -> list[tuple[int, str]]:
        """Return (index, item id) pairs: two cells."""
        return [(index, f"s{index % 2}/p/{index + 1}") for index in indexes]

    def record_of(self, lease: Lease, verdict: Verdict, cost: float | None) -> Record:
        """Return what a worker has to say about an item."""
        record = Record(lease.item, lease.index, verdict, AT, AT, usage=Usage(3, 4), cost_usd=cost, duration_ms=12.0)
        return replace(record, attempt=lease.attempt, crashes=lease.crashes)

    def picked(self, worker: str, picks: Sequence[int]) -> list[Lease]:
        """Return some of the leases that a worker ever had, the newest first, each once."""
        own = [lease for lease in self.leases if lease.worker == worker][::-1]
        return [own[pick] for pick in dict.fromkeys(pick % len(own) for pick in picks)] if own else []

    def held(self) -> list[Lease]:
        """Return the leases that are valid."""
        return list({token_of(lease): lease for lease in self.leases if token_of(lease) in self.live.held}.values())

    def let_pass(self, silent: set[Token]) -> None:
        """Let a lease time pass."""
        gone = silent | self.live.silent
        held, self.in_one_step = self.held(), False
        self.bench.pass_time([lease for lease in held if token_of(lease) in gone], [lease for lease in held if token_of(lease) not in gone])
        self.live.pass_time(silent)

    def get_ready(self) -> None:
        """Let the living renew, and a lease time of contact pass."""
        living = [lease for lease in self.held() if token_of(lease) not in self.live.silent]
        self.bench.get_ready(living, to_take_over=bool(self.live.silent))

    def recorded(self) -> list[Record]:
        """Read every record."""

        async def read() -> list[Record]:
            return [record async for record in self.queue.records(self.uid, batch=3)]

        return self.bench.run(read())

    def record_rest(self, limit: int, at_once: int, verdict: Verdict) -> None:
        """Count the rest until there is none, by some controllers at once."""
        known = set(self.live.records)

        async def count_all() -> int:
            total = 0
            while counted := await self.count_some(limit, verdict):
                assert counted <= limit
                total += counted
            return total

        async def all_at_once() -> list[int]:
            return await asyncio.gather(*(count_all() for _ in range(at_once)))

        self.in_one_step = False
        counted = sum(self.bench.run(all_at_once()))
        found = [record for record in self.recorded() if record.index not in known]
        assert counted == len(found)
        self.live.record_rest(found, verdict, whoever_holds_them=verdict is Verdict.ERROR)

    async def count_some(self, limit: int, verdict: Verdict) -> int:
        """Count some of the rest."""
        if verdict is Verdict.ERROR:
            return await self.queue.fail_remaining(self.uid, ERROR, at=AT, limit=limit)
        return await self.queue.skip_unbegun(self.uid, at=AT, limit=limit)

    def count_missing(self) -> None:
        """Record the items of a stopped run that are in no set as skipped."""
        indexes = self.live.missing if self.live.complete else list(range(self.meta.items))
        records = [Record(item, index, Verdict.SKIPPED, AT, AT) for index, item in self.named(indexes)]
        self.do(self.queue.record(self.uid, records))
        for record in records:
            self.live.count(record)
