"""The words of the agent protocol: one JSON object a WebSocket text frame, in both directions (docs/agents.md).

Owns how a frame reads and is written, for whoever asks an agent and for whoever serves one. Pure: must not know sockets, providers or bundles.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.items import Usage
from engine.providers.messages import ToolCall, json_text
from engine.results.jsonl import encode

MAX_FRAME_BYTES: Final = 4 << 20
MAX_SESSION_CHARACTERS: Final = 256
_SHOWN_CHARACTERS: Final = 80
_NESTING: Final = ("tool_call", "tool_result", "error")
_TOKENS: Final = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


class FrameFault(ValueError):
    """A frame is none of the protocol's, or comes where the protocol has no place for it. The text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The first frame of a server: a session, which is one conversation, has begun."""

    session: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client says: a turn of the conversation."""

    content: str


@dataclass(frozen=True, slots=True)
class Said:
    """Text of the reply that is being given, after what was said before it."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call that the agent makes itself, shown and not to be answered."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a tool call; `call` is its id, "" where the agent gives none. `error` is "" when it went well."""

    call: str
    content: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a reply. `content`, where it is not empty, is the whole reply; `usage` and `cost_usd` are the turn's, None where unknown."""

    content: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn, or the session, failed: a stable word, and a sentence."""

    code: str
    message: str


Frame = Connected | Asked | Said | Called | Answered | Done | Failed


def read_frame(text: str, session: str) -> Frame:
    """Read a frame of a session; "" is one that has not begun. A frame that names no session belongs to its connection's.

    Fields of a call, a result and an error stand in an object under the frame's own type, or beside it.

    Raises:
        FrameFault: it is none, or another session's.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise FrameFault("a frame is not JSON") from None
    if not isinstance(content, dict) or not isinstance(content.get("type"), str):
        raise FrameFault("a frame is no object with a type")
    reader = _READERS.get(content["type"])
    if reader is None:
        raise FrameFault(f"a frame has the unknown type '{content['type'][:_SHOWN_CHARACTERS]}'")
    named = content.get("session_id") or ""
    if session and named and named != session:
        raise FrameFault(f"a frame of type {content['type']} belongs to another session")
    try:
        return reader(_Fields(content["type"], content))
    except RecursionError:
        raise FrameFault(f"a frame of type {content['type']} is nested too deep") from None


def write_frame(frame: Frame, session: str) -> str:
    """Return a frame of a session as text."""
    content: dict[str, Any] = {"type": _NAMES[type(frame)], "session_id": session}
    match frame:
        case Asked(content=said) | Said(text=said):
            content["content"] = said
        case Called(call=call):
            content["tool_call"] = {"id": call.id, "name": call.name, "arguments": call.raw if call.arguments is None else call.arguments}
        case Answered():
            content["tool_result"] = {"id": frame.call, "result": frame.content} | ({"error": frame.error} if frame.error else {})
        case Done():
            content |= _ending(frame)
        case Failed(code=code, message=message):
            content["error"] = {"code": code, "message": message}
        case Connected():
            pass
    return encode(content).decode()


def _ending(frame: Done) -> dict[str, Any]:
    content: dict[str, Any] = {"content": frame.content} if frame.content else {}
    if frame.usage is not None:
        content["usage"] = {name: getattr(frame.usage, name) for name in _TOKENS}
    if frame.cost_usd is not None:
        content["cost_usd"] = frame.cost_usd
    return content


class _Fields:
    """The fields of one frame."""

    def __init__(self, kind: str, content: Mapping[str, Any]) -> None:
        self._kind = kind
        self._content = content
        nested = content.get(kind) if kind in _NESTING else None
        self._own: Mapping[str, Any] = nested if isinstance(nested, dict) else content

    def text(self, key: str, *, needed: bool = False) -> str:
        """Return a text, "" where it is absent or null and not needed."""
        value = self._own.get(key)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or (needed and not value):
            raise self.fault(key)
        return value

    def any(self, key: str) -> Any:
        """Return a value as it stands."""
        return self._own.get(key)

    def fault(self, key: str) -> FrameFault:
        """Return what is wrong with a field."""
        shown = json.dumps(self._own.get(key), default=str)[:_SHOWN_CHARACTERS]
        return FrameFault(f"a frame of type {self._kind} has {f'no {key}' if self._own.get(key) is None else f'{key} {shown}'}")


def _connected(fields: _Fields) -> Connected:
    session = fields.text("session_id", needed=True)
    if len(session) > MAX_SESSION_CHARACTERS:
        raise fields.fault("session_id")
    return Connected(session)


def _asked(fields: _Fields) -> Asked:
    if not isinstance(fields.any("content"), str):
        raise fields.fault("content")
    return Asked(fields.text("content"))


def _said(fields: _Fields) -> Said:
    return Said(fields.text("content"))


def _called(fields: _Fields) -> Called:
    name, arguments = fields.text("name", needed=True), fields.any("arguments")
    if isinstance(arguments, str):
        raw = arguments
        try:
            arguments = json.loads(raw) if raw.strip() else {}
        except (ValueError, RecursionError):
            arguments = None
        return Called(ToolCall(fields.text("id"), name, arguments if isinstance(arguments, dict) else None, raw))
    if arguments is not None and not isinstance(arguments, dict):
        raise fields.fault("arguments")
    return Called(ToolCall(fields.text("id"), name, arguments or {}))


def _answered(fields: _Fields) -> Answered:
    error = fields.any("error")
    if error and not isinstance(error, str):
        raise fields.fault("error")
    result = fields.any("result")
    content = result if isinstance(result, str) else "" if result is None else json_text(result)
    return Answered(fields.text("id"), content, error or "")


def _done(fields: _Fields) -> Done:
    usage = fields.any("usage")
    if usage is not None and not isinstance(usage, dict):
        raise fields.fault("usage")
    cost = fields.any("cost_usd") if usage is None or fields.any("cost_usd") is not None else usage.get("cost_usd")
    if cost is not None and not _is_amount(cost):
        raise fields.fault("cost_usd")
    return Done(fields.text("content"), None if usage is None else _usage(fields, usage), None if cost is None else float(cost))


def _usage(fields: _Fields, usage: Mapping[str, Any]) -> Usage | None:
    counts = {name: usage[name] for name in _TOKENS if usage.get(name) is not None}
    if not all(isinstance(count, int) and _is_amount(count) for count in counts.values()):
        raise fields.fault("usage")
    return Usage(**counts) if counts else None


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _failed(fields: _Fields) -> Failed:
    said = fields.any("error")
    code = fields.any("code")
    message = fields.any("message") or (said if isinstance(said, str) else "")
    if not all(value is None or isinstance(value, str | int) for value in (code, message)):
        raise fields.fault("error")
    return Failed(str(code or ""), str(message))


_NAMES: Final[Mapping[type[Frame], str]] = {
    Connected: "connected",
    Asked: "message",
    Said: "chunk",
    Called: "tool_call",
    Answered: "tool_result",
    Done: "done",
    Failed: "error",
}
_READERS: Final[Mapping[str, Callable[[_Fields], Frame]]] = {
    "connected": _connected,
    "message": _asked,
    "chunk": _said,
    "tool_call": _called,
    "tool_result": _answered,
    "done": _done,
    "error": _failed,
}
