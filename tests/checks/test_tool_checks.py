"""Checks of tool calls: which, how often, with what, in which order, with what result."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.checks.evidence import CallRecord, Outcome

Ask = Callable[..., Outcome]
Called = Callable[..., CallRecord]


@pytest.fixture
def calls(called: Called) -> list[CallRecord]:
    """Return order, order, faq, and a mail that was refused."""
    return [
        called("order", {"id": "ORD-1", "qty": 2.0}, result='{"status": "Shipped"}'),
        called("order", {"id": "ORD-2"}, result='{"status": "open"}'),
        called("faq", {}, result="Returns within 30 days"),
        called("mail", {"to": "x"}, error="bad address", error_type="validation"),
    ]


@pytest.mark.parametrize(
    ("check", "params", "score"),
    [
        pytest.param("tools_called", {"tool_names": ["order", "faq"]}, 1, id="both were called"),
        pytest.param("tools_called", {"tools": ["order", "search"]}, 0.5, id="the share of tools"),
        pytest.param("tool_called", {"tool_name": "faq"}, 1, id="one tool by its singular name"),
        pytest.param("tools_called", {"tool_names": ["mail"]}, 0, id="a failed call does not count"),
        pytest.param("tools_called", {"tool_names": ["mail"], "ignore_validation": True}, 1, id="unless refused by validation and that is allowed"),
        pytest.param("tools_called_session", {"tool_names": ["mail"]}, 1, id="in a session it does"),
        pytest.param("tools_called", {"tool_names": ["order"], "min_calls": 3}, 0, id="not often enough"),
        pytest.param("tools_called", {"tool_names": ["order", "faq"], "max_calls": 1}, 0, id="too often is 0"),
        pytest.param("tools_called", {"tool_names": ["faq"], "require_args": True}, 0, id="without arguments"),
        pytest.param("tools_called", {"tool_names": []}, 0, id="no tool asked for"),
        pytest.param("tools_not_called", {"tool_names": ["search"]}, 1, id="not called"),
        pytest.param("tools_not_called", {"tool_names": ["mail"]}, 0, id="called, if in vain"),
        pytest.param("tool_args", {"tool_name": "order", "expected_args": {"id": "ORD-2"}}, 1, id="any call has the arguments"),
        pytest.param("tool_args", {"tool_name": "order", "expected_args": {"qty": "2"}}, 1, id="arguments are compared as text"),
        pytest.param("tool_args_session", {"tool_name": "order", "expected_args": {"id": "ORD-3"}}, 0, id="no call has them"),
        pytest.param("tools_not_called_with_args", {"tool_name": "order", "forbidden_args": {"id": "ORD-1"}}, 0, id="a forbidden argument"),
        pytest.param("tools_not_called_with_args", {"tool_name": "order", "excluded_args": {"id": "ORD-9"}}, 1, id="no forbidden argument"),
        pytest.param("tool_calls_with_args", {"tool_name": "order", "args_match": {"id": r"ORD-\d"}}, 1, id="every call matches"),
        pytest.param("tool_calls_with_args", {"tool_name": "order", "expected_args": {"id": "ORD-1"}}, 0, id="one call of the tool differs"),
        pytest.param("tool_calls_with_args", {"tool_name": "order", "expected_args": {"id": None}}, 1, id="null asks for presence"),
        pytest.param("tool_calls_with_args", {"tool_name": "search"}, 0, id="never called"),
        pytest.param(
            "tool_calls_with_args", {"tool_name": "order", "result_includes": ["STATUS"], "result_matches": "open|Shipped"}, 1, id="results"
        ),
        pytest.param("tool_calls_with_args", {"tool_name": "mail", "no_error": True}, 0, id="an error"),
        pytest.param("tool_call_count", {"min": 4, "max": 4}, 1, id="all calls count"),
        pytest.param("tool_call_count", {"tool": "order", "max": 1}, 0, id="calls of one tool"),
        pytest.param("tool_call_sequence", {"sequence": ["order", "faq"]}, 1, id="in order with gaps"),
        pytest.param("tool_call_sequence", {"sequence": ["faq", "order"]}, 0.5, id="half of the order"),
        pytest.param("tool_call_sequence", {"sequence": []}, 1, id="an empty order"),
        pytest.param("tool_call_chain", {"steps": [{"tool": "order"}, {"tool": "order"}, {"tool": "faq"}]}, 1, id="a chain"),
        pytest.param("tool_call_chain", {"steps": [{"tool": "order"}, {"tool": "faq", "result_includes": ["refund"]}]}, 0.5, id="a step that fails"),
        pytest.param("tool_call_chain", {"steps": [{"tool": "faq"}, {"tool": "order"}]}, 0.5, id="a step not taken"),
        pytest.param("tool_no_repeat", {}, 0, id="twice in a row"),
        pytest.param("tool_no_repeat", {"max_repeats": 2}, 1, id="twice is allowed"),
        pytest.param("tool_no_repeat", {"tools": ["faq"]}, 1, id="another tool is watched"),
        pytest.param("tool_anti_pattern", {"patterns": [{"sequence": ["order", "mail"], "message": "no"}]}, 0, id="a pattern with gaps occurs"),
        pytest.param("tool_anti_pattern", {"patterns": [{"sequence": ["mail", "order"]}]}, 1, id="a pattern does not occur"),
        pytest.param("tool_efficiency", {"max_calls": 10}, 0.6, id="the share of calls not needed"),
        pytest.param("tool_efficiency", {"max_calls": 3}, 0, id="too many calls"),
        pytest.param("tool_efficiency", {"max_errors": 0}, 0, id="too many errors"),
        pytest.param("tool_efficiency", {"max_error_rate": 0.25}, 1, id="no limit on calls"),
        pytest.param("no_tool_errors", {}, 0, id="an error anywhere"),
        pytest.param("no_tool_errors", {"tools": ["order"]}, 1, id="no error of these tools"),
        pytest.param("tool_result_includes", {"tool": "order", "patterns": ["status", "open"]}, 1, id="one result has all patterns"),
        pytest.param("tool_result_includes", {"tool": "order", "patterns": ["status"], "occurrence": 3}, 0, id="not in enough results"),
        pytest.param("tool_result_matches", {"tool": "faq", "pattern": r"\d+ days"}, 1, id="a result matches"),
        pytest.param("tool_result_matches", {"tool": "faq", "pattern": "weeks"}, 0, id="no result matches"),
        pytest.param("agent_invoked", {"agents": ["faq", "a2a__x__y"]}, 0.5, id="the share of agents"),
        pytest.param("agent_not_invoked", {"agents": ["a2a__x__y"]}, 1, id="no agent"),
        pytest.param("agent_response_contains", {"agent": "faq", "contains": "30 days"}, 1, id="an answer contains"),
        pytest.param("agent_response_contains", {"agent": "faq", "contains": "30 DAYS"}, 0, id="and respects case"),
        pytest.param("invariant_fields_preserved", {"tool": "order", "fields": ["id", "qty"]}, 0.5, id="a field was lost"),
        pytest.param("invariant_fields_preserved", {"tool": "faq", "fields": ["id"]}, 1, id="one call cannot lose"),
        pytest.param("outcome_equivalent", {"metric": "tool_calls", "expected_tools": ["faq", "mail", "order"]}, 1, id="the same tools"),
        pytest.param("directional", {"check": "same_tool_calls", "baseline_tools": ["faq"]}, 0, id="other tools than the baseline"),
        pytest.param("directional", {"check": "same_tool_calls"}, 1, id="no baseline"),
    ],
)
def test_tool_checks(ask: Ask, calls: list[CallRecord], check: str, params: dict[str, Any], score: float) -> None:
    """A check of tool calls scores what promptkit-format.md 3.3 and 3.4 say."""
    assert ask(check, params, calls=calls).score == pytest.approx(score)


@pytest.mark.parametrize(
    ("params", "reply", "score"),
    [
        pytest.param({"check": "similar_content", "baseline_content": "Your order ships soon"}, "your order SHIPS today", 0.6, id="shared words"),
        pytest.param({"check": "similar_content"}, "x", 1, id="no baseline"),
    ],
)
def test_directional(ask: Ask, params: dict[str, Any], reply: str, score: float) -> None:
    """Similarity is the share of words that both have (Jaccard), not what the threshold says."""
    assert ask("directional", params, reply=reply).score == pytest.approx(score)


def test_content_outcome(ask: Ask) -> None:
    """`content_hash` wants the very same reply."""
    params = {"metric": "content_hash", "expected_content": "yes"}
    assert ask("outcome_equivalent", params, reply="yes").score == 1
    assert ask("outcome_equivalent", params, reply="Yes").score == 0
