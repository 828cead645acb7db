"""Checks of what the assistant says and how much."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checks.evidence import Outcome
from engine.checks.length import count_sentences
from engine.checks.words import Word, begins_banned, find_banned, normal_words

Ask = Callable[..., Outcome]


@pytest.mark.parametrize(
    ("check", "params", "replies", "score"),
    [
        pytest.param("contains", {"patterns": ["Paris", "france"]}, ["PARIS in France"], 1, id="contains ignores case"),
        pytest.param("contains", {"patterns": ["Paris", "Rome"]}, ["paris"], 0.5, id="contains scores the share found"),
        pytest.param("contains", {"patterns": ["Paris"]}, ["Paris", "Rome"], 0, id="contains reads the last reply"),
        pytest.param("contains", {"patterns": []}, ["x"], 0, id="contains of nothing is 0"),
        pytest.param("contains", {"patterns": ["Paris"], "case_sensitive": True}, ["paris"], 0, id="contains respects case when asked"),
        pytest.param("contains_any", {"patterns": ["Paris", "Rome"]}, ["rome", "x"], 1, id="contains_any reads every reply"),
        pytest.param("contains_any", {"patterns": ["Paris"]}, ["x"], 0, id="contains_any finds nothing"),
        pytest.param("content_excludes", {"patterns": ["err"]}, ["an Error", "fine"], 0, id="excludes reads every reply, parts of words too"),
        pytest.param("content_excludes", {"patterns": ["err"], "match_mode": "word_boundary"}, ["error"], 1, id="excludes whole words when asked"),
        pytest.param("content_excludes", {"patterns": []}, ["x"], 1, id="excludes nothing"),
        pytest.param("banned_words", {"words": ["ass"]}, ["class"], 1, id="banned words are whole words"),
        pytest.param("banned_words", {"words": ["ass"]}, ["You ASS!"], 0, id="banned words ignore case"),
        pytest.param("banned_words", {"words": ["ASS"], "case_sensitive": True}, ["ass"], 1, id="banned words respect case when asked"),
        pytest.param("regex", {"pattern": r"(?i)\bparis\b"}, ["In PARIS."], 1, id="regex searches"),
        pytest.param("regex", {"pattern": "^x", "expect_match": False}, ["yx"], 1, id="regex that must not match"),
        pytest.param("min_length", {"min": 10}, ["12345"], 0.5, id="too short scores its share"),
        pytest.param("min_length", {"min_chars": 2}, ["éé"], 1, id="a length is characters"),
        pytest.param("max_length", {"max": 4}, ["éééé"], 1, id="a limit is characters, not bytes"),
        pytest.param("max_length", {"max_characters": 5}, ["1234567890"], 0.5, id="too long scores the allowed share"),
        pytest.param("max_length", {"max_tokens": 2}, ["x" * 11], 1, id="a token is four characters, rounded down"),
        pytest.param("max_length", {"max_tokens": 2}, ["x" * 12], 11 / 12, id="one token too many"),
        pytest.param("sentence_count", {"max_sentences": 2}, ["One. Two! Three? Four"], 0.5, id="too many sentences"),
        pytest.param("sentence_count", {}, ["One. Two."], 1, id="sentences are only measured without a limit"),
        pytest.param("required_fields", {"required_fields": ["name", "age"]}, ["name: x"], 0.5, id="the share of fields that are there"),
    ],
)
def test_content(ask: Ask, check: str, params: dict[str, Any], replies: list[str], score: float) -> None:
    """A content check scores what promptkit-format.md 3.3 says, in characters and whole words."""
    assert ask(check, params, replies=replies).score == pytest.approx(score)


@pytest.mark.parametrize(
    ("text", "word", "found"),
    [
        pytest.param("I guarantee it", "guarantee", True, id="a whole word"),
        pytest.param("guaranteed", "guarantee", False, id="the beginning of another word"),
        pytest.param("re-guarantee", "guarantee", True, id="after a hyphen"),
        pytest.param("100% sure", "100%", True, id="a word that ends in punctuation"),
        pytest.param("2100%", "100%", False, id="digits before"),
        pytest.param("naïve", "na", False, id="a letter of any script continues a word"),
        pytest.param("guaranteed guarantee", "guarantee", True, id="a later occurrence"),
    ],
)
def test_whole_words(text: str, word: str, *, found: bool) -> None:
    """A word stands alone when no letter or digit continues it, in any script."""
    assert bool(find_banned(text, normal_words([word], case_sensitive=False), whole=True)) is found


def test_a_word_at_the_end_of_a_stream_may_go_on() -> None:
    """What ends where a beginning ends is not a whole word yet, unless it ends in punctuation."""
    words = normal_words(["guarantee", "100%"], case_sensitive=False)
    assert not begins_banned("I guarantee", 0, words, whole=True)
    assert begins_banned("I guarantee ", 0, words, whole=True)
    assert begins_banned("by 100%", 0, words, whole=True)


@pytest.mark.parametrize(("text", "count"), [("", 0), ("One", 1), ("One. Two.", 2), ("Version 1.5 is out!", 1), ("Really?! Yes...", 2)])
def test_sentences(text: str, count: int) -> None:
    """A sentence ends at punctuation before a space or the end; a dot inside a number ends nothing."""
    assert count_sentences(text) == count


@given(text=st.text("ab .", max_size=60), size=st.integers(1, 7), whole=st.booleans())
def test_chunks_find_what_the_whole_text_holds(text: str, size: int, *, whole: bool) -> None:
    """Looked at chunk by chunk, only what is new, a reply is stopped exactly when the whole of it holds a word."""
    words: tuple[Word, ...] = normal_words(["ab", "aba", "b b"], case_sensitive=False)
    stopped = any(begins_banned(text[: end + size], end, words, whole=whole) for end in range(0, len(text), size))
    assert (stopped or bool(find_banned(text, words, whole=whole))) is bool(find_banned(text + " ", words, whole=whole))
