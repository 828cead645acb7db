"""The plots' geometry: places stay on the axis, and what is unknown is not drawn."""

import math

from hypothesis import given
from hypothesis import strategies as st

from engine.results.charts import bars, duration, histogram, whiskers


@given(st.lists(st.floats(min_value=0, max_value=1e7, allow_nan=False), max_size=200))
def test_a_histogram_counts_every_positive_value(values: list[float]) -> None:
    """Each positive duration is in one column, the columns lie on the axis, and the highest is full."""
    found = histogram(values)
    positive = [value for value in values if value > 0]
    if not positive:
        assert found is None
        return
    assert found is not None
    assert found.count == len(positive)
    assert sum(int(column.text.split()[0]) for column in found.bins) == len(positive)
    assert all(0 <= column.x <= 100 - column.width + 1e-9 for column in found.bins)
    assert math.isclose(max(column.height for column in found.bins), 100)
    assert found.marks[0][0] == 0
    assert math.isclose(found.marks[-1][0], 100)


def test_an_unknown_cost_is_not_a_bar_of_nothing() -> None:
    """What has no price is left out; what costs nothing is a bar of length 0."""
    assert [(bar.label, bar.share) for bar in bars([("a", None, ""), ("b", 0.0, "$0"), ("c", 2.0, "$2")])] == [("b", 0.0), ("c", 100.0)]
    assert [bar.share for bar in bars([("free", 0.0, "$0")])] == [0.0]


def test_a_rate_of_nothing_is_not_drawn() -> None:
    """A group of which nothing was executed has no place on the axis."""
    empty = {"scenario": "a", "passed": 0, "failed": 0, "errors": 0, "passRate": {"value": None, "low": None, "high": None}}
    full = {"scenario": "b", "passed": 1, "failed": 1, "errors": 0, "passRate": {"value": 0.5, "low": 0.1, "high": 0.9}}
    assert [(w.label, w.low, w.value, w.high, w.text) for w in whiskers([empty, full], "scenario")] == [
        ("b", 10.0, 50.0, 90.0, "50.0 % (10.0 to 90.0), 1 of 2")
    ]


def test_durations_have_the_unit_that_fits() -> None:
    """From microseconds to minutes."""
    assert [duration(value) for value in (0.0123, 1.5, 250, 1500, 90_000)] == ["12.3 µs", "1.5 ms", "250 ms", "1.5 s", "1.5 min"]
