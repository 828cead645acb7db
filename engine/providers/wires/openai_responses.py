"""OpenAI's responses protocol: items instead of messages, and named events.

Owns the JSON of that protocol. Nothing is stored at the vendor's: each request has the whole conversation. Pure.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from engine.errors import ProviderError
from engine.providers.messages import Message, ToolCall
from engine.providers.port import DEFAULT_MAX_TOKENS, Reply, Request
from engine.providers.wire import Call, Event
from engine.providers.wires.history import said, steps, told
from engine.providers.wires.openai_chat import OpenAiOptions, usage_of
from engine.providers.wires.openai_errors import refusal_of, said_error
from engine.providers.wires.openai_parts import response_parts
from engine.providers.wires.openai_schema import is_strict
from engine.providers.wires.tool_calls import tool_call

_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
_TEXTS: Final = ("response.output_text.delta", "response.refusal.delta")


class OpenAiResponses:
    """One model behind the responses protocol."""

    def __init__(self, options: OpenAiOptions) -> None:
        self._options = options

    def call(self, request: Request, *, streaming: bool) -> Call:
        """Return the request's JSON.

        Raises:
            ProviderError: a part of a message has no place in this protocol (`invalid_request`).
        """
        options, sampling = self._options, request.sampling
        body: dict[str, Any] = {
            "model": options.model,
            "input": [*_items(request.messages)],
            "store": False,
            "max_output_tokens": sampling.max_tokens or DEFAULT_MAX_TOKENS,
        }
        body |= {key: value for key in ("temperature", "top_p") if (value := getattr(sampling, key)) is not None}
        if request.system:
            body["instructions"] = request.system
        if request.tools:
            body["tools"] = [
                {"type": "function", "name": tool.name, "description": tool.description, "parameters": dict(tool.input_schema), "strict": False}
                for tool in request.tools
            ]
            body["tool_choice"] = request.tool_choice
        if request.output_schema is not None and options.has_schemas:
            schema = dict(request.output_schema)
            body["text"] = {"format": {"type": "json_schema", "name": "reply", "schema": schema, "strict": is_strict(schema)}}
        if streaming:
            body["stream"] = True
        return Call("/responses", {key: value for key, value in _arranged({**body, **options.extra}).items() if key not in options.unsupported})

    def reply(self, body: Any) -> Reply:
        """Read a whole reply.

        Raises:
            ProviderError: it is an error, or no reply (`protocol`).
        """
        if error := said_error(body):
            raise error
        if not isinstance(body, dict) or not isinstance(body.get("output"), list):
            raise ProviderError("cannot read the reply: it has no output", kind="protocol", transient=True)
        if body.get("status") in ("failed", "cancelled"):
            raise ProviderError(f"cannot read the reply: the provider says that it {body['status']}", kind="unavailable", transient=True)
        output = [entry for entry in body["output"] if isinstance(entry, dict)]
        calls = tuple(_call(entry) for entry in output if entry.get("type") == "function_call")
        model = body.get("model")
        meta = {"model": model} if isinstance(model, str) and model and model != self._options.model else {}
        return Reply("".join(_texts(output)), calls, usage=usage_of(body.get("usage")), finish_reason=_finish(body, calls), meta=meta)

    def listen(self) -> "_ResponseListening":
        """Begin to read a stream."""
        return _ResponseListening(self)

    def refusal(self, status: int, body: bytes) -> ProviderError:
        """Return what a status means, in the vendor's words."""
        return refusal_of(status, body)


class _ResponseListening:
    """One stream of response events. Its last event has the whole response, which is what counts; texts are given out as they come."""

    def __init__(self, wire: OpenAiResponses) -> None:
        self._wire = wire
        self._texts: list[str] = []
        self._items: list[Any] = []
        self._whole: dict[str, Any] | None = None
        self.is_done = False

    def take(self, event: Event) -> str:
        """Return the text that an event adds."""
        if event.data.strip() == "[DONE]":
            self.is_done = True
            return ""
        try:
            content = json.loads(event.data)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise ProviderError("cannot read the stream: an event is no JSON object", kind="protocol", transient=True)
        kind = content.get("type") or event.name
        if kind in _TEXTS:
            text = str(content.get("delta") or "")
            self._texts.append(text)
            return text
        if kind == "response.output_item.done":
            self._items.append(content.get("item"))
        elif kind in _ENDS:
            self._end(content)
        elif kind == "error":
            raise said_error({"error": content.get("error") or content}) or ProviderError("the stream says: error", kind="protocol", transient=True)
        return ""

    def finish(self) -> Reply:
        """Return the whole reply."""
        if self._whole is None:
            raise ProviderError("cannot read the reply: the stream ended before it was complete", kind="protocol", transient=True)
        if not self._whole.get("output"):
            self._whole = {**self._whole, "output": self._items}
        return self._wire.reply(self._whole)

    def _end(self, content: Mapping[str, Any]) -> None:
        whole = content.get("response")
        self._whole = whole if isinstance(whole, dict) else {}
        self.is_done = True
        if error := said_error(self._whole):
            raise error


def _items(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    for step in steps(messages):
        message = step.message
        if message.role != "assistant":
            yield {"role": "user", "content": response_parts(said(message)) if message.parts else message.content}
            continue
        if message.content:
            yield {"role": "assistant", "content": message.content}
        for call in message.tool_calls:
            arguments = call.raw if call.arguments is None else json.dumps(call.arguments)
            yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}
        for call, result in step.answered:
            has_media = any(part.get("type") != "text" for part in result.parts)
            output = response_parts(told(result)) if has_media else result.content
            yield {"type": "function_call_output", "call_id": call.id, "output": output}


def _arranged(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with chat completions' way of asking for effort turned into this protocol's."""
    effort = body.pop("reasoning_effort", None)
    return body if effort is None else {**body, "reasoning": {"effort": effort}}


def _texts(output: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for entry in output:
        content = entry.get("content") if entry.get("type") == "message" else ()
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict):
                yield str(part.get("text") or part.get("refusal") or "")


def _call(entry: Mapping[str, Any]) -> ToolCall:
    return tool_call(str(entry.get("call_id") or entry.get("id") or ""), str(entry.get("name") or ""), entry.get("arguments"))


def _finish(body: Mapping[str, Any], calls: tuple[ToolCall, ...]) -> str:
    if body.get("status") == "incomplete":
        details = body.get("incomplete_details")
        return "content_filter" if isinstance(details, dict) and details.get("reason") == "content_filter" else "length"
    return "tool_calls" if calls else "stop"
