"""The JSON object that a request carries: read within limits, and only if everything behind can hold it.

Owns the limits of a body. Must not know what the object means.
"""

import asyncio
import json
from typing import Any

from starlette.requests import Request

from reconcile.errors import FieldError, Invalid

MAX_BODY_BYTES = 3 * 1024 * 1024
MAX_BODY_S = 60.0
MAX_DEPTH = 100
"""How deep objects and lists may be nested. Deeper ones exhaust Python's stack when they are copied; no kind needs a quarter of it."""


async def read_object(request: Request, *, empty: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the JSON object of a request's body; `empty`, if given, for no body at all.

    Raises:
        Invalid: it is too large, too slow, nested too deeply, no JSON object, or holds half a character (a lone surrogate), which no store can write.
    """
    try:
        async with asyncio.timeout(MAX_BODY_S):
            data = await _read(request)
    except TimeoutError as error:
        raise _refused(f"did not come within {MAX_BODY_S:g} s") from error
    if not data and empty is not None:
        return empty
    try:
        body = json.loads(data)
        json.dumps(body, ensure_ascii=False).encode()
    except RecursionError as error:
        raise _refused(f"is nested deeper than {MAX_DEPTH} levels") from error
    except UnicodeError as error:
        raise _refused("is not UTF-8 text") from error
    except ValueError as error:
        raise _refused(f"is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise _refused("is not a JSON object")
    if data.count(b"{") + data.count(b"[") > MAX_DEPTH and _is_deep(body):
        raise _refused(f"is nested deeper than {MAX_DEPTH} levels")
    return body


async def _read(request: Request) -> bytes:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY_BYTES:
            raise _refused(f"is larger than {MAX_BODY_BYTES} bytes")
    return data


def _is_deep(body: dict[str, Any]) -> bool:
    level: list[Any] = [body]
    for _ in range(MAX_DEPTH):
        inner = [value for part in level for value in (part.values() if isinstance(part, dict) else part)]
        level = [value for value in inner if isinstance(value, dict | list)]
        if not level:
            return False
    return True


def _refused(cause: str) -> Invalid:
    return Invalid([FieldError("", f"the body {cause}")])
