"""A way to ask one check about one conversation."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engine.checks import prepare_check, validate_check
from engine.checks.evidence import CallRecord, Evidence, Outcome
from engine.checks.questions import JudgeQuestion
from engine.items import Usage
from engine.providers.messages import ToolCall, ToolResult, Validation

Ask = Callable[..., Outcome]
Called = Callable[..., CallRecord]


@pytest.fixture
def ask() -> Ask:
    """Evaluate a check with parameters that are right, in an arena without judges; `replies` default to the one `reply`."""

    def evaluate(
        check: str,
        params: dict[str, Any],
        *,
        reply: str = "",
        replies: Sequence[str] | None = None,
        calls: Sequence[CallRecord] = (),
        **more: Any,
    ) -> Outcome:
        assert validate_check(check, params) == []
        said = [reply] if replies is None else list(replies)
        outcome = prepare_check(check, params)(Evidence(reply=said[-1] if said else "", replies=said, calls=calls, **more))
        if isinstance(outcome, JudgeQuestion) and outcome.without_judge is not None:
            return outcome.without_judge
        assert isinstance(outcome, Outcome)
        return outcome

    return evaluate


@pytest.fixture
def called() -> Called:
    """Make a tool call with its result."""

    def record(name: str, arguments: dict[str, Any] | None = None, *, result: str = "ok", error: str = "", **more: Any) -> CallRecord:
        call, error_type = ToolCall("call_0", name, arguments or {}), more.pop("error_type", "execution" if error else "")
        return CallRecord(call, ToolResult("call_0", name, result, error, error_type), **more)

    return record


@pytest.fixture
def usage() -> Usage:
    """Return some tokens."""
    return Usage(input_tokens=300, output_tokens=100)


@pytest.fixture
def fired() -> Callable[..., Validation]:
    """Make a guardrail that fired."""

    def validation(kind: str, direction: str = "output") -> Validation:
        return Validation(kind, direction, 0.0, "")

    return validation
