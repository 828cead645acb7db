"""Faculties: what an assistant has in one conversation besides its prompt, such as a workflow, skills or a memory.

Owns the ways in which a faculty can shape a conversation, and the form of its tools. A faculty belongs to one conversation and keeps that
conversation's state; a new one is built for each. Must not know any of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from engine.conversation.brief import Brief
from engine.conversation.transcript import Transcript
from engine.providers.messages import json_text
from engine.providers.port import ToolSpec
from engine.tools.arguments import coerce_arguments
from engine.tools.fitting import check_arguments
from engine.tools.port import CallableTool, ToolAnswer
from engine.tools.schema import Schema
from foundation.clock import Clock

if TYPE_CHECKING:
    from engine.conversation.session import Session


class Performer(Protocol):
    """Who answers the user in the model's place."""

    async def perform(self, session: "Session", content: str, *, streaming: bool) -> None:
        """Answer `content` and append the answer to the session's transcript.

        Raises:
            ProviderError: a model did not answer.
            EngineError: the answer cannot be made.
        """
        ...


class Faculty:
    """A faculty that changes nothing: each kind overrides what it has a say in. All methods are cheap and wait for nothing; its tools may wait."""

    def brief(self) -> Brief | None:
        """Return the brief that holds now in the script's place; None leaves the script's."""
        return None

    def briefing(self, brief: Brief) -> str:
        """Return what the system prompt says besides that of `brief`, "" for nothing."""
        del brief
        return ""

    def fill(self, system: str, brief: Brief) -> str:
        """Return the system prompt with the placeholders filled that `brief` leaves open."""
        del brief
        return system

    def offers(self) -> Sequence[ToolSpec]:
        """Return the tools that it offers now."""
        return ()

    def find(self, name: str) -> CallableTool | None:
        """Return its tool of this name, offered now or not; None when the name is not its business."""
        del name
        return None

    def refusal(self, calls: int) -> str:
        """Return why no tool may be called any more, after `calls` in the reply that is being answered; "" while they may."""
        del calls
        return ""

    def present(self, answer: str) -> str:
        """Return a tool's answer as the model reads it."""
        return answer

    def settle(self) -> bool:
        """Take effect: the calls of one reply have all been answered. Say whether somebody else took over, so that what was called is past."""
        return False

    def performer(self) -> Performer | None:
        """Return who answers in the model's place now, None when the model does."""
        return None


class OwnTool:
    """A tool of the conversation itself. `run` takes arguments that fit the tool's schema and returns any JSON value; it may raise CallFailed."""

    waits = False

    def __init__(self, spec: ToolSpec, schema: Schema, run: Callable[[Mapping[str, Any]], Any]) -> None:
        self.spec = spec
        self._schema = schema
        self._run = run

    async def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call, as the port says."""
        coerced = coerce_arguments(arguments, self.spec.input_schema)
        check_arguments(coerced, self._schema)
        answer = self._run(coerced)
        return ToolAnswer(answer if isinstance(answer, str) else json_text(answer))


def object_schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of an object with these properties. Others are let pass: models send more than they are asked for."""
    return {"type": "object", "properties": dict(properties), "required": list(required)}


Enable = Callable[[Transcript, Clock], Faculty]
"""Builds a faculty for the conversation that this transcript is of."""
