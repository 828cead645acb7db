"""Distributions: within one percent, equal in any order and any split."""

import math

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
    exact = sorted(values)[math.floor(share * (len(values) - 1))]
    answer = sketch_of(values).quantile(share)
    assert answer is not None
    assert abs(answer - exact) <= RELATIVE_ERROR * exact * (1 + 1e-9)


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
