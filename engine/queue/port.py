"""The queue's port: what every adapter keeps, and the values that cross it.

Adapters are `RedisWorkQueue` (redis.py) and `MemoryWorkQueue` (memory.py); one contract suite (tests/contracts/test_work_queue.py) runs on both.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from engine.items import ItemError, RunUID
from engine.records import Record

MAX_CRASHES = 5
"""An item whose workers died this often is counted as an error (`crashed`) and never begun again."""

ALONE_AFTER_CRASHES = 2
"""An item that has cost this many workers runs alone in its next one."""

Counted = Literal["counted", "stale", "duplicate"]
"""`counted`: this call counted the item; `duplicate`: it had been counted before; `stale`: another worker has it, or the item went back to the queue."""

StopReason = str
"""A stable word: `cancelled`, `deadline`, `budget`, `workers_failed`, `refused`. The queue itself sets only `budget`, and workers only `refused`."""

BUDGET: StopReason = "budget"
REFUSED: StopReason = "refused"

CREDENTIAL_MISSING = "credential_missing"
NOT_SUPPORTED = "not_supported"
"""Kinds of refusals: a key that the plan's providers need is not in a worker's environment; the installation lacks what a provider needs."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One item in one worker's hands.

    `worker` (the consumer name), `entry` and `deliveries` together are the fencing token: nobody else can renew, complete, retry or hand back
    by it. `attempt` counts from 1 and grows by retries; `crashes` counts the workers that vanished with this item, over all attempts.
    """

    run: RunUID
    index: int
    item: str
    worker: str
    entry: str
    deliveries: int
    attempt: int = 1
    crashes: int = 0


@dataclass(frozen=True, slots=True)
class RunMeta:
    """What a run's keys are pinned to. `items` is the size of the plan; `budget_usd` None means no limit."""

    plan_digest: str
    items: int
    installation: str = ""
    budget_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a worker cannot begin a run. `kind` is a stable word, `message` is for a person and holds no secret."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class QueueState:
    """One consistent look at a run.

    `queued` can be leased now, `leased` is in workers' hands (or was, when they died), `delayed` waits for a retry's time, `recorded` is counted:
    once `complete`, their sum is `items`, or else the store lost something (`missing` names it). `recorded` = passed + failed + errors + skipped.
    With `cost_is_partial` the cost of something is not known, and `cost_usd` is the least that was spent.
    `retries` counts retries by the error kind that caused them; `refusal` is that of a run stopped as `refused`. A settled run has `settled` and nothing else.
    """

    plan_digest: str = ""
    items: int = 0
    complete: bool = False
    stopped: StopReason = ""
    settled: bool = False
    queued: int = 0
    leased: int = 0
    delayed: int = 0
    recorded: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    cost_usd: float = 0.0
    cost_is_partial: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    budget_breached: bool = False
    retries: Mapping[str, int] = field(default_factory=dict)
    refusal: Refusal | None = None

    @property
    def drained(self) -> bool:
        """Say whether every item is counted. Nothing else ever means it: no empty stream, no missing key."""
        return self.complete and self.recorded >= self.items

    @property
    def whole(self) -> bool:
        """Say whether every item of a completely put run is in some set."""
        return not self.complete or self.recorded + self.queued + self.leased + self.delayed >= self.items


@dataclass(frozen=True, slots=True)
class CellCounts:
    """The counters of one scenario x provider pair: verdicts, and item durations as log buckets (engine.results.sketches) to counts."""

    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    cost_usd: float = 0.0
    durations: Mapping[int, int] = field(default_factory=dict)


class WorkQueue(Protocol):
    """The items of many runs, leased to workers and counted once.

    Execution is at least once; accounting is exactly once. Time is the store's, never the caller's. Every method may raise QueueUnavailable:
    the store did not answer, and what was asked may or may not have happened; each method says why repeating it is safe.
    All workers of one run use one lease time.
    """

    async def pin(self, run: RunUID, meta: RunMeta) -> None:
        """Create the run's keys, or find them as they are. Idempotent.

        Raises:
            PutRefused: the run is pinned to another plan digest or number of items.
            RunSettled: the run is over.
        """

    async def publish_plan(self, run: RunUID, data: bytes) -> None:
        """Lay the plan where workers find it. Idempotent.

        Raises:
            PutRefused: `data` has another digest ("sha256:" of the bytes) than the run is pinned to.
            RunUnknown: the run is not pinned.
            RunSettled: the run is over.
        """

    async def plan(self, run: RunUID) -> bytes:
        """Return the published plan, checked against the pinned digest.

        Raises:
            RunUnknown: no such run, no plan yet, or its bytes do not match (the store lost or damaged it).
            RunSettled: the run is over.
        """

    async def put(self, run: RunUID, chunk: int, items: Sequence[tuple[int, str]], *, last: bool) -> None:
        """Queue one chunk of (index, item id) pairs; a chunk number that was put before changes nothing.

        Items that have a record are left out, so that a rebuilt run is put like a new one. `last` marks the run complete.

        Raises:
            PutRefused: the run was stopped.
            RunUnknown: the run is not pinned.
            RunSettled: the run is over.
        """

    async def lease(self, run: RunUID, *, worker: str, limit: int, seconds: float) -> list[Lease]:
        """Take up to `limit` items: handed back and expired ones first, then due retries and new ones, oldest first.

        Returns fewer than `limit` when fewer are due, and [] when none is or the run is stopped: ask `state` which of these it is.
        A lease that is not renewed within `seconds` returns its item to the queue with one more crash on its account. After QueueUnavailable the
        next call by the same worker returns again what that worker has pending, so compare entries with those in hand. An item that comes back
        with `crashes` >= MAX_CRASHES is for counting as an error, not for running.

        Raises:
            RunUnknown: the run was never put, or the store lost it.
            RunSettled: the run is over.
        """

    async def wait(self, run: RunUID, *, seen: str, seconds: float) -> str:
        """Wait until something may have changed: items put or due, the run stopped, drained or settled; at most `seconds`.

        `seen` is what the last call returned, "" at first (which returns at once). To miss nothing, look (`lease`, `state`) after each
        return. May be cancelled at any time without harm. Waking early is allowed; an unknown run waits `seconds`.
        """

    async def renew(self, run: RunUID, leases: Sequence[Lease]) -> list[Lease]:
        """Extend leases of one worker by their lease time from now, and return the ones that are LOST: stop working on these.

        A lease is lost when another worker has taken it over, or when it was counted, retried or handed back.

        Raises:
            RunUnknown: the store lost the run; keep the work, ask again.
            RunSettled: the run is over.
        """

    async def complete(self, run: RunUID, completions: Sequence[tuple[Lease, Record]]) -> list[Counted]:
        """Count items and release their leases, each in one step; answers are in the order of `completions`, at most 500 of them.

        Whoever adds the cost that crosses the budget stops the run with reason `budget` in the same step. Works on a stopped run.
        Repeating it after QueueUnavailable is safe: what was counted answers `duplicate`.

        Raises:
            RunUnknown: the store lost the run; keep the work, ask again.
            RunSettled: the run is over.
        """

    async def retry(self, run: RunUID, lease: Lease, *, delay_s: float, error: ItemError) -> bool:
        """Give an item back for another attempt, due `delay_s` from now; its crashes are carried along.

        Returns False, and changes nothing, when the lease is stale or the run is stopped.

        Raises:
            RunUnknown: the store lost the run.
            RunSettled: the run is over.
        """

    async def hand_back(self, run: RunUID, leases: Sequence[Lease]) -> None:
        """Return items that were not run to their end: leasable at once, without a crash on their account. Stale leases are ignored.

        Raises:
            RunUnknown: the store lost the run.
            RunSettled: the run is over.
        """

    async def stop(self, run: RunUID, reason: StopReason) -> None:
        """Refuse put, lease and retry from now on. Idempotent: the first reason stays.

        Raises:
            RunUnknown: the run was never pinned.
            RunSettled: the run is over.
        """

    async def refuse(self, run: RunUID, refusal: Refusal) -> None:
        """Stop the run as `refused`, because no worker of it can begin. Idempotent; a run that is stopped already keeps its reason.

        Raises:
            RunUnknown: the run was never pinned.
            RunSettled: the run is over.
        """

    async def skip_unbegun(self, run: RunUID, *, at: datetime, limit: int = 500) -> int:
        """Record up to `limit` items of a stopped run as skipped: unbegun, delayed, or orphaned (their lease ran out); `at` is their start and end.

        Returns how many this call recorded; 0 when none is left to skip now. Items in living workers' hands are left alone: call it again
        until the run is drained.

        Raises:
            PutRefused: the run is not stopped.
            RunUnknown: the run was never pinned.
            RunSettled: the run is over.
        """

    async def fail_remaining(self, run: RunUID, error: ItemError, *, at: datetime, limit: int = 500) -> int:
        """Record up to `limit` uncounted items of a stopped run as errors, whoever holds them: its workers are gone for good.

        Returns how many this call recorded; 0 when all are.

        Raises:
            PutRefused: the run is not stopped.
            RunUnknown: the run was never pinned.
            RunSettled: the run is over.
        """

    async def state(self, run: RunUID) -> QueueState:
        """Return one consistent look at the run; of a settled run only `settled`.

        Raises:
            RunUnknown: the run was never pinned, or the store lost it.
        """

    async def cells(self, run: RunUID) -> dict[str, CellCounts]:
        """Return the counters by `scenario/provider`. Empty for a run that has counted nothing, is unknown or settled."""

    def records(self, run: RunUID, *, batch: int = 500) -> AsyncIterator[Record]:
        """Yield every record once, unordered, in memory that does not grow with their sizes."""

    async def missing(self, run: RunUID) -> list[int]:
        """Return the indexes of the plan that are in no set (not recorded, queued, leased, delayed), ascending; [] unless the run is complete.

        Raises:
            RunUnknown: the run was never pinned.
            RunSettled: the run is over.
        """

    async def put_again(self, run: RunUID, items: Sequence[tuple[int, str]]) -> None:
        """Queue items that `missing` named. One that has a record is left out; one that was queued meanwhile is run twice and counted once.

        Raises:
            PutRefused: the run was stopped: record these as skipped (`record`).
            RunUnknown: the run is not pinned.
            RunSettled: the run is over.
        """

    async def record(self, run: RunUID, records: Sequence[Record]) -> int:
        """Count records that no lease stands behind (a rebuilt run's, a stopped run's lost items); at most 500.

        Returns how many were counted: an item that has a record is not counted again. Spend is added, and a crossed budget stops the run.

        Raises:
            RunUnknown: the run is not pinned.
            RunSettled: the run is over.
        """

    async def settle(self, run: RunUID) -> None:
        """Drop the run's keys and leave the mark `settled` for a day. Idempotent."""

    async def drop(self, run: RunUID) -> None:
        """Forget the run without a trace. Idempotent."""

    async def runs(self) -> list[RunUID]:
        """Return this installation's runs that have keys, the settled mark aside; unordered."""

    async def check(self) -> list[str]:
        """Say in sentences what is wrong with the store's settings (eviction, persistence); [] when all is well."""

    async def close(self) -> None:
        """Close the connections. Idempotent."""


class RunUsers(Protocol):
    """The users of runs on the queue's server: the workers of a run come in as its user, who reaches nothing of another run.

    The server forgets its users when it starts again, so a user is made for as long as workers may come. The password's owner is the caller.
    Every method but `url` may raise QueueUnavailable.
    """

    @property
    def refusal(self) -> str:
        """Why this server makes no users for us, "" when it was not seen to refuse within the last minute."""

    def url(self, run: RunUID, password: str) -> str:
        """Return the address under which the workers of `run` reach the server, credentials and all."""

    async def is_made(self, run: RunUID) -> bool:
        """Say whether `make` need not be called: this object did so less than a minute ago, and the server has not started again since."""

    async def make(self, run: RunUID, password: str) -> None:
        """Make the user of `run`, or set it right. Idempotent; who is connected stays so.

        Raises:
            QueueRefused: the server makes no users for us; `refusal` says so for a minute.
        """

    async def drop(self, run: RunUID) -> None:
        """Remove the user of `run`, and end its connections. Idempotent; nothing happens where the server makes no users."""

    async def runs(self) -> list[RunUID]:
        """Return this installation's runs that have a user; unordered, [] where the server makes none."""

    async def problem(self) -> str:
        """Say in a sentence, with its remedy, what keeps runs from being apart on this server; "" when nothing does. Nothing is made to find out."""
