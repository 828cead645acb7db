"""Amounts and counts as a person reads them."""

import pytest

from arena.cli.estimate import short
from arena.cli.screen import dollars


@pytest.mark.parametrize(("figure", "said"), [(0.0, "0.0000"), (0.00003, "<0.0001"), (0.0001, "0.0001"), (1.5, "1.5000")])
def test_what_little_costs_is_not_free(figure: float, said: str) -> None:
    """An amount that four digits cannot show is said to be less than they show."""
    assert dollars(figure) == said


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
