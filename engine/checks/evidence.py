"""What a check sees of a conversation, and what it says of it.

Owns the two values between a conversation and its checks. Must not know how a conversation is held.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.items import Usage
from engine.providers.messages import ToolCall, ToolResult, Validation


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A tool call joined to its own result. `turn` is the 0-based turn it was made in."""

    call: ToolCall
    result: ToolResult
    turn: int = 0

    @property
    def name(self) -> str:
        """Return the tool's name."""
        return self.call.name

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Return the call's arguments; empty when the model sent no object."""
        return self.call.arguments or {}


@dataclass(slots=True)
class Evidence:
    """A conversation so far, as checks read it.

    `reply` is the text of the last assistant message, `replies` of all of them, `calls` all tool calls in order. `validations` are the guardrails
    that fired on the last assistant message. `usage` and `cost_usd` sum the conversation's provider calls.
    """

    reply: str = ""
    replies: Sequence[str] = ()
    calls: Sequence[CallRecord] = ()
    validations: Sequence[Validation] = ()
    latency_ms: float = 0.0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None


class Outcome(NamedTuple):
    """What a check found: a score of 0 to 1, or None when it has none (which passes), why, and the measured value (plain JSON)."""

    score: float | None
    explanation: str = ""
    value: Any = None
    skipped: bool = False


Evaluate = Callable[[Evidence], Outcome]
"""A check with its parameters read and compiled: pure, and safe to call from any task."""


def verdict(*, holds: bool, explanation: str, value: Any = None) -> Outcome:
    """Return an outcome of score 1 or 0."""
    return Outcome(1.0 if holds else 0.0, explanation, value)


def ratio(part: int, total: int) -> float:
    """Return part / total as a score between 0 and 1; 1 of nothing."""
    return min(part / total, 1.0) if total else 1.0
