"""How specs write lengths of time, sizes and decimals: Go durations, Kubernetes quantities, decimal strings.

Pure functions over strings; knows no kind.
"""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

DURATION_PATTERN: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
"""A duration above or equal to zero as CEL's `duration()` reads it too: `10m`, `1h30m`, `500ms`."""
QUANTITY_PATTERN: Final = r"^[0-9]+([KMGT]i?|k)?$"
"""A size in bytes with an optional binary (`Mi`) or decimal (`M`) suffix."""
DECIMAL_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?$"
"""A bare decimal: no sign, currency or exponent."""

_UNITS_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_QUANTITY: Final = re.compile(r"([0-9]+)(Ki|Mi|Gi|Ti|k|K|M|G|T)?", re.ASCII)
_SCALE: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_LONGEST_S: Final = 2**63 / 1e9  # Go counts nanoseconds in 64 bits: 292 years


def parse_duration(text: str) -> timedelta:
    """Read a duration as Go's `time.ParseDuration` does, sign included.

    Raises:
        ValueError: not a duration, or longer than 292 years; the message says what one looks like.
    """
    body = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if body == "0":
        return timedelta()
    position = 0
    seconds = 0.0
    while match := _PART.match(body, position):
        seconds += float(match[1]) * _UNITS_S[match[2]]
        position = match.end()
    if position == 0 or position != len(body) or seconds >= _LONGEST_S:
        raise ValueError(f"not a duration: {text!r}; write a number and a unit, such as 30s, 10m or 1h30m")
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)


def parse_quantity(value: str | int) -> int:
    """Read a size in bytes: `536870912`, `512Mi` (2**20), `512M` (10**6).

    Raises:
        ValueError: not a size, or below zero.
    """
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        raise ValueError(f"not a size: {value!r}; write bytes or a number with Ki, Mi, Gi, k, M or G, such as 512Mi")
    return int(match[1]) * _SCALE[match[2] or ""]


def parse_decimal(text: str) -> Decimal:
    """Read a bare decimal, exactly.

    Raises:
        ValueError: a sign, a currency, an exponent, or no number at all.
    """
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text, re.ASCII) is None:
        raise ValueError(f"not a decimal: {text!r}; write digits with at most one point, such as 0.95")
    return Decimal(text)
