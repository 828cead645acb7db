"""Distributions: within one percent, equal in any order and any split."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.results.sketches import RELATIVE_ERROR, ExactSum, Sketch

LATENCIES = st.lists(st.floats(1e-6, 1e9) | st.just(0.0), min_size=1, max_size=80)


def sketch_of(values: list[float]) -> Sketch:
    """Return a sketch of `values`."""
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch


def answers(sketch: Sketch) -> list[float | None]:
    """Return all that a sketch can be asked."""
    return [sketch.mean, sketch.low, sketch.high, *(sketch.quantile(share / 20) for share in range(21))]


@given(values=LATENCIES, share=st.floats(0, 1))
def test_a_quantile_is_within_one_percent(values: list[float], share: float) -> None:
    """A quantile differs from the value at its rank by at most one percent of it."""
    exact = sorted(values)[max(1, math.ceil(round(share * len(values), 9))) - 1]
    answer = sketch_of(values).quantile(share)
    assert answer is not None
    assert abs(answer - exact) <= RELATIVE_ERROR * exact * (1 + 1e-9)


@pytest.mark.parametrize(
    ("count", "share", "rank"),
    [
        pytest.param(1, 0.5, 1, id="of one"),
        pytest.param(3, 0.5, 2, id="the median of three"),
        pytest.param(4, 0.5, 2, id="the median of four"),
        pytest.param(3, 0.99, 3, id="p99 of three is the greatest"),
        pytest.param(10, 0.9, 9, id="p90 of ten"),
        pytest.param(10, 0.95, 10, id="p95 of ten"),
        pytest.param(100, 0.99, 99, id="p99 of a hundred"),
        pytest.param(100, 0.07, 7, id="a share that no float is"),
        pytest.param(5, 0.0, 1, id="the least"),
    ],
)
def test_a_quantile_is_the_nearest_rank(count: int, share: float, rank: int) -> None:
    """At least `share` of the values are no greater: a percentile that most of few values exceed would say less than their mean."""
    assert sketch_of([float(value) for value in range(1, count + 1)]).quantile(share) == pytest.approx(rank, rel=RELATIVE_ERROR)


@given(first=LATENCIES, second=LATENCIES, third=LATENCIES)
def test_merging_is_associative_and_commutative(first: list[float], second: list[float], third: list[float]) -> None:
    """Any grouping and order of merges answers as one sketch over all values, to the last bit."""
    left, right = sketch_of(first), sketch_of(third)
    left.merge(sketch_of(second))
    left.merge(sketch_of(third))
    right.merge(sketch_of(second))
    right.merge(sketch_of(first))
    assert answers(left) == answers(right) == answers(sketch_of(first + second + third))


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300), max_size=50))
def test_a_sum_is_exact(values: list[float]) -> None:
    """A sum is the correctly rounded one, whatever the order."""
    total = ExactSum()
    for value in reversed(values):
        total.add(value)
    assert total.value == math.fsum(values)


def test_an_empty_sketch_has_no_answers() -> None:
    """Nothing measured is None, never zero."""
    sketch = Sketch()
    assert (sketch.mean, sketch.quantile(0.5), sketch.count) == (None, None, 0)


def test_what_is_no_number_is_not_counted() -> None:
    """NaN and infinity are ignored; a negative value counts as zero."""
    sketch = sketch_of([math.nan, math.inf, -1.0])
    assert (sketch.count, sketch.quantile(1.0)) == (1, 0.0)
