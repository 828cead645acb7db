"""The verdict of a run, as resources.md words it."""

import pytest

from engine.results.intervals import Cluster, pass_rate
from engine.results.verdicts import Counts, verdict_of


@pytest.mark.parametrize(
    ("counts", "min_pass_rate", "stopped", "expected"),
    [
        pytest.param(Counts(passed=3), None, "", "pass", id="every item passed"),
        pytest.param(Counts(passed=2, failed=1), None, "", "fail", id="a check failed"),
        pytest.param(Counts(passed=2, failed=1, errors=1), None, "", "fail", id="failures beside errors are a failure"),
        pytest.param(Counts(passed=2, errors=1), None, "", "error", id="nothing but errors went wrong"),
        pytest.param(Counts(), None, "", "error", id="nothing was executed"),
        pytest.param(Counts(passed=95, failed=5), 0.85, "", "pass", id="the lower bound reaches the minimum"),
        pytest.param(Counts(passed=95, failed=5), 0.90, "", "fail", id="only the rate itself reaches the minimum"),
        pytest.param(Counts(passed=95, errors=5), 0.85, "", "pass", id="errors within the minimum"),
        pytest.param(Counts(passed=2, errors=5), 0.85, "", "error", id="errors alone miss the minimum"),
        pytest.param(Counts(passed=2), 0.85, "", "fail", id="too few items to be sure"),
        pytest.param(Counts(passed=2, skipped=4), None, "cancelled", "cancelled", id="cancelled"),
        pytest.param(Counts(passed=2, skipped=4), None, "budget", "fail", id="the budget"),
        pytest.param(Counts(passed=2, failed=1, skipped=4), None, "deadline", "error", id="the deadline"),
        pytest.param(Counts(passed=2, errors=1), None, "workers_failed", "error", id="workers lost"),
    ],
)
def test_verdict(counts: Counts, min_pass_rate: float | None, stopped: str, expected: str) -> None:
    """A run's verdict follows from its counts, its rule and the stop that took effect."""
    rate = pass_rate([Cluster(1, 1)] * counts.passed + [Cluster(0, 1)] * (counts.failed + counts.errors))
    assert verdict_of(counts, rate, min_pass_rate=min_pass_rate, stopped=stopped) == expected
