"""Amounts and counts as a person reads them."""

import pytest

from arena.cli.estimate import short
from engine.amounts import cost_text, dollars


@pytest.mark.parametrize(("figure", "said"), [(0.0, "0.0000"), (0.00003, "<0.0001"), (0.0001, "0.0001"), (1.5, "1.5000")])
def test_what_little_costs_is_not_free(figure: float, said: str) -> None:
    """An amount that four digits cannot show is said to be less than they show."""
    assert dollars(figure) == said


@pytest.mark.parametrize(
    ("cost", "partial", "said"),
    [
        pytest.param(None, False, "–", id="unknown"),
        pytest.param(None, True, "–", id="nothing of it known"),
        pytest.param(0.0, False, "$0.0000", id="nothing"),
        pytest.param(0.0123, False, "$0.0123", id="known"),
        pytest.param(0.0123, True, "at least $0.0123", id="partial"),
        pytest.param(0.00003, False, "<$0.0001", id="little"),
        pytest.param(0.00003, True, "more than $0", id="little, and partial"),
    ],
)
def test_a_cost_says_what_is_known_of_it(cost: float | None, partial: bool, said: str) -> None:  # noqa: FBT001 - a row of the table
    """A cost is exact, or the least that was spent, or not known; never shown as less than it is known to be."""
    assert cost_text(cost, is_partial=partial) == said


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        pytest.param(9_999, "9,999", id="whole below ten thousand"),
        pytest.param(60_000, "60.0k", id="thousands"),
        pytest.param(615_500, "616k", id="hundreds of thousands"),
        pytest.param(999_960, "1.0M", id="no 1,000k"),
        pytest.param(1_848_000, "1.8M", id="millions"),
        pytest.param(12_345_000_000, "12.3G", id="thousands of millions"),
    ],
)
def test_large_counts_are_short(figure: int, said: str) -> None:
    """A count takes at most six characters of a row."""
    assert short(figure) == said
