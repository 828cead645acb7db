"""How long a provider asks to wait, in each form that vendors have for that.

Pure. Must not know what is made of the wish: refusals.py, retry.py and limits.py.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

_LONGEST_BODY = 16_384
"""How much of an error's body is looked at."""

_EPOCH_S, _EPOCH_MS = 1e8, 1e11
"""From here on a number is no duration but a moment: seconds, or milliseconds, since 1970."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?\Z")
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+\Z")
_SPAN_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|seconds?|secs?|s|minutes?|mins?|m|hours?|h|d)(?![a-z])")
_IN_WORDS = re.compile(
    r"(?:try again|retry) (?:in|after) ((?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|seconds?|secs?|minutes?|mins?|hours?|[smhd])(?![a-z])\s*)+)"
)
_UNITS = {"ms": 1e-3, "mil": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_IN_MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms")
_RESETS = re.compile(r"(?:x-ratelimit-reset|ratelimit-reset|anthropic-ratelimit)(?:-[a-z-]+)?\Z")


def retry_after_s(headers: Mapping[str, str], body: bytes, now: datetime) -> float | None:
    """Return how long the provider asks to wait before the next request, in seconds from `now` (0 or more); None when it does not say.

    The first of these that can be read: `retry-after-ms`; `Retry-After` in seconds or as an HTTP date; what the body says (Google's `retryDelay`, "try again
    in 1.2s"); the headers that tell when a limit is whole again (`x-ratelimit-reset-*`, `anthropic-ratelimit-*-reset`), as a span, a number of seconds or a
    moment. Of those, only a limit of which nothing remains counts, and the last of several. Header names may be in any case. Never raises.
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    candidates = (_milliseconds(lower), _after(lower.get("retry-after", ""), now), _said(body), _resets(lower, now))
    return next((max(0.0, found) for found in candidates if found is not None and math.isfinite(found)), None)


def _milliseconds(headers: Mapping[str, str]) -> float | None:
    texts = (headers.get(name, "") for name in _IN_MILLISECONDS)
    return next((float(text) / 1000 for text in texts if _NUMBER.match(text)), None)


def _after(text: str, now: datetime) -> float | None:
    """Read a value of Retry-After (RFC 9110, 10.2.3), or of a reset, which may be a moment as well."""
    if _NUMBER.match(text):
        number = float(text)
        if number >= _EPOCH_S:
            return number / (1000 if number >= _EPOCH_MS else 1) - now.timestamp()
        return number
    if _SPAN.match(text):
        return _span_s(text)
    return _until(text, now)


def _until(text: str, now: datetime) -> float | None:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except (ValueError, TypeError, OverflowError):
            continue
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds()
    return None


def _span_s(text: str) -> float:
    """Read `1s`, `6m0s`, `20ms`, `1 minute 30 seconds`."""
    return sum(float(number) * _unit(unit) for number, unit in _SPAN_PART.findall(text))


def _unit(word: str) -> float:
    return _UNITS.get(word) or _UNITS["mil" if word.startswith("mil") else word[0]]


def _said(body: bytes) -> float | None:
    start = body[:_LONGEST_BODY]
    if b"retryDelay" in start:
        try:
            delays = [text for text in _delays(json.loads(body)) if _SPAN.match(text)]
        except (ValueError, RecursionError):
            delays = []
        if delays:
            return _span_s(delays[0])
    found = _IN_WORDS.search(start.decode("utf-8", "replace").lower())
    return _span_s(found[1]) if found else None


def _delays(value: Any) -> Iterator[str]:
    """Yield the texts of all `retryDelay` in a JSON value (google.rpc.RetryInfo)."""
    if isinstance(value, dict):
        if isinstance(value.get("retryDelay"), str):
            yield value["retryDelay"]
        for entry in value.values():
            yield from _delays(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _delays(entry)


def _resets(headers: Mapping[str, str], now: datetime) -> float | None:
    waits = []
    for name, text in headers.items():
        if "reset" not in name or not _RESETS.match(name):
            continue
        remaining = headers.get(name.replace("reset", "remaining"), "0")
        wait = _after(text, now) if _NUMBER.match(remaining) and float(remaining) == 0 else None
        if wait is not None:
            waits.append(wait)
    return max(waits, default=None)
