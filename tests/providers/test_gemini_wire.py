"""Google's generateContent: what a request becomes, and what a whole reply says."""

import json
from typing import Any

import pytest

from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import Request, Sampling, ToolSpec
from engine.providers.wires.gemini import Gemini, GeminiOptions
from engine.providers.wires.gemini_contents import SIGNATURES
from tests.providers.vendor_streams import GEMINI_USAGE, gemini

MODEL = "gemini-2.5-flash"
WIRE = Gemini(GeminiOptions(MODEL))
LOOK = ToolSpec("look", "Looks", {"type": "object", "properties": {"place": {"type": "string"}}})
HI = Message("user", "hi")
SAID = {"role": "user", "parts": [{"text": "hi"}]}
CALL = ToolCall("f1", "look", {"place": "x"})
CALLED = Message("assistant", "", tool_calls=[CALL])
FOUND = Message("tool", "fine", tool_result=ToolResult("f1", "look", "fine"))


def body_of(request: Request, **options: Any) -> dict[str, Any]:
    """Return the JSON of a request."""
    return dict(Gemini(GeminiOptions(**{"model": MODEL, **options})).call(request, streaming=False).body)


def contents_of(*messages: Message, model: str = MODEL) -> list[dict[str, Any]]:
    """Return the contents of a request's JSON."""
    found: list[dict[str, Any]] = body_of(Request(messages), model=model)["contents"]
    return found


def test_a_request_of_everything() -> None:
    """System, sampling and tools have their keys."""
    sampling = Sampling(temperature=0.2, top_p=0.9, max_tokens=77, seed=3)
    request = Request([HI], system="Be brief", tools=(LOOK,), tool_choice="required", sampling=sampling)
    call = Gemini(GeminiOptions(MODEL, {"thinkingBudget": 0})).call(request, streaming=True)
    assert (call.path, call.headers) == ("/models/gemini-2.5-flash:streamGenerateContent?alt=sse", {})
    assert call.body == {
        "contents": [SAID],
        "systemInstruction": {"parts": [{"text": "Be brief"}]},
        "tools": [{"functionDeclarations": [{"name": "look", "description": "Looks", "parametersJsonSchema": dict(LOOK.input_schema)}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {"temperature": 0.2, "topP": 0.9, "seed": 3, "maxOutputTokens": 77, "thinkingConfig": {"thinkingBudget": 0}},
    }


@pytest.mark.parametrize(
    ("model", "path"),
    [
        pytest.param("gemini-2.5-pro", "/models/gemini-2.5-pro:generateContent", id="a name"),
        pytest.param("models/gemini-2.5-pro", "/models/gemini-2.5-pro:generateContent", id="a whole name"),
        pytest.param("tunedModels/mine one", "/tunedModels/mine%20one:generateContent", id="a tuned one"),
    ],
)
def test_where_a_model_is(model: str, path: str) -> None:
    """A model is named alone, or with its collection."""
    assert Gemini(GeminiOptions(model)).call(Request([HI]), streaming=False).path == path


def test_no_call_is_unbounded() -> None:
    """Without a limit of its own a reply may have 4096 tokens, whatever the model is said not to support."""
    body = body_of(Request([HI], sampling=Sampling(temperature=0.5)), unsupported=frozenset(("temperature", "max_tokens")))
    assert body["generationConfig"] == {"maxOutputTokens": 4096}


def test_roles_alternate_and_empty_messages_are_left_out() -> None:
    """Messages of one role in a row are one; an assistant that begins is opened for."""
    said = contents_of(Message("assistant", "hello"), Message("user", "a"), Message("assistant", " "), Message("user", "b"))
    assert [(content["role"], len(content["parts"])) for content in said] == [("user", 1), ("model", 1), ("user", 2)]


def test_calls_come_with_their_responses() -> None:
    """Every response follows its call in one content, by id and name; an error says that it is one, an unanswered call as well."""
    second, third = ToolCall("f2", "look", None, "{broken"), ToolCall("f3", "now", {})
    failed = Message("tool", "no JSON", tool_result=ToolResult("f2", "look", "no JSON", error="no JSON"))
    said = contents_of(HI, Message("assistant", "Looking", tool_calls=[CALL, second, third]), failed, FOUND, HI)
    assert said[1]["parts"] == [
        {"text": "Looking"},
        {"functionCall": {"id": "f1", "name": "look", "args": {"place": "x"}}},
        {"functionCall": {"id": "f2", "name": "look", "args": {"unreadable": "{broken"}}},
        {"functionCall": {"id": "f3", "name": "now", "args": {}}},
    ]
    assert said[2]["parts"] == [
        {"functionResponse": {"id": "f1", "name": "look", "response": {"output": "fine"}}},
        {"functionResponse": {"id": "f2", "name": "look", "response": {"error": "no JSON"}}},
        {"functionResponse": {"id": "f3", "name": "now", "response": {"error": "this call was not executed"}}},
        {"text": "hi"},
    ]


def test_signatures_go_back_as_they_came() -> None:
    """What a reply's parts were signed with goes back on the same parts."""
    kept = {SIGNATURES: {"text": "dGV4dA==", "calls": ["c2ln", None]}}
    said = contents_of(HI, Message("assistant", "Looking", tool_calls=[CALL, ToolCall("f2", "look", {})], meta=kept), FOUND, model="gemini-3-pro")
    assert [part.get("thoughtSignature") for part in said[1]["parts"]] == ["dGV4dA==", "c2ln", None]


@pytest.mark.parametrize(
    ("model", "signature"),
    [
        ("gemini-3-pro-preview", "skip_thought_signature_validator"),
        ("gemini-2.5-flash", None),
        ("gemini-10-flash", "skip_thought_signature_validator"),
    ],
)
def test_a_call_that_no_gemini_made_is_marked(model: str, signature: str | None) -> None:
    """From Gemini 3 on the first call of a step must be signed; one that came from elsewhere says so."""
    assert contents_of(HI, CALLED, FOUND, model=model)[1]["parts"][0].get("thoughtSignature") == signature


def test_media() -> None:
    """Media of every kind go inline, in messages and in what tools give."""
    for kind, mime in (("image", "image/bmp"), ("audio", "audio/wav"), ("video", "video/mp4"), ("document", "application/pdf")):
        part = {"type": kind, "media": {"mimeType": mime, "data": "AAAA"}}
        inline = {"inlineData": {"mimeType": mime, "data": "AAAA"}}
        assert contents_of(Message("user", "see", parts=[part]))[0]["parts"] == [{"text": "see"}, inline]
        told = Message("tool", "fine", tool_result=ToolResult("f1", "look", "fine", parts=[part]))
        response = contents_of(HI, CALLED, told)[2]["parts"][0]["functionResponse"]
        assert response == {"id": "f1", "name": "look", "response": {"output": "fine"}, "parts": [inline]}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        pytest.param([Message("user", "", parts=[{"type": "hologram"}])], "takes no part of type hologram", id="an unknown part"),
        pytest.param([Message("user", "", parts=[{"type": "image", "media": {"mimeType": "image/png"}}])], "no data in base64", id="no data"),
        pytest.param([Message("user", "")], "no message has anything in it", id="nothing"),
        pytest.param([HI, FOUND], "'f1' answers no call", id="a result without a call"),
    ],
)
def test_what_the_protocol_does_not_take_is_refused(messages: list[Message], words: str) -> None:
    """What has no place is an error that names it, never left out."""
    with pytest.raises(ProviderError, match=words) as refused:
        contents_of(*messages)
    assert (refused.value.kind, refused.value.transient) == ("invalid_request", False)


@pytest.mark.parametrize(
    ("request_", "options", "asked"),
    [
        pytest.param(Request([HI], output_schema={"type": "object"}), {}, True, id="asked"),
        pytest.param(Request([HI], output_schema={"type": "object"}, tools=(LOOK,)), {}, False, id="with tools"),
        pytest.param(Request([HI], output_schema={"type": "object"}), {"has_schemas": False}, False, id="not declared"),
        pytest.param(Request([HI], output_schema={"type": "object"}), {"modalities": ("IMAGE",)}, False, id="pictures"),
        pytest.param(Request([HI]), {}, False, id="no schema"),
    ],
)
def test_a_schema_is_asked_for_where_it_can_be(request_: Request, options: dict[str, Any], asked: bool) -> None:  # noqa: FBT001 - a table's column
    """A reply can be asked to be JSON of a schema, but not beside tools."""
    config = body_of(request_, **options)["generationConfig"]
    assert (config.get("responseJsonSchema") == {"type": "object"} and config["responseMimeType"] == "application/json") is asked


def test_keys_of_the_vendors_own() -> None:
    """Extra keys go with every request."""
    assert body_of(Request([HI]), extra={"safetySettings": []})["safetySettings"] == []


def test_a_whole_reply() -> None:
    """Thoughts are no text but came out all the same; media are parts; calls keep or get an id."""
    body = gemini(
        {"text": "I think", "thought": True},
        {"text": "Hel"},
        {"text": "lo", "thoughtSignature": "dGV4dA=="},
        {"functionCall": {"id": "f1", "name": "look", "args": {"place": "x"}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "now"}},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        reason="STOP",
        usageMetadata=GEMINI_USAGE,
        modelVersion="gemini-2.5-flash-001",
    )
    reply = WIRE.reply(body)
    assert (reply.text, reply.finish_reason) == ("Hello", "tool_calls")
    assert reply.tool_calls[0] == ToolCall("f1", "look", {"place": "x"})
    assert (reply.tool_calls[1].name, reply.tool_calls[1].arguments, len(reply.tool_calls[1].id) > 5) == ("now", {}, True)
    assert reply.parts == ({"type": "image", "media": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},)
    assert reply.usage == Usage(14, 12, 3, 7)
    assert reply.meta == {"model": "gemini-2.5-flash-001", SIGNATURES: {"text": "dGV4dA==", "calls": ["c2ln", None]}}


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("OTHER", "stop"),
        ("SOMETHING_NEW", "stop"),
    ],
)
def test_finish_reasons(reason: str, finish: str) -> None:
    """Every reason has its place."""
    assert WIRE.reply(gemini({"text": "x"}, reason=reason)).finish_reason == finish


def test_a_blocked_prompt_is_no_error() -> None:
    """A prompt that the service refuses has an empty reply that was filtered, and says why."""
    reply = WIRE.reply({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 4}})
    assert (reply.text, reply.finish_reason, reply.usage) == ("", "content_filter", Usage(4))
    assert reply.meta == {"refusal": {"category": "PROHIBITED_CONTENT"}}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(None, id="null"),
        pytest.param([], id="a list"),
        pytest.param({}, id="empty"),
        pytest.param({"candidates": []}, id="no candidate"),
        pytest.param({"candidates": ["x"]}, id="a candidate that is none"),
        pytest.param(gemini({"text": "x"}), id="no reason"),
        pytest.param(gemini("x", reason="STOP"), id="a part that is none"),  # type: ignore[arg-type]
        pytest.param(gemini(reason="OTHER"), id="stopped for no reason, and empty"),
        pytest.param(gemini({"text": "x"}, reason="MALFORMED_FUNCTION_CALL"), id="a call that the service cannot read"),
        pytest.param(gemini({"functionCall": {"args": {}}}, reason="STOP"), id="a call without a name"),
    ],
)
def test_what_is_no_reply_is_an_error(body: Any) -> None:
    """JSON of another shape is a protocol error that may pass, never an empty reply."""
    with pytest.raises(ProviderError) as unreadable:
        WIRE.reply(body)
    assert (unreadable.value.kind, unreadable.value.transient) == ("protocol", True)


def test_a_missing_signature_is_ours() -> None:
    """What the service refuses of our request will not pass by asking again."""
    with pytest.raises(ProviderError) as refused:
        WIRE.reply(gemini(reason="MISSING_THOUGHT_SIGNATURE"))
    assert (refused.value.kind, refused.value.transient) == ("invalid_request", False)


def violating(quota: str) -> list[dict[str, Any]]:
    """Return the details of an exhausted quota."""
    return [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaMetric": "m", "quotaId": quota}]}]


EXCEEDED = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("status", "code", "words", "details", "kind", "transient"),
    [
        (400, "INVALID_ARGUMENT", "Invalid value", [], "invalid_request", False),
        (400, "INVALID_ARGUMENT", "API key not valid.", [{"reason": "API_KEY_INVALID"}], "authentication", False),
        (400, "FAILED_PRECONDITION", "User location is not supported", [], "invalid_request", False),
        (401, "UNAUTHENTICATED", "no", [], "authentication", False),
        (403, "PERMISSION_DENIED", "no", [], "authentication", False),
        (404, "NOT_FOUND", "no such model", [], "invalid_request", False),
        (429, "RESOURCE_EXHAUSTED", EXCEEDED, violating("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"), "rate_limit", True),
        (429, "RESOURCE_EXHAUSTED", EXCEEDED, violating("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), "rate_limit", False),
        (429, "RESOURCE_EXHAUSTED", EXCEEDED + "\n* Quota exceeded for metric: x, limit: 0", [], "rate_limit", False),
        (429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later.", [], "rate_limit", True),
        (429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.", [], "rate_limit", False),
        (499, "CANCELLED", "cancelled", [], "unavailable", True),
        (500, "INTERNAL", "Internal error encountered.", [], "unavailable", True),
        (503, "UNAVAILABLE", "The model is overloaded.", [], "unavailable", True),
        (504, "DEADLINE_EXCEEDED", "slow", [], "timeout", True),
    ],
)
def test_refusals(
    status: int,
    code: str,
    words: str,
    details: list[Any],
    kind: str,
    transient: bool,  # noqa: FBT001
) -> None:
    """A status and the vendor's details say what failed and whether it may pass: a minute's quota does, a day's does not."""
    body = {"error": {"code": status, "message": words, "status": code, "details": details}}
    for written in (body, [body]):
        error = WIRE.refusal(status, json.dumps(written).encode())
        assert (error.kind, error.transient) == (kind, transient)
        assert words.partition("\n")[0] in error.message
    with pytest.raises(ProviderError) as inside:
        WIRE.reply(body)
    assert (inside.value.kind, inside.value.transient) == (kind, transient)


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway", b"\xff\xfe", b"[1]", b'{"error": "busy"}', b"null"])
def test_a_refusal_of_any_body_is_an_error(body: bytes) -> None:
    """Proxies answer with anything."""
    error = WIRE.refusal(502, body)
    assert (error.kind, error.transient) == ("unavailable", True)
