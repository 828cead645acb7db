"""What a check sees of a conversation, and what it says of it.

Owns the two values between a conversation and its checks. Must not know how a conversation is held.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.items import Usage
from engine.providers.messages import Message, ToolCall, ToolResult, Validation

if TYPE_CHECKING:
    from engine.checks.questions import Question


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A tool call joined to its own result. `turn` is the 0-based turn it was made in, `state` the workflow's state then, "" without a workflow."""

    call: ToolCall
    result: ToolResult
    turn: int = 0
    state: str = ""

    @property
    def name(self) -> str:
        """Return the tool's name."""
        return self.call.name

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Return the call's arguments; empty when the model sent no object."""
        return self.call.arguments or {}


@dataclass(frozen=True, slots=True)
class WorkflowTrace:
    """A workflow so far.

    `state` is where it stands now, `terminal` whether that state ends it. `entered` are the states that transitions led to, in order and as they were
    really entered (a redirect's own target; the entry state only when a transition came back to it). `speakers` names, for each of `Evidence.replies`
    and in their order, the state in which it was said.
    """

    state: str
    terminal: bool = False
    entered: Sequence[str] = ()
    speakers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CompositionTrace:
    """What a composition did: the text of each step that gave one, the step that each branch chose, the parallel steps that completed, and the output.

    Steps are known by their ids; one that did not run is in none of them.
    """

    outputs: Mapping[str, str]
    branches: Mapping[str, str]
    completed: Collection[str]
    output: str = ""


@dataclass(slots=True)
class Evidence:
    """A conversation so far, as checks read it.

    `reply` is the text of the last assistant message, `replies` of all of them, `calls` all tool calls in order. `validations` are the guardrails
    that fired on the last assistant message. `usage` and `cost_usd` sum the conversation's provider calls; with
    `cost_is_partial` the cost of some of them is not known. `messages` are the user, assistant and tool
    messages in order, of which those from `turn_start` on belong to the last turn, whose 0-based number is `turn`; `system` is the system
    prompt that the last reply was given under. `skills` are the skills that were
    activated, in order, once each time. `workflow` and `composition` are None without one.
    """

    reply: str = ""
    replies: Sequence[str] = ()
    calls: Sequence[CallRecord] = ()
    validations: Sequence[Validation] = ()
    latency_ms: float = 0.0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    cost_is_partial: bool = False
    messages: Sequence[Message] = ()
    turn: int = 0
    turn_start: int = 0
    system: str = ""
    skills: Sequence[str] = ()
    workflow: WorkflowTrace | None = None
    composition: CompositionTrace | None = None


class Outcome(NamedTuple):
    """What a check found: a score of 0 to 1, or None when it has none (which passes), why, and the measured value (plain JSON)."""

    score: float | None
    explanation: str = ""
    value: Any = None
    skipped: bool = False


def of_last_turn(evidence: Evidence) -> Evidence:
    """Return what `evidence` holds of its last turn: messages, replies and calls; everything else is as it was."""
    messages = evidence.messages[evidence.turn_start :]
    return replace(
        evidence,
        messages=messages,
        replies=[message.content for message in messages if message.role == "assistant"],
        calls=[record for record in evidence.calls if record.turn == evidence.turn],
        turn_start=0,
    )


Evaluate = Callable[[Evidence], "Outcome | Question"]
"""A check with its parameters read and compiled: pure, and safe to call from any task. What it cannot tell by itself it asks."""


def verdict(*, holds: bool, explanation: str, value: Any = None) -> Outcome:
    """Return an outcome of score 1 or 0."""
    return Outcome(1.0 if holds else 0.0, explanation, value)


def ratio(part: int, total: int) -> float:
    """Return part / total as a score between 0 and 1; 1 of nothing."""
    return min(part / total, 1.0) if total else 1.0
