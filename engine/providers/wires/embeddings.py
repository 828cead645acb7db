"""Embeddings as OpenAI has them (Voyage AI, Ollama and many servers as well), and as Gemini has them.

Owns both protocols: a request's messages are the texts, and a reply's meta has their vectors under EMBEDDINGS, in order. Pure.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from engine.errors import ProviderError
from engine.items import Usage
from engine.providers.port import Reply, Request
from engine.providers.wire import Call, Listening
from engine.providers.wires import google_errors, openai_errors

EMBEDDINGS: Final = "embeddings"


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """Which model embeds. `extra` are keys of the vendor's own, such as how many numbers a vector has, that go with every request."""

    model: str
    extra: Mapping[str, Any] = field(default_factory=dict)


class OpenAiEmbeddings:
    """One model behind `/embeddings`."""

    def __init__(self, options: EmbeddingOptions) -> None:
        self._options = options

    def call(self, request: Request, *, streaming: bool) -> Call:
        """Return the request's JSON; nothing streams here."""
        del streaming
        texts = [message.content for message in request.messages]
        return Call("/embeddings", {"model": self._options.model, "input": texts, **self._options.extra})

    def reply(self, body: Any) -> Reply:
        """Read the vectors, in the order of their texts.

        Raises:
            ProviderError: it is an error (of the kind that it says), or no reply (`protocol`).
        """
        if error := openai_errors.said_error(body):
            raise error
        data = body.get("data") if isinstance(body, Mapping) else None
        if not isinstance(data, list) or not all(isinstance(entry, Mapping) for entry in data):
            raise _unreadable("it has no data")
        numbers = [entry.get("index", place) for place, entry in enumerate(data)]
        if sorted(map(str, numbers)) != sorted(map(str, range(len(data)))):
            raise _unreadable("its vectors are not numbered")
        found = dict(zip(map(int, numbers), data, strict=True))
        usage = body.get("usage")
        tokens = _count(usage, "prompt_tokens") or _count(usage, "total_tokens")
        return _reply([_vector(found[number].get("embedding")) for number in range(len(found))], tokens)

    def listen(self) -> Listening:
        """Refuse: nothing streams here."""
        raise _no_stream()

    def refusal(self, status: int, body: bytes) -> ProviderError:
        """Return what a status means, in the server's words."""
        return openai_errors.refusal_of(status, body)


class GeminiEmbeddings:
    """One model behind `batchEmbedContents`."""

    def __init__(self, options: EmbeddingOptions) -> None:
        self._options = options

    def call(self, request: Request, *, streaming: bool) -> Call:
        """Return the request's JSON; nothing streams here."""
        del streaming
        name = f"models/{self._options.model.removeprefix('models/')}"
        requests = [{"model": name, "content": {"parts": [{"text": message.content}]}, **self._options.extra} for message in request.messages]
        return Call(f"/{quote(name, safe='/')}:batchEmbedContents", {"requests": requests})

    def reply(self, body: Any) -> Reply:
        """Read the vectors, in the order of their texts.

        Raises:
            ProviderError: it is an error (of the kind that it says), or no reply (`protocol`).
        """
        if error := google_errors.said_error(body):
            raise error
        found = body.get("embeddings") if isinstance(body, Mapping) else None
        if not isinstance(found, list) or not all(isinstance(entry, Mapping) for entry in found):
            raise _unreadable("it has no embeddings")
        return _reply([_vector(entry.get("values")) for entry in found], _count(body.get("usageMetadata"), "promptTokenCount"))

    def listen(self) -> Listening:
        """Refuse: nothing streams here."""
        raise _no_stream()

    def refusal(self, status: int, body: bytes) -> ProviderError:
        """Return what a status means, in the vendor's words."""
        return google_errors.refusal_of(status, body)


def _reply(vectors: list[list[float]], tokens: int) -> Reply:
    return Reply("", usage=Usage(tokens) if tokens else None, meta={EMBEDDINGS: vectors})


def _vector(values: Any) -> list[float]:
    if not isinstance(values, list) or not values:
        raise _unreadable("an embedding is no list of numbers")
    try:
        vector = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    except OverflowError:
        vector = []
    if len(vector) != len(values) or not all(map(math.isfinite, vector)):
        raise _unreadable("an embedding is no list of numbers")
    return vector


def _count(usage: Any, key: str) -> int:
    value = usage.get(key) if isinstance(usage, Mapping) else None
    return value if isinstance(value, int) and value > 0 else 0


def _unreadable(problem: str) -> ProviderError:
    return ProviderError(f"cannot read the reply: {problem}", kind="protocol", transient=True)


def _no_stream() -> ProviderError:
    return ProviderError("cannot stream embeddings", kind="invalid_request", transient=False)
