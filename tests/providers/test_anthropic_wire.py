"""Anthropic's protocol: what a request becomes, and what a whole reply says."""

import base64
import json
from typing import Any

import pytest

from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import Request, Sampling, ToolSpec
from engine.providers.wire import Event
from engine.providers.wires.anthropic import Anthropic, AnthropicOptions
from engine.providers.wires.anthropic_messages import THINKING

MODEL = "claude-sonnet-4-5"
LOOK = ToolSpec("look", "Looks", {"properties": {"place": {"type": "string"}}})
HI = Message("user", "hi")
PNG = {"type": "image", "media": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


def body_of(request: Request, **options: Any) -> dict[str, Any]:
    """Return the JSON of a request."""
    return dict(Anthropic(AnthropicOptions(MODEL, **options)).call(request, streaming=False).body)


def messages_of(*messages: Message, **request: Any) -> list[dict[str, Any]]:
    """Return the messages of a request's JSON."""
    found: list[dict[str, Any]] = body_of(Request(messages, **request))["messages"]
    return found


def called(*calls: ToolCall, content: str = "", **more: Any) -> Message:
    """Return an assistant's message that calls tools."""
    return Message("assistant", content, tool_calls=[*calls], **more)


def result(ident: str, content: str, **more: Any) -> Message:
    """Return a tool's message."""
    return Message("tool", content, tool_result=ToolResult(ident, "look", content, **more))


def test_a_request_of_everything() -> None:
    """System, sampling and tools have their keys; a seed has none."""
    sampling = Sampling(temperature=0.2, top_p=0.9, max_tokens=77, seed=3)
    request = Request([HI], system="Be brief", tools=(LOOK,), tool_choice="required", sampling=sampling)
    call = Anthropic(AnthropicOptions(MODEL)).call(request, streaming=True)
    assert (call.path, dict(call.headers)) == ("/messages", {"anthropic-version": "2023-06-01"})
    assert call.body == {
        "model": MODEL,
        "max_tokens": 77,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "system": "Be brief",
        "temperature": 0.2,
        "top_p": 0.9,
        "tools": [{"name": "look", "description": "Looks", "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}}}],
        "tool_choice": {"type": "any"},
        "stream": True,
    }


def test_no_call_is_unbounded() -> None:
    """Without a limit of its own a reply may have 4096 tokens."""
    assert body_of(Request([HI]))["max_tokens"] == 4096


@pytest.mark.parametrize(
    ("platform", "streaming", "path", "version"),
    [
        pytest.param("bedrock", False, "/model/anthropic.c%3A0/invoke", "bedrock-2023-05-31", id="bedrock"),
        pytest.param("bedrock", True, "/model/anthropic.c%3A0/invoke-with-response-stream", "bedrock-2023-05-31", id="bedrock, streaming"),
        pytest.param("vertex", False, "/anthropic.c%3A0:rawPredict", "vertex-2023-10-16", id="vertex"),
        pytest.param("vertex", True, "/anthropic.c%3A0:streamRawPredict", "vertex-2023-10-16", id="vertex, streaming"),
    ],
)
def test_hosts_have_the_model_in_the_path(platform: str, streaming: bool, path: str, version: str) -> None:  # noqa: FBT001 - a table's column
    """On a cloud the model is in the path, the version in the body, and Bedrock's path says whether it streams."""
    call = Anthropic(AnthropicOptions("anthropic.c:0", platform)).call(Request([HI]), streaming=streaming)
    assert call.path == path
    assert call.body["anthropic_version"] == version
    assert "model" not in call.body
    assert ("stream" in call.body) is (streaming and platform == "vertex")


def test_sides_alternate_and_empty_messages_are_left_out() -> None:
    """Messages of one side in a row are one, and blank text is no block: the protocol refuses both."""
    said = messages_of(Message("user", "a"), Message("user", "b"), Message("assistant", " \n"), Message("user", "c"))
    assert said == [{"role": "user", "content": [{"type": "text", "text": text} for text in "abc"]}]


def test_an_assistant_that_begins_is_opened_for() -> None:
    """A simulated user sees the conversation from the other side: it begins with an assistant's message, and the protocol wants a user's."""
    assert [message["role"] for message in messages_of(Message("assistant", "hello"), HI)] == ["user", "assistant", "user"]


def test_calls_come_with_their_results() -> None:
    """Every result follows its call in one user's message, before the user's next words; an error says that it is one."""
    first, second = ToolCall("t1", "look", {"place": "x"}), ToolCall("t2", "look", None, "{broken")
    said = messages_of(HI, called(first, second, content="Looking"), result("t2", "no JSON", error="no JSON"), result("t1", "fine"), HI)
    assert said[1]["content"] == [
        {"type": "text", "text": "Looking"},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"place": "x"}},
        {"type": "tool_use", "id": "t2", "name": "look", "input": {"unreadable": "{broken"}},
    ]
    assert said[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "fine"}]},
        {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "no JSON"}], "is_error": True},
        {"type": "text", "text": "hi"},
    ]


def test_ids_that_repeat_are_made_unique() -> None:
    """A mock's ids repeat from turn to turn, and an agent's may have any form; the protocol takes neither."""
    turn = (called(ToolCall("same", "look", {})), result("same", "one"))
    odd = (called(ToolCall("a/b", "look", {})), result("a/b", "two"))
    said = messages_of(HI, *turn, HI, *turn, HI, *odd, HI)
    used = [block["id"] for message in said for block in message["content"] if block["type"] == "tool_use"]
    answered = [block["tool_use_id"] for message in said for block in message["content"] if block["type"] == "tool_result"]
    assert used == answered == ["same", "call_2", "call_3"]


def test_a_call_that_nobody_answered_is_answered() -> None:
    """The protocol refuses a call without a result; the model reads that it was not executed."""
    said = messages_of(HI, called(ToolCall("t1", "look", {})), HI)
    assert said[2]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "this call was not executed"}],
        "is_error": True,
    }


def test_a_result_without_a_call_is_refused() -> None:
    """A result that answers nothing cannot be said."""
    with pytest.raises(ProviderError, match="'t9' answers no call") as refused:
        messages_of(HI, called(ToolCall("t1", "look", {})), result("t9", "?"))
    assert (refused.value.kind, refused.value.transient) == ("invalid_request", False)


def test_tools_of_the_past_are_named() -> None:
    """Where tools were called but none is offered now, the protocol wants them named; they may not be called."""
    body = body_of(Request([HI, called(ToolCall("t1", "look", {})), result("t1", "fine")]))
    assert body["tools"] == [{"name": "look", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}


def test_thinking_goes_back_as_it_came() -> None:
    """Signed thinking stands before what it led to."""
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "d"}]
    said = messages_of(HI, called(ToolCall("t1", "look", {}), content="Looking", meta={THINKING: blocks}), result("t1", "fine"))
    assert [block["type"] for block in said[1]["content"]] == ["thinking", "redacted_thinking", "text", "tool_use"]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        pytest.param(PNG, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}, id="image"),
        pytest.param(
            {"type": "document", "media": {"mimeType": "application/pdf", "data": "JVBERi0="}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
            id="PDF",
        ),
        pytest.param(
            {"type": "document", "media": {"mimeType": "text/markdown; charset=utf-8", "data": base64.b64encode("Grüße".encode()).decode()}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Grüße"}},
            id="text",
        ),
    ],
)
def test_media(part: dict[str, Any], block: dict[str, Any]) -> None:
    """Pictures and documents go inline, in the order of the message's parts."""
    parts = [{"type": "text", "text": "see"}, part, {"type": "text", "text": "?"}]
    assert messages_of(Message("user", "see\n?", parts=parts))[0]["content"][1] == block
    assert messages_of(HI, called(ToolCall("t", "look", {})), result("t", "", parts=[part]))[2]["content"][0]["content"] == [block]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        pytest.param(Message("user", "", parts=[{"type": "audio", "media": {}}]), "takes no audio", id="audio"),
        pytest.param(
            Message("user", "", parts=[{"type": "image", "media": {"mimeType": "image/bmp", "data": "AAAA"}}]), "image/bmp", id="a kind of image"
        ),
        pytest.param(
            Message("user", "", parts=[{"type": "document", "media": {"mimeType": "text/plain", "data": "/w=="}}]), "no text in UTF-8", id="no text"
        ),
        pytest.param(Message("user", "", parts=[{"type": "image", "media": {"mimeType": "image/png"}}]), "no data in base64", id="no data"),
        pytest.param(Message("user", "", parts=[{"type": "image", "media": {"data": "AAAA"}}]), "no MIME type", id="no type"),
        pytest.param(Message("user", " "), "no message has anything in it", id="nothing"),
        pytest.param(Message("assistant", "look", parts=[PNG]), "takes no image from an assistant", id="an assistant's image"),
    ],
)
def test_what_the_protocol_does_not_take_is_refused(message: Message, words: str) -> None:
    """A part that has no place is an error that names it, never left out."""
    with pytest.raises(ProviderError, match=words) as refused:
        messages_of(message)
    assert (refused.value.kind, refused.value.transient) == ("invalid_request", False)


def test_caching_is_asked_for() -> None:
    """The system prompt (or the tools without one) and the conversation so far are marked."""
    marked = {"type": "ephemeral"}
    body = body_of(Request([HI], system="Be brief", tools=(LOOK,), cache=True))
    assert body["system"] == [{"type": "text", "text": "Be brief", "cache_control": marked}]
    assert body["messages"][-1]["content"][-1]["cache_control"] == marked
    assert "cache_control" not in body["tools"][0]
    assert body_of(Request([HI], tools=(LOOK,), cache=True))["tools"][0]["cache_control"] == marked


def test_a_provider_may_ask_for_caching_itself() -> None:
    """What a provider's file says holds for every request."""
    assert body_of(Request([HI]), caches=True) == body_of(Request([HI], cache=True))


@pytest.mark.parametrize(
    ("model", "thinking", "limit"),
    [
        pytest.param("claude-sonnet-4-5-20250929", {"type": "enabled", "budget_tokens": 2048}, 2148, id="4.5"),
        pytest.param("claude-3-7-sonnet-20250219", {"type": "enabled", "budget_tokens": 2048}, 2148, id="3.7"),
        pytest.param("claude-sonnet-4-20250514", {"type": "enabled", "budget_tokens": 2048}, 2148, id="4"),
        pytest.param("us.anthropic.claude-opus-4-6-v1", {"type": "adaptive"}, 100, id="4.6"),
        pytest.param("claude-sonnet-5", {"type": "adaptive"}, 100, id="5"),
        pytest.param("somebody-s-alias", {"type": "adaptive"}, 100, id="a name of somebody's own"),
    ],
)
def test_thinking(model: str, thinking: dict[str, Any], limit: int) -> None:
    """Older models get a budget beside the reply's limit, newer ones decide by themselves; neither takes a temperature then."""
    wire = Anthropic(AnthropicOptions(model, thinking_budget=2048))
    body = wire.call(Request([HI], sampling=Sampling(temperature=0.5, top_p=0.5, max_tokens=100)), streaming=False).body
    assert (body["thinking"], body["max_tokens"]) == (thinking, limit)
    assert not {"temperature", "top_p"} & body.keys()


@pytest.mark.parametrize(
    ("model", "takes"),
    [("claude-opus-4-6", True), ("claude-opus-4-7", False), ("us.anthropic.claude-sonnet-5-5-v1:0", False), ("somebody-s-alias", True)],
)
def test_newer_models_take_no_sampling(model: str, takes: bool) -> None:  # noqa: FBT001 - a table's column
    """From 4.7 on a temperature is refused by the vendor, so a judge's own would fail each of its questions."""
    body = Anthropic(AnthropicOptions(model)).call(Request([HI], sampling=Sampling(0.0, 0.9)), streaming=False).body
    assert ({"temperature", "top_p"} <= body.keys()) is takes


SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}, "tags": {"type": "array", "items": {"type": "string", "minLength": 1}}},
    "required": ["score"],
}


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        pytest.param({"model": "claude-haiku-4-5"}, True, id="4.5"),
        pytest.param({"model": "claude-opus-4-1"}, False, id="4.1"),
        pytest.param({"model": "my-alias"}, False, id="an unknown model"),
        pytest.param({"model": "anthropic.claude-haiku-4-5-v1:0", "platform": "bedrock"}, True, id="bedrock"),
        pytest.param({"model": "claude-haiku-4-5@20251001", "platform": "vertex"}, False, id="vertex"),
        pytest.param({"model": "claude-haiku-4-5", "has_schemas": False}, False, id="not declared"),
    ],
)
def test_a_schema_is_asked_for_where_it_can_be(options: dict[str, Any], asked: bool) -> None:  # noqa: FBT001 - a table's column
    """Models and hosts that know structured output are asked for it, in its dialect: closed objects, no limits on values."""
    body = Anthropic(AnthropicOptions(**options, effort="low")).call(Request([HI], output_schema=SCHEMA), streaming=False).body
    closed = {
        "type": "object",
        "properties": {"score": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["score"],
        "additionalProperties": False,
    }
    expected: dict[str, Any] = {"effort": "low"} | ({"format": {"type": "json_schema", "schema": closed}} if asked else {})
    assert body["output_config"] == expected


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "object"}, id="an open map"),
        pytest.param({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}}, id="a map inside"),
        pytest.param({"oneOf": [{"type": "string"}, {"type": "number"}]}, id="a key that is not known"),
        pytest.param({"type": "array", "items": {"type": ["object", "null"]}}, id="a map in a list"),
    ],
)
def test_a_schema_that_cannot_be_said_is_left_out(schema: dict[str, Any]) -> None:
    """A schema whose closed form would ask for something else is not sent at all."""
    assert "output_config" not in body_of(Request([HI], output_schema=schema))


def test_unsupported_and_extra_keys() -> None:
    """Keys that a model refuses are not sent, and keys of the vendor's own are."""
    body = body_of(
        Request([HI], sampling=Sampling(0.1, 0.2)), unsupported=frozenset(("top_p", "max_tokens")), extra={"service_tier": "standard_only"}
    )
    assert (body["temperature"], body["service_tier"], body["max_tokens"]) == (0.1, "standard_only", 4096)
    assert "top_p" not in body


def replied(*content: Any, **more: Any) -> dict[str, Any]:
    """Return a whole reply's JSON."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    return {"type": "message", "model": MODEL, "content": [*content], "stop_reason": "end_turn", "usage": usage, **more}


def test_a_whole_reply() -> None:
    """Text of all blocks is one text; thinking is kept apart; input counts what the cache read and wrote as well."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    tool = {"type": "tool_use", "id": "t1", "name": "look", "input": {"place": "x"}}
    server = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    usage = {
        "input_tokens": 10,
        "output_tokens": 50,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "cache_creation": {"ephemeral_5m_input_tokens": 20},
        "output_tokens_details": {"thinking_tokens": 30},
        "service_tier": "standard",
    }
    text = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    reply = Anthropic(AnthropicOptions(MODEL)).reply(replied(thinking, *text, server, tool, stop_reason="tool_use", usage=usage))
    assert (reply.text, reply.finish_reason, reply.tool_calls) == ("Hello", "tool_calls", (ToolCall("t1", "look", {"place": "x"}),))
    assert reply.usage == Usage(130, 50, 100, 30)
    assert reply.meta == {THINKING: [thinking], "cacheWriteTokens": 20}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("something_new", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
    ],
)
def test_stop_reasons(reason: str, finish: str) -> None:
    """Every reason has its place; one that is not known yet is an ordinary stop."""
    assert Anthropic(AnthropicOptions(MODEL)).reply(replied({"type": "text", "text": "x"}, stop_reason=reason)).finish_reason == finish


def test_a_refusal_says_why() -> None:
    """The category of a refusal is kept, and so is which model answered for an alias."""
    details = {"type": "refusal", "category": "cyber", "explanation": None}
    reply = Anthropic(AnthropicOptions("alias")).reply(replied(stop_reason="refusal", stop_details=details))
    assert reply.meta == {"model": MODEL, "refusal": {"category": "cyber"}}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(None, id="null"),
        pytest.param([], id="a list"),
        pytest.param({}, id="empty"),
        pytest.param(replied(stop_reason=None), id="no reason"),
        pytest.param(replied("text"), id="a block that is none"),
        pytest.param(replied({"type": "text"}), id="text without text"),
        pytest.param(replied({"text": "x"}), id="a block of no kind"),
        pytest.param(replied({"type": "tool_use", "id": "t", "input": {}}), id="a call without a name"),
    ],
)
def test_what_is_no_reply_is_an_error(body: Any) -> None:
    """JSON of another shape is a protocol error that may pass, never an empty reply."""
    with pytest.raises(ProviderError) as unreadable:
        Anthropic(AnthropicOptions(MODEL)).reply(body)
    assert (unreadable.value.kind, unreadable.value.transient) == ("protocol", True)


@pytest.mark.parametrize(
    ("status", "code", "words", "kind", "transient"),
    [
        (400, "invalid_request_error", "max_tokens: too large", "invalid_request", False),
        (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API", "rate_limit", False),
        (401, "authentication_error", "invalid x-api-key", "authentication", False),
        (402, "billing_error", "pay", "rate_limit", False),
        (403, "permission_error", "no", "authentication", False),
        (404, "not_found_error", "model: claude-9", "invalid_request", False),
        (413, "request_too_large", "too large", "invalid_request", False),
        (429, "rate_limit_error", "per minute", "rate_limit", True),
        (500, "api_error", "Internal server error", "unavailable", True),
        (504, "timeout_error", "slow", "timeout", True),
        (529, "overloaded_error", "Overloaded", "unavailable", True),
        (424, "", "The model failed", "unavailable", True),
        (429, "", "Too many tokens per day, please wait before trying again.", "rate_limit", False),
        (429, "", "Too many requests, please wait before trying again.", "rate_limit", True),
    ],
)
def test_refusals(status: int, code: str, words: str, kind: str, transient: bool) -> None:  # noqa: FBT001 - a table's column
    """A status and the vendor's words say what failed and whether it may pass: an overload does, an empty account does not."""
    anthropics = b'{"type":"error","error":{"type":"%s","message":"%s"}}' % (code.encode(), words.encode())
    error = Anthropic(AnthropicOptions(MODEL)).refusal(status, anthropics if code else b'{"message":"%s"}' % words.encode())
    assert (error.kind, error.transient) == (kind, transient)
    assert words in error.message
    if code:
        said = {"type": "error", "error": {"type": code, "message": words}}
        with pytest.raises(ProviderError) as inside:
            Anthropic(AnthropicOptions(MODEL)).reply(said)
        assert (inside.value.kind, inside.value.transient) == (kind, transient)


def test_refusals_of_vertex() -> None:
    """Vertex refuses in Google's words, with a status or inside of a stream."""
    error = {"error": {"code": 429, "message": "Quota exceeded, per minute", "status": "RESOURCE_EXHAUSTED"}}
    wire = Anthropic(AnthropicOptions(MODEL, "vertex"))
    outside = wire.refusal(429, json.dumps([error]).encode())
    with pytest.raises(ProviderError) as inside:
        wire.listen().take(Event("", json.dumps(error)))
    for found in (outside, inside.value):
        assert (found.kind, found.transient) == ("rate_limit", True)
        assert "429: Quota exceeded, per minute" in found.message


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway", b"\xff\xfe", b"[1]", b'{"error": "busy"}', b"null"])
def test_a_refusal_of_any_body_is_an_error(body: bytes) -> None:
    """Proxies answer with anything."""
    error = Anthropic(AnthropicOptions(MODEL)).refusal(502, body)
    assert (error.kind, error.transient) == ("unavailable", True)
