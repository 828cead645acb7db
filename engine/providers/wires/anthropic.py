"""Anthropic's messages protocol: at Anthropic, at a gateway that speaks it, on Amazon Bedrock and on Google Vertex.

Owns the JSON of requests and replies, and the order of a stream's events. Pure.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.messages import ToolCall
from engine.providers.port import DEFAULT_MAX_TOKENS, Reply, Request
from engine.providers.wire import Call, Event
from engine.providers.wires.anthropic_errors import refusal_of, said_error
from engine.providers.wires.anthropic_messages import THINKING, Block, messages_of, system_of, tools_of
from engine.providers.wires.schemas import closed_schema
from engine.providers.wires.tool_calls import tool_call

VERSION: Final = "2023-06-01"
_VERSIONS: Final = {"bedrock": "bedrock-2023-05-31", "vertex": "vertex-2023-10-16"}
_FINISHES: Final = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_MODEL: Final = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?![\d])")
_WITH_SCHEMAS: Final = (4, 5)
_ADAPTIVE: Final = (4, 6)
_WITHOUT_SAMPLING: Final = (4, 7)
"""From which version on a Claude model takes structured output, decides by itself how much to think, and refuses temperature and top_p."""


_PIECES: Final = {"text_delta": ("text", "text"), "input_json_delta": ("tool_use", "partial_json"), "thinking_delta": ("thinking", "thinking")}
_BLOCKS: Final = frozenset(block for block, _ in _PIECES.values())
"""The kind of block that each kind of piece belongs to, and its key; and those kinds. Of other blocks nothing is read."""


@dataclass(frozen=True, slots=True)
class AnthropicOptions:
    """What differs from host to host, and from model to model.

    `platform` is "" (Anthropic and gateways), bedrock or vertex. `thinking_budget` (tokens) turns thinking on; models that decide by themselves how
    much to think take it as no more than that. `effort` is low, medium, high, xhigh or max; "" leaves it to the model. `has_schemas` says whether a
    reply may be asked to fit a JSON Schema, where model and host can. `caches` asks for prompt caching in every request. `unsupported` are keys of sampling that are never sent, `extra` keys of the
    request that always are.
    """

    model: str
    platform: str = ""
    thinking_budget: int | None = None
    effort: str = ""
    has_schemas: bool = True
    caches: bool = False
    unsupported: frozenset[str] = frozenset()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> tuple[int, int] | None:
        """Return a Claude model's version by its name, None when it says none."""
        found = _MODEL.search(self.model)
        return (int(found[1]), int(found[2] or 0)) if found else None


class Anthropic:
    """One model behind the messages protocol. It takes no seed; from Claude 4.7 on, and while it thinks, neither temperature nor top_p."""

    def __init__(self, options: AnthropicOptions) -> None:
        self._options = options

    def call(self, request: Request, *, streaming: bool) -> Call:
        """Return the request's JSON.

        Raises:
            ProviderError: a part of a message has no place in this protocol (`invalid_request`).
        """
        options, sampling = self._options, request.sampling
        if options.caches and not request.cache:
            request = replace(request, cache=True)
        body: dict[str, Any] = {"max_tokens": sampling.max_tokens or DEFAULT_MAX_TOKENS, "messages": messages_of(request), **tools_of(request)}
        if request.system:
            body["system"] = system_of(request)
        if options.thinking_budget:
            body |= self._thinking(options.thinking_budget, body["max_tokens"])
        elif options.version is None or options.version < _WITHOUT_SAMPLING:
            keys = [key for key in ("temperature", "top_p") if key not in options.unsupported]
            body |= {key: value for key in keys if (value := getattr(sampling, key)) is not None}
        if output := self._output(request):
            body["output_config"] = output
        if streaming and options.platform != "bedrock":
            body["stream"] = True
        body |= options.extra
        if options.platform:
            body["anthropic_version"] = _VERSIONS[options.platform]
            return Call(_hosted_path(options, streaming=streaming), body)
        return Call("/messages", {"model": options.model, **body}, {"anthropic-version": VERSION})

    def reply(self, body: Any) -> Reply:
        """Read a whole reply.

        Raises:
            ProviderError: it is an error (of the kind that it says), or no reply (`protocol`).
        """
        if error := said_error(body):
            raise error
        content = body.get("content") if isinstance(body, dict) else None
        if not isinstance(content, list) or not body.get("stop_reason"):
            raise _unreadable("it has no content, or does not say why it stopped")
        read = _Read(body)
        for block in content:
            read.add(_checked(block))
        read.usage.note(body.get("usage"))
        return read.reply(body, self._options.model)

    def listen(self) -> "_AnthropicListening":
        """Begin to read a stream."""
        return _AnthropicListening(self._options.model)

    def refusal(self, status: int, body: bytes) -> ProviderError:
        """Return what a status means, in the vendor's words."""
        return refusal_of(status, body)

    def _thinking(self, budget: int, max_tokens: int) -> dict[str, Any]:
        """Return the keys that turn thinking on; where thinking counts against the reply's limit, the limit grows by the budget."""
        version = self._options.version
        if version is None or version >= _ADAPTIVE:
            return {"thinking": {"type": "adaptive"}}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}, "max_tokens": max_tokens + budget}

    def _output(self, request: Request) -> dict[str, Any]:
        """Return what is asked of the output: effort, and a schema where model and host take one (on Vertex an organization may have it off)."""
        options = self._options
        output: dict[str, Any] = {"effort": options.effort} if options.effort else {}
        can = options.has_schemas and options.platform != "vertex" and options.version is not None and options.version >= _WITH_SCHEMAS
        if can and request.output_schema is not None and (schema := closed_schema(request.output_schema)) is not None:
            output["format"] = {"type": "json_schema", "schema": schema}
        return output


def _hosted_path(options: AnthropicOptions, *, streaming: bool) -> str:
    if options.platform == "bedrock":
        return f"/model/{quote(options.model, safe='')}/{'invoke-with-response-stream' if streaming else 'invoke'}"
    return f"/{quote(options.model, safe='@')}:{'streamRawPredict' if streaming else 'rawPredict'}"


@dataclass(slots=True)
class _Tokens:
    """Usage, as events add to it: counts are of all so far, so the largest is the last."""

    counts: dict[str, int] = field(default_factory=dict)

    def note(self, found: Any) -> None:
        """Take a usage object."""
        if not isinstance(found, Mapping):
            return
        details = found.get("output_tokens_details")
        for key, value in {**found, **(details if isinstance(details, Mapping) else {})}.items():
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                self.counts[key] = max(value, self.counts.get(key, 0))

    def usage(self) -> Usage | None:
        """Return the tokens; what was read from the cache or written to it went in as well."""
        if "input_tokens" not in self.counts or "output_tokens" not in self.counts:
            return None
        cached = self.counts.get("cache_read_input_tokens", 0)
        went_in = self.counts["input_tokens"] + cached + self.written
        return Usage(went_in, self.counts["output_tokens"], cached, self.counts.get("thinking_tokens", 0))

    @property
    def written(self) -> int:
        """Return the tokens that were written to the cache."""
        return self.counts.get("cache_creation_input_tokens", 0)


@dataclass(slots=True)
class _Read:
    """A reply as far as it was read. `stop` holds its stop reason."""

    stop: Mapping[str, Any]
    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    thinking: list[Block] = field(default_factory=list)
    usage: _Tokens = field(default_factory=_Tokens)

    def add(self, block: Mapping[str, Any]) -> None:
        """Take a whole block; of a kind that is not known it is nothing to us."""
        kind = _string(block, "type")
        if kind == "text":
            self.texts.append(_string(block, "text"))
        elif kind == "tool_use":
            self.calls.append(tool_call(str(block.get("id") or ""), str(block.get("name") or ""), block.get("input")))
        elif kind in ("thinking", "redacted_thinking"):
            self.thinking.append(dict(block))

    def reply(self, message: Mapping[str, Any], asked: str) -> Reply:
        """Return the reply; `message` says which model answered, and `asked` which was asked."""
        reason = str(self.stop.get("stop_reason"))
        finish = _FINISHES.get(reason, "stop")
        meta: dict[str, Any] = {}
        if self.thinking:
            meta[THINKING] = self.thinking
        if (model := message.get("model")) and isinstance(model, str) and model != asked:
            meta["model"] = model
        if self.usage.written:
            meta["cacheWriteTokens"] = self.usage.written
        details = self.stop.get("stop_details")
        if finish == "content_filter" and isinstance(details, Mapping):
            meta["refusal"] = {key: details[key] for key in ("category", "explanation") if details.get(key)}
        if finish == "stop" and self.calls:
            finish = "tool_calls"
        return Reply("".join(self.texts), tuple(self.calls), usage=self.usage.usage(), finish_reason=finish, meta=meta)


class _AnthropicListening:
    """One stream. Done at message_stop; complete as soon as the reason of the stop is there and no block is open."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._stop: Mapping[str, Any] = {}
        self._usage = _Tokens()
        self._message: Mapping[str, Any] = {}
        self._open: dict[int, _OpenBlock] = {}
        self._begun: list[_OpenBlock] = []
        self.is_done = False

    def take(self, event: Event) -> str:
        """Return the text that an event adds. Events and pieces of a kind that is not known are passed over, as the protocol wants it."""
        data = _parsed(event)
        kind = data.get("type") or event.name
        if error := said_error(data if kind != "error" else {"error": {}, **data, "type": "error"}):
            raise error
        match kind:
            case "message_start":
                self._message = _object(data, "message")
                self._usage.note(self._message.get("usage"))
            case "content_block_start":
                return self._start(data)
            case "content_block_delta":
                return self._piece(data)
            case "content_block_stop":
                self._open.pop(_index(data), None)
            case "message_delta":
                self._usage.note(data.get("usage"))
                if (delta := _object(data, "delta")).get("stop_reason"):
                    self._stop = delta
            case "message_stop":
                self.is_done = True
            case _:
                pass
        return ""

    def finish(self) -> Reply:
        """Return the whole reply."""
        if not self._stop or (self._open and not self.is_done):
            raise _unreadable("the stream ended before it was complete")
        read = _Read(self._stop, usage=self._usage)
        for block in self._begun:
            read.add(block.whole())
        return read.reply(self._message, self._model)

    def _start(self, data: Mapping[str, Any]) -> str:
        block = _OpenBlock(dict(_object(data, "content_block")))
        _string(block.start, "type")
        self._open[_index(data)] = block
        self._begun.append(block)
        return block.begin()

    def _piece(self, data: Mapping[str, Any]) -> str:
        block = self._open.get(_index(data))
        if block is None:
            raise _unreadable("a piece belongs to no open block")
        return block.take(_object(data, "delta"))


@dataclass(slots=True)
class _OpenBlock:
    """A block whose pieces still come. `start` is how it began."""

    start: Block
    pieces: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)

    def begin(self) -> str:
        """Return the text that it began with."""
        text = self._begun("text") if self.start.get("type") == "text" else ""
        if text:
            self.pieces.append(text)
        return text

    def take(self, delta: Mapping[str, Any]) -> str:
        """Take a piece, and return the text that it adds."""
        kind, mine = str(delta.get("type")), self.start.get("type")
        if kind == "signature_delta":
            self.signature.append(_string(delta, "signature"))
        if kind not in _PIECES or mine not in _BLOCKS:
            return ""
        block, key = _PIECES[kind]
        if block != mine:
            raise _unreadable(f"a piece of a block is of kind {kind}, and the block {mine}")
        piece = _string(delta, key)
        self.pieces.append(piece)
        return piece if block == "text" else ""

    def whole(self) -> Block:
        """Return the block with all its pieces."""
        said = "".join(self.pieces)
        match self.start.get("type"):
            case "text":
                return self.start | {"text": said}
            case "tool_use":
                return self.start | {"input": said} if said else self.start
            case "thinking":
                signature = self._begun("signature") + "".join(self.signature)
                return self.start | {"thinking": self._begun("thinking") + said, "signature": signature}
            case _:
                return self.start

    def _begun(self, key: str) -> str:
        value = self.start.get(key)
        return value if isinstance(value, str) else ""


def _parsed(event: Event) -> Mapping[str, Any]:
    try:
        data = json.loads(event.data)
    except (ValueError, RecursionError):
        data = None
    return _checked(data, "an event is no JSON object")


def _checked(value: Any, problem: str = "a block is no JSON object") -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _unreadable(problem)
    return value


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return _checked(data.get(key), f"an event has no {key}")


def _index(data: Mapping[str, Any]) -> int:
    index = data.get("index")
    if not isinstance(index, int):
        raise _unreadable("an event has no index")
    return index


def _string(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise _unreadable(f"{key} of a block is no text")
    return value


def _unreadable(problem: str) -> ProviderError:
    return ProviderError(f"cannot read the reply: {problem}", kind="protocol", transient=True)
