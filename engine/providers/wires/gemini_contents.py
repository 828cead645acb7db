"""Conversations as Gemini's contents: text, media, function calls and responses, and the signatures of thoughts that come back with them.

Owns that JSON on its way out, and what of a reply must be sent back as it was. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from engine.providers.messages import Message, ToolResult
from engine.providers.port import Request
from engine.providers.wires.history import OPENING, Answered, Part, media_of, refused, said, steps, told

Written = dict[str, Any]

SIGNATURES: Final = "geminiSignatures"
"""Under this key a reply's meta keeps the signatures of its thoughts: `{text: signature, calls: [signature or null, …]}`."""

_UNSIGNED: Final = "skip_thought_signature_validator"
"""What Google has for a call that no model of its own made: from Gemini 3 on the first call of a step must be signed."""

_SIGNING: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")
_KINDS: Final = {"image", "audio", "video", "document"}
_MODES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}


def contents_of(messages: Sequence[Message], model: str) -> list[Written]:
    """Return the contents, merged so that roles alternate; empty ones are left out.

    Raises:
        ProviderError: nothing is said, or a part has no place in the protocol (`invalid_request`).
    """
    written: list[Written] = []
    for role, parts in _roles(messages, signs=_SIGNING.search(model) is not None):
        if written and written[-1]["role"] == role:
            written[-1]["parts"].extend(parts)
        elif parts:
            written.append({"role": role, "parts": parts})
    if not written:
        raise refused("no message has anything in it")
    if written[0]["role"] != "user":
        written.insert(0, {"role": "user", "parts": [{"text": OPENING}]})
    return written


def tools_of(request: Request) -> Written:
    """Return the keys that offer tools."""
    if not request.tools:
        return {}
    declared = [
        {"name": tool.name, "description": tool.description, **({"parametersJsonSchema": dict(tool.input_schema)} if tool.input_schema else {})}
        for tool in request.tools
    ]
    return {
        "tools": [{"functionDeclarations": declared}],
        "toolConfig": {"functionCallingConfig": {"mode": _MODES[request.tool_choice]}},
    }


def _roles(messages: Sequence[Message], *, signs: bool) -> Iterator[tuple[str, list[Written]]]:
    for step in steps(messages):
        parts = [_part(part) for part in said(step.message)]
        if step.message.role != "assistant":
            yield "user", parts
            continue
        kept = step.message.meta.get(SIGNATURES)
        signatures = kept if isinstance(kept, Mapping) else {}
        if parts and isinstance(signature := signatures.get("text"), str):
            parts[-1]["thoughtSignature"] = signature
        yield "model", [*parts, *_calls(step.answered, signatures.get("calls") or [], signs=signs)]
        yield "user", [{"functionResponse": _response(call.id, call.name, result)} for call, result in step.answered]


def _calls(answered: Sequence[Answered], signatures: Sequence[Any], *, signs: bool) -> Iterator[Written]:
    for index, (call, _) in enumerate(answered):
        arguments = call.arguments if call.arguments is not None else {"unreadable": call.raw}
        written: Written = {"functionCall": {"id": call.id, "name": call.name, "args": arguments}}
        signature = signatures[index] if index < len(signatures) else None
        if isinstance(signature, str):
            written["thoughtSignature"] = signature
        elif signs and index == 0:
            written["thoughtSignature"] = _UNSIGNED
        yield written


def _response(ident: str, name: str, result: ToolResult) -> Written:
    content = result.content or result.error
    written: Written = {"id": ident, "name": name, "response": {"error" if result.error else "output": content}}
    media = [_part(part) for part in told(result) if part.get("type") != "text"]
    return written | {"parts": media} if media else written


def _part(part: Part) -> Written:
    kind = part.get("type")
    if kind == "text":
        return {"text": part["text"]}
    if kind not in _KINDS:
        raise refused(f"this protocol takes no part of type {kind}")
    mime, data = media_of(part)
    return {"inlineData": {"mimeType": mime, "data": data}}
