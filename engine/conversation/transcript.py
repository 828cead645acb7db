"""One conversation's memory: its messages, tool calls and totals, and the evidence that checks read from them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.checks.evidence import CallRecord, CompositionTrace, Evidence, WorkflowTrace
from engine.items import Usage
from engine.providers.ledger import Ledger
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import Reply, Round

if TYPE_CHECKING:
    from engine.conversation.workflow import Course


class Transcript:
    """What was said so far. Belongs to one conversation and one task.

    `turns` counts those begun. `messages` are user, assistant and tool messages; the system prompt stands apart. `ledger` and
    `provider_latency_ms` are the assistant's; what a simulated user spent is in `selfplay`.
    `system` is the prompt of the last reply; `course`, `skills` and `composition` are what faculties leave for checks to see.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.calls: list[CallRecord] = []
        self.ledger = Ledger()
        self.selfplay = Ledger()
        self.provider_latency_ms = 0.0
        self.ttft_ms: float | None = None
        self.turns = 0
        self.system = ""
        self.course: Course | None = None
        self.skills: list[str] = []
        self.composition: CompositionTrace | None = None
        self._speakers: list[str] = []
        self._known_system = ""
        self._replies: list[str] = []
        self._users = 0
        self._turn_start = 0

    @property
    def usage(self) -> Usage:
        """Return what the assistant used."""
        return self.ledger.usage

    @property
    def cost_usd(self) -> float | None:
        """Return what is known of the assistant's cost; None until a call of a known cost was made."""
        return self.ledger.cost_usd

    @property
    def user_messages(self) -> int:
        """Return how many user messages there are."""
        return self._users

    @property
    def assistant_messages(self) -> int:
        """Return how many assistant messages there are."""
        return len(self._replies)

    def begin(self, system: str) -> None:
        """Set the system prompt that the conversation begins with. A reply that is given under another one bears it."""
        self.system = self._known_system = system

    def begin_turn(self) -> None:
        """Count a turn that begins."""
        self.turns += 1
        self._turn_start = len(self.messages)

    def add_user(self, message: Message) -> None:
        """Append a user message."""
        self._users += 1
        self.messages.append(message)

    def add_reply(self, message: Message) -> None:
        """Append an assistant message; with a workflow it bears the state that it was said in. What it cost was charged when it was asked for."""
        self.messages.append(message)
        if self.system != self._known_system:
            message.meta["system"] = self._known_system = self.system
        if self.course is not None:
            state = self.course.state
            self._speakers.append(state.name)
            message.meta["workflowState"] = {"state": state.name, "description": state.description, "terminal": self.course.terminal}
        self._replies.append(message.content)
        self.provider_latency_ms += message.latency_ms

    def charge(self, reply: Reply) -> None:
        """Count a call that the assistant is charged for."""
        self.ledger.charge(reply)

    def add_result(self, call: ToolCall, result: ToolResult) -> None:
        """Append a tool message and join it to its own call."""
        self.messages.append(Message("tool", result.content, tool_result=result))
        self.add_call(call, result)

    def add_own_calls(self, rounds: Sequence[Round]) -> None:
        """Append tool calls that the assistant made and answered itself: for each round what called, and the results. The reply is added after them."""
        for calls in rounds:
            self.add_reply(Message("assistant", tool_calls=[call for call, _ in calls]))
            for call, result in calls:
                self.add_result(call, result)

    def add_call(self, call: ToolCall, result: ToolResult) -> None:
        """Record a call that no message of the conversation shows, as a composition's steps make them."""
        self.calls.append(CallRecord(call, result, self.turns - 1, self.course.state.name if self.course is not None else ""))

    def evidence(self) -> Evidence:
        """Return what checks see at this point: the whole conversation so far."""
        last = next((message for message in reversed(self.messages) if message.role == "assistant"), None)
        return Evidence(
            reply=last.content if last else "",
            replies=self._replies,
            calls=self.calls,
            validations=last.validations if last else (),
            latency_ms=last.latency_ms if last else 0.0,
            usage=self.usage,
            cost_usd=self.cost_usd,
            cost_is_partial=self.ledger.cost_is_partial,
            messages=self.messages,
            turn=max(0, self.turns - 1),
            turn_start=self._turn_start,
            system=self.system,
            skills=self.skills,
            workflow=self._trace(),
            composition=self.composition,
        )

    def _trace(self) -> WorkflowTrace | None:
        course = self.course
        return None if course is None else WorkflowTrace(course.state.name, course.terminal, course.entered, self._speakers)

    def evidence_for(self, text: str, *, latency_ms: float = 0.0) -> Evidence:
        """Return what a guardrail sees of one message that is not in the transcript yet: its text, and the totals, in which it is charged."""
        return Evidence(
            reply=text,
            replies=(text,),
            calls=self.calls,
            messages=self.messages,
            system=self.system,
            latency_ms=latency_ms,
            usage=self.usage,
            cost_usd=self.cost_usd,
            cost_is_partial=self.ledger.cost_is_partial,
        )
