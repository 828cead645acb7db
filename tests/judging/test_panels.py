"""How a panel's votes become a score."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checks.judged import AGGREGATES as NAMES
from engine.judging.panels import AGGREGATES, Vote, tally
from engine.judging.verdicts import Verdict


def votes(*scores: float) -> list[Vote]:
    """Return votes that pass from half on."""
    return [Vote(f"j{place}", "p", Verdict(score, score >= 0.5)) for place, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("aggregate", "scores", "score"),
    [
        pytest.param("mean", (1.0, 0.5, 0.0), 0.5, id="mean"),
        pytest.param("median", (1.0, 0.9, 0.0), 0.9, id="median"),
        pytest.param("median", (1.0, 0.0), 0.5, id="median of an even panel"),
        pytest.param("min", (1.0, 0.2), 0.2, id="min"),
        pytest.param("max", (1.0, 0.2), 1.0, id="max"),
        pytest.param("majority", (0.6, 0.7, 0.1), 1.0, id="two of three"),
        pytest.param("majority", (0.6, 0.1), 0.0, id="half is no majority"),
    ],
)
def test_aggregates(aggregate: str, scores: tuple[float, ...], score: float) -> None:
    """Each way of counting gives its score."""
    assert tally(votes(*scores), aggregate).score == pytest.approx(score)


def test_the_ways_of_counting_are_those_that_a_check_takes() -> None:
    """What a check's `aggregate` may say is what can be counted."""
    assert set(NAMES) == set(AGGREGATES)


@given(st.sampled_from(sorted(AGGREGATES)), st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_a_score_is_between_the_votes_and_no_vote_is_lost(aggregate: str, scores: list[float]) -> None:
    """A panel's score is 0 to 1, all votes are kept in order, and a panel of one says what its judge said."""
    outcome = tally(votes(*scores), aggregate)
    assert outcome.score is not None
    assert 0 <= outcome.score <= 1
    assert [vote["score"] for vote in outcome.value["votes"]] == scores
    if len(scores) == 1:
        assert outcome.score == scores[0]
    elif aggregate != "majority":
        assert min(scores) - 1e-12 <= outcome.score <= max(scores) + 1e-12
