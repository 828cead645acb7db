"""Explanations show what was compared, and what nobody can see in it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checks.shown import MAX_SHOWN, bare, listed, shown, visible
from tests.checks.conftest import Ask, Called


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        pytest.param("plain words, ünïcödé 日本 🙂", "'plain words, ünïcödé 日本 🙂'", id="what can be seen stays"),
        pytest.param("caf\u00e9\u200b", "'café\\u200b'", id="a zero-width space"),
        pytest.param("a\u00a0b", "'a\\xa0b'", id="a space that does not break"),
        pytest.param("\u202etxt", "'\\u202etxt'", id="a direction mark"),
        pytest.param("a\nb\tc\r", "'a\\nb\\tc\\r'", id="line ends and tabs"),
        pytest.param("it's \\n", "'it\\'s \\\\n'", id="quotes and backslashes are told apart from escapes"),
        pytest.param("\x00\x1b[31m", "'\\x00\\x1b[31m'", id="control characters"),
        pytest.param("\U000e0041", "'\\U000e0041'", id="tag characters"),
        pytest.param("\ud800", "'\\ud800'", id="half a surrogate pair"),
        pytest.param("", "''", id="nothing"),
    ],
)
def test_what_is_shown(text: str, seen: str) -> None:
    """Invisible characters are escapes; everything else reads as it was said."""
    assert shown(text) == seen


def test_a_message_that_is_not_quoted_keeps_its_quotes() -> None:
    """Where no quotes surround a text, its own are told from nothing."""
    assert visible("cannot call 'x': \\ \n") == "cannot call 'x': \\\\ \\n"


def test_a_long_text_is_cut() -> None:
    """Of a long text the beginning is shown, and how long it is."""
    assert shown("x" * 1000) == f"'{'x' * MAX_SHOWN}…' (1000 characters)"
    assert listed([str(place) for place in range(12)]).endswith("'9' and 2 more")
    assert listed([]) == "nothing"


@given(st.text(), st.text())
def test_what_differs_is_shown_differently(left: str, right: str) -> None:
    """Two texts that are shown alike are the same, and what is shown is printable."""
    assert (visible(left) == visible(right)) is (left == right)
    assert visible(left).isprintable()


@given(st.text())
def test_bare_texts_are_stable(text: str) -> None:
    """What a reader takes a text for does not change when it is taken so again, but for forms that combine anew."""
    once = bare(text)
    assert bare(bare(once)) == bare(once)


@pytest.mark.parametrize(
    ("check", "params", "reply", "words"),
    [
        pytest.param(
            "contains", {"patterns": ["refund"]}, "re\u200bfund", "not found: 'refund' in 're\\u200bfund'; 'refund' would be found but", id="contains"
        ),
        pytest.param("contains", {"patterns": ["x"]}, "abc", "not found: 'x' in 'abc'", id="what is really not there"),
        pytest.param("contains_any", {"patterns": ["x", "y"]}, "a\tb", "'x', 'y' in 1 replies; the last is 'a\\tb'", id="contains_any"),
        pytest.param("content_excludes", {"patterns": ["b"]}, "a\u00a0b", "found: 'b' in 'a\\xa0b'", id="content_excludes"),
        pytest.param("regex", {"pattern": "^a$"}, "a\u200b", "the pattern '^a$' does not match 'a\\u200b'", id="regex"),
        pytest.param("regex", {"pattern": "a", "expect_match": False}, "a", "the pattern 'a' matches 'a'", id="a pattern that must not match"),
        pytest.param("field_presence", {"fields": ["id"]}, "no", "missing: 'id' in 'no'", id="field_presence"),
        pytest.param(
            "outcome_equivalent",
            {"metric": "content_hash", "expected_content": "yes"},
            "yes\u200b",
            "'yes\\u200b' differs by its length from the expected 'yes'",
            id="an invisible tail",
        ),
        pytest.param(
            "outcome_equivalent", {"metric": "content_hash", "expected_content": "yes"}, "yEs", "differs from character 2 on", id="another letter"
        ),
        pytest.param("json_valid", {}, "{a}", "the reply is '{a}'", id="json_valid"),
    ],
)
def test_texts_are_shown(ask: Ask, check: str, params: dict[str, Any], reply: str, words: str) -> None:
    """A check that fails shows what it looked for and what it looked at."""
    outcome = ask(check, params, reply=reply)
    assert outcome.score != 1
    assert words in outcome.explanation


@pytest.mark.parametrize(
    ("check", "params", "words"),
    [
        pytest.param("tool_args", {"tool_name": "search", "expected_args": {"n": 4}}, "call 1: 'n' is '3', '4' wanted", id="tool_args"),
        pytest.param("tool_args", {"tool_name": "find"}, "'find' was not called; called was 'search'", id="another tool"),
        pytest.param(
            "tool_calls_with_args",
            {"tool_name": "search", "args_match": {"q": "^x$"}},
            "'q' is 'a\\u200b', which does not match '^x$'",
            id="by pattern",
        ),
        pytest.param("tool_result_includes", {"tool": "search", "patterns": ["yes"]}, "'yes' wanted in 'no'", id="a result"),
        pytest.param(
            "tool_call_sequence", {"sequence": ["search", "buy"]}, "'buy' was not called after the first 1 steps; called was 'search'", id="order"
        ),
        pytest.param("agent_response_contains", {"agent": "search", "contains": "yes"}, "'search' answered 'no', 'yes' wanted", id="an agent"),
    ],
)
def test_calls_are_shown(ask: Ask, called: Called, check: str, params: dict[str, Any], words: str) -> None:
    """A check of calls shows what was called with what."""
    outcome = ask(check, params, calls=[called("search", {"q": "a\u200b", "n": 3.0}, result="no")])
    assert outcome.score != 1
    assert words in outcome.explanation
