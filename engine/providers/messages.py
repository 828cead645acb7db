"""What a conversation is made of: messages, tool calls and their results, in the form that providers, checks and results share.

These are mutable while a conversation is held by one task, and never shared between conversations. `message_json` is the one place that knows
how a message reads in results.jsonl.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from engine.items import Usage


@dataclass(slots=True)
class ToolCall:
    """A tool call that a model asked for.

    `id` is the provider's and may repeat in later turns (the mock's do): what belongs to which call is known by identity, never by id.
    `arguments` is None when the model's text was no JSON object; `raw` is that text then.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None = None
    raw: str = ""


@dataclass(slots=True)
class ToolResult:
    """What came of a tool call. `content` is what the model reads, an error's text included; `error` is "" when it went well.

    `error_type` is validation, execution, approval, blocked, not_allowed or unknown_tool.
    """

    call_id: str
    name: str
    content: str
    error: str = ""
    error_type: str = ""
    parts: list[dict[str, Any]] = field(default_factory=list)
    latency_ms: float = 0.0


@dataclass(slots=True)
class Validation:
    """A guardrail that fired. `type` is as the prompt spells it; `direction` is input or output."""

    type: str
    direction: str
    score: float | None
    explanation: str


@dataclass(slots=True)
class Message:
    """One message. `role` is system, user, assistant or tool. `cost_usd` is None when the provider has no price."""

    role: str
    content: str = ""
    parts: list[dict[str, Any]] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    tool_result: ToolResult | None = None
    latency_ms: float = 0.0
    usage: Usage | None = None
    cost_usd: float | None = None
    validations: list[Validation] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)


def message_json(message: Message) -> dict[str, Any]:
    """Return the message as a plain JSON object with camelCase keys; keys with nothing to say are left out."""
    result: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.parts:
        result["parts"] = message.parts
    if message.tool_calls:
        result["toolCalls"] = [_call_json(call) for call in message.tool_calls]
    if message.tool_result is not None:
        result["toolResult"] = _result_json(message.tool_result)
    if message.role == "assistant" or message.usage is not None:
        result["latencyMs"] = round(message.latency_ms, 3)
        if message.usage is not None:
            result["usage"] = _usage_json(message.usage)
        if message.cost_usd is not None:
            result["costUsd"] = message.cost_usd
    if message.validations:
        result["validations"] = [
            {"type": fired.type, "direction": fired.direction, "passed": False, "score": fired.score, "explanation": fired.explanation}
            for fired in message.validations
        ]
    if message.meta:
        result["meta"] = message.meta
    return result


def _call_json(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "args": call.arguments if call.arguments is not None else call.raw}


def _result_json(result: ToolResult) -> dict[str, Any]:
    wire: dict[str, Any] = {"id": result.call_id, "name": result.name}
    if result.error:
        wire |= {"error": result.error, "errorType": result.error_type}
    if result.parts:
        wire["parts"] = result.parts
    wire["latencyMs"] = round(result.latency_ms, 3)
    return wire


def _usage_json(usage: Usage) -> dict[str, int]:
    wire = {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
    if usage.cached_tokens:
        wire["cachedTokens"] = usage.cached_tokens
    if usage.reasoning_tokens:
        wire["reasoningTokens"] = usage.reasoning_tokens
    return wire


def json_text(value: Any) -> str:
    """Return `value` as the format's engines print JSON: compact, keys sorted, whole floats without a fraction."""
    return json.dumps(_plain_numbers(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str)


_EXACT_FLOAT = 2**53


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOAT:
        return int(value)
    if isinstance(value, dict):
        return {key: _plain_numbers(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_numbers(entry) for entry in value]
    return value
