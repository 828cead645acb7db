"""Conversations as Anthropic's messages: blocks of text, media, thinking, tool uses and their results, sides that alternate.

Owns that JSON on its way out. Pure.
"""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import Request, ToolSpec
from engine.providers.wires.history import OPENING, Part, media_of, refused, said, steps, told

Block = dict[str, Any]

THINKING: Final = "anthropicThinking"
"""Under this key a reply's meta keeps the blocks of its thinking, signed: the model wants them back as they were."""

_CACHED: Final = {"cache_control": {"type": "ephemeral"}}
_PICTURES: Final = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def messages_of(request: Request) -> list[Block]:
    """Return the messages, merged so that sides alternate; empty ones are left out, since the protocol refuses them.

    Raises:
        ProviderError: nothing is said, or a part has no place in the protocol (`invalid_request`).
    """
    written: list[Block] = []
    for side, blocks in _sides(request.messages):
        if written and written[-1]["role"] == side:
            written[-1]["content"].extend(blocks)
        elif blocks:
            written.append({"role": side, "content": blocks})
    if not written:
        raise refused("no message has anything in it")
    if written[0]["role"] != "user":
        written.insert(0, {"role": "user", "content": [{"type": "text", "text": OPENING}]})
    if request.cache:
        written[-1]["content"][-1] |= _CACHED
    return written


def tools_of(request: Request) -> dict[str, Any]:
    """Return the keys that offer tools. Where none is offered but some were called, those are named, and may not be called: the protocol asks for it."""
    if request.tools:
        tools = [_tool(tool) for tool in request.tools]
        if request.cache and not request.system:
            tools[-1] |= _CACHED
        return {"tools": tools, "tool_choice": {"type": "any" if request.tool_choice == "required" else request.tool_choice}}
    called = dict.fromkeys(call.name for message in request.messages for call in message.tool_calls)
    if not called:
        return {}
    return {"tools": [{"name": name, "input_schema": {"type": "object"}} for name in called], "tool_choice": {"type": "none"}}


def system_of(request: Request) -> str | list[Block]:
    """Return the system prompt; one that is to be cached is a block, and caches the tools before it as well."""
    return [{"type": "text", "text": request.system, **_CACHED}] if request.cache else request.system


def _tool(tool: ToolSpec) -> Block:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": {"type": "object", **tool.input_schema}}


def _sides(messages: Sequence[Message]) -> Iterator[tuple[str, list[Block]]]:
    taken: set[str] = set()
    for step in steps(messages):
        if step.message.role != "assistant":
            yield "user", [_block(part) for part in said(step.message)]
            continue
        uses = [(_ident(call.id, taken), call, result) for call, result in step.answered]
        yield "assistant", [*_thinking(step.message), *_words(step.message), *(_use(ident, call) for ident, call, _ in uses)]
        yield "user", [_result(ident, result) for ident, _, result in uses]


def _words(message: Message) -> Iterator[Block]:
    for part in said(message):
        if part.get("type") != "text":
            raise refused(f"this protocol takes no {part.get('type')} from an assistant")
        yield {"type": "text", "text": part["text"]}


def _thinking(message: Message) -> list[Block]:
    kept = message.meta.get(THINKING)
    return [dict(block) for block in kept if isinstance(block, Mapping)] if isinstance(kept, list) else []


def _ident(ident: str, taken: set[str]) -> str:
    """Return an id for a tool use that the protocol takes: its own, unless that is of another kind or was there before."""
    if ident in taken or not _ID.fullmatch(ident):
        number = len(taken) + 1
        while (ident := f"call_{number}") in taken:
            number += 1
    taken.add(ident)
    return ident


def _use(ident: str, call: ToolCall) -> Block:
    arguments = call.arguments if call.arguments is not None else {"unreadable": call.raw}
    return {"type": "tool_use", "id": ident, "name": call.name, "input": arguments}


def _result(ident: str, result: ToolResult) -> Block:
    content = [_block(part) for part in told(result)]
    if result.error and not content:
        content = [{"type": "text", "text": result.error}]
    written: Block = {"type": "tool_result", "tool_use_id": ident}
    if content:
        written["content"] = content
    return written | {"is_error": True} if result.error else written


def _block(part: Part) -> Block:
    kind = part.get("type")
    if kind == "text":
        return {"type": "text", "text": part["text"]}
    if kind not in ("image", "document"):
        raise refused(f"this protocol takes no {kind}, but text, images and documents")
    mime, data = media_of(part)
    if kind == "image":
        if mime not in _PICTURES:
            raise refused(f"this protocol takes no image of type {mime}, but {', '.join(sorted(_PICTURES))}")
        return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}
    if mime == "application/pdf":
        return {"type": "document", "source": {"type": "base64", "media_type": mime, "data": data}}
    if mime.startswith("text/"):
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": _text(data)}}
    raise refused(f"this protocol takes no document of type {mime}, but PDF and text")


def _text(data: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except ValueError as error:
        raise refused(f"a document is no text in UTF-8: {error}") from None
