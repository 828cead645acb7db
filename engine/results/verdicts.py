"""The verdict of a whole run, from its counts (resources.md, "Words of a verdict")."""

from dataclasses import dataclass
from enum import StrEnum

from engine.results.intervals import Interval


class RunVerdict(StrEnum):
    """What a run says."""

    PASS = "pass"  # noqa: S105 - a verdict, not a credential
    FAIL = "fail"
    ERROR = "error"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Counts:
    """Items by verdict."""

    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0

    @property
    def executed(self) -> int:
        """Return all but the skipped: the denominator of every rate."""
        return self.passed + self.failed + self.errors

    @property
    def items(self) -> int:
        """Return all, the skipped included."""
        return self.executed + self.skipped


_STOPPED = {"": None, "cancelled": RunVerdict.CANCELLED, "budget": RunVerdict.FAIL}


def verdict_of(counts: Counts, rate: Interval, *, min_pass_rate: float | None = None, stopped: str = "", tolerated: bool = False) -> RunVerdict:
    """Return the run's verdict.

    `stopped` is the queue's word for a stop that took effect (a run that had drained before keeps its own verdict: pass ""): `cancelled`; `budget`
    fails; any other (`deadline`, `workers_failed`, `queue_lost`) is an error. Otherwise the run passes when every item passed or, with
    `min_pass_rate`, when the interval's lower bound reaches it; items that failed count as passed when every failure was one that its check tolerates
    (`tolerated`, by pass_threshold) and no min_pass_rate is asked for; what does not pass is an error if nothing but errors went wrong.
    """
    stop = _STOPPED.get(stopped, RunVerdict.ERROR)
    if stop is not None:
        return stop
    if not counts.executed:
        return RunVerdict.ERROR
    every_item = counts.passed == counts.executed or (tolerated and not counts.errors)
    if every_item if min_pass_rate is None else (rate.low or 0.0) >= min_pass_rate:
        return RunVerdict.PASS
    return RunVerdict.ERROR if counts.errors and not counts.failed else RunVerdict.FAIL
