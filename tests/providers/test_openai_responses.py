"""The responses protocol as the wire writes and reads it."""

import json
from typing import Any

import pytest

from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import DEFAULT_MAX_TOKENS, Reply, Request, Sampling, ToolSpec
from engine.providers.sse import EventReader
from engine.providers.wires.openai_chat import OpenAiOptions
from engine.providers.wires.openai_responses import OpenAiResponses
from tests.providers.vendor_server import event

WIRE = OpenAiResponses(OpenAiOptions(model="m"))
WEATHER = ToolSpec("weather", "Tell the weather", {"type": "object", "properties": {}})
PICTURE: dict[str, Any] = {"type": "image", "media": {"mimeType": "image/png", "data": "AAAA"}}
USAGE = {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 3}, "output_tokens_details": {"reasoning_tokens": 2}}


def body(request: Request, wire: OpenAiResponses = WIRE, *, streaming: bool = False) -> Any:
    """Return the JSON of a call, as it is sent."""
    return json.loads(json.dumps(wire.call(request, streaming=streaming).body))


def heard(*events: dict[str, Any]) -> tuple[str, Reply]:
    """Return the text that a stream gave out, and its reply."""
    listening, reader = WIRE.listen(), EventReader()
    read = reader.feed(b"".join(event(entry, str(entry.get("type", ""))) for entry in events)) + reader.end()
    text = "".join(listening.take(entry) for entry in read)
    return text, listening.finish()


def message(*texts: str) -> dict[str, Any]:
    """Return a message of the output."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text} for text in texts]}


def whole(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    """Return a whole response."""
    return {"object": "response", "model": "m", "status": status, "output": list(output), "usage": USAGE} | more


def test_a_conversation_with_tools() -> None:
    """Messages, calls and results are items; nothing is stored at the vendor's."""
    messages = [
        Message("user", "Hi"),
        Message("assistant", "Let me see", tool_calls=[ToolCall("c1", "weather", {"city": "Bern"}), ToolCall("c2", "camera", {})]),
        Message("tool", tool_result=ToolResult("c1", "weather", "sunny")),
        Message("tool", tool_result=ToolResult("c2", "camera", "", parts=[PICTURE])),
        Message("user", "And?", [{"type": "text", "text": "And?"}, PICTURE]),
    ]
    sent = body(Request(messages, system="Be kind", tools=(WEATHER,), sampling=Sampling(0.5, 0.9, 100, 7)), streaming=True)
    assert sent == {
        "model": "m",
        "input": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Let me see"},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Bern"}'},
            {"type": "function_call", "call_id": "c2", "name": "camera", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            {
                "type": "function_call_output",
                "call_id": "c2",
                "output": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "And?"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
                ],
            },
        ],
        "store": False,
        "max_output_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "instructions": "Be kind",
        "tools": [
            {"type": "function", "name": "weather", "description": "Tell the weather", "parameters": dict(WEATHER.input_schema), "strict": False}
        ],
        "tool_choice": "auto",
        "stream": True,
    }


def test_what_a_provider_asks_for() -> None:
    """A schema, the effort of reasoning and keys of the provider's own stand where this protocol has them; there always is a bound."""
    wire = OpenAiResponses(OpenAiOptions(model="m", unsupported=frozenset(("temperature",)), extra={"reasoning_effort": "low", "user": "u"}))
    assert body(Request([], output_schema={"type": "object"}, sampling=Sampling(0.5)), wire) == {
        "model": "m",
        "input": [],
        "store": False,
        "max_output_tokens": DEFAULT_MAX_TOKENS,
        "text": {"format": {"type": "json_schema", "name": "reply", "schema": {"type": "object"}, "strict": False}},
        "user": "u",
        "reasoning": {"effort": "low"},
    }


CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": '{"city": "Bern"}'}
REPLIES = [
    pytest.param(whole({"type": "reasoning", "summary": []}, message("He", "llo")), Reply("Hello", usage=Usage(9, 4, 3, 2)), id="documented"),
    pytest.param(
        whole(CALL, usage=None), Reply("", (ToolCall("c1", "weather", {"city": "Bern"}),), finish_reason="tool_calls"), id="a call, without usage"
    ),
    pytest.param(
        whole(message("He"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        Reply("He", usage=Usage(9, 4, 3, 2), finish_reason="length"),
        id="cut",
    ),
    pytest.param(
        whole(status="incomplete", incomplete_details={"reason": "content_filter"}, model="m-1"),
        Reply("", usage=Usage(9, 4, 3, 2), finish_reason="content_filter", meta={"model": "m-1"}),
        id="filtered",
    ),
    pytest.param(whole({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}), Reply("No.", usage=Usage(9, 4, 3, 2)), id="refused"),
]


@pytest.mark.parametrize(("said", "reply"), REPLIES)
def test_a_whole_reply_is_the_same_in_one_piece_or_streamed(said: dict[str, Any], reply: Reply) -> None:
    """A reply is read alike from an answer and from the last event of a stream."""
    end = "response.incomplete" if said["status"] == "incomplete" else "response.completed"
    assert WIRE.reply(said) == reply
    assert heard({"type": "response.created", "response": {}}, {"type": end, "response": said}) == ("", reply)


def test_texts_come_as_they_are_written() -> None:
    """Deltas are given out; reasoning, and events that nobody knows, are not."""
    text, reply = heard(
        {"type": "response.reasoning_summary_text.delta", "delta": "Hm"},
        {"type": "response.output_text.delta", "delta": "He"},
        {"type": "response.some_day", "delta": "?"},
        {"type": "response.output_text.delta", "delta": "llo"},
        {"type": "response.completed", "response": whole(message("Hello"))},
    )
    assert (text, reply.text) == ("Hello", "Hello")


def test_items_count_where_the_last_event_has_none() -> None:
    """Servers that leave the output out of the last event have sent each item before."""
    text, reply = heard(
        {"type": "response.output_item.done", "item": CALL},
        {"type": "response.output_item.done", "item": message("Hello")},
        {"type": "response.completed", "response": whole()},
    )
    assert (text, reply.text, [call.name for call in reply.tool_calls]) == ("", "Hello", ["weather"])


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        pytest.param([{"type": "response.output_text.delta", "delta": "He"}], "protocol", id="just ends"),
        pytest.param([{"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}], "rate_limit", id="an error"),
        pytest.param([{"type": "error", "error": {"type": "server_error", "message": "broke"}}], "unavailable", id="an error in an error"),
        pytest.param(
            [{"type": "response.failed", "response": whole(status="failed", error={"code": "server_error", "message": "x"})}],
            "unavailable",
            id="failed",
        ),
        pytest.param([{"type": "response.failed", "response": whole(status="failed")}], "unavailable", id="failed without a word"),
    ],
)
def test_a_stream_that_is_no_reply(events: list[dict[str, Any]], kind: str) -> None:
    """A stream that breaks off, or says that it failed, is never a reply."""
    with pytest.raises(ProviderError) as caught:
        heard(*events)
    assert (caught.value.kind, caught.value.transient) == (kind, True)


@pytest.mark.parametrize("said", [{}, [], {"output": None}, {"status": "cancelled", "output": []}])
def test_what_is_no_reply(said: Any) -> None:
    """JSON without an output is an error."""
    with pytest.raises(ProviderError):
        WIRE.reply(said)
