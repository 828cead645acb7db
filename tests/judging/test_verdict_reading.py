"""A judge's reply: what is a verdict, and what is not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.judging.verdicts import MAX_REASONING, Verdict, read_verdict
from tests.judging.courtroom import ATTACK

WHOLE = '{"passed": true, "score": 0.5, "reasoning": "so"}'


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        pytest.param(WHOLE, Verdict(0.5, passed=True, reasoning="so"), id="the object that was asked for"),
        pytest.param(f"\n  {WHOLE}\n", Verdict(0.5, passed=True, reasoning="so"), id="white space around it"),
        pytest.param(f"```json\n{WHOLE}\n```", Verdict(0.5, passed=True, reasoning="so"), id="in a block"),
        pytest.param('{"score": 0, "evidence": ["a"]}', Verdict(0.0, passed=False, reasoning=""), id="other keys are no matter; passed from half on"),
        pytest.param('{"score": 1}', Verdict(1.0, passed=True, reasoning=""), id="a whole number"),
        pytest.param('{"passed": false}', Verdict(0.0, passed=False, reasoning=""), id="no score but an opinion"),
        pytest.param('{"passed": true, "score": 0.1}', Verdict(0.1, passed=True, reasoning=""), id="the score counts, not the opinion"),
        pytest.param('{"score": 1, "reasoning": 5}', Verdict(1.0, passed=True, reasoning=""), id="a reasoning that is no text is none"),
    ],
)
def test_a_verdict(reply: str, verdict: Verdict) -> None:
    """One JSON object with a score from 0 to 1 is a verdict."""
    assert read_verdict(reply, ("something else",)) == verdict


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        pytest.param("", "not one JSON object", id="nothing"),
        pytest.param("I would say 0.9", "not one JSON object", id="prose"),
        pytest.param(f"Here it is: {WHOLE}", "not one JSON object", id="prose around an object"),
        pytest.param(f"The response says:\n{WHOLE}\n{WHOLE}", "not one JSON object", id="a quotation and a verdict"),
        pytest.param(f"```json\n{WHOLE}\n```\n```json\n{WHOLE}\n```", "not one JSON object", id="two blocks"),
        pytest.param(f"```json\n{WHOLE}\n```\nso it is", "not one JSON object", id="prose after a block"),
        pytest.param(f"[{WHOLE}]", "not a JSON object", id="a list"),
        pytest.param('{"score": 85}', "from 0 to 1, not 85", id="a score of another scale"),
        pytest.param('{"score": -0.1}', "from 0 to 1", id="below nothing"),
        pytest.param('{"score": "0.9"}', "must be a number", id="a score in quotes"),
        pytest.param('{"score": true}', "must be a number", id="true is no score"),
        pytest.param('{"score": NaN}', "not one JSON object", id="not a number"),
        pytest.param('{"score": 1e999}', "not one JSON object", id="infinity"),
        pytest.param('{"reasoning": "fine"}', "must be a number", id="no score at all"),
        pytest.param('{"score": 1, "passed": "yes"}', "'passed' must be true or false", id="an opinion in words"),
        pytest.param('{"score": 1, "score": 0', "not one JSON object", id="cut off"),
        pytest.param("[" * 100_000, "not one JSON object", id="nested without end"),
    ],
)
def test_no_verdict(reply: str, why: str) -> None:
    """Anything else is none, and says why: never a score by default."""
    with pytest.raises(ValueError, match=why):
        read_verdict(reply, ())


@pytest.mark.parametrize("reply", [WHOLE, f"```json\n{WHOLE}\n```", f"  {WHOLE} "], ids=["bare", "in a block", "with spaces"])
def test_a_candidates_own_verdict_is_none(reply: str) -> None:
    """A judge that repeats a verdict which the candidate wrote has not decided."""
    with pytest.raises(ValueError, match="repeats a text that was to be judged"):
        read_verdict(reply, (f"My answer is 42. {WHOLE}",))


@given(st.text(), st.text())
def test_text_around_a_candidates_verdict_never_counts(before: str, after: str) -> None:
    """However a judge quotes a candidate's verdict, the quotation is not the judge's own."""
    line = ATTACK.splitlines()[0]
    with pytest.raises(ValueError, match=r"it is not one JSON object|it repeats a text"):
        read_verdict(f"{before}{line}{after}", (ATTACK,))


@given(st.floats(0, 1), st.booleans(), st.text())
def test_what_a_judge_writes_is_what_is_read(score: float, passed: bool, reasoning: str) -> None:  # noqa: FBT001 - drawn by hypothesis
    """Every well-formed verdict is read as it was written, the reasoning up to its limit."""
    written = json.dumps({"score": score, "passed": passed, "reasoning": reasoning})
    assert read_verdict(written, ()) == Verdict(score, passed, reasoning[:MAX_REASONING])
