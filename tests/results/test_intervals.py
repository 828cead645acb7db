"""Intervals: Wilson, an effective sample size for repeated trials, flakiness."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.results.intervals import WILSON, WILSON_CLUSTERED, Cluster, effective_size, flakiness, pass_rate, student_quantile, wilson


@pytest.mark.parametrize(
    ("passed", "count", "low", "high"),
    [
        pytest.param(116, 120, 0.917, 0.987, id="116 of 120"),
        pytest.param(13, 13, 0.772, 1.0, id="all of 13"),
        pytest.param(0, 10, 0.0, 0.278, id="none of 10"),
    ],
)
def test_wilson_interval(passed: int, count: int, low: float, high: float) -> None:
    """Items of different scenarios, one each, have the plain Wilson interval."""
    rate = pass_rate([Cluster(int(number < passed), 1) for number in range(count)])
    assert rate.low == pytest.approx(low, abs=5e-4)
    assert rate.high == pytest.approx(high, abs=5e-4)
    assert rate.method == WILSON


def test_nothing_counted_has_no_rate() -> None:
    """A rate over no items is None, never 0 or 1."""
    rate = pass_rate([Cluster(0, 0)])
    assert (rate.value, rate.low, rate.high) == (None, None, None)


def test_trials_of_one_scenario_do_not_count_in_full() -> None:
    """Twenty scenarios that each always pass or always fail say as much as twenty items, however often they are repeated."""
    clusters = [Cluster(10 if number < 16 else 0, 10) for number in range(20)]
    rate = pass_rate(clusters)
    assert effective_size(clusters) == pytest.approx(20, rel=0.06)
    assert rate.method == WILSON_CLUSTERED
    assert (rate.low or 0) < wilson(0.8, 200, 1.96)[0]


def test_a_single_scenario_counts_its_trials() -> None:
    """With one scenario the interval speaks of that scenario, so its trials count in full."""
    rate = pass_rate([Cluster(18, 20)])
    assert rate.low == pytest.approx(wilson(0.9, 20, 1.959964)[0])
    assert rate.method == WILSON


CLUSTERS = st.lists(st.integers(1, 20).flatmap(lambda n: st.builds(Cluster, st.integers(0, n), st.just(n))), min_size=1, max_size=30)


@given(clusters=CLUSTERS)
def test_an_interval_holds_its_rate(clusters: list[Cluster]) -> None:
    """0 <= low <= value <= high <= 1, and the effective size lies between scenarios and items."""
    rate = pass_rate(clusters)
    assert rate.value is not None
    assert rate.low is not None
    assert rate.high is not None
    assert 0 <= rate.low <= rate.value <= rate.high <= 1
    assert len(clusters) <= effective_size(clusters) <= sum(cluster.count for cluster in clusters) + 1e-9


@pytest.mark.parametrize(("freedom", "expected"), [(4, 2.776), (5, 2.571), (9, 2.262), (19, 2.093), (49, 2.010), (1000, 1.962)])
def test_student_quantile(freedom: int, expected: float) -> None:
    """The t quantile agrees with the printed tables."""
    assert student_quantile(0.95, freedom) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("passed", "failed", "expected"),
    [
        pytest.param(5, 5, 1.0, id="half passed"),
        pytest.param(4, 0, 0.0, id="always passed"),
        pytest.param(3, 1, 0.5, id="three of four"),
        pytest.param(1, 0, None, id="one trial cannot tell"),
    ],
)
def test_flakiness(passed: int, failed: int, expected: float | None) -> None:
    """Flakiness is 1 - |2p - 1| over trials that were judged."""
    assert flakiness(passed, failed) == expected
