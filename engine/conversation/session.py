"""The present of one conversation: which brief holds, what is offered, who answers a tool call. Belongs to one conversation and one task.

Owns how a script's brief and the conversation's faculties come together. Must not know in which order things happen: `turn.py` does.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.bundle.model import RequestDefaults
from engine.conversation.asking import Line
from engine.conversation.brief import Brief
from engine.conversation.script import Script
from engine.conversation.transcript import Transcript
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import Provider, Sampling, ToolSpec
from engine.tools.port import CallableTool, CallFailed, ToolAnswer

MAX_CALLS_AT_ONCE = 10

Peer = Callable[[str, RequestDefaults], tuple[Provider, Sampling]]
"""Finds another provider of the plan by name, and says how it samples for these wishes; raises ProviderNotFound."""


@dataclass(frozen=True, slots=True)
class RefusedTool:
    """Stands for a tool that may not be called any more."""

    spec: ToolSpec
    reason: str
    waits: bool = False

    async def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Refuse."""
        del arguments
        raise CallFailed("blocked", self.reason)


class Session:
    """One conversation between a script and a model."""

    def __init__(self, script: Script, line: Line, transcript: Transcript, peer: Peer) -> None:
        self.script = script
        self.line = line
        self.transcript = transcript
        self.peer = peer
        self._faculties = tuple(enable(transcript, line.clock) for enable in script.faculties)

    @property
    def brief(self) -> Brief:
        """Return the brief that holds now."""
        return next((brief for faculty in self._faculties if (brief := faculty.brief()) is not None), self.script.brief)

    def system(self) -> str:
        """Return the system prompt that holds now."""
        brief = self.brief
        if not self._faculties:
            return brief.system
        system = brief.system
        for faculty in self._faculties if brief.open else ():
            system = faculty.fill(system, brief)
        return "\n\n".join(text for text in (system, *(faculty.briefing(brief) for faculty in self._faculties)) if text)

    def offered(self) -> tuple[ToolSpec, ...]:
        """Return the tools that are offered now, each name once."""
        brief = self.brief
        if not self._faculties:
            return brief.offered
        return tuple({spec.name: spec for specs in (brief.offered, *(faculty.offers() for faculty in self._faculties)) for spec in specs}.values())

    def begin(self) -> Message | None:
        """Begin the conversation; returns the system message that its transcript starts with, None when no model is told anything."""
        system, offered = self.system(), [spec.name for spec in self.offered()]
        self.transcript.begin(system)
        return Message("system", system, meta={"availableTools": offered} if offered else {}) if system or offered else None

    async def answer(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Answer tool calls of one reply; the results are in the order of the calls. Calls that wait for somebody are made at once, at most 10."""
        toolbox, found = self.brief.toolbox, [self._find(call.name, place) for place, call in enumerate(calls)]
        if len(calls) < 2 or not any(tool is not None and tool.waits for tool in found):  # noqa: PLR2004 - at once needs two
            return [self._presented(await toolbox.run(call, tool)) for call, tool in zip(calls, found, strict=True)]
        gate = asyncio.Semaphore(MAX_CALLS_AT_ONCE)

        async def run(call: ToolCall, tool: CallableTool | None) -> ToolResult:
            async with gate:
                return await toolbox.run(call, tool)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(call, tool)) for call, tool in zip(calls, found, strict=True)]
        return [self._presented(task.result()) for task in tasks]

    def settle(self) -> None:
        """Let the calls of a reply take effect."""
        for faculty in self._faculties:
            faculty.settle()

    def _presented(self, result: ToolResult) -> ToolResult:
        for faculty in self._faculties:
            result.content = faculty.present(result.content)
        return result

    def _find(self, name: str, calls: int) -> CallableTool | None:
        """Return who answers a call that `calls` others of the same reply precede."""
        for faculty in self._faculties:
            if reason := faculty.refusal(calls):
                return RefusedTool(ToolSpec(name, "", {}), reason)
        return next((tool for faculty in self._faculties if (tool := faculty.find(name)) is not None), None)
