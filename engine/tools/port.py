"""The port to a tool: arguments in, an answer out, wherever it comes from.

Adapters answer from the bundle, a conversation's own state, a service or a process; each checks its arguments itself. Must not know conversations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.providers.port import ToolSpec


class CallFailed(Exception):
    """A call cannot be answered: what the model reads instead. `kind` is one of `ToolResult.error_type`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool says: the text that the model reads, and parts beside it (plain JSON, as in `ToolResult.parts`)."""

    text: str
    parts: list[dict[str, Any]] = field(default_factory=list)


class CallableTool(Protocol):
    """One tool, shared by all conversations that may call it, or one conversation's own."""

    @property
    def spec(self) -> ToolSpec:
        """Return the tool as a model is offered it."""
        ...

    @property
    def waits(self) -> bool:
        """Say whether a call waits for somebody: such calls of one reply are made at once, all others in their order."""
        ...

    async def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call.

        Raises:
            CallFailed: there is no answer; the model is told why, and the conversation goes on.
        """
        ...
