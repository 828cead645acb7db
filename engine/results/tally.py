"""Counters over records: one tally a cell (scenario x provider), merged into tallies of scenarios, providers and the run.

Memory is bounded by cells and their checks, never by items. Merging is associative and commutative, exactly.
"""

from dataclasses import dataclass, field
from datetime import datetime

from engine.items import Scope, Usage, Verdict
from engine.outcomes import Outcome
from engine.records import Record
from engine.results.intervals import Cluster
from engine.results.sketches import ExactSum, Sketch
from engine.results.verdicts import Counts

CheckKey = tuple[Scope, int | None, int]
"""Scope, turn and ordinal: which check of a scenario."""

_SCOPE_ORDER = {Scope.TURN: 0, Scope.CONVERSATION: 1, Scope.SESSION: 2}


@dataclass(slots=True)
class CheckTally:
    """How often one check passed, failed, could not be evaluated, or was skipped; `tolerance` is the share of trials in which it must pass."""

    type: str
    name: str
    tolerance: float | None = None
    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0

    def count(self, outcome: Outcome) -> None:
        """Count one outcome."""
        match outcome:
            case Outcome.PASS:
                self.passed += 1
            case Outcome.FAIL:
                self.failed += 1
            case Outcome.ERROR:
                self.errors += 1
            case Outcome.SKIPPED:
                self.skipped += 1

    @property
    def holds(self) -> bool:
        """Say whether it never failed, or passed in as many trials as it must; what could not be evaluated is no failure, and no pass either."""
        if not self.failed:
            return True
        return self.tolerance is not None and self.passed / (self.passed + self.failed) >= self.tolerance


@dataclass(slots=True)
class Tally:
    """What a set of records adds up to. Skipped items are counted and add nothing else.

    `cost_is_partial` says that `cost_usd` lacks the cost of a call, so it is the least that was spent: no bound from above holds for what it is under.
    `uncounted_checks` had no room in their records: verdicts count them, `checks` does not. `intolerable` items failed by something else than checks
    that may fail now and then.
    """

    verdicts: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    reused: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: ExactSum = field(default_factory=ExactSum)
    priced: int = 0
    cost_is_partial: bool = False
    latency: Sketch = field(default_factory=Sketch)
    duration: ExactSum = field(default_factory=ExactSum)
    started_at: datetime | None = None
    ended_at: datetime | None = None
    checks: dict[CheckKey, CheckTally] = field(default_factory=dict)
    uncounted_checks: int = 0
    intolerable: int = 0

    def add(self, record: Record) -> None:
        """Count one record."""
        self.verdicts[record.verdict] += 1
        self.cost_is_partial |= record.cost_is_partial
        if record.verdict is Verdict.SKIPPED:
            return
        self.reused += record.reused
        self.usage += record.usage
        if record.cost_usd is not None:
            self.cost.add(record.cost_usd)
            self.priced += 1
        if record.provider_latency_ms > 0 or record.verdict is not Verdict.ERROR:
            self.latency.add(record.provider_latency_ms)
        self.duration.add(record.duration_ms)
        self._widen(record.started_at, record.ended_at)
        self.uncounted_checks += record.outcomes_cut
        self.intolerable += record.verdict is Verdict.FAIL and not _is_tolerable(record)
        for outcome in record.outcomes:
            key = (outcome.scope, outcome.turn, outcome.ordinal)
            tally = self.checks.get(key)
            if tally is None:
                tally = self.checks[key] = CheckTally(outcome.type, outcome.name, outcome.tolerance)
            tally.count(outcome.outcome)

    def merge(self, other: "Tally") -> None:
        """Count all that `other` counted, except single checks: those are of one cell."""
        for verdict, count in other.verdicts.items():
            self.verdicts[verdict] += count
        self.reused += other.reused
        self.usage += other.usage
        self.cost.merge(other.cost)
        self.priced += other.priced
        self.cost_is_partial |= other.cost_is_partial
        self.latency.merge(other.latency)
        self.duration.merge(other.duration)
        self.uncounted_checks += other.uncounted_checks
        if other.started_at is not None and other.ended_at is not None:
            self._widen(other.started_at, other.ended_at)

    @property
    def counts(self) -> Counts:
        """Return the items by verdict."""
        return Counts(*(self.verdicts[verdict] for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.ERROR, Verdict.SKIPPED)))

    @property
    def cluster(self) -> Cluster:
        """Return these items as one cluster of a pass rate."""
        counts = self.counts
        return Cluster(counts.passed, counts.executed)

    @property
    def cost_usd(self) -> float | None:
        """Return the cost of the priced items to a billionth of a dollar; None when none has a price."""
        return round(self.cost.value, 9) if self.priced else None

    @property
    def mean_duration_ms(self) -> float:
        """Return the mean item duration, 0 when nothing was executed."""
        executed = self.counts.executed
        return self.duration.value / executed if executed else 0.0

    @property
    def tolerated(self) -> bool:
        """Say whether all that failed here are checks that may fail as often as they did (of one cell; session evals never decide)."""
        return not self.intolerable and all(check.holds for (scope, _, _), check in self.checks.items() if scope is not Scope.SESSION)

    def _widen(self, started_at: datetime, ended_at: datetime) -> None:
        self.started_at = started_at if self.started_at is None else min(self.started_at, started_at)
        self.ended_at = ended_at if self.ended_at is None else max(self.ended_at, ended_at)

    def ordered_checks(self) -> list[tuple[CheckKey, CheckTally]]:
        """Return the checks by scope (turn, conversation, session), turn and ordinal."""
        return sorted(self.checks.items(), key=lambda entry: (_SCOPE_ORDER[entry[0][0]], -1 if entry[0][1] is None else entry[0][1], entry[0][2]))


def _is_tolerable(record: Record) -> bool:
    """Say whether an item failed by nothing but checks that may fail now and then: its record knows them all, and every one of them says so."""
    wrong = [found for found in record.outcomes if found.scope is not Scope.SESSION and found.outcome in (Outcome.FAIL, Outcome.ERROR)]
    known = bool(wrong) and not record.outcomes_cut
    return known and all(found.outcome is Outcome.FAIL and found.tolerance is not None for found in wrong)
