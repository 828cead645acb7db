"""What is said of a check that an author got wrong."""

from typing import Any

import pytest

from engine.checks import ALIASES, idle_check, known_types, validate_check
from engine.checks.registry import check_types


@pytest.mark.parametrize(
    ("check", "params", "key", "words"),
    [
        pytest.param("content_includs", {}, "", "did you mean 'content_includes'", id="an unknown check names the nearest one"),
        pytest.param("contains", {"pattern": ["a"]}, "pattern", "did you mean 'patterns'", id="a mistyped key names the nearest one"),
        pytest.param("contains", {}, "patterns", "missing parameter 'patterns'", id="a check without its parameter is meaningless"),
        pytest.param("content_excludes", {}, "patterns", "missing", id="an excluding check without words would always pass"),
        pytest.param("contains", {"patterns": "a"}, "patterns", "must be a list of strings", id="a string is no list"),
        pytest.param("contains", {"patterns": ["a", 1]}, "patterns", "holds the number 1", id="a list of other things"),
        pytest.param("min_length", {"min": True}, "min", "must be a number", id="true is no number"),
        pytest.param("min_length", {"min": -1}, "min", "must not be negative", id="a negative size"),
        pytest.param("min_length", {"min": 1.5}, "min", "whole number", id="half a character"),
        pytest.param("max_length", {"max": 3, "max_chars": 3}, "max_chars", "same parameter", id="one parameter under two names"),
        pytest.param("max_length", {}, "", "must be given", id="a limit without a number"),
        pytest.param("regex", {"pattern": "(?=a)"}, "pattern", "not an RE2 pattern", id="look-ahead is not RE2"),
        pytest.param("tool_calls_with_args", {"args_match": {"a": "("}}, "args_match", "not an RE2 pattern", id="a pattern inside an object"),
        pytest.param("json_schema", {"schema": {"type": "strng"}}, "schema", "unknown type", id="a schema that is none"),
        pytest.param("json_path", {"expression": "a["}, "", "not a JMESPath", id="an expression that is none"),
        pytest.param("directional", {"check": "same"}, "check", "must be one of same_tool_calls", id="a word that is not a choice"),
        pytest.param("tool_call_chain", {"steps": [{"tol": "x"}]}, "steps", "entry 1: unknown parameter 'tol'", id="a key of a nested object"),
        pytest.param("cost_budget", {}, "", "must be given", id="a budget without a limit"),
        pytest.param("contains", {"patterns": ["a"], "min_score": "1"}, "min_score", "must be a number", id="a bound that is no number"),
        pytest.param("assertion", {"eval_params": {}}, "eval_type", "must name a check", id="a wrapper around nothing"),
        pytest.param(
            "assertion", {"eval_type": "contains", "eval_params": {"pattrns": []}}, "pattrns", "did you mean 'patterns'", id="inside a wrapper"
        ),
        pytest.param("assertion", {"eval_type": "contains", "eval_params": {"patterns": []}, "x": 1}, "x", "unknown", id="beside a wrapped check"),
    ],
)
def test_a_wrong_check_is_described(check: str, params: dict[str, Any], key: str, words: str) -> None:
    """Each fault of a check names the key and says what is wrong or what to write instead."""
    problems = validate_check(check, params)
    assert problems
    assert problems[0].key == key
    assert words in f"{problems[0].message} {problems[0].suggestion}"


@pytest.mark.parametrize(
    ("check", "params"),
    [
        pytest.param("contains", {"patterns": []}, id="an empty list is a list"),
        pytest.param("content_not_includes", {"words": ["x"]}, id="words are patterns"),
        pytest.param("tool_called", {"tool_name": "search"}, id="a singular tool_name"),
        pytest.param("tools_called", {"tools": ["search"]}, id="tools for tool_names"),
        pytest.param("guardrail_triggered", {"validator": "length"}, id="validator for validator_type"),
        pytest.param("json_path", {"jmespath_expression": "a", "expected": None}, id="an expected null"),
        pytest.param("contains", {"patterns": ["a"], "message": "because", "min_score": 0.5, "max_score": 1}, id="keys of the wrapper and the entry"),
    ],
)
def test_what_the_format_allows_is_allowed(check: str, params: dict[str, Any]) -> None:
    """Aliases, wrapper keys and checks of later issues are no faults."""
    assert validate_check(check, params) == []


@pytest.mark.parametrize(
    ("check", "params", "idle"),
    [
        pytest.param("content_not_includes", {"patterns": []}, True, id="no words"),
        pytest.param("content_not_includes", {"words": ["x"]}, False, id="words under the other name"),
        pytest.param("tools_not_called", {"tools": []}, True, id="no tools"),
        pytest.param("tool_call_count", {"tool": "search"}, True, id="a count without bounds"),
        pytest.param("tool_call_count", {"max": 0}, False, id="a bound of nothing is a bound"),
        pytest.param("max_sentences", {}, True, id="a measurement"),
        pytest.param("outcome_equivalent", {"metric": "tool_calls"}, True, id="nothing to compare with"),
        pytest.param("contains", {"patterns": []}, False, id="a check that can only fail"),
        pytest.param("rest_eval", {"url": "https://example.com"}, False, id="a service decides"),
    ],
)
def test_a_check_that_can_only_pass(check: str, params: dict[str, Any], *, idle: bool) -> None:
    """A check whose parameters ask for nothing is said to be idle."""
    assert validate_check(check, params) == []
    assert bool(idle_check(check, params)) is idle


def test_aliases_lead_to_types() -> None:
    """Every alias leads to a type that is evaluated."""
    assert all(target in check_types() for target in ALIASES.values())
    assert "assertion" in known_types()
