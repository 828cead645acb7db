"""The present of one conversation: which brief holds, what is offered, who answers a tool call. Belongs to one conversation and one task.

Owns how a script's brief and the conversation's faculties come together. Must not know in which order things happen: `turn.py` does.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.conversation.asking import Line
from engine.conversation.brief import Brief
from engine.conversation.faculties import Performer
from engine.conversation.interference import Interference, Refused
from engine.conversation.peers import Peers
from engine.conversation.script import Script
from engine.conversation.transcript import Transcript
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import Script as Place
from engine.providers.port import ToolSpec
from engine.tools.port import CallableTool
from foundation.errors import first_failure

if TYPE_CHECKING:
    from engine.conversation.window import Window

MAX_CALLS_AT_ONCE = 10


class Session:
    """One conversation between a script and a model. `item` is the id of the item that it is held for: what is left to chance depends on it."""

    def __init__(self, script: Script, line: Line, transcript: Transcript, peers: Peers, item: str = "") -> None:
        self.script = script
        self.line = line
        self.transcript = transcript
        self.peers = peers
        self._item = item
        self.faculties = tuple(enable(transcript, line.clock) for enable in script.faculties) if script.faculties else ()
        self.window = script.window(peers) if script.window is not None else None

    @property
    def brief(self) -> Brief:
        """Return the brief that holds now."""
        if not self.faculties:
            return self.script.brief
        return next((brief for faculty in self.faculties if (brief := faculty.brief()) is not None), self.script.brief)

    def system(self) -> str:
        """Return the system prompt that holds now."""
        brief = self.brief
        if not self.faculties:
            return brief.system
        system = brief.system
        for faculty in self.faculties if brief.open else ():
            system = faculty.fill(system, brief)
        return "\n\n".join(text for text in (system, *(faculty.briefing(brief) for faculty in self.faculties)) if text)

    async def fit(self, window: "Window", place: Place) -> tuple[Sequence[Message], str]:
        """Return what of the conversation fits into its `window`, and the system prompt with what stands for the rest.

        Raises:
            ContextExceeded: it does not fit.
            ProviderError: a summary or embeddings were wanted and did not come.
        """
        system = self.system()
        view = await window.fit(self.transcript, system, self.line, place)
        return view.messages, f"{system}\n\n{view.note}" if view.note else system

    def offered(self) -> tuple[ToolSpec, ...]:
        """Return the tools that are offered now, each name once."""
        brief = self.brief
        if not self.faculties:
            return brief.offered
        return tuple({spec.name: spec for specs in (brief.offered, *(faculty.offers() for faculty in self.faculties)) for spec in specs}.values())

    def begin(self) -> Message | None:
        """Begin the conversation; returns the system message that its transcript starts with, None when no model is told anything."""
        system, offered = self.system(), self.offered()
        self.transcript.begin(system)
        if not offered:
            return Message("system", system) if system else None
        return Message("system", system, meta={"availableTools": [spec.name for spec in offered]})

    async def answer(self, calls: Sequence[ToolCall], interference: Interference | None = None) -> list[ToolResult]:
        """Answer tool calls of one reply; the results are in the order of the calls. Calls that wait for somebody are made at once, at most 10."""
        toolbox, found = self.brief.toolbox, [self._find(call.name, place) for place, call in enumerate(calls)]
        if interference is not None:
            meant = [tool or toolbox.find(call.name) for call, tool in zip(calls, found, strict=True)]
            found = [tool and interference.on(tool, self.line.clock, self._chance(place)) for place, tool in enumerate(meant)]
        if len(calls) < 2 or not any(tool is not None and tool.waits for tool in found):  # noqa: PLR2004 - at once needs two
            return [self._presented(await toolbox.run(call, tool)) for call, tool in zip(calls, found, strict=True)]
        gate = asyncio.Semaphore(MAX_CALLS_AT_ONCE)

        async def run(call: ToolCall, tool: CallableTool | None) -> ToolResult:
            async with gate:
                return await toolbox.run(call, tool)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(run(call, tool)) for call, tool in zip(calls, found, strict=True)]
        except BaseExceptionGroup as failed:
            raise first_failure(failed) from None
        return [self._presented(task.result()) for task in tasks]

    def performer(self) -> Performer | None:
        """Return who answers in the model's place now, None when the model does."""
        if not self.faculties:
            return None
        return next((found for faculty in self.faculties if (found := faculty.performer()) is not None), None)

    def settle(self) -> bool:
        """Let the calls of a reply take effect; say whether somebody else took over."""
        settled = [faculty.settle() for faculty in self.faculties]
        return True in settled

    def _presented(self, result: ToolResult) -> ToolResult:
        for faculty in self.faculties:
            result.content = faculty.present(result.content)
        return result

    def _chance(self, place: int) -> str:
        return f"{self._item}/{len(self.transcript.calls) + place}"

    def _find(self, name: str, calls: int) -> CallableTool | None:
        """Return who answers a call that `calls` others of the same reply precede."""
        for faculty in self.faculties:
            if reason := faculty.refusal(calls):
                return Refused(ToolSpec(name, "", {}), "blocked", reason)
        return next((tool for faculty in self.faculties if (tool := faculty.find(name)) is not None), None)
