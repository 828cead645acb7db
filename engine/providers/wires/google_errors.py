"""Errors as Google's services write them: `{error: {code, message, status, details}}`, with a status or inside of an answer that is good by its status.

Owns which of them say that an account has nothing left. Must not know requests.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from engine.errors import ProviderError
from engine.providers.refusals import refused

_STATUS_OF: Final[Mapping[str, int]] = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "DATA_LOSS": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
_SPENT: Final = re.compile(r"per ?day|credits are depleted|limit: 0\b|spending cap|billing account", re.IGNORECASE)
"""What names a quota of a day, or of an account; everything else of status 429 ends within a minute, though its words name plan and billing as well."""

_TOO_MANY: Final = 429


def refusal_of(status: int, body: bytes) -> ProviderError:
    """Return what a status other than 2xx means, with the words that the body has."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    return _refused(status, _error(content) or {"message": body[:4096].decode("utf-8", "replace")})


def said_error(body: Any) -> ProviderError | None:
    """Return the error that an answer of status 200, or an event of a stream, holds; None when it holds none."""
    error = _error(body)
    if not error:
        return None
    code = error.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else _STATUS_OF.get(str(error.get("status")), 500)  # noqa: PLR2004 - as HTTP has it
    return _refused(status, error)


def _refused(status: int, error: Mapping[str, Any]) -> ProviderError:
    words, code = str(error.get("message") or ""), str(error.get("status") or "")
    found = refused(status, words or "an error without words", code=code)
    reasons = [str(detail.get("reason") or "") for detail in _details(error)]
    if "API_KEY_INVALID" in reasons:
        return ProviderError(found.message, kind="authentication", transient=False)
    if found.kind != "rate_limit" or status != _TOO_MANY:
        return found
    quotas = [str(violation.get("quotaId") or "") for detail in _details(error) for violation in _mappings(detail.get("violations"))]
    spent = any(_SPENT.search(text) for text in (words, *quotas))
    return ProviderError(found.message, kind="rate_limit", transient=not spent)


def _error(content: Any) -> Mapping[str, Any] | None:
    if isinstance(content, list) and content:
        content = content[0]
    error = content.get("error") if isinstance(content, Mapping) else None
    if isinstance(error, str) and error:
        return {"message": error}
    return error if isinstance(error, Mapping) and error else None


def _details(error: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return _mappings(error.get("details"))


def _mappings(values: Any) -> Iterable[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []
