"""Any interleaving of what can be done to a run's queue, or can happen to it, against the reference.

The machine plays three workers, the run controller and the misfortunes; after each step the queue must be what the reference says.
"""

import sys
from collections import Counter
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from engine.errors import EngineError, PutRefused, RunSettled, RunUnknown
from engine.items import Verdict
from engine.queue.port import Lease, QueueState, RunMeta
from tests.survival.queue_bench import Bench
from tests.survival.queue_driver import AT, DIGEST, ERROR, QueueDriver
from tests.survival.queue_reference import Place, Reference, token_of

WORKERS = st.sampled_from(["w1", "w2", "w3"])
PICKS = st.lists(st.integers(0, 5), min_size=1, max_size=4)
VERDICTS = st.sampled_from([Verdict.PASS, Verdict.PASS, Verdict.FAIL, Verdict.ERROR])
COSTS = st.sampled_from([None, 0.1, 0.5, 1e-9])
SELDOM = st.integers(0, 3).map(lambda die: die == 3)
_TOTAL_OF = {Verdict.PASS: "passed", Verdict.FAIL: "failed", Verdict.ERROR: "errors", Verdict.SKIPPED: "skipped"}


@dataclass(frozen=True, slots=True)
class Step:
    """What a worker does next; each verb takes what it needs."""

    verb: str
    worker: str
    picks: list[int]
    verdict: Verdict
    cost: float | None
    later: bool


VERBS = st.sampled_from(["lease", "lease", "lease", "complete", "complete", "retry", "hand_back", "renew", "pass_time", "pass_time"])
STEPS = st.builds(Step, VERBS, WORKERS, PICKS, VERDICTS, COSTS, st.booleans())


class QueueMachine(QueueDriver):
    """What three workers, the controller and misfortune do to a run, each a rule."""

    @initialize(items=st.integers(1, 7), chunk=st.integers(1, 4), budget=st.sampled_from([None, None, 0.5, 1.0]), seldom=SELDOM)
    def begin(self, items: int, chunk: int, budget: float | None, seldom: bool) -> None:  # noqa: FBT001 - hypothesis passes by name
        """Pin a run; seldom without putting it, and making that durable."""
        self.meta = RunMeta(DIGEST, items, budget_usd=budget)
        self.chunks = [range(start, min(start + chunk, items)) for start in range(0, items, chunk)]
        self.pin()
        if not seldom:
            self.put_all()
            self.bench.make_durable(rewritten=False)

    # -- the controller ------------------------------------------------------------------------------------------------------------------

    @rule()
    def pin(self) -> None:
        """Pin the run, again or anew."""
        if self.settled:
            return self.refuses(RunSettled, self.queue.pin(self.uid, self.meta))
        self.do(self.queue.pin(self.uid, self.meta))
        self.reference = self.reference or Reference(self.meta.items, None if self.meta.budget_usd is None else round(self.meta.budget_usd * 10**9))
        return None

    @precondition(lambda self: self.reference)
    @rule()
    def pin_another(self) -> None:
        """A run has one plan."""
        self.refuses(PutRefused, self.queue.pin(self.uid, RunMeta("sha256:another", self.meta.items)))

    @precondition(lambda self: self.reference)
    @rule()
    def put_all(self) -> None:
        """Put every chunk, as each pass of the controller does until the put is complete."""
        for number in range(len(self.chunks)):
            if not self.live.stopped:
                self.put(number)
                self.keeps_the_moment()

    @precondition(lambda self: self.reference)
    @rule(number=st.integers(0, 6))
    def put(self, number: int) -> None:
        """Put one chunk, again or in any order."""
        number %= len(self.chunks)
        call = self.queue.put(self.uid, number, self.named(self.chunks[number]), last=number == len(self.chunks) - 1)
        if self.live.stopped:
            return self.refuses(PutRefused, call)
        self.do(call)
        return self.live.put(number, self.chunks[number], last=number == len(self.chunks) - 1)

    @precondition(lambda self: self.reference)
    @rule(which=st.lists(st.integers(0, 6), min_size=1, max_size=2), seldom=SELDOM)
    def put_again(self, which: list[int], seldom: bool) -> None:  # noqa: FBT001 - hypothesis passes by name
        """Put what is missing again; seldom what is not, as a controller with an old view does."""
        indexes = sorted({index % self.meta.items for index in which}) if seldom else self.live.missing
        call = self.queue.put_again(self.uid, self.named(indexes))
        if self.live.stopped:
            return self.refuses(PutRefused, call)
        self.do(call)
        return self.live.put(None, indexes)

    @precondition(lambda self: self.reference)
    @rule()
    def count_lines(self) -> None:
        """Count the workers' lines without a lease, as a rebuild does."""
        new = set(self.lines) - set(self.live.records)
        assert self.do(self.queue.record(self.uid, list(self.lines.values()))) == len(new)
        for record in self.lines.values():
            self.live.count(record)

    @precondition(lambda self: self.reference)
    @rule(reason=st.sampled_from(["cancelled", "deadline"]), seldom=SELDOM)
    def stop(self, reason: str, seldom: bool) -> None:  # noqa: FBT001 - as above
        """Stop the run: seldom, since little can happen afterwards."""
        if seldom or self.live.stopped:
            self.do(self.queue.stop(self.uid, reason))
            self.live.stopped = self.live.stopped or reason

    @precondition(lambda self: self.reference)
    @rule(limit=st.integers(1, 8), at_once=st.integers(1, 2))
    def skip_rest(self, limit: int, at_once: int) -> None:
        """Skip what nobody living has begun, in chunks, by one controller or by two at once."""
        if not self.live.stopped:
            return self.refuses(PutRefused, self.queue.skip_unbegun(self.uid, at=AT, limit=limit))
        self.get_ready()
        return self.record_rest(limit, at_once, Verdict.SKIPPED)

    @precondition(lambda self: self.reference)
    @rule(limit=st.integers(1, 8), at_once=st.integers(1, 2), seldom=SELDOM)
    def fail_rest(self, limit: int, at_once: int, seldom: bool) -> None:  # noqa: FBT001 - as above
        """Count all that is left as errors, whoever holds it."""
        if not self.live.stopped:
            return self.refuses(PutRefused, self.queue.fail_remaining(self.uid, ERROR, at=AT, limit=limit))
        return self.record_rest(limit, at_once, Verdict.ERROR) if seldom else None

    @rule(seldom=SELDOM)
    def settle(self, seldom: bool) -> None:  # noqa: FBT001 - as above
        """Settle a run that is over."""
        if seldom and self.reference and len(self.reference.records) == self.meta.items:
            self.do(self.queue.settle(self.uid))
            self.reference, self.settled = None, True

    @rule(seldom=SELDOM)
    def drop(self, seldom: bool) -> None:  # noqa: FBT001 - as above
        """Forget the run."""
        if seldom:
            self.do(self.queue.drop(self.uid))
            self.reference, self.settled = None, False

    # -- the workers ---------------------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.reference)
    @rule(steps=st.lists(STEPS, min_size=3, max_size=10))
    def work(self, steps: list[Step]) -> None:
        """Let the workers work."""
        for step in steps:
            match step.verb:
                case "lease":
                    self.lease(step.worker, len(step.picks))
                case "complete":
                    self.complete(step.worker, step.picks, step.verdict, step.cost)
                case "retry":
                    self.retry(step.worker, step.picks[0], later=step.later)
                case "hand_back":
                    self.hand_back(step.worker, step.picks)
                case "renew":
                    self.renew(step.worker, step.picks)
                case "pass_time":
                    self.pass_time(step.picks)
            self.keeps_the_moment()
            self.is_what_the_reference_says()

    @precondition(lambda self: self.reference)
    @rule(worker=WORKERS, limit=st.integers(1, 4))
    def lease(self, worker: str, limit: int) -> None:
        """Lease some items."""
        self.get_ready()
        found = self.do(self.queue.lease(self.uid, worker=worker, limit=limit, seconds=self.bench.lease_s))
        self.live.lease(found, limit, exact=self.bench.is_in_time)
        self.leases += found

    @precondition(lambda self: self.reference)
    @rule(worker=WORKERS, picks=PICKS)
    def renew(self, worker: str, picks: list[int]) -> None:
        """Renew leases, stale ones among them."""
        leases = self.picked(worker, picks)
        assert self.do(self.queue.renew(self.uid, leases)) == self.live.renew(leases)

    @precondition(lambda self: self.reference)
    @rule(worker=WORKERS, picks=PICKS, verdict=VERDICTS, cost=COSTS)
    def complete(self, worker: str, picks: list[int], verdict: Verdict, cost: float | None) -> None:
        """Write lines and count them, by whatever leases the worker ever had."""
        pairs = [(lease, self.record_of(lease, verdict, cost)) for lease in self.picked(worker, picks)]
        self.lines |= {record.index: record for _, record in pairs}
        answers = self.do(self.queue.complete(self.uid, pairs))
        assert answers == [self.live.complete_item(lease, record) for lease, record in pairs]

    @precondition(lambda self: self.reference)
    @rule(worker=WORKERS, pick=st.integers(0, 5), later=st.booleans())
    def retry(self, worker: str, pick: int, later: bool) -> None:  # noqa: FBT001 - as above
        """Ask for another attempt, now or later."""
        for lease in self.picked(worker, [pick]):
            again = Place(lease.index, lease.attempt + 1, lease.crashes)
            if again in self.live.delayed or again in self.live.queued:
                continue  # two entries of one item in the same state: the delayed set keeps one, which the reference need not follow
            done = self.do(self.queue.retry(self.uid, lease, delay_s=self.bench.later_s if later else 0, error=ERROR))
            assert done == self.live.retry(lease, due=not later)

    @precondition(lambda self: self.reference)
    @rule(worker=WORKERS, picks=PICKS)
    def hand_back(self, worker: str, picks: list[int]) -> None:
        """Hand leases back, stale ones among them."""
        leases = self.picked(worker, picks)
        self.do(self.queue.hand_back(self.uid, leases))
        for lease in leases:
            self.live.hand_back(lease)

    # -- misfortunes ---------------------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.reference)
    @rule(picks=PICKS)
    def pass_time(self, picks: list[int]) -> None:
        """Let a lease time pass in which some workers are silent about some items."""
        held = self.held()
        self.let_pass({token_of(held[pick % len(held)]) for pick in picks} if held else set())

    @rule(rewritten=SELDOM)
    def make_durable(self, rewritten: bool) -> None:  # noqa: FBT001 - as above
        """Let a second pass in which nothing fails; seldom the store writes its file anew."""
        if not self.settled:
            self.bench.make_durable(rewritten=rewritten)

    @rule(kept=st.integers(0, 100).map(lambda percent: percent / 100), seldom=SELDOM)
    def lose_tail(self, kept: float, seldom: bool) -> None:  # noqa: FBT001 - as above
        """Kill the store and lose the end of what it wrote, seldom nothing; it takes a lease time to come back."""
        if not self.settled:
            self.reference = self.bench.lose_tail(1.0 if seldom else kept)
            if self.reference:
                self.let_pass(set())

    @precondition(lambda self: self.reference)
    @rule(steps=st.lists(STEPS, min_size=5, max_size=12), kept=st.integers(0, 100))
    def lose_work(self, steps: list[Step], kept: int) -> None:
        """Lose the end of some work, and go on."""
        self.work(steps)
        self.lose_tail(kept / 100, seldom=False)

    @rule(seldom=SELDOM)
    def lose_everything(self, seldom: bool) -> None:  # noqa: FBT001 - as above
        """Lose the run."""
        if seldom and not self.settled:
            self.bench.lose_everything()
            self.reference = None

    # -- what is always true -------------------------------------------------------------------------------------------------------------

    @invariant()
    def keeps_the_moment(self) -> None:
        """Note where the store stands, before it is looked at."""
        if not self.settled:
            self.bench.keep(self.reference, in_one_step=self.in_one_step)
            self.in_one_step = True

    @invariant()
    def is_what_the_reference_says(self) -> None:
        """Compare state, records and cells; every item is in some set, or `missing` names it; drained means that all are recorded."""
        if self.settled:
            assert self.bench.run(self.queue.state(self.uid)) == QueueState(settled=True)
        if not self.reference:
            return self.refuses_all(RunSettled if self.settled else RunUnknown)
        state, live = self.bench.run(self.queue.state(self.uid)), self.reference
        verdicts = Counter(_TOTAL_OF[record.verdict] for record in live.records.values())
        assert (state.items, state.complete, state.stopped, state.recorded) == (live.items, live.complete, live.stopped, len(live.records))
        assert (state.queued + state.delayed, state.leased) == (len(live.queued) + len(live.delayed), len(live.held))
        assert Counter(passed=state.passed, failed=state.failed, errors=state.errors, skipped=state.skipped) == verdicts
        assert (round(state.cost_usd * 10**9), state.input_tokens) == (live.spent_nano, sum(r.usage.input_tokens for r in live.records.values()))
        assert state.budget_breached == (live.stopped == "budget" or (live.budget_nano is not None and live.spent_nano > live.budget_nano))
        assert state.drained == (live.complete and set(live.records) == set(range(live.items)))
        assert self.bench.run(self.queue.missing(self.uid)) == live.missing
        assert state.whole or live.missing, "the sums say that an item is lost, and none is"
        return self.counts_each_once()

    def counts_each_once(self) -> None:
        """Compare records and cells."""
        found = self.recorded()
        assert len(found) == len({record.index for record in found})
        assert {record.index: record for record in found} == self.live.records
        cells = self.bench.run(self.queue.cells(self.uid))
        for record in found:
            cell = cells[record.item.rpartition("/")[0]]
            same = [other for other in found if other.item.rpartition("/")[0] == record.item.rpartition("/")[0]]
            assert (cell.passed, cell.errors) == tuple(sum(r.verdict is v for r in same) for v in (Verdict.PASS, Verdict.ERROR))
            assert round(cell.cost_usd * 10**9) == sum(round((r.cost_usd or 0) * 10**9) for r in same)
            assert sum(cell.durations.values()) == sum(r.duration_ms > 0 for r in same)

    def refuses_all(self, error: type[EngineError]) -> None:
        """Every call says that the run is settled, or unknown."""
        lease = Lease(self.uid, 0, "s0/p/1", "w1", "1-0", 1)
        calls = (
            self.queue.put(self.uid, 0, [(0, "s0/p/1")], last=True),
            self.queue.put_again(self.uid, [(0, "s0/p/1")]),
            self.queue.lease(self.uid, worker="w1", limit=1, seconds=self.bench.lease_s),
            self.queue.renew(self.uid, [lease]),
            self.queue.complete(self.uid, [(lease, self.record_of(lease, Verdict.PASS, 0.1))]),
            self.queue.retry(self.uid, lease, delay_s=0, error=ERROR),
            self.queue.hand_back(self.uid, [lease]),
            self.queue.stop(self.uid, "cancelled"),
            self.queue.skip_unbegun(self.uid, at=AT),
            self.queue.missing(self.uid),
            self.queue.plan(self.uid),
        )
        for call in calls:
            self.refuses(error, call)

    def teardown(self) -> None:
        """Bring the run to its end: whatever happened, every item ends recorded once."""
        try:
            if sys.exc_info()[0] is None and hasattr(self, "meta"):
                self.finish()
        finally:
            self.bench.end()

    def finish(self) -> None:
        """Do what controller and workers do until all is counted."""
        if self.settled:
            return
        self.pin()
        if not self.live.complete:
            self.count_lines()
        for _ in range(4):
            self.put_all()
            if self.live.missing and not self.live.stopped:
                self.put_again([], seldom=False)
            self.let_pass(set(self.live.held))
            if self.live.stopped:
                self.skip_rest(limit=500, at_once=1)
                self.count_missing()
            else:
                self.lease("w4", 100)
                self.complete("w4", list(range(len(self.leases))), Verdict.PASS, 0.1)
        self.is_what_the_reference_says()
        assert set(self.live.records) == set(range(self.meta.items))


def on(bench: Bench) -> type[QueueMachine]:
    """Return the machine that drives a bench."""

    class OnBench(QueueMachine):
        """The machine on this bench."""

        def __init__(self) -> None:
            super().__init__(bench)

    return OnBench
