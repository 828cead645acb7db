"""Google's generateContent: Gemini at Google AI and on Vertex.

Owns the JSON of requests and replies, and when a stream is complete. Prompts are cached without being asked. Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.messages import ToolCall
from engine.providers.port import DEFAULT_MAX_TOKENS, Reply, Request
from engine.providers.wire import Call, Event
from engine.providers.wires.gemini_contents import SIGNATURES, contents_of, tools_of
from engine.providers.wires.google_errors import refusal_of, said_error
from engine.providers.wires.tool_calls import tool_call

_FILTERED: Final = frozenset(
    (
        *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    )
)
_BROKEN: Final = frozenset(("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"))
"""Reasons of a reply that the service itself could not read: there is none, another attempt may bring one."""

_NO_REASON: Final = "FINISH_REASON_UNSPECIFIED"
"""What some write in every piece of a reply that goes on."""

_UNSIGNED: Final = "MISSING_THOUGHT_SIGNATURE"
_SAMPLING: Final = {"temperature": "temperature", "top_p": "topP", "seed": "seed"}


@dataclass(frozen=True, slots=True)
class GeminiOptions:
    """What differs from model to model.

    `thinking` is the protocol's thinkingConfig, {} to leave it to the model; `modalities` are what a reply may hold (TEXT, IMAGE), () for text.
    `has_schemas` says whether a reply may be asked to fit a JSON Schema. `unsupported` are keys of sampling that are never sent, `extra` keys of the
    request that always are.
    """

    model: str
    thinking: Mapping[str, Any] = field(default_factory=dict)
    modalities: tuple[str, ...] = ()
    has_schemas: bool = True
    unsupported: frozenset[str] = frozenset()
    extra: Mapping[str, Any] = field(default_factory=dict)


class Gemini:
    """One model behind generateContent."""

    def __init__(self, options: GeminiOptions) -> None:
        self._options = options

    def call(self, request: Request, *, streaming: bool) -> Call:
        """Return the request's JSON.

        Raises:
            ProviderError: a part of a message has no place in this protocol (`invalid_request`).
        """
        options = self._options
        body: dict[str, Any] = {"contents": contents_of(request.messages, options.model), **tools_of(request)}
        if request.system:
            body["systemInstruction"] = {"parts": [{"text": request.system}]}
        body["generationConfig"] = self._generation(request)
        body |= options.extra
        name = options.model if "/" in options.model else f"models/{options.model}"
        return Call(f"/{quote(name, safe='/@')}:{'streamGenerateContent?alt=sse' if streaming else 'generateContent'}", body)

    def reply(self, body: Any) -> Reply:
        """Read a whole reply.

        Raises:
            ProviderError: it is an error (of the kind that it says), or no reply (`protocol`).
        """
        read = _Read()
        read.take(body)
        return read.reply(self._options.model)

    def listen(self) -> "_GeminiListening":
        """Begin to read a stream."""
        return _GeminiListening(self._options.model)

    def refusal(self, status: int, body: bytes) -> ProviderError:
        """Return what a status means, in the vendor's words."""
        return refusal_of(status, body)

    def _generation(self, request: Request) -> dict[str, Any]:
        """Return how to generate. With tools no schema is asked for: models before Gemini 3 take one or the other."""
        sampling, options = request.sampling, self._options
        known = {ours: theirs for ours, theirs in _SAMPLING.items() if ours not in options.unsupported}
        keys = {theirs: value for ours, theirs in known.items() if (value := getattr(sampling, ours)) is not None}
        keys["maxOutputTokens"] = sampling.max_tokens or DEFAULT_MAX_TOKENS
        if options.thinking:
            keys["thinkingConfig"] = dict(options.thinking)
        if options.modalities:
            keys["responseModalities"] = [*options.modalities]
        if request.output_schema is not None and options.has_schemas and not (request.tools or options.modalities):
            keys |= {"responseMimeType": "application/json", "responseJsonSchema": dict(request.output_schema)}
        return keys


class _GeminiListening:
    """One stream of responses, each a piece of the reply. It says why it stopped, and then ends: usage may still come after the reason."""

    is_done = False

    def __init__(self, model: str) -> None:
        self._model = model
        self._read = _Read()

    def take(self, event: Event) -> str:
        """Return the text that a response adds."""
        try:
            data = json.loads(event.data)
        except (ValueError, RecursionError):
            raise _unreadable("an event is no JSON") from None
        return self._read.take(data)

    def finish(self) -> Reply:
        """Return the whole reply."""
        return self._read.reply(self._model)


@dataclass(slots=True)
class _Read:
    """A reply as far as it was read. `reason` is why it stopped, "" until it did; `blocked` why the prompt got no reply at all."""

    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    call_signatures: list[str | None] = field(default_factory=list)
    text_signature: str | None = None
    media: list[dict[str, Any]] = field(default_factory=list)
    reason: str = ""
    blocked: str = ""
    words: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""

    def take(self, response: Any) -> str:
        """Take a response, whole or a piece of it, and return the text that it adds."""
        if error := said_error(response):
            raise error
        if not isinstance(response, Mapping):
            raise _unreadable("it is no JSON object")
        if isinstance(usage := response.get("usageMetadata"), Mapping):
            self.usage = {**self.usage, **usage}
        self.model = str(response.get("modelVersion") or self.model)
        feedback = response.get("promptFeedback")
        if isinstance(feedback, Mapping) and feedback.get("blockReason"):
            self.blocked = str(feedback["blockReason"])
            self.words = str(feedback.get("blockReasonMessage") or "")
        candidates = response.get("candidates")
        if not candidates:
            return ""
        if not isinstance(candidates, list) or not isinstance(candidates[0], Mapping):
            raise _unreadable("a candidate is no JSON object")
        return self._candidate(candidates[0])

    def reply(self, asked: str) -> Reply:
        """Return the reply; `asked` is the model that was asked.

        Raises:
            ProviderError: it is not complete, or the service could not read it itself (`protocol`).
        """
        if not self.reason and not self.blocked:
            raise _unreadable("it ended before it was complete")
        if self.reason in _BROKEN:
            raise _unreadable(f"the service stopped it as {self.reason}{_after_colon(self.words)}")
        if self.reason == _UNSIGNED:
            raise ProviderError(f"cannot ask the model: {_UNSIGNED}{_after_colon(self.words)}", kind="invalid_request", transient=False)
        text, finish = "".join(self.texts), self._finish()
        if finish == "stop" and self.reason != "STOP" and not (text or self.calls or self.media):
            raise _unreadable(f"it is empty, and stopped as {self.reason}")
        meta: dict[str, Any] = {}
        if self.text_signature or any(self.call_signatures):
            meta[SIGNATURES] = {"text": self.text_signature, "calls": self.call_signatures}
        if self.model and self.model != asked:
            meta["model"] = self.model
        if finish == "content_filter":
            words = {"explanation": self.words} if self.words else {}
            meta["refusal"] = {"category": self.blocked or self.reason, **words}
        return Reply(text, tuple(self.calls), parts=tuple(self.media), usage=self._tokens(), finish_reason=finish, meta=meta)

    def _candidate(self, candidate: Mapping[str, Any]) -> str:
        if (reason := candidate.get("finishReason")) and reason != _NO_REASON:
            self.reason = str(reason)
            self.words = str(candidate.get("finishMessage") or self.words)
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, Mapping) else None
        if not isinstance(parts or [], list):
            raise _unreadable("a content has no list of parts")
        text = ""
        for part in parts or ():
            if not isinstance(part, Mapping):
                raise _unreadable("a part is no JSON object")
            text += self._part(part)
        return text

    def _part(self, part: Mapping[str, Any]) -> str:
        signature = part.get("thoughtSignature")
        signed = signature if isinstance(signature, str) else None
        if isinstance(call := part.get("functionCall"), Mapping):
            self.calls.append(tool_call(str(call.get("id") or ""), str(call.get("name") or ""), call.get("args")))
            self.call_signatures.append(signed)
        elif isinstance(data := part.get("inlineData"), Mapping) and not part.get("thought"):
            self.media.append(_media(data))
        elif isinstance(text := part.get("text"), str) and not part.get("thought"):
            self.text_signature = signed or self.text_signature
            self.texts.append(text)
            return text
        return ""

    def _finish(self) -> str:
        if self.blocked or self.reason in _FILTERED:
            return "content_filter"
        if self.reason == "MAX_TOKENS":
            return "length"
        return "tool_calls" if self.calls else "stop"

    def _tokens(self) -> Usage | None:
        """Return the tokens: thoughts came out as well, and what tools added went in; cached ones are counted in the prompt already."""
        if "promptTokenCount" not in self.usage:
            return None
        thoughts = self._count("thoughtsTokenCount")
        went_in = self._count("promptTokenCount") + self._count("toolUsePromptTokenCount")
        return Usage(went_in, self._count("candidatesTokenCount") + thoughts, self._count("cachedContentTokenCount"), thoughts)

    def _count(self, key: str) -> int:
        value = self.usage.get(key)
        return value if isinstance(value, int) and value > 0 else 0


def _media(data: Mapping[str, Any]) -> dict[str, Any]:
    mime = str(data.get("mimeType") or "")
    kind = mime.partition("/")[0]
    return {"type": kind if kind in ("image", "audio", "video") else "document", "media": {"mimeType": mime, "data": str(data.get("data") or "")}}


def _after_colon(words: str) -> str:
    return f": {words}" if words else ""


def _unreadable(problem: str) -> ProviderError:
    return ProviderError(f"cannot read the reply: {problem}", kind="protocol", transient=True)
