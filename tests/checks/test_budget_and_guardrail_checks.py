"""Checks of time and money, of guardrails, and of personal data."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.checks import prepare_check
from engine.checks.compiled import CompiledCheck
from engine.checks.evidence import Evidence, Outcome
from engine.items import CheckResult, Scope, Usage
from engine.providers.messages import Validation

Ask = Callable[..., Outcome]


@pytest.mark.parametrize(
    ("params", "score"),
    [
        pytest.param({"max_cost_usd": 0.01}, 1, id="within the money"),
        pytest.param({"max_cost_usd": 0.0000001}, 0, id="a tiny budget is exceeded"),
        pytest.param({"max_total_tokens": 399}, 0, id="all tokens"),
        pytest.param({"max_input_tokens": 300, "max_output_tokens": 100}, 1, id="exactly the limit"),
        pytest.param({"max_input_tokens": 300, "max_output_tokens": 99}, 0, id="one of two limits"),
    ],
)
def test_cost_budget_reads_real_usage(ask: Ask, usage: Usage, params: dict[str, Any], score: float) -> None:
    """A budget is judged by what the providers reported, where the reference sees nothing and always passes."""
    assert ask("cost_budget", params, usage=usage, cost_usd=0.004).score == score


def test_a_price_that_nobody_knows_is_no_verdict(usage: Usage) -> None:
    """A cost limit over calls of which one has no price is an error of the check, never within the budget; where nothing was called there is no cost."""
    check = CompiledCheck("cost_budget", prepare_check("cost_budget", {"max_cost_usd": 1}))
    unknown = check.begin(Evidence(usage=usage, cost_usd=0.1, cost_is_partial=True), Scope.TURN, 0)
    nothing = check.begin(Evidence(), Scope.TURN, 0)
    assert isinstance(unknown, CheckResult)
    assert isinstance(nothing, CheckResult)
    assert "the cost is not known" in unknown.error
    assert nothing.passed


def test_what_is_known_can_be_too_much(ask: Ask) -> None:
    """A cost of which a part is unknown fails a limit that the known part exceeds: it is only more."""
    assert ask("cost_budget", {"max_cost_usd": 0.01}, cost_usd=0.02, cost_is_partial=True).score == 0


def test_latency_budget(ask: Ask) -> None:
    """A slow reply scores the allowed share of its time."""
    assert ask("latency_budget", {"max_ms": 100}, latency_ms=100.0).score == 1
    assert ask("latency_budget", {"max_ms": 100}, latency_ms=400.0).score == 0.25


@pytest.mark.parametrize(
    ("params", "score"),
    [
        pytest.param({"validator_type": "length"}, 1, id="it fired"),
        pytest.param({"validator": "length", "should_trigger": False}, 0, id="it fired and should not"),
        pytest.param({"validator": "banned_words"}, 0, id="another fired"),
        pytest.param({"validator": "banned_words", "should_trigger": False}, 1, id="it did not fire, as it should"),
        pytest.param({"validator": "length", "direction": "input"}, 0, id="it fired on the other side"),
    ],
)
def test_guardrail_triggered(ask: Ask, fired: Callable[..., Validation], params: dict[str, Any], score: float) -> None:
    """What fired on the last reply is matched by the name that the prompt gave it, and by its side."""
    assert ask("guardrail_triggered", params, validations=[fired("length")]).score == score


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        pytest.param("Write to jane.doe@example.com", 0, id="an e-mail address"),
        pytest.param("SSN 123-45-6789.", 0, id="a social security number"),
        pytest.param("Card 4111 1111 1111 1111", 0, id="a card number"),
        pytest.param("Order 12345, call 555-0100", 1, id="nothing personal"),
        pytest.param("41111111111111112", 1, id="17 digits are no card"),
    ],
)
def test_pii_leakage(ask: Ask, reply: str, score: float) -> None:
    """Personal data that a pattern recognises for certain is found; other numbers are not."""
    assert ask("pii_leakage", {}, reply=reply).score == score
