"""Weaknesses of the format's reference engine that concern checks (promptkit-format.md 11), each with what is done better here.

Numbers are those of that section. 1 and 3 (trials): tests/results. 19 (judges): tests/judging, tests/bundle/test_bundle_judges.py. 29 (all_turns):
tests of saved conversations.
"""

from typing import Any

import pytest

from engine.checks import idle_check, prepare_check, short_check, validate_check
from engine.checks.compiled import CompiledCheck, condition
from engine.checks.evidence import Evidence, Outcome, WorkflowTrace
from engine.items import CheckResult, Scope, Usage
from tests.checks.conftest import Ask, Called


@pytest.mark.parametrize(
    ("check", "params"),
    [
        pytest.param("content_includes", {"pattern": ["a"]}, id="one that would always fail"),
        pytest.param("content_excludes", {"pattern": ["a"]}, id="one that would always pass"),
        pytest.param("banned_words", {"wrods": ["a"]}, id="a guardrail that would never fire"),
        pytest.param("llm_judge", {"judge": "j", "criterion": "x"}, id="a judge without its criteria"),
        pytest.param("workflow_tool_access", {"rules": [{"state": "a", "allow": ["t"]}]}, id="a key inside a list"),
    ],
)
def test_9_a_mistyped_parameter_is_refused(check: str, params: dict[str, Any]) -> None:
    """A parameter that nothing reads is an error that names the nearest one."""
    problems = validate_check(check, params)
    assert problems
    assert "did you mean" in problems[0].suggestion + problems[0].message


def test_11_a_single_tool_name_is_read(ask: Ask, called: Called) -> None:
    """`tool_name` names a tool as `tool_names` does."""
    assert ask("tool_called", {"tool_name": "search"}, calls=[called("search")]).score == 1


@pytest.mark.parametrize("scope", list(Scope))
def test_15_an_unmet_when_is_skipped_everywhere(scope: Scope) -> None:
    """A condition that does not hold skips the check, which passes, in a conversation as in a turn."""
    check = CompiledCheck("contains", prepare_check("contains", {"patterns": ["x"]}), applies=condition(any_tool_called=True))
    result = check.begin(Evidence(reply="y"), scope, None)
    assert isinstance(result, CheckResult)
    assert (result.passed, result.skipped) == (True, True)


def test_16_a_cost_budget_reads_what_was_spent(ask: Ask) -> None:
    """Tokens and money of the conversation are what the budget is compared with."""
    assert ask("cost_budget", {"max_cost_usd": 0.0000001}, usage=Usage(1, 1), cost_usd=0.01).score == 0
    assert ask("cost_budget", {"max_total_tokens": 1}, usage=Usage(1, 1)).score == 0


@pytest.mark.parametrize(
    ("check", "params"),
    [
        pytest.param("tool_efficiency", {"max_calls": 5}, id="tool_efficiency"),
        pytest.param("directional", {"check": "similar_content", "baseline_content": "x"}, id="similar_content"),
        pytest.param("llm_judge_session", {"criteria": "c"}, id="a judge"),
    ],
)
def test_17_a_check_that_hardly_ever_passes_says_so(check: str, params: dict[str, Any]) -> None:
    """Where a good conversation scores below 1, an author who sets no min_score is told."""
    assert short_check(check, params)
    assert not short_check("tool_efficiency", {"max_errors": 0})


def test_18_sentences_are_counted(ask: Ask) -> None:
    """A limit of sentences limits; without one the check is said to be idle."""
    assert ask("max_sentences", {"max_sentences": 1}, reply="One. Two. Three.").score == pytest.approx(1 / 3)
    assert idle_check("max_sentences", {})


@pytest.mark.parametrize(
    ("check", "params", "reply", "score"),
    [
        pytest.param("content_not_includes", {"words": ["bad"]}, "a bad word", 0, id="words of content_not_includes"),
        pytest.param("required_fields", {"required_fields": ["id"]}, "no field", 0, id="required_fields by its own name"),
        pytest.param("banned_words", {"words": ["guarantee"]}, "guaranteeing", 1, id="banned_words matches whole words"),
    ],
)
def test_20_aliases_and_defaults_hold_for_checks(ask: Ask, check: str, params: dict[str, Any], reply: str, score: float) -> None:
    """Names and defaults that are documented for guardrails hold for checks."""
    assert ask(check, params, reply=reply).score == score


def test_21_a_turn_can_be_looked_at_alone(ask: Ask, called: Called) -> None:
    """With `scope: turn` an earlier call does not satisfy a later turn."""
    calls = [called("search", turn=0)]
    assert ask("tools_called", {"tool_names": ["search"]}, calls=calls, turn=1).score == 1
    assert ask("tools_called", {"tool_names": ["search"], "scope": "turn"}, calls=calls, turn=1).score == 0
    assert ask("tools_not_called", {"tool_names": ["search"], "scope": "turn"}, calls=calls, turn=1).score == 1


def test_32_a_state_that_never_spoke_is_seen(ask: Ask) -> None:
    """A state that was entered and gave no text did not speak."""
    course = WorkflowTrace("b", entered=("b",), speakers=("a", "b"))
    assert ask("spoke_in_state", {"state": "b"}, replies=("hello", ""), workflow=course).score == 0


def test_39_results_belong_to_their_own_calls(ask: Ask, called: Called) -> None:
    """Call ids that repeat in later turns, as the mock's do, mix nothing up."""
    calls = [called("pay", error="declined"), called("pay", result="paid")]
    assert ask("tool_result_includes", {"tool": "pay", "patterns": ["paid"], "occurrence": 2}, calls=calls).score == 0
    assert ask("no_tool_errors", {}, calls=calls).score == 0
    assert ask("tools_called", {"tool_names": ["pay"], "min_calls": 2}, calls=calls).score == 0


@pytest.mark.parametrize(("check", "params"), [("contains", {"patterns": []}), ("contains_any", {"patterns": []})])
def test_nothing_asked_for_is_not_found(ask: Ask, check: str, params: dict[str, Any]) -> None:
    """An empty list finds nothing; an empty list of what must not be there is met, and warned of."""
    assert ask(check, params, reply="x").score == 0
    assert ask("content_excludes", {"patterns": []}, reply="x").score == 1
    assert idle_check("content_excludes", {"patterns": []})


def test_a_length_is_characters(ask: Ask) -> None:
    """13.4, item 10: four letters are four, however many bytes they take."""
    outcome = ask("max_length", {"max": 4}, reply="日本語🙂")
    assert isinstance(outcome, Outcome)
    assert outcome.score == 1
