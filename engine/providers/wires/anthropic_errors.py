"""Errors as Anthropic and Bedrock write them: with a status, inside of an answer that is good by its status, or as an event of a stream.

Owns where the words and the code stand, and which status a code without one stands for. Must not know requests.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from engine.errors import ProviderError
from engine.providers.refusals import refused

_STATUS_OF: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "throttlingException": 429,
    "validationException": 400,
    "accessDeniedException": 403,
    "resourceNotFoundException": 404,
    "modelTimeoutException": 504,
    "modelStreamErrorException": 500,
    "modelErrorException": 500,
    "internalServerException": 500,
    "serviceUnavailableException": 503,
    "serviceQuotaExceededException": 429,
}
"""The status that an error without one stands for, by its type, or by Bedrock's exception."""

_FAILED_DEPENDENCY: Final = 424
"""Bedrock's status when the model, not the request, failed."""

_SPENT: Final = re.compile(r"credit balance|tokens per day|requests per day|daily (?:token|request)|ServiceQuotaExceeded", re.IGNORECASE)
"""Words and codes of an account that gets nothing more today, whatever the status."""


def refusal_of(status: int, body: bytes) -> ProviderError:
    """Return what a status other than 2xx means, with the words that the body has."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    words, code = _read(content)
    error = refused(status, words or body[:4096].decode("utf-8", "replace"), code=code)
    if status == _FAILED_DEPENDENCY:
        error = ProviderError(error.message, kind="unavailable", transient=True)
    return _spent(error, code)


def said_error(body: Any) -> ProviderError | None:
    """Return the error that an answer of status 200, or an event of a stream, holds; None when it holds none."""
    if not isinstance(body, Mapping) or not (body.get("type") == "error" or body.get("error")):
        return None
    words, code = _read(body)
    status = _STATUS_OF.get(code) or _STATUS_OF.get(code[:1].lower() + code[1:]) or _number(body)
    return _spent(refused(status, words or "an error without words", code=code), code)


def _number(body: Mapping[str, Any]) -> int:
    """Return the status that Vertex has in its errors, 500 where there is none."""
    error = body.get("error")
    number = error.get("code") if isinstance(error, Mapping) else None
    return number if isinstance(number, int) and 400 <= number < 600 else 500  # noqa: PLR2004 - statuses of HTTP


def _spent(error: ProviderError, code: str) -> ProviderError:
    if _SPENT.search(f"{code} {error.message}"):
        return ProviderError(error.message, kind="rate_limit", transient=False)
    return error


def _read(content: Any) -> tuple[str, str]:
    """Return an error's words and its code: Anthropic's `{type: error, error: {type, message}}`, AWS's `{message}`, or Vertex's, which may be in a list."""
    if isinstance(content, list) and content:
        content = content[0]
    if not isinstance(content, Mapping):
        return "", ""
    error = content.get("error") or content
    if not isinstance(error, Mapping):
        return str(error), ""
    words = error.get("message") or error.get("Message") or ""
    code = error.get("type") or error.get("__type") or ""
    return words if isinstance(words, str) else json.dumps(words), str(code).rpartition("#")[2]
