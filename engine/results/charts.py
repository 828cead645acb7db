"""The geometry of the report page's plots: shares of a width from 0 to 100, and what stands beside them.

Pure: from summary.json's numbers and a list of latencies to values that the page's template draws as SVG. Must not know HTML.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_BINS = 24
_DECADE = 10.0


@dataclass(frozen=True, slots=True)
class Whisker:
    """A pass rate with its interval, as places from 0 to 100; `text` says it in words."""

    label: str
    low: float
    value: float
    high: float
    text: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A value beside others: its share of the largest, from 0 to 100."""

    label: str
    share: float
    text: str


@dataclass(frozen=True, slots=True)
class Bin:
    """One column of a histogram: where it begins and how wide it is (0 to 100 of the axis), how high (0 to 100 of the highest), what it counts."""

    x: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """Columns over a logarithmic axis, and the axis' marks as (place from 0 to 100, text)."""

    bins: tuple[Bin, ...]
    marks: tuple[tuple[float, str], ...]
    count: int


def whiskers(groups: Iterable[Mapping[str, Any]], label: str) -> list[Whisker]:
    """Return the pass rates of summary.json's `scenarios`, `providers` or `cells`; groups of which nothing was executed are left out."""
    found = []
    for group in groups:
        rate = group["passRate"]
        if rate["value"] is None:
            continue
        low, value, high = (100 * rate[key] for key in ("low", "value", "high"))
        executed = group["passed"] + group["failed"] + group["errors"]
        found.append(Whisker(group[label], low, value, high, f"{value:.1f} % ({low:.1f} to {high:.1f}), {group['passed']} of {executed}"))
    return found


def bars(values: Sequence[tuple[str, float | None, str]]) -> list[Bar]:
    """Return a bar for each (label, value, text); unknown values are left out, as they are not zero."""
    known = [(label, value, text) for label, value, text in values if value is not None]
    largest = max((value for _, value, _ in known), default=0.0)
    return [Bar(label, 100 * value / largest if largest > 0 else 0.0, text) for label, value, text in known]


def histogram(values_ms: Sequence[float]) -> Histogram | None:
    """Return how positive durations are spread, over whole decades; None without one."""
    positive = [value for value in values_ms if value > 0 and math.isfinite(value)]
    if not positive:
        return None
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    high = max(high, low + 1)
    counts = [0] * _BINS
    for value in positive:
        counts[min(_BINS - 1, int(_BINS * (math.log10(value) - low) / (high - low)))] += 1
    highest, width = max(counts), 100 / _BINS
    edges = [_DECADE ** (low + (high - low) * place / _BINS) for place in range(_BINS + 1)]
    return Histogram(
        tuple(
            Bin(width * i, width, 100 * count / highest, f"{count} from {duration(edges[i])} to {duration(edges[i + 1])}")
            for i, count in enumerate(counts)
            if count
        ),
        tuple((100 * (decade - low) / (high - low), duration(_DECADE**decade)) for decade in range(low, high + 1)),
        len(positive),
    )


def duration(value_ms: float) -> str:
    """Return a duration for people, with the unit that fits."""
    if value_ms >= 60_000:  # noqa: PLR2004 - a minute
        return f"{value_ms / 60_000:.3g} min"
    if value_ms >= 1000:  # noqa: PLR2004 - a second
        return f"{value_ms / 1000:.3g} s"
    return f"{value_ms:.3g} ms" if value_ms >= 1 else f"{1000 * value_ms:.3g} µs"
