"""OpenAI's chat completions, and the many servers that speak them: vLLM, Ollama, OpenRouter, Together, Groq, Azure.

Owns the JSON of that protocol, and what servers make of it: usage anywhere, errors in good answers, streams without [DONE]. Pure.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.messages import Message, ToolCall, ToolResult
from engine.providers.port import DEFAULT_MAX_TOKENS, Reply, Request, Sampling
from engine.providers.wire import Call, Event
from engine.providers.wires.history import refused, said, steps
from engine.providers.wires.openai_errors import refusal_of, said_error
from engine.providers.wires.openai_parts import chat_parts
from engine.providers.wires.openai_schema import is_strict
from engine.providers.wires.repeated import RepeatedText
from engine.providers.wires.tool_calls import ToolCallPieces, tool_call

_FINISHES: Final = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}
_TEXT_ALONE: Final = frozenset(("content",))
_NOTHING: Final[Mapping[str, Any]] = {}
_SAMPLING: Final = ("temperature", "top_p", "seed")


@dataclass(frozen=True, slots=True)
class OpenAiOptions:
    """What differs from server to server, and from model to model.

    `limit_key` is what bounds the reply. `unsupported` are request keys that are never sent; `extra` ones that are always sent. `has_schemas` says
    whether a reply can be asked to fit a JSON Schema.
    """

    model: str
    limit_key: str = "max_tokens"
    unsupported: frozenset[str] = frozenset()
    has_schemas: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)


class OpenAiChat:
    """One model behind chat completions."""

    def __init__(self, options: OpenAiOptions, path: str = "/chat/completions") -> None:
        self._options = options
        self._path = path

    def call(self, request: Request, *, streaming: bool) -> Call:
        """Return the request's JSON.

        Raises:
            ProviderError: a part of a message has no place in this protocol (`invalid_request`).
        """
        options = self._options
        body: dict[str, Any] = {"model": options.model, "messages": [*_messages(request)]}
        body |= sampling_keys(request.sampling, options)
        if request.tools:
            body["tools"] = [
                {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.input_schema)}}
                for tool in request.tools
            ]
            body["tool_choice"] = request.tool_choice
        if request.output_schema is not None and options.has_schemas:
            schema = dict(request.output_schema)
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": is_strict(schema)}}
        if streaming:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return Call(self._path, {key: value for key, value in {**body, **options.extra}.items() if key not in options.unsupported})

    def reply(self, body: Any) -> Reply:
        """Read a whole reply.

        Raises:
            ProviderError: it is an error (of the kind that it says), or no reply (`protocol`).
        """
        if error := said_error(body):
            raise error
        choice = _first_choice(body) if isinstance(body, dict) else _NOTHING
        message = choice.get("message")
        if not isinstance(message, dict):
            raise ProviderError("cannot read the reply: it has no choices", kind="protocol", transient=True)
        calls = tuple(_whole_call(call) for call in _calls_of(message))
        text = _text(message.get("content")) or _text(message.get("refusal"))
        usage = usage_of(body.get("usage"))
        return Reply(text, calls, usage=usage, finish_reason=_finish(choice.get("finish_reason"), calls=bool(calls)), meta=self._meta(body))

    def listen(self) -> "_ChatListening":
        """Begin to read a stream."""
        return _ChatListening(self)

    def refusal(self, status: int, body: bytes) -> ProviderError:
        """Return what a status means, in the server's words."""
        return refusal_of(status, body)

    def _meta(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return which model answered, where a name stands for a model that changes."""
        model = body.get("model")
        return {"model": model} if isinstance(model, str) and model and model != self._options.model else {}


class _ChatListening:
    """One stream of chat completion chunks. Done at [DONE]; complete as soon as a choice has a finish reason."""

    def __init__(self, wire: OpenAiChat) -> None:
        self._wire = wire
        self._texts: list[str] = []
        self._refused: list[str] = []
        self._calls = ToolCallPieces()
        self._usage: Usage | None = None
        self._finish = ""
        self._first: Mapping[str, Any] = {}
        self._repeated = RepeatedText("content")
        self.is_done = False

    def take(self, event: Event) -> str:
        """Return the text that a chunk adds."""
        if text := self._repeated.text(event.data):
            self._texts.append(text)
            return text
        if event.data.strip() == "[DONE]":
            self.is_done = True
            return ""
        try:
            chunk = json.loads(event.data)
        except (ValueError, RecursionError):
            chunk = None
        if not isinstance(chunk, dict):
            raise ProviderError("cannot read the stream: an event is no JSON object", kind="protocol", transient=True)
        if "error" in chunk and (error := said_error(chunk)):
            raise error
        if not self._first:
            self._first = chunk
        self._note_usage(chunk)
        choice = _first_choice(chunk)
        text = self._choice(choice)
        if text and choice["delta"].keys() == _TEXT_ALONE and not choice.get("finish_reason") and not chunk.get("usage"):
            self._repeated.learn(event.data, text)
        return text

    def finish(self) -> Reply:
        """Return the whole reply."""
        if not self._finish and not self.is_done:
            raise ProviderError("cannot read the reply: the stream ended before it was complete", kind="protocol", transient=True)
        calls = self._calls.calls()
        text = "".join(self._texts) or "".join(self._refused)
        return Reply(text, calls, usage=self._usage, finish_reason=_finish(self._finish, calls=bool(calls)), meta=self._wire._meta(self._first))  # noqa: SLF001 - one class in two parts

    def _choice(self, choice: Mapping[str, Any]) -> str:
        if reason := choice.get("finish_reason"):
            self._finish = str(reason)
            _refuse_error_reason(self._finish)
        if not isinstance(delta := choice.get("delta"), dict):
            return ""
        for piece in _calls_of(delta):
            self._piece(piece)
        if refused := delta.get("refusal"):
            self._refused.append(str(refused))
        content = delta.get("content")
        if not content:
            return ""
        text = content if isinstance(content, str) else _text(content)
        self._texts.append(text)
        return text

    def _piece(self, piece: Mapping[str, Any]) -> None:
        function = _object(piece.get("function"))
        arguments, index = function.get("arguments"), piece.get("index")
        self._calls.add(
            index=index if isinstance(index, int) else None,
            ident=str(piece.get("id") or ""),
            name=str(function.get("name") or ""),
            arguments=arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments),
        )

    def _note_usage(self, chunk: Mapping[str, Any]) -> None:
        """Take the last usage there is: at the top, in Groq's corner, or in a choice."""
        found = chunk.get("usage") or _object(chunk.get("x_groq")).get("usage") or _first_choice(chunk).get("usage")
        if found and (usage := usage_of(found)) is not None:
            self._usage = usage


def sampling_keys(sampling: Sampling, options: OpenAiOptions) -> dict[str, Any]:
    """Return the keys that say how to sample, and how much a reply may hold; there always is a bound, under the other key where one is not supported."""
    keys = {key: value for key in _SAMPLING if (value := getattr(sampling, key)) is not None}
    limit = options.limit_key
    if limit in options.unsupported and limit == "max_tokens":
        limit = "max_completion_tokens"
    return keys | {limit: sampling.max_tokens or DEFAULT_MAX_TOKENS}


def usage_of(found: Any) -> Usage | None:
    """Return a usage object's tokens; those read from a cache and those of reasoning are parts of the others."""
    if not isinstance(found, dict):
        return None
    of_input = _object(found.get("prompt_tokens_details") or found.get("input_tokens_details"))
    of_output = _object(found.get("completion_tokens_details") or found.get("output_tokens_details"))
    return Usage(
        _count(found.get("prompt_tokens") or found.get("input_tokens")),
        _count(found.get("completion_tokens") or found.get("output_tokens")),
        _count(of_input.get("cached_tokens") or found.get("prompt_cache_hit_tokens") or found.get("cached_tokens")),
        _count(of_output.get("reasoning_tokens")),
    )


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else _NOTHING


def _first_choice(content: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = content.get("choices")
    return _object(choices[0]) if isinstance(choices, list) and choices else _NOTHING


def _calls_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tool calls of a message, or their pieces; one that cannot be read must not be lost without a word."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise ProviderError("cannot read the reply: its tool calls are no list of objects", kind="protocol", transient=True)
    return calls


def _whole_call(call: Mapping[str, Any]) -> ToolCall:
    function = _object(call.get("function"))
    return tool_call(str(call.get("id") or ""), str(function.get("name") or ""), function.get("arguments"))


def _count(value: Any) -> int:
    return int(value) if value and isinstance(value, int | float) and value > 0 else 0


def _finish(reason: Any, *, calls: bool) -> str:
    _refuse_error_reason(reason)
    found = _FINISHES.get(str(reason), "stop")
    return "tool_calls" if calls and found == "stop" else found


def _refuse_error_reason(reason: Any) -> None:
    if reason == "error":
        raise ProviderError("cannot read the reply: it ended by an error of the provider's", kind="unavailable", transient=True)


def _text(content: Any) -> str:
    """Return the text of a content, which some servers write as parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict) and part.get("type", "text") in ("text", "output_text"))


def _messages(request: Request) -> Iterable[dict[str, Any]]:
    if request.system:
        yield {"role": "system", "content": request.system}
    for step in steps(request.messages):
        message = step.message
        if message.role == "assistant":
            yield _assistant(message)
            yield from (_tool(result) for _, result in step.answered)
        else:
            yield {"role": message.role, "content": chat_parts(said(message)) if message.parts else message.content}


def _assistant(message: Message) -> dict[str, Any]:
    written: dict[str, Any] = {"role": "assistant", "content": message.content or (None if message.tool_calls else "")}
    if message.tool_calls:
        written["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.raw if call.arguments is None else json.dumps(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return written


def _tool(result: ToolResult) -> dict[str, Any]:
    kind = next((part.get("type") for part in result.parts if part.get("type") != "text"), None)
    if kind is not None:
        raise refused(
            f"chat completions take no {kind} from a tool, such as '{result.name}' (api_mode: responses takes images and documents)",
        )
    return {"role": "tool", "content": result.content, "tool_call_id": result.call_id}
