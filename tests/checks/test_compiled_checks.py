"""When a check applies, when its score passes, and what a broken one becomes."""

from collections.abc import Callable

import pytest

from engine.checks.compiled import Bounds, CompiledCheck, condition
from engine.checks.evidence import CallRecord, Evidence, Outcome
from engine.items import CheckResult, Scope

Called = Callable[..., CallRecord]


def begun(check: CompiledCheck, scope: Scope = Scope.TURN) -> CheckResult:
    """Return the result of a check that asks nobody."""
    result = check.begin(Evidence(), scope, None)
    assert isinstance(result, CheckResult)
    return result


@pytest.mark.parametrize(
    ("bounds", "score", "passes"),
    [
        pytest.param(Bounds(), 1.0, True, id="1 passes by default"),
        pytest.param(Bounds(), 0.99, False, id="less does not"),
        pytest.param(Bounds(least=0.5), 0.5, True, id="min_score reached"),
        pytest.param(Bounds(least=0.5), 0.4, False, id="min_score missed"),
        pytest.param(Bounds(most=0.5), 0.0, True, id="with max_score alone any low score passes"),
        pytest.param(Bounds(most=0.5), 0.6, False, id="max_score exceeded"),
        pytest.param(Bounds(least=0.2, most=0.4), 0.3, True, id="between both"),
        pytest.param(Bounds(least=0.5), None, True, id="no score passes"),
    ],
)
def test_the_pass_rule(bounds: Bounds, score: float | None, *, passes: bool) -> None:
    """A score passes at min_score (1 without bounds) and up to max_score."""
    check = CompiledCheck("x", lambda _: Outcome(score), bounds)
    assert begun(check).passed is passes


@pytest.mark.parametrize(
    ("bounds", "score", "explanation"),
    [
        pytest.param(Bounds(), 0.4, "3 calls; score 0.4, at least 1 wanted", id="a part of the score"),
        pytest.param(Bounds(0.2, 0.3), 0.4, "3 calls; score 0.4, at least 0.2 and at most 0.3 wanted", id="too much of it"),
        pytest.param(Bounds(), 0.0, "3 calls", id="nothing of it: the explanation says why"),
        pytest.param(Bounds(0.2), 0.4, "3 calls", id="enough of it"),
    ],
)
def test_a_score_that_fails_is_explained(bounds: Bounds, score: float, explanation: str) -> None:
    """A check that fails by its score alone says which score it wanted."""
    check = CompiledCheck("x", lambda _: Outcome(score, "3 calls"), bounds)
    assert begun(check).explanation == explanation


def test_a_check_that_breaks_is_an_error() -> None:
    """A check that raises is a result with an error, neither a score nor an exception."""
    result = begun(CompiledCheck("x", lambda _: 1 / 0, message="why"))  # type: ignore[arg-type,return-value]
    assert (result.passed, result.score, result.error, result.message) == (False, None, "ZeroDivisionError: division by zero", "why")


@pytest.mark.parametrize("scope", list(Scope))
def test_an_unmet_when_skips_and_passes(scope: Scope) -> None:
    """A check whose `when` is not met is skipped and passed, in every scope."""
    check = CompiledCheck("x", lambda _: Outcome(0.0), applies=condition(tool_called="search"))
    result = begun(check, scope)
    assert (result.passed, result.skipped, result.score) == (True, True, None)


@pytest.mark.parametrize(
    ("when", "names", "applies"),
    [
        pytest.param({"tool_called": "search"}, ["search"], True, id="a tool by name"),
        pytest.param({"tool_called": "search"}, ["searches"], False, id="not by half a name"),
        pytest.param({"tool_called_pattern": "^sea"}, ["x", "search"], True, id="a pattern"),
        pytest.param({"any_tool_called": True}, [], False, id="any tool, none called"),
        pytest.param({"any_tool_called": True}, ["x"], True, id="any tool"),
        pytest.param({"min_tool_calls": 2}, ["x"], False, id="too few calls"),
        pytest.param({"min_tool_calls": 2, "tool_called": "x"}, ["x", "y"], True, id="all conditions hold"),
        pytest.param({"min_tool_calls": 2, "tool_called": "z"}, ["x", "y"], False, id="one condition does not"),
    ],
)
def test_when(called: Called, when: dict[str, object], names: list[str], *, applies: bool) -> None:
    """A `when` holds when all its conditions hold over the calls so far."""
    test = condition(**when)  # type: ignore[arg-type]
    assert test is not None
    assert test(Evidence(calls=[called(name) for name in names])) is applies


def test_a_when_without_conditions_always_holds() -> None:
    """No condition is no test at all."""
    assert condition() is None
    assert condition(any_tool_called=False) is None


def test_a_when_with_a_bad_pattern_is_refused() -> None:
    """A pattern that RE2 does not know is said at load, not taken for an unmet condition."""
    with pytest.raises(ValueError, match="missing"):
        condition(tool_called_pattern="(")
