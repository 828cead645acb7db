"""Streams as Anthropic, Google and Bedrock document them, and what reads one: bytes in, a reply out, cut wherever a test wants it."""

import base64
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from engine.providers.aws_stream import AwsEventReader
from engine.providers.port import Reply
from engine.providers.sse import EventReader
from engine.providers.wire import Wire
from tests.providers.vendor_server import event

Events = tuple[dict[str, Any], ...]

CLAUDE_START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "claude-sonnet-4-5-20250929",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 25, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 8, "output_tokens": 1},
    },
}
CLAUDE_TEXT: Events = (
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grüße, "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "world\n!"}},
    {"type": "content_block_stop", "index": 0},
)
CLAUDE_TOOLS: Events = (
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "look"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQB"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "Zm9v"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "Looking"}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "citations_delta", "citation": {"type": "char_location"}}},
    {"type": "content_block_stop", "index": 2},
    {"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}},
    {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": '{"place": "Zür'}},
    {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": 'ich"}'}},
    {"type": "content_block_stop", "index": 3},
    {"type": "content_block_start", "index": 4, "content_block": {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}},
    {"type": "content_block_stop", "index": 4},
)


def claude_end(reason: str = "end_turn", **usage: Any) -> Events:
    """Return how a stream ends."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 15, **usage}}, {"type": "message_stop"}


CLAUDE: Events = (CLAUDE_START, *CLAUDE_TEXT, *claude_end())
CLAUDE_CALLING: Events = (CLAUDE_START, *CLAUDE_TOOLS, *claude_end("tool_use", output_tokens_details={"thinking_tokens": 6}))

GEMINI_USAGE = {
    "promptTokenCount": 12,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 7,
    "cachedContentTokenCount": 3,
    "toolUsePromptTokenCount": 2,
    "totalTokenCount": 26,
}


def gemini(*parts: Mapping[str, Any], reason: str = "", **more: Any) -> dict[str, Any]:
    """Return a response with one candidate."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [*parts]}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": reason} if reason else {})], "modelVersion": "gemini-2.5-flash", **more}


GEMINI: Events = (
    gemini({"text": "I think", "thought": True}, usageMetadata={"promptTokenCount": 12, "totalTokenCount": 12}),
    gemini({"text": "Grüße, "}),
    gemini({"text": "world\n!"}, reason="STOP", usageMetadata=GEMINI_USAGE),
)
GEMINI_CALLING: Events = (
    gemini({"text": "Looking"}),
    gemini({"functionCall": {"name": "look", "args": {"place": "Zürich"}}, "thoughtSignature": "c2ln"}),
    gemini({"functionCall": {"id": "f2", "name": "now"}}),
    gemini({"text": "", "thoughtSignature": "dGV4dA=="}, reason="STOP", usageMetadata=GEMINI_USAGE),
)


def named(events: Iterable[Mapping[str, Any]]) -> bytes:
    """Return events as Anthropic writes them: each with its name."""
    return b"".join(event(data, data["type"]) for data in events)


def unnamed(events: Iterable[Mapping[str, Any]]) -> bytes:
    """Return events as Google writes them."""
    return b"".join(event(data) for data in events)


def framed(events: Iterable[Mapping[str, Any]]) -> bytes:
    """Return events as Bedrock writes them: each in a chunk of an AWS event stream."""
    return b"".join(chunk_of(data) for data in events)


def chunk_of(data: Any) -> bytes:
    """Return one event in a chunk."""
    payload = json.dumps({"bytes": base64.b64encode(json.dumps(data).encode()).decode(), "p": "abc"}).encode()
    return message({":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}, payload)


def exception(kind: str, words: str) -> bytes:
    """Return an exception of Bedrock's."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return message(headers, json.dumps({"message": words}).encode())


def message(headers: Mapping[str, str], payload: bytes, more_headers: bytes = b"") -> bytes:
    """Return a message of an AWS event stream with headers of text, and others that are encoded already."""
    packed = more_headers
    for name, value in headers.items():
        packed += struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(value.encode())) + value.encode()
    prelude = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    begun = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed + payload
    return begun + struct.pack(">I", zlib.crc32(begun))


Framer = Callable[[], EventReader | AwsEventReader]


def heard(wire: Wire, data: bytes, cuts: Iterable[int] = (), framer: Framer = EventReader) -> tuple[Reply, str]:
    """Return the reply of a stream that comes in pieces, and the text that came with its events."""
    listening, framing, text, begin = wire.listen(), framer(), "", 0
    pieces = []
    for end in (*sorted(cuts), len(data)):
        pieces.append(data[begin:end])
        begin = end
    for found in (*(framing.feed(piece) for piece in pieces), framing.end()):
        for one in found:
            if not listening.is_done:
                text += listening.take(one)
    return listening.finish(), text
