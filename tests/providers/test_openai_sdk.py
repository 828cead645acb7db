"""OpenAI's own client reads what the scripted server says, so that the shapes which our wires are tried with are the vendor's."""

import json
from typing import Any

import pytest

from engine.errors import ProviderError
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import Request, Sampling, ToolSpec
from engine.providers.wires.openai_chat import OpenAiChat, OpenAiOptions
from engine.providers.wires.openai_responses import OpenAiResponses
from tests.providers.conftest import Asking, streamed
from tests.providers.vendor_server import VendorServer, answer, sse

HI = Request([Message("user", "Hi")])
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "total_tokens": 13,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def client(server: VendorServer) -> Any:
    """Return the vendor's client of the server; it takes a second to load, which only the process that runs these tests should wait for."""
    return pytest.importorskip("openai").AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0)


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """Return a chunk as it is documented."""
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}], "usage": None}


CHAT = answer(
    {
        **HEAD,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello", "refusal": None}, "logprobs": None, "finish_reason": "stop"}],
        "usage": USAGE,
    }
)
CHAT_STREAM = sse(
    piece(role="assistant", content="", refusal=None),
    piece(content="Hel"),
    piece(content="lo"),
    piece("stop"),
    {**HEAD, "choices": [], "usage": USAGE},
    "[DONE]",
)
CALL_STREAM = sse(
    piece(
        role="assistant", content=None, tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": ""}}]
    ),
    piece(tool_calls=[{"index": 0, "function": {"arguments": '{"city"'}}]),
    piece(tool_calls=[{"index": 0, "function": {"arguments": ':"Bern"}'}}]),
    piece("tool_calls"),
    "[DONE]",
)
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": [MESSAGE],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "error": None,
    "incomplete_details": None,
    "usage": {
        "input_tokens": 9,
        "output_tokens": 4,
        "total_tokens": 13,
        "input_tokens_details": {"cached_tokens": 3},
        "output_tokens_details": {"reasoning_tokens": 2},
    },
}
RESPONSE_STREAM = sse(
    (
        "response.created",
        {"type": "response.created", "sequence_number": 0, "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None}},
    ),
    *(
        (
            "response.output_text.delta",
            {
                "type": "response.output_text.delta",
                "sequence_number": 1,
                "item_id": "msg_1",
                "output_index": 0,
                "content_index": 0,
                "delta": text,
                "logprobs": [],
            },
        )
        for text in ("Hel", "lo")
    ),
    ("response.completed", {"type": "response.completed", "sequence_number": 3, "response": RESPONSE}),
)


async def test_a_whole_chat_completion(server: VendorServer, ask: Asking) -> None:
    """Both read the same text, usage and reason."""
    server.then(CHAT)
    async with client(server) as sdk:
        theirs = await sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    ours = await ask().complete(HI)
    assert ours.usage is not None
    assert theirs.choices[0].message.content == ours.text == "Hello"
    assert theirs.usage.prompt_tokens_details.cached_tokens == ours.usage.cached_tokens == 3
    assert theirs.usage.completion_tokens_details.reasoning_tokens == ours.usage.reasoning_tokens == 2
    assert theirs.choices[0].finish_reason == ours.finish_reason


async def test_a_streamed_chat_completion(server: VendorServer, ask: Asking) -> None:
    """Both read the same chunks."""
    server.then(*CHAT_STREAM)
    async with client(server) as sdk, await sdk.chat.completions.create(model="m", messages=[], stream=True) as stream:
        chunks = [chunk async for chunk in stream]
    ours = await streamed(ask(), HI)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == ours.text == "Hello"
    assert ours.usage is not None
    assert chunks[-1].usage.total_tokens == ours.usage.input_tokens + ours.usage.output_tokens == 13


async def test_a_streamed_tool_call(server: VendorServer, ask: Asking) -> None:
    """Both read the same call."""
    server.then(*CALL_STREAM)
    async with client(server) as sdk, sdk.chat.completions.stream(model="m", messages=[]) as stream:
        [theirs] = (await stream.get_final_completion()).choices[0].message.tool_calls
    [ours] = (await streamed(ask(), HI)).tool_calls
    assert (
        (theirs.id, theirs.function.name, json.loads(theirs.function.arguments))
        == (ours.id, ours.name, ours.arguments)
        == ("c1", "weather", {"city": "Bern"})
    )


async def test_a_whole_response(server: VendorServer, ask: Asking) -> None:
    """Both read the same text and usage."""
    server.then(answer(RESPONSE))
    async with client(server) as sdk:
        theirs = await sdk.responses.create(model="m", input="Hi")
    ours = await ask(additional_config={"api_mode": "responses"}).complete(HI)
    assert ours.usage is not None
    assert theirs.output_text == ours.text == "Hello"
    assert theirs.usage.output_tokens_details.reasoning_tokens == ours.usage.reasoning_tokens == 2


async def test_a_streamed_response(server: VendorServer, ask: Asking) -> None:
    """Both read the same events."""
    server.then(*RESPONSE_STREAM)
    async with client(server) as sdk, await sdk.responses.create(model="m", input="Hi", stream=True) as stream:
        events = [event async for event in stream]
    ours = await streamed(ask(additional_config={"api_mode": "responses"}), HI)
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == ours.text == "Hello"
    assert events[-1].response.usage.total_tokens == 13


@pytest.mark.parametrize(
    ("status", "raised", "kind"),
    [
        (400, "BadRequestError", "invalid_request"),
        (401, "AuthenticationError", "authentication"),
        (429, "RateLimitError", "rate_limit"),
        (500, "InternalServerError", "unavailable"),
    ],
)
async def test_errors(server: VendorServer, ask: Asking, status: int, raised: str, kind: str) -> None:
    """Both take a status for the same kind of error, in the vendor's words."""
    server.then(answer({"error": {"message": "because", "type": "t", "param": None, "code": None}}, status))
    async with client(server) as sdk:
        with pytest.raises(getattr(pytest.importorskip("openai"), raised), match="because"):
            await sdk.chat.completions.create(model="m", messages=[])
    with pytest.raises(ProviderError, match="because") as caught:
        await ask().complete(HI)
    assert caught.value.kind == kind


async def test_what_is_sent_is_what_the_sdk_would_send(server: VendorServer) -> None:
    """The client, given our body as its arguments, takes every key of it and sends the same."""
    tools = (ToolSpec("weather", "d", {"type": "object", "properties": {}}),)
    messages = [
        Message("user", "Hi", [{"type": "text", "text": "Hi"}, {"type": "image", "media": {"mimeType": "image/png", "data": "AAAA"}}]),
        Message("assistant", "", tool_calls=[ToolCall("c1", "weather", {})]),
        Message("tool", tool_result=ToolResult("c1", "weather", "sunny")),
    ]
    request = Request(messages, system="Be kind", tools=tools, sampling=Sampling(0.5, 0.9, 100, 7), output_schema={"type": "object"})
    chat = dict(OpenAiChat(OpenAiOptions(model="m")).call(request, streaming=True).body)
    responses = dict(OpenAiResponses(OpenAiOptions(model="m")).call(request, streaming=True).body)
    server.then(*CHAT_STREAM)
    server.then(*RESPONSE_STREAM)
    async with client(server) as sdk:
        async with await sdk.chat.completions.create(**chat):
            pass
        async with await sdk.responses.create(**responses):
            pass
    assert [seen.json for seen in server.requests] == [json.loads(json.dumps(chat)), json.loads(json.dumps(responses))]
