"""A reply as it comes: frames of one turn in, the text that each adds out, and at the end the whole reply.

Owns in which order frames may come, and which result belongs to which call. Pure but for the times that it is told. Must not know sockets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.agents.frames import Answered, Called, Done, Frame, FrameFault, Said
from engine.providers.messages import ToolCall, ToolResult
from engine.providers.port import Reply, Round

MAX_CHARACTERS: Final = 4 << 20
MAX_CALLS: Final = 1000


@dataclass(slots=True)
class _Shown:
    """A call that the agent made, when, and what came of it; `follows_a_result` begins a round."""

    call: ToolCall
    at: float
    follows_a_result: bool
    result: ToolResult | None = None


class ReplyUnderway:
    """One reply. `began` and every time are seconds of one clock."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._first: float | None = None
        self._texts: list[str] = []
        self._characters = 0
        self._calls: list[_Shown] = []
        self._saw_result = False
        self._end: Done | None = None
        self._ended = began

    @property
    def is_done(self) -> bool:
        """Say whether the agent said that it has said everything."""
        return self._end is not None

    def take(self, frame: Frame, at: float) -> str:
        """Take a frame that came at `at`; returns the text that it adds, "" when it adds none.

        Raises:
            FrameFault: it has no place here.
        """
        match frame:
            case Said(text=text):
                return self._say(text, at)
            case Called(call=call):
                self._call(call, at)
            case Answered():
                self._answer(frame, at)
            case Done():
                self._end, self._ended = frame, at
                if frame.content and not self._texts:
                    return self._say(frame.content, at)
            case _:
                raise FrameFault(f"a frame '{type(frame).__name__.lower()}' comes in the middle of a reply")
        return ""

    def reply(self, meta: Mapping[str, Any]) -> Reply:
        """Return the reply, of which `meta` is kept. A call of which no result was shown has an empty one."""
        end = self._end or Done()
        return Reply(
            end.content or "".join(self._texts),
            own_calls=self._rounds(),
            usage=end.usage,
            cost_usd=end.cost_usd,
            latency_ms=(self._ended - self._began) * 1000,
            ttft_ms=None if self._first is None else (self._first - self._began) * 1000,
            meta=meta,
        )

    def _say(self, text: str, at: float) -> str:
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            raise FrameFault(f"the reply is longer than {MAX_CHARACTERS} characters")
        if text:
            self._first = at if self._first is None else self._first
            self._texts.append(text)
        return text

    def _call(self, call: ToolCall, at: float) -> None:
        if len(self._calls) >= MAX_CALLS:
            raise FrameFault(f"the reply has more than {MAX_CALLS} tool calls")
        self._calls.append(_Shown(call, at, self._saw_result))
        self._saw_result = False

    def _answer(self, frame: Answered, at: float) -> None:
        waiting = [shown for shown in self._calls if shown.result is None]
        found = next((shown for shown in waiting if not frame.call or shown.call.id == frame.call), None)
        if found is None:
            raise FrameFault("a frame of type tool_result answers no call that waits for one")
        said = f"Error: {frame.error}" if frame.error and not frame.content else frame.content
        kind = "execution" if frame.error else ""
        found.result = ToolResult(found.call.id, found.call.name, said, frame.error, kind, latency_ms=(at - found.at) * 1000)
        self._saw_result = True

    def _rounds(self) -> tuple[Round, ...]:
        rounds: list[list[tuple[ToolCall, ToolResult]]] = []
        for shown in self._calls:
            if shown.follows_a_result or not rounds:
                rounds.append([])
            rounds[-1].append((shown.call, shown.result or ToolResult(shown.call.id, shown.call.name, "")))
        return tuple(tuple(calls) for calls in rounds)
