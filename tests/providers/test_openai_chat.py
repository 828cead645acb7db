"""Chat completions as the wire writes and reads them: the documented shapes, and what servers make of these."""

import json
from typing import Any

import pytest

from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import DEFAULT_MAX_TOKENS, Reply, Request, Sampling, ToolSpec
from engine.providers.sse import EventReader
from engine.providers.wires.openai_chat import OpenAiChat, OpenAiOptions
from tests.providers.vendor_server import event

WIRE = OpenAiChat(OpenAiOptions(model="m"))
WEATHER = ToolSpec("weather", "Tell the weather", {"type": "object", "properties": {"city": {"type": "string"}}})
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def body(request: Request, wire: OpenAiChat = WIRE, *, streaming: bool = False) -> Any:
    """Return the JSON of a call, as it is sent."""
    return json.loads(json.dumps(wire.call(request, streaming=streaming).body))


def heard(*chunks: Any) -> tuple[str, Reply]:
    """Return the text that a stream gave out, and its reply."""
    listening, reader = WIRE.listen(), EventReader()
    events = reader.feed(b"".join(event(chunk) for chunk in chunks)) + reader.end()
    text = "".join(listening.take(entry) for entry in events)
    return text, listening.finish()


def delta(finish: str | None = None, **content: Any) -> dict[str, Any]:
    """Return a chunk of one choice."""
    return {"model": "m", "choices": [{"index": 0, "delta": content, "finish_reason": finish}]}


def piece(arguments: str = "", name: str | None = None, ident: str | None = None, index: int | None = 0) -> dict[str, Any]:
    """Return a piece of a tool call; None leaves a key out."""
    function = {"arguments": arguments} | ({"name": name} if name is not None else {})
    return {"function": function} | ({"id": ident, "type": "function"} if ident is not None else {}) | ({"index": index} if index is not None else {})


def calls(reply: Reply) -> list[tuple[str, dict[str, Any] | None]]:
    """Return the name and the arguments of each call."""
    return [(call.name, call.arguments) for call in reply.tool_calls]


def test_a_conversation_with_tools() -> None:
    """System prompt, messages, calls and results stand where the protocol has them; a call without a result, which it refuses, gets one."""
    call = ToolCall("c1", "weather", {"city": "Bern"})
    messages = [
        Message("user", "Hi"),
        Message("assistant", "", tool_calls=[call, ToolCall("c2", "weather", None, "{no")]),
        Message("tool", tool_result=ToolResult("c1", "weather", "sunny")),
        Message("assistant", "Sunny."),
        Message("user", "Thanks"),
    ]
    sent = body(Request(messages, system="Be kind", tools=(WEATHER,), tool_choice="required", sampling=Sampling(0.5, 0.9, 100, 7)))
    assert sent == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be kind"},
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}},
                    {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": "{no"}},
                ],
            },
            {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
            {"role": "tool", "content": "this call was not executed", "tool_call_id": "c2"},
            {"role": "assistant", "content": "Sunny."},
            {"role": "user", "content": "Thanks"},
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "max_tokens": 100,
        "tools": [{"type": "function", "function": {"name": "weather", "description": "Tell the weather", "parameters": dict(WEATHER.input_schema)}}],
        "tool_choice": "required",
    }


def test_no_call_is_without_a_bound() -> None:
    """Where nobody says how long a reply may be, the wire does."""
    assert body(Request([])) == {"model": "m", "messages": [], "max_tokens": DEFAULT_MAX_TOKENS}


def test_a_stream_asks_for_its_usage() -> None:
    """A stream tells its usage only when it is asked."""
    sent = body(Request([]), streaming=True)
    assert (sent["stream"], sent["stream_options"]) == (True, {"include_usage": True})


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}, True, id="closed"
        ),
        pytest.param({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, False, id="optional"),
        pytest.param({"type": "object", "properties": {}, "required": []}, False, id="open"),
        pytest.param({"type": "array", "items": {"type": "object"}}, False, id="open inside"),
        pytest.param({"type": "string", "pattern": "a+"}, False, id="beyond the strict mode"),
    ],
)
def test_a_schema_is_strict_where_that_can_be(schema: dict[str, Any], *, strict: bool) -> None:
    """A reply is asked to fit a schema, strictly where the protocol can promise that."""
    sent = body(Request([], output_schema=schema))
    assert sent["response_format"] == {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": strict}}


def test_what_is_not_supported_is_not_sent() -> None:
    """Keys that a provider does not support are left out, wherever they come from; the bound goes by its other name."""
    options = OpenAiOptions(
        model="m", unsupported=frozenset(("temperature", "max_tokens", "stream_options", "top_k")), has_schemas=False, extra={"top_k": 1, "user": "u"}
    )
    sent = body(Request([], sampling=Sampling(0.5, max_tokens=7), output_schema={}), OpenAiChat(options), streaming=True)
    assert sent == {"model": "m", "messages": [], "max_completion_tokens": 7, "stream": True, "user": "u"}


PICTURE: dict[str, Any] = {"type": "image", "media": {"mimeType": "image/png", "data": "AAAA", "detail": "low"}}


def test_parts_of_a_message() -> None:
    """Text, pictures, sound and documents have their place in a user's message."""
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "See"},
        PICTURE,
        {"type": "audio", "media": {"mimeType": "audio/mpeg", "data": "BBBB"}},
        {"type": "document", "media": {"mimeType": "application/pdf", "data": "CCCC", "filePath": "docs/a.pdf"}},
    ]
    [message] = body(Request([Message("user", "See", parts)]))["messages"]
    assert message["content"] == [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "BBBB", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,CCCC"}},
    ]


@pytest.mark.parametrize(
    ("message", "named"),
    [
        pytest.param(Message("user", parts=[{"type": "video", "media": {"data": "A"}}]), "video", id="a video"),
        pytest.param(
            Message("user", parts=[{"type": "audio", "media": {"mimeType": "audio/ogg", "data": "A"}}]), "audio/ogg", id="a sound of another kind"
        ),
        pytest.param(Message("user", parts=[{"type": "image", "media": {"url": "http://x"}}]), "image", id="a picture without data"),
        pytest.param(Message("assistant", tool_calls=[ToolCall("c", "camera", {})]), "camera", id="a tool's picture"),
    ],
)
def test_a_part_without_a_place_is_refused(message: Message, named: str) -> None:
    """What the protocol cannot take is named, and nothing is sent."""
    with pytest.raises(ProviderError, match=named) as caught:
        body(Request([message, Message("tool", tool_result=ToolResult("c", "camera", "", parts=[PICTURE]))] if message.tool_calls else [message]))
    assert (caught.value.kind, caught.value.transient) == ("invalid_request", False)


REPLIES = [
    pytest.param(
        {"model": "m-2024", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "usage": USAGE},
        Reply("Hi", usage=Usage(9, 4, 3, 2), meta={"model": "m-2024"}),
        id="documented",
    ),
    pytest.param(
        {"choices": [{"message": {"content": "Hi"}, "finish_reason": "length"}]}, Reply("Hi", finish_reason="length"), id="cut, without usage"
    ),
    pytest.param({"choices": [{"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}]}, Reply("No."), id="refused"),
    pytest.param({"choices": [{"message": {"content": [{"type": "text", "text": "H"}, {"text": "i"}]}}]}, Reply("Hi"), id="content in parts"),
    pytest.param({"choices": [{"message": {}, "finish_reason": "content_filter"}]}, Reply("", finish_reason="content_filter"), id="filtered"),
    pytest.param({"choices": [{"message": {"content": "Hi"}, "finish_reason": "eos"}]}, Reply("Hi"), id="a reason of its own"),
]


@pytest.mark.parametrize(("said", "reply"), REPLIES)
def test_a_whole_reply(said: dict[str, Any], reply: Reply) -> None:
    """A reply is read from each of these shapes."""
    assert WIRE.reply(said) == reply


def test_tool_calls_of_a_whole_reply() -> None:
    """Calls are read from text and from objects; a call without an id gets one, and text that is no object is kept as it is."""
    written = [
        {"id": "a", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}},
        {"function": {"name": "weather", "arguments": {"city": "Thun"}}},
        {"id": "c", "function": {"name": "weather", "arguments": "[1"}},
        {"id": "d", "function": {"name": "now", "arguments": ""}},
    ]
    reply = WIRE.reply({"choices": [{"message": {"content": None, "tool_calls": written}, "finish_reason": "stop"}]})
    assert calls(reply) == [("weather", {"city": "Bern"}), ("weather", {"city": "Thun"}), ("weather", None), ("now", {})]
    assert (reply.tool_calls[0].id, reply.tool_calls[2].raw, reply.finish_reason) == ("a", "[1", "tool_calls")
    assert reply.tool_calls[1].id


@pytest.mark.parametrize(
    ("said", "kind", "transient"),
    [
        pytest.param({"choices": []}, "protocol", True, id="no choices"),
        pytest.param(["no object"], "protocol", True, id="no object"),
        pytest.param(
            {"choices": [{"message": {"tool_calls": [{"id": "a", "function": {"arguments": "{}"}}]}}]}, "protocol", True, id="a call without a name"
        ),
        pytest.param({"error": {"message": "busy", "code": 429}}, "rate_limit", True, id="a number as code"),
        pytest.param({"error": {"message": "broke", "type": "insufficient_quota"}}, "rate_limit", False, id="quota"),
        pytest.param({"error": {"message": "too long", "code": "context_length_exceeded"}}, "invalid_request", False, id="too long"),
        pytest.param({"error": "upstream"}, "unavailable", True, id="words alone"),
        pytest.param({"object": "error", "message": "bad", "type": "invalid_request_error"}, "invalid_request", False, id="vLLM's old shape"),
        pytest.param({"choices": [{"message": {"content": ""}, "finish_reason": "error"}]}, "unavailable", True, id="OpenRouter's reason"),
    ],
)
def test_an_error_inside_of_a_good_answer(said: Any, kind: str, *, transient: bool) -> None:
    """An answer that is good by its status alone is no reply."""
    with pytest.raises(ProviderError) as caught:
        WIRE.reply(said)
    assert (caught.value.kind, caught.value.transient) == (kind, transient)


TEXTS = [
    pytest.param([delta(role="assistant", content=""), delta(content="He"), delta(content="llo"), delta("stop"), "[DONE]"], None, id="documented"),
    pytest.param([delta(content="He"), delta("stop", content="llo")], None, id="no [DONE]"),
    pytest.param([delta(content="He"), delta(content="llo"), "[DONE]"], None, id="no finish reason"),
    pytest.param(
        [delta(content="Hello"), delta("stop"), {"choices": [], "usage": USAGE}, "[DONE]"], Usage(9, 4, 3, 2), id="usage at the end, no choices"
    ),
    pytest.param(
        [{**delta(content="Hello"), "usage": USAGE}, {**delta("stop"), "usage": None}, "[DONE]"], Usage(9, 4, 3, 2), id="usage in the middle"
    ),
    pytest.param([delta(content="Hello"), {**delta("stop"), "x_groq": {"usage": USAGE}}], Usage(9, 4, 3, 2), id="Groq's usage"),
    pytest.param([{"choices": []}, {"choices": [{"delta": None}]}, {"choices": [{}]}, delta("stop", content="Hello")], None, id="empty choices"),
    pytest.param([delta(reasoning_content="Hmm"), delta(reasoning="Hmm", content=None), delta("stop", content="Hello")], None, id="reasoning"),
    pytest.param([delta(content=[{"type": "text", "text": "Hello"}]), delta("stop")], None, id="content in parts"),
    pytest.param([delta(content="Hello"), delta("stop"), " [DONE] "], None, id="[DONE] with spaces"),
]


@pytest.mark.parametrize(("chunks", "usage"), TEXTS)
def test_a_stream_of_text(chunks: list[Any], usage: Usage | None) -> None:
    """A stream's text and usage are the same in each of these shapes."""
    assert heard(*chunks) == ("Hello", Reply("Hello", usage=usage))


BERN, THUN = ("weather", {"city": "Bern"}), ("weather", {"city": "Thun"})
PIECES = [
    pytest.param([[piece("", "weather", "a")], [piece('{"city": ')], [piece('"Bern"}')]], [BERN], id="documented"),
    pytest.param(
        [[piece('{"city": "Bern"}', "weather", "a", None)], [piece('{"city": "Thun"}', "weather", "b", None)]], [BERN, THUN], id="no indexes"
    ),
    pytest.param([[piece('{"city": "Bern"}', "weather", "a")], [piece('{"city": "Thun"}', "weather", "b")]], [BERN, THUN], id="one index, two ids"),
    pytest.param([[piece('{"city": "Bern"}', "weather")], [piece('{"city": "Thun"}', "weather")]], [BERN, THUN], id="one index, no ids"),
    pytest.param([[piece('{"city": "Bern"}', "weather")], [piece("{}", "now")]], [BERN, ("now", {})], id="one index, two names"),
    pytest.param(
        [[piece("", "weather", "a", 0), piece("", "weather", "b", 1)], [piece('{"city": "Thun"}', index=1)], [piece('{"city": "Bern"}', index=0)]],
        [BERN, THUN],
        id="interleaved",
    ),
    pytest.param([[piece('{"city": ', "weather", "a")], [piece('"Bern"}', "weather", "a")]], [BERN], id="name and id in each piece"),
    pytest.param([[piece('{"city": ', "weather", "")], [piece('"Bern"}', "", "")]], [BERN], id="empty names and ids"),
    pytest.param([[piece("", "weather", "a", None)], [piece('{"city": "Bern"}', index=None)]], [BERN], id="nothing but arguments"),
    pytest.param([[piece("", "now", "a")]], [("now", {})], id="no arguments"),
]


@pytest.mark.parametrize(("chunks", "expected"), PIECES)
def test_tool_calls_in_pieces(chunks: list[list[dict[str, Any]]], expected: list[Any]) -> None:
    """A new id or a new name begins a call, whatever the indexes say; other pieces go on with the one they belong to."""
    text, reply = heard(*(delta(tool_calls=pieces) for pieces in chunks), delta("tool_calls"), "[DONE]")
    assert (text, calls(reply), reply.finish_reason) == ("", expected, "tool_calls")
    assert len({call.id for call in reply.tool_calls}) == len(expected)


@pytest.mark.parametrize(
    ("chunks", "kind"),
    [
        pytest.param([delta(content="He")], "protocol", id="just ends"),
        pytest.param([], "protocol", id="nothing at all"),
        pytest.param(
            [delta(content="He"), {"error": {"message": "overloaded", "type": "overloaded_error"}}], "unavailable", id="an error in the middle"
        ),
        pytest.param([delta(content="He"), delta("error")], "unavailable", id="ends by an error"),
        pytest.param(["<html>"], "protocol", id="no JSON"),
        pytest.param(["[1]"], "protocol", id="no object"),
        pytest.param([delta(tool_calls=[piece("{}")]), delta("tool_calls")], "protocol", id="a call without a name"),
    ],
)
def test_a_stream_that_is_no_reply(chunks: list[Any], kind: str) -> None:
    """A stream that breaks off, or holds an error, is never a reply."""
    with pytest.raises(ProviderError) as caught:
        heard(*chunks)
    assert (caught.value.kind, caught.value.transient) == (kind, True)
