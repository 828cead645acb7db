"""What was said so far, in the order and shape that vendors' protocols share: calls with their results.

Owns which result answers which call, and which parts of a message are said. Must not know any vendor's JSON.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.errors import ProviderError
from engine.providers.messages import Message, ToolCall, ToolResult

Part = Mapping[str, Any]
Answered = tuple[ToolCall, ToolResult]

NOT_ANSWERED: Final = "this call was not executed"
"""What a model reads of a call that has no result: all protocols refuse calls that nobody answered."""

OPENING: Final = "(The conversation begins.)"
"""What stands before a conversation that the assistant opens: both protocols want a user's message first."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True, slots=True)
class Step:
    """A message of a user or of an assistant. `answered` are an assistant's calls, each with its result."""

    message: Message
    answered: tuple[Answered, ...] = ()


def steps(messages: Sequence[Message]) -> Iterator[Step]:
    """Return the messages, each result beside its call; a call without a result gets one that says so.

    Raises:
        ProviderError: a result answers no call of the message before it (`invalid_request`).
    """
    place = 0
    while place < len(messages):
        message = messages[place]
        if message.role == "tool":
            raise refused(f"a tool's result '{_id(message)}' answers no call")
        place += 1
        results = []
        while place < len(messages) and messages[place].role == "tool":
            results.append(messages[place])
            place += 1
        yield Step(message, tuple(_pairs(message.tool_calls, results)))


def _pairs(calls: Sequence[ToolCall], results: list[Message]) -> Iterator[Answered]:
    """Return each call with the first result of its id that no call before it took: ids may repeat."""
    for call in calls:
        found = next((result for result in results if _id(result) == call.id), None)
        if found is not None:
            results.remove(found)
        yield call, _result(call, found)
    if results:
        raise refused(f"a tool's result '{_id(results[0])}' answers no call")


def _id(message: Message) -> str:
    return message.tool_result.call_id if message.tool_result is not None else ""


def _result(call: ToolCall, message: Message | None) -> ToolResult:
    if message is None:
        return ToolResult(call.id, call.name, NOT_ANSWERED, error=NOT_ANSWERED, error_type="execution")
    return message.tool_result or ToolResult(call.id, call.name, message.content)


def said(message: Message) -> Iterator[Part]:
    """Return the parts of a message that are not empty, in order: its own, or its text and then what else its parts hold."""
    parts = message.parts if message.role == "user" and any(part.get("type") == "text" for part in message.parts) else _with_text(message)
    return (part for part in parts if part.get("type") != "text" or str(part.get("text") or "").strip())


def told(result: ToolResult) -> Iterator[Part]:
    """Return the parts of a result: its text, if there is any, and its media."""
    if result.content.strip():
        yield {"type": "text", "text": result.content}
    yield from (part for part in result.parts if part.get("type") != "text")


def _with_text(message: Message) -> Iterable[Part]:
    yield {"type": "text", "text": message.content}
    yield from (part for part in message.parts if part.get("type") != "text")


def media_of(part: Part) -> tuple[str, str]:
    """Return a media part's MIME type, in lower case and without parameters, and its data in base64.

    Raises:
        ProviderError: it lacks one of them (`invalid_request`).
    """
    kind, media = part.get("type") or "unknown", part.get("media") or {}
    mime = str(media.get("mimeType") or "").partition(";")[0].strip().lower()
    if not mime:
        raise refused(f"a part of type {kind} has no MIME type")
    data = media.get("data")
    if not isinstance(data, str) or not _BASE64.fullmatch(data):
        raise refused(f"a part of type {kind} has no data in base64")
    return mime, data


def refused(cause: str) -> ProviderError:
    """Return the error of a request that a protocol cannot say."""
    return ProviderError(f"cannot write the request: {cause}", kind="invalid_request", transient=False)
