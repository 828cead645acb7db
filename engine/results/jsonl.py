"""JSON on one line: valid UTF-8 and valid JSON whatever a model, a tool or a check put into a value.

Owns the byte form of result lines, records and summaries. Must not know what they contain.
"""

import json
import math
from datetime import UTC, datetime
from typing import Any

_MAX_DEPTH = 100


def encode(value: Any) -> bytes:
    """Return `value` as compact UTF-8 JSON without a line end.

    What JSON or UTF-8 cannot say is replaced and never raised: NaN and infinities by null, lone surrogates by U+FFFD, nesting beyond 100
    levels by an ellipsis, objects of other types by their `str`.
    """
    try:
        return _compact(value).encode()
    except (TypeError, ValueError, RecursionError):  # UnicodeEncodeError is a ValueError
        return _compact(_plain(value, 0)).encode()


def timestamp(moment: datetime) -> str:
    """Return an aware `moment` in UTC as RFC 3339 with milliseconds and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def whole_text(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD, so that it has a UTF-8 form."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, dict | list | tuple | set | frozenset):
        return _plain_container(value, depth) if depth < _MAX_DEPTH else "…"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else whole_text(str(value))


def _plain_container(value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        return {whole_text(str(key)): _plain(entry, depth + 1) for key, entry in value.items()}
    return [_plain(entry, depth + 1) for entry in value]
