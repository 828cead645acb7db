"""Errors as OpenAI and the servers like it write them: with a status, or inside of an answer that is good by its status.

Owns where the words and the code stand. Must not know requests.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from engine.errors import ProviderError
from engine.providers.refusals import refused

_STATUS_OF: Final[Mapping[str, int]] = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "permission_denied": 403,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "tokens": 429,
    "requests": 429,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "bad_request": 400,
    "not_found_error": 404,
    "model_not_found": 404,
    "timeout": 504,
    "overloaded_error": 503,
    "overloaded": 503,
    "server_error": 500,
    "api_error": 500,
    "internal_server_error": 500,
}
"""The status that an error without one stands for, by its code or type."""


def refusal_of(status: int, body: bytes) -> ProviderError:
    """Return what a status other than 2xx means, with the words that the body has."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return refused(status, body[:4096].decode("utf-8", "replace"))
    words, codes = _read(content)
    return refused(status, words or json.dumps(content)[:4096], code=next(iter(codes), ""))


def said_error(body: Any) -> ProviderError | None:
    """Return the error that an answer of status 200, or an event of a stream, holds; None when it holds none."""
    if not isinstance(body, dict) or not (body.get("error") or body.get("object") == "error"):
        return None
    words, codes = _read(body)
    status = next((_STATUS_OF[code] for code in codes if code in _STATUS_OF), None)
    if status is None:
        status = next((int(code) for code in codes if code.isdecimal() and 400 <= int(code) < 600), 500)  # noqa: PLR2004 - statuses of HTTP
    return refused(status, words or "an error without words", code=next(iter(codes), ""))


def _read(content: Any) -> tuple[str, list[str]]:
    """Return an error's words, and its codes, the narrowest first."""
    if isinstance(content, list) and content:
        content = content[0]
    if not isinstance(content, dict):
        return (content, []) if isinstance(content, str) else ("", [])
    error = content.get("error") or content
    if not isinstance(error, dict):
        return str(error), []
    detail = error.get("metadata")
    raw = detail.get("raw") if isinstance(detail, dict) else None
    words = error.get("message") or error.get("detail") or error.get("msg") or ""
    said = words if isinstance(words, str) else json.dumps(words)
    if isinstance(raw, str) and raw and raw not in said:
        said = f"{said}: {raw}"
    return said, [str(error[key]) for key in ("code", "type", "status") if error.get(key)]
