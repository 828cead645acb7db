"""The present of one conversation: which brief holds, what is offered, who answers a tool call. Belongs to one conversation and one task.

Owns how a script's brief and the conversation's faculties come together. Must not know in which order things happen: `turn.py` does.
"""

import asyncio
from collections.abc import Callable, Sequence

from engine.bundle.model import RequestDefaults
from engine.conversation.asking import Line
from engine.conversation.brief import Brief
from engine.conversation.script import Script
from engine.conversation.transcript import Transcript
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import Provider, Sampling, ToolSpec
from engine.tools.port import CallableTool

MAX_CALLS_AT_ONCE = 10

Peer = Callable[[str, RequestDefaults], tuple[Provider, Sampling]]
"""Finds another provider of the plan by name, and says how it samples for these wishes; raises ProviderNotFound."""


class Session:
    """One conversation between a script and a model."""

    def __init__(self, script: Script, line: Line, transcript: Transcript, peer: Peer) -> None:
        self.script = script
        self.line = line
        self.transcript = transcript
        self.peer = peer
        self._faculties = tuple(enable(transcript) for enable in script.faculties)

    @property
    def brief(self) -> Brief:
        """Return the brief that holds now."""
        return self.script.brief

    def system(self) -> str:
        """Return the system prompt that holds now."""
        brief = self.brief
        if not self._faculties:
            return brief.system
        return "\n\n".join(text for text in (brief.system, *(faculty.briefing(brief) for faculty in self._faculties)) if text)

    def offered(self) -> tuple[ToolSpec, ...]:
        """Return the tools that are offered now, each name once."""
        brief = self.brief
        if not self._faculties:
            return brief.offered
        return tuple({spec.name: spec for specs in (brief.offered, *(faculty.offers() for faculty in self._faculties)) for spec in specs}.values())

    def describe(self) -> Message:
        """Return the system message that a transcript starts with."""
        offered = [spec.name for spec in self.offered()]
        return Message("system", self.system(), meta={"availableTools": offered} if offered else {})

    async def answer(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Answer tool calls of one reply; the results are in the order of the calls. Calls that wait for somebody are made at once, at most 10."""
        found = [self._find(call.name) for call in calls]
        if len(calls) < 2 or not any(tool is not None and tool.waits for tool in found):  # noqa: PLR2004 - at once needs two
            return [await self.brief.toolbox.run(call, tool) for call, tool in zip(calls, found, strict=True)]
        gate = asyncio.Semaphore(MAX_CALLS_AT_ONCE)

        async def run(call: ToolCall, tool: CallableTool | None) -> ToolResult:
            async with gate:
                return await self.brief.toolbox.run(call, tool)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(call, tool)) for call, tool in zip(calls, found, strict=True)]
        return [task.result() for task in tasks]

    def settle(self) -> None:
        """Let the calls of a reply take effect."""
        for faculty in self._faculties:
            faculty.settle()

    def _find(self, name: str) -> CallableTool | None:
        for faculty in self._faculties:
            tool = faculty.find(name)
            if tool is not None:
                return tool
        return self.brief.toolbox.find(name)
