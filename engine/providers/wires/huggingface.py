"""Classifiers as Hugging Face serves them: a text, a picture or a sound goes in, labels with their scores come out.

Owns that protocol: a request's one message is what is labelled, and a reply's meta has the scores under LABELS. Pure.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from engine.errors import ProviderError
from engine.providers.port import Reply, Request
from engine.providers.wire import Call, Listening
from engine.providers.wires import openai_errors
from engine.providers.wires.history import media_of, refused

LABELS: Final = "labels"

_MOST_LABELS: Final = 1000
"""How many labels are asked for: all, where a service gives only the best five by itself."""


class HuggingFaceLabels:
    """One classifier. `path` is what follows the base URL."""

    def __init__(self, path: str, extra: Mapping[str, Any]) -> None:
        self._path = path
        self._extra = extra

    def call(self, request: Request, *, streaming: bool) -> Call:
        """Return the request's JSON; nothing streams here.

        Raises:
            ProviderError: the message has neither a text nor data (`invalid_request`).
        """
        del streaming
        message = request.messages[0]
        inputs = media_of(message.parts[0])[1] if message.parts else message.content
        if not inputs:
            raise refused("there is nothing to label")
        return Call(self._path, {"inputs": inputs, "parameters": {"top_k": _MOST_LABELS}, **self._extra})

    def reply(self, body: Any) -> Reply:
        """Read the scores, which some pipelines put into a list of one.

        Raises:
            ProviderError: it is an error (of the kind that it says), or no reply (`protocol`).
        """
        if error := openai_errors.said_error(body):
            raise error
        found = body[0] if isinstance(body, list) and len(body) == 1 and isinstance(body[0], list) else body
        if not isinstance(found, list) or not found:
            raise _unreadable("it has no labels")
        return Reply("", meta={LABELS: dict(map(_scored, found))})

    def listen(self) -> Listening:
        """Refuse: nothing streams here."""
        raise ProviderError("cannot stream labels", kind="invalid_request", transient=False)

    def refusal(self, status: int, body: bytes) -> ProviderError:
        """Return what a status means, in the server's words; a model that is being loaded says how long that takes."""
        error = openai_errors.refusal_of(status, body)
        try:
            seconds = json.loads(body).get("estimated_time")
        except (AttributeError, ValueError, RecursionError):
            return error
        if error.transient and isinstance(seconds, int | float) and math.isfinite(seconds) and seconds > 0:
            error.retry_after_s = float(seconds)
        return error


def _scored(entry: Any) -> tuple[str, float]:
    label, score = (entry.get("label"), entry.get("score")) if isinstance(entry, Mapping) else (None, None)
    if not isinstance(label, str) or not isinstance(score, int | float) or isinstance(score, bool) or not 0 <= score <= 1:
        raise _unreadable("a label has no score from 0 to 1")
    return label, float(score)


def _unreadable(problem: str) -> ProviderError:
    return ProviderError(f"cannot read the reply: {problem}", kind="protocol", transient=True)
