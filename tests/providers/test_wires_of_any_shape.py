"""No JSON breaks a wire: wherever a documented reply has another value, it is read as a reply or it is a ProviderError, and nothing else."""

from collections.abc import Iterator
from typing import Any

import pytest

from engine.errors import ProviderError
from engine.providers.port import Reply
from engine.providers.wire import Wire
from engine.providers.wires.anthropic import Anthropic, AnthropicOptions
from engine.providers.wires.embeddings import EmbeddingOptions, GeminiEmbeddings, OpenAiEmbeddings
from engine.providers.wires.gemini import Gemini, GeminiOptions
from engine.providers.wires.huggingface import HuggingFaceLabels
from engine.providers.wires.openai_chat import OpenAiChat, OpenAiOptions
from engine.providers.wires.openai_responses import OpenAiResponses
from tests.providers.vendor_streams import CLAUDE_CALLING, GEMINI_CALLING, GEMINI_USAGE, gemini, heard, unnamed

ODD: tuple[Any, ...] = (None, True, -1, 1.5, 10**400, "x", "", [], [None], [[]], {}, {"type": "x"}, {"error": {}}, {"text": 1})

CLAUDE = Anthropic(AnthropicOptions("m"))
GEMINI = Gemini(GeminiOptions("m"))
CLAUDE_REPLY = {
    "type": "message",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {"type": "text", "text": "t"},
        {"type": "tool_use", "id": "i", "name": "n", "input": {"a": 1}},
    ],
    "stop_reason": "refusal",
    "stop_details": {"category": "c"},
    "usage": {"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 1, "output_tokens_details": {"thinking_tokens": 1}},
}
CLAUDE_ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}
GEMINI_REPLY = gemini(
    {"text": "t", "thoughtSignature": "s"},
    {"functionCall": {"id": "i", "name": "n", "args": {}}},
    {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
    reason="SAFETY",
    finishMessage="m",
    usageMetadata=GEMINI_USAGE,
    promptFeedback={"blockReason": "SAFETY"},
)
GEMINI_ERROR = {
    "error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m", "details": [{"reason": "r", "violations": [{"quotaId": "q"}]}]}
}
CHAT = OpenAiChat(OpenAiOptions("m"))
CHAT_CALL = {"index": 0, "id": "i", "type": "function", "function": {"name": "n", "arguments": "{}"}}
CHAT_USAGE = {
    "prompt_tokens": 1,
    "completion_tokens": 1,
    "prompt_tokens_details": {"cached_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
CHAT_REPLY = {
    "model": "m",
    "choices": [{"message": {"content": [{"type": "text", "text": "t"}], "tool_calls": [CHAT_CALL]}, "finish_reason": "tool_calls"}],
    "usage": CHAT_USAGE,
}
CHAT_STREAM = (
    {"choices": [{"delta": {"content": "t"}}]},
    {"choices": [{"delta": {"tool_calls": [CHAT_CALL]}}]},
    {"choices": [{"delta": {}, "finish_reason": "tool_calls"}], "usage": CHAT_USAGE, "x_groq": {"usage": CHAT_USAGE}},
)
RESPONSES = OpenAiResponses(OpenAiOptions("m"))
RESPONSE: dict[str, Any] = {
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
    "output": [
        {"type": "message", "content": [{"type": "output_text", "text": "t"}]},
        {"type": "function_call", "call_id": "i", "name": "n", "arguments": "{}"},
    ],
    "usage": {"input_tokens": 1, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 1}, "output_tokens_details": {"reasoning_tokens": 1}},
}
RESPONSE_STREAM = (
    {"type": "response.output_item.done", "item": RESPONSE["output"][1]},
    {"type": "response.completed", "response": {**RESPONSE, "status": "completed", "output": []}},
)
EMBEDDED = {"data": [{"index": 0, "embedding": [1.0]}], "usage": {"prompt_tokens": 1}}


def variants(value: Any) -> Iterator[Any]:
    """Return a value with each of its parts replaced by each odd one, and left out."""
    yield from ODD
    if isinstance(value, dict):
        for key in value:
            rest = {name: entry for name, entry in value.items() if name != key}
            yield rest
            yield from ({**value, key: variant} for variant in variants(value[key]))
    elif isinstance(value, list):
        for place in range(len(value)):
            yield value[:place] + value[place + 1 :]
            yield from ([*value[:place], variant, *value[place + 1 :]] for variant in variants(value[place]))


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        pytest.param(CLAUDE, CLAUDE_REPLY, id="claude"),
        pytest.param(CLAUDE, CLAUDE_ERROR, id="claude's error"),
        pytest.param(GEMINI, GEMINI_REPLY, id="gemini"),
        pytest.param(GEMINI, GEMINI_ERROR, id="gemini's error"),
        pytest.param(CHAT, CHAT_REPLY, id="chat"),
        pytest.param(CHAT, {"error": {"message": "m", "type": "t", "code": "c", "metadata": {"raw": "r"}}}, id="chat's error"),
        pytest.param(RESPONSES, RESPONSE, id="responses"),
        pytest.param(OpenAiEmbeddings(EmbeddingOptions("m")), EMBEDDED, id="embeddings"),
        pytest.param(GeminiEmbeddings(EmbeddingOptions("m")), {"embeddings": [{"values": [1.0]}], "usageMetadata": {}}, id="gemini's embeddings"),
        pytest.param(HuggingFaceLabels("/m", {}), [[{"label": "l", "score": 0.5}]], id="labels"),
    ],
)
def test_whole_replies(wire: Wire, body: Any) -> None:
    """Every part of a reply may have any other value."""
    for variant in variants(body):
        try:
            assert isinstance(wire.reply(variant), Reply)
        except ProviderError:
            continue


@pytest.mark.parametrize(
    ("wire", "events"),
    [
        pytest.param(CLAUDE, CLAUDE_CALLING, id="claude"),
        pytest.param(GEMINI, GEMINI_CALLING, id="gemini"),
        pytest.param(CHAT, CHAT_STREAM, id="chat"),
        pytest.param(RESPONSES, RESPONSE_STREAM, id="responses"),
    ],
)
def test_streams(wire: Wire, events: tuple[Any, ...]) -> None:
    """Every part of an event may have any other value."""
    for place, event in enumerate(events):
        for variant in variants(event):
            try:
                reply, text = heard(wire, unnamed((*events[:place], variant, *events[place + 1 :])))
            except ProviderError:
                continue
            assert reply.text == text
