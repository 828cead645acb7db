"""Votes of judges, and the one score that a panel makes of them. Pure."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.checks.evidence import Outcome
from engine.judging.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Vote:
    """A judge's verdict, and the provider that spoke for the judge."""

    judge: str
    provider: str
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """Return the vote as results keep it."""
        verdict = self.verdict
        return {"judge": self.judge, "provider": self.provider, "score": verdict.score, "passed": verdict.passed, "reasoning": verdict.reasoning}


def _majority(votes: Sequence[Vote]) -> float:
    return 1.0 if sum(vote.verdict.passed for vote in votes) * 2 > len(votes) else 0.0


def _scores(votes: Sequence[Vote]) -> list[float]:
    return [vote.verdict.score for vote in votes]


AGGREGATES: Mapping[str, Callable[[Sequence[Vote]], float]] = {
    "mean": lambda votes: statistics.fmean(_scores(votes)),
    "median": lambda votes: statistics.median(_scores(votes)),
    "min": lambda votes: min(_scores(votes)),
    "max": lambda votes: max(_scores(votes)),
    "majority": _majority,
}
"""How a panel's votes become a score. `majority` is 1 when more than half of the judges say `passed`."""


def tally(votes: Sequence[Vote], aggregate: str) -> Outcome:
    """Return what `votes` (at least one, in the order the judges were named) come to; every vote is kept in the value."""
    if len(votes) == 1:
        verdict = votes[0].verdict
        return Outcome(verdict.score, verdict.reasoning, {"votes": [votes[0].to_json()]})
    score = AGGREGATES[aggregate](votes)
    listed = ", ".join(f"{vote.judge} {vote.verdict.score:.4g}" for vote in votes)
    reasons = "; ".join(f"{vote.judge}: {vote.verdict.reasoning}" for vote in votes if vote.verdict.reasoning)
    explanation = f"{aggregate} {score:.4g} of {listed}" + (f"; {reasons}" if reasons else "")
    return Outcome(score, explanation, {"aggregate": aggregate, "votes": [vote.to_json() for vote in votes]})
