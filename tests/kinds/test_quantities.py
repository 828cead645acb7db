"""How specs write lengths of time, sizes and decimals."""

from datetime import timedelta
from decimal import Decimal

import pytest
import re2

from reconcile.kinds.quantities import DURATION_PATTERN, QUANTITY_PATTERN, parse_decimal, parse_duration, parse_quantity


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("1h30m", 5400), ("500ms", 0.5), ("1.5s", 1.5), ("0", 0), ("0s", 0), ("-5m", -300), ("+5m", 300), (".5s", 0.5), ("10us", 1e-5)],
)
def test_durations(text: str, seconds: float) -> None:
    """A duration is read as Go's time.ParseDuration reads it."""
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "10 m", "10m ", "1d", "m", "-", "1h-5m", "5m\n", "٣m", "9999999h", "1.2.3s"])
def test_no_durations(text: str) -> None:
    """Anything else is refused, with what a duration looks like."""
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "size"), [("512Mi", 2**29), ("1Gi", 2**30), ("10k", 10_000), ("7M", 7_000_000), ("42", 42), (42, 42), ("0", 0)])
def test_sizes(text: str | int, size: int) -> None:
    """A size is bytes, with Kubernetes' binary and decimal suffixes."""
    assert parse_quantity(text) == size


@pytest.mark.parametrize("text", ["", "-1", -1, "1.5Gi", "5 Mi", "5mi", "5MiB", "5\n", "٣"])
def test_no_sizes(text: str | int) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="not a size"):
        parse_quantity(text)


def test_decimals() -> None:
    """A decimal is exact and bare."""
    assert parse_decimal("0.10") == Decimal("0.10")
    for text in ("", "-1", "+1", "1e3", "$5", "1.", ".5", "1,5", "1\n"):
        with pytest.raises(ValueError, match="not a decimal"):
            parse_decimal(text)


@pytest.mark.parametrize("text", ["10m", "1h30m", "500ms", "1.5s", "0s"])
def test_the_durations_pattern_takes_what_can_be_parsed(text: str) -> None:
    """What the schema's pattern takes, both we and CEL can read."""
    assert re2.search(DURATION_PATTERN, text)
    assert parse_duration(text) >= timedelta()


@pytest.mark.parametrize("text", ["512Mi", "10k", "42", "5K", "5Ki", "1T"])
def test_the_quantity_pattern_takes_what_can_be_parsed(text: str) -> None:
    """What the schema's pattern takes can be read."""
    assert re2.search(QUANTITY_PATTERN, text)
    assert parse_quantity(text) > 0
