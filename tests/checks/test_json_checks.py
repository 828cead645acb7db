"""Checks of replies that should be JSON."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.checks import prepare_check
from engine.checks.compiled import CompiledCheck
from engine.checks.evidence import Evidence, Outcome
from engine.checks.json_content import same_json
from engine.items import CheckResult, Scope

Ask = Callable[..., Outcome]

FENCED = 'Here you are:\n\n```json\n{"name": "Alice", "age": 28}\n```\nEnjoy.'


@pytest.mark.parametrize(
    ("params", "reply", "score"),
    [
        pytest.param({}, '{"a": 1}', 1, id="JSON"),
        pytest.param({}, FENCED, 0, id="text around it"),
        pytest.param({"allow_wrapped": True}, FENCED, 1, id="in a block of backticks"),
        pytest.param({"extract_json": True}, 'say {"a": "}"} now', 1, id="between words, a bracket in a string"),
        pytest.param({"extract_json": True}, "say [1, 2] now", 1, id="a list between words"),
        pytest.param({"extract_json": True}, "{nothing", 0, id="brackets that never close"),
        pytest.param({}, "NaN", 0, id="NaN is not JSON"),
        pytest.param({}, "1e999", 0, id="a number that no double holds"),
        pytest.param({}, "[" * 100_000, 0, id="nesting without end"),
    ],
)
def test_valid_json(ask: Ask, params: dict[str, Any], reply: str, score: float) -> None:
    """A reply is JSON as the standard has it; the two options say where else to look."""
    assert ask("is_valid_json", params, reply=reply).score == score


@pytest.mark.parametrize(
    ("params", "score"),
    [
        pytest.param({"expression": "name", "expected": "Alice"}, 1, id="equal"),
        pytest.param({"expression": "age", "expected": 28.0}, 1, id="28 is 28.0"),
        pytest.param({"expression": "age", "expected": "28"}, 0, id="a number is not its text"),
        pytest.param({"expression": "missing", "expected": None}, 1, id="an expected null"),
        pytest.param({"expression": "age", "min": 18, "max": 27}, 0, id="all conditions hold, or none counts"),
        pytest.param({"expression": "length(@)", "min": 2}, 1, id="a function"),
        pytest.param({"expression": "keys(@)", "contains": ["age"], "min_results": 2, "max_results": 2}, 1, id="a list"),
        pytest.param({"expression": "keys(@)", "max_results": 1}, 0, id="a list that is too long"),
        pytest.param({"expression": "name", "min": 1}, 0, id="a bound on no number"),
        pytest.param({"expression": "name", "contains": ["A"]}, 0, id="a string contains nothing"),
        pytest.param({"expression": "to_number(`[]`) > `1` && abs(name)"}, 1, id="a condition that is never reached"),
        pytest.param({"expression": "abs(name)"}, 0, id="an expression that fails"),
    ],
)
def test_json_path(ask: Ask, params: dict[str, Any], score: float) -> None:
    """A JMESPath result meets every condition given."""
    assert ask("json_path", {**params, "allow_wrapped": True}, reply=FENCED).score == score


def test_json_schema_says_where(ask: Ask) -> None:
    """A reply that does not fit its schema is told where and why."""
    schema = {"type": "object", "required": ["name"], "properties": {"age": {"type": "integer", "maximum": 20}}}
    outcome = ask("json_schema", {"schema": schema, "allow_wrapped": True}, reply=FENCED)
    assert (outcome.score, outcome.explanation) == (0, "age must be at most 20")
    assert ask("json_schema", {"schema": schema}, reply='{"name": "x", "age": 3}').score == 1
    assert ask("json_schema", {"schema": schema}, reply="no").score == 0


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        pytest.param(1, 1.0, True, id="numbers by value"),
        pytest.param(True, 1, False, id="true is not 1"),
        pytest.param([1, {"a": 2}], [1.0, {"a": 2.0}], True, id="inside lists and objects"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, False, id="a key more"),
        pytest.param([1], [1, 2], False, id="an entry more"),
        pytest.param(None, 0, False, id="null is not 0"),
    ],
)
def test_same_json(left: Any, right: Any, *, same: bool) -> None:
    """JSON values are equal by value, not by Python type."""
    assert same_json(left, right) is same


def test_a_result_that_multiplies_is_no_result() -> None:
    """An expression that repeats a value beyond any memory is an error of the check, found before it is written out."""
    check = CompiledCheck("json_path", prepare_check("json_path", {"expression": "|".join(["[@,@]"] * 40), "min_results": 1}))
    result = check.begin(Evidence(reply="{}"), Scope.TURN, 0)
    assert isinstance(result, CheckResult)
    assert "more than 100,000 values" in result.error
