"""The vendors' own clients beside our wires, at one server: equal requests go out, and equal replies are read.

So the shapes of these tests are the vendors', as far as their clients know them. Skipped where a client is not installed.
"""

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from engine.items import Usage
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import Request, Sampling, ToolSpec
from engine.providers.wires.anthropic import Anthropic, AnthropicOptions
from engine.providers.wires.gemini import Gemini, GeminiOptions
from tests.providers.test_vendor_rows import signature
from tests.providers.vendor_server import LAST_CHUNK, VendorServer, answer, chunk, sse, stream_head
from tests.providers.vendor_streams import CLAUDE, CLAUDE_CALLING, GEMINI, GEMINI_CALLING, GEMINI_USAGE, framed, gemini, heard, named, unnamed

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
CLAUDE_MODEL = "claude-sonnet-4-5-20250929"
REQUEST = Request(
    [
        Message("user", "see", parts=[{"type": "text", "text": "see"}, {"type": "image", "media": {"mimeType": "image/png", "data": "AAAA"}}]),
        Message("assistant", "Looking", tool_calls=[ToolCall("t1", "look", {"place": "x"})]),
        Message("tool", "fine", tool_result=ToolResult("t1", "look", "fine")),
        Message("user", "and?"),
    ],
    system="Be brief",
    tools=(ToolSpec("look", "Looks", SCHEMA),),
    tool_choice="required",
    sampling=Sampling(temperature=0.5, top_p=0.25, max_tokens=99),
)
CLAUDE_REPLY = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "model": CLAUDE_MODEL,
    "content": [{"type": "text", "text": "Hello"}, {"type": "tool_use", "id": "t1", "name": "look", "input": {"place": "x"}}],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 1, "cache_creation_input_tokens": 0},
}


async def test_anthropics_client_reads_what_we_read(server: VendorServer) -> None:
    """A whole reply and a stream mean the same to Anthropic's client; our request is one that it sends."""
    anthropic = pytest.importorskip("anthropic")
    wire = Anthropic(AnthropicOptions(CLAUDE_MODEL))
    body = dict(wire.call(replace(REQUEST, sampling=Sampling(max_tokens=99)), streaming=False).body)
    server.then(answer(CLAUDE_REPLY))
    server.then(*sse(*((event["type"], event) for event in CLAUDE_CALLING)))
    async with anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as client:
        whole = await client.messages.create(**body)
        async with client.messages.stream(**body) as stream:
            text = "".join([piece async for piece in stream.text_stream])
            final = await stream.get_final_message()
    assert [seen.json for seen in server.requests] == [body, body | {"stream": True}]
    assert {seen.path for seen in server.requests} == {"/v1/messages"}
    ours = wire.reply(CLAUDE_REPLY)
    assert (whole.content[0].text, whole.content[1].input, whole.usage.input_tokens + 1) == (ours.text, {"place": "x"}, 4)
    assert ours.usage == Usage(4, 2, 1)
    streamed, said = heard(wire, named(CLAUDE_CALLING))
    assert text == said == streamed.text
    assert [(block.id, block.name, block.input) for block in final.content if block.type == "tool_use"] == [
        (call.id, call.name, call.arguments) for call in streamed.tool_calls
    ]
    assert [block.model_dump(exclude_none=True) for block in final.content if "thinking" in block.type] == streamed.meta["anthropicThinking"]
    assert streamed.usage is not None
    assert final.usage.output_tokens == streamed.usage.output_tokens


async def test_anthropics_client_and_ours_at_vertex(server: VendorServer) -> None:
    """Anthropic's client for Vertex asks the same path, with the same body; it may speak a newer version, which has no sampling."""
    anthropic = pytest.importorskip("anthropic")
    pytest.importorskip("google.auth")
    request = Request([Message("user", "hi")])
    call = Anthropic(AnthropicOptions("claude-haiku-4-5@20251001", "vertex")).call(request, streaming=False)
    server.then(answer(CLAUDE_REPLY))
    async with anthropic.AsyncAnthropicVertex(region="eu", project_id="p", access_token="t", base_url=server.url, max_retries=0) as client:
        body = {key: value for key, value in call.body.items() if key != "anthropic_version"}
        await client.messages.create(model="claude-haiku-4-5@20251001", **body)
    [seen] = server.requests
    assert seen.path == f"/projects/p/locations/eu/publishers/anthropic/models{call.path}"
    assert {**seen.json, "anthropic_version": ""} == {**call.body, "anthropic_version": ""}


async def test_boto3_and_ours_at_bedrock(server: VendorServer) -> None:
    """AWS's client asks the same path, its signature is what we compute of a request, and it reads the frames that we read."""
    boto3 = pytest.importorskip("boto3")
    model = "anthropic.claude-haiku-4-5-20251001-v1:0"
    wire = Anthropic(AnthropicOptions(model, "bedrock"))
    call = wire.call(Request([Message("user", "Grüße")]), streaming=True)
    server.then(stream_head(kind="application/vnd.amazon.eventstream"), chunk(framed(CLAUDE)), LAST_CHUNK)

    def ask() -> list[Any]:
        client = boto3.client(
            "bedrock-runtime", region_name="eu-central-1", endpoint_url=server.url, aws_access_key_id="AKID", aws_secret_access_key="secret"
        )
        answered = client.invoke_model_with_response_stream(modelId=model, body=json.dumps(call.body).encode(), contentType="application/json")
        return [json.loads(event["chunk"]["bytes"]) for event in answered["body"]]

    assert await asyncio.to_thread(ask) == [*CLAUDE]
    [seen] = server.requests
    assert (seen.path, seen.json) == (call.path, call.body)
    assert f"Signature={signature(seen, 'secret')}" in seen.headers["Authorization"]


def config(**more: Any) -> dict[str, Any]:
    """Return how Google's client is told what REQUEST asks."""
    return {
        "system_instruction": {"parts": [{"text": "Be brief"}]},
        "temperature": 0.5,
        "top_p": 0.25,
        "max_output_tokens": 99,
        "tools": [{"function_declarations": [{"name": "look", "description": "Looks", "parameters_json_schema": SCHEMA}]}],
        "tool_config": {"function_calling_config": {"mode": "ANY"}},
        "automatic_function_calling": {"disable": True},
        **more,
    }


def camel(value: Any) -> Any:
    """Return JSON with the protocol's names: Google takes `inline_data` for `inlineData`, and its client sends both."""
    if isinstance(value, list):
        return [camel(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {re.sub("_([a-z])", lambda found: found[1].upper(), key): camel(entry) for key, entry in value.items()}


CONTENTS = [
    {"role": "user", "parts": [{"text": "see"}, {"inline_data": {"mime_type": "image/png", "data": "AAAA"}}]},
    {"role": "model", "parts": [{"text": "Looking"}, {"function_call": {"id": "t1", "name": "look", "args": {"place": "x"}}}]},
    {
        "role": "user",
        "parts": [{"function_response": {"id": "t1", "name": "look", "response": {"output": "fine"}}}, {"text": "and?"}],
    },
]


async def test_googles_client_asks_what_we_ask(server: VendorServer) -> None:
    """Told the same in its own words, Google's client sends the request that our wire writes, and reads the same reply."""
    genai = pytest.importorskip("google.genai")
    wire = Gemini(GeminiOptions("gemini-2.5-flash"))
    reply = gemini({"text": "Hello"}, {"functionCall": {"name": "look", "args": {"place": "x"}}}, reason="STOP", usageMetadata=GEMINI_USAGE)
    server.then(answer(reply))
    client = genai.Client(api_key="k", http_options={"base_url": server.url, "api_version": "v1beta"})
    found = await client.aio.models.generate_content(
        model="gemini-2.5-flash",
        contents=[genai.types.Content(**content) for content in CONTENTS],
        config=genai.types.GenerateContentConfig(**config()),
    )
    await client.aio.aclose()
    call = wire.call(REQUEST, streaming=False)
    [seen] = server.requests
    assert seen.path == f"/v1beta{call.path}"
    assert seen.headers["x-goog-api-key"] == "k"
    assert camel(seen.json) == call.body
    ours = wire.reply(reply)
    parts = found.candidates[0].content.parts
    assert (parts[0].text, parts[1].function_call.args) == (ours.text, ours.tool_calls[0].arguments)
    usage = found.usage_metadata
    assert ours.usage == Usage(
        usage.prompt_token_count + usage.tool_use_prompt_token_count,
        usage.candidates_token_count + usage.thoughts_token_count,
        usage.cached_content_token_count,
        usage.thoughts_token_count,
    )


@pytest.mark.parametrize("events", [GEMINI, GEMINI_CALLING], ids=["text", "calls"])
async def test_googles_client_streams_what_we_stream(server: VendorServer, events: Any) -> None:
    """A stream means the same to Google's client."""
    genai = pytest.importorskip("google.genai")
    server.then(*sse(*events))
    client = genai.Client(api_key="k", http_options={"base_url": server.url, "api_version": "v1beta"})
    chunks = [found async for found in await client.aio.models.generate_content_stream(model="gemini-2.5-flash", contents="hi")]
    await client.aio.aclose()
    assert server.requests[0].path == "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    parts = [part for found in chunks for part in found.candidates[0].content.parts]
    reply, _ = heard(Gemini(GeminiOptions("gemini-2.5-flash")), unnamed(events))
    assert "".join(part.text for part in parts if part.text and not part.thought) == reply.text
    assert [(part.function_call.name, part.function_call.args or {}) for part in parts if part.function_call] == [
        (call.name, call.arguments) for call in reply.tool_calls
    ]
    assert chunks[-1].candidates[0].finish_reason == "STOP"


async def test_googles_client_embeds_as_we_do(server: VendorServer) -> None:
    """Google's client asks for embeddings by the same path and in the same shape."""
    genai = pytest.importorskip("google.genai")
    from engine.providers.wires.embeddings import EmbeddingOptions, GeminiEmbeddings  # noqa: PLC0415

    wire = GeminiEmbeddings(EmbeddingOptions("gemini-embedding-001", {"outputDimensionality": 2}))
    reply = {"embeddings": [{"values": [1.0, 0.0]}, {"values": [0.0, 1.0]}]}
    server.then(answer(reply))
    client = genai.Client(api_key="k", http_options={"base_url": server.url, "api_version": "v1beta"})
    found = await client.aio.models.embed_content(model="gemini-embedding-001", contents=["a", "b"], config={"output_dimensionality": 2})
    await client.aio.aclose()
    call = wire.call(Request([Message("user", "a"), Message("user", "b")]), streaming=False)
    [seen] = server.requests
    assert seen.path == f"/v1beta{call.path}"
    assert [{**entry, "content": {"parts": entry["content"]["parts"]}} for entry in seen.json["requests"]] == call.body["requests"]
    assert [entry.values for entry in found.embeddings] == wire.reply(reply).meta["embeddings"]
