"""Faculties: what an assistant has in one conversation besides its prompt, such as a workflow, skills or a memory.

Owns the port. A faculty belongs to one conversation and keeps that conversation's state; a new one is built for each. Must not know any of them.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from engine.conversation.brief import Brief
from engine.conversation.transcript import Transcript
from engine.providers.port import ToolSpec
from engine.tools.port import CallableTool


class Faculty(Protocol):
    """One faculty of one conversation. All methods are cheap and wait for nothing; its tools may wait."""

    def offers(self) -> Sequence[ToolSpec]:
        """Return the tools that it offers now."""
        ...

    def find(self, name: str) -> CallableTool | None:
        """Return its tool of this name, offered now or not; None when the name is not its business."""
        ...

    def briefing(self, brief: Brief) -> str:
        """Return what the system prompt says besides `brief`'s own, "" for nothing."""
        ...

    def settle(self) -> None:
        """Take effect: the calls of one reply have all been answered."""
        ...


Enable = Callable[[Transcript], Faculty]
"""Builds a faculty for the conversation that this transcript is of."""
