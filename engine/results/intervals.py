"""How sure a pass rate is, and how steady.

Formulas only: no items, no records. Each function names its source.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

WILSON = "wilson"
WILSON_CLUSTERED = "wilson-clustered"
_LEAST_FREEDOM = 4


@dataclass(frozen=True, slots=True)
class Interval:
    """A pass rate with its two-sided interval, all 0 to 1; all None when nothing was counted.

    `method` is `wilson`, or `wilson-clustered` when repeated trials of one scenario made the sample effectively smaller.
    """

    value: float | None
    low: float | None
    high: float | None
    confidence: float
    method: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """Passed among counted items of one scenario."""

    passed: int
    count: int


def pass_rate(clusters: Sequence[Cluster], confidence: float = 0.95) -> Interval:
    """Return the pass rate over all `clusters` with its Wilson interval.

    Trials of one scenario are correlated, so counting each as independent is far too sure (measured: a nominal 95 % interval over 20 scenarios
    of 10 trials covers 64 %). With more than one scenario and any of them repeated, the interval uses the effective sample size and Student's t
    with `scenarios - 1` degrees of freedom (at least 4: below that t over-covers by far, 4 covers 89 to 99 % from two scenarios on).
    With a single scenario the interval speaks of that scenario alone and its trials count in full.
    """
    used = [cluster for cluster in clusters if cluster.count]
    count = sum(cluster.count for cluster in used)
    if not count:
        return Interval(None, None, None, confidence, WILSON)
    rate = sum(cluster.passed for cluster in used) / count
    if len(used) in {1, count}:
        low, high = wilson(rate, count, normal_quantile(confidence))
        return Interval(rate, low, high, confidence, WILSON)
    freedom = max(len(used) - 1, _LEAST_FREEDOM)
    low, high = wilson(rate, effective_size(used), student_quantile(confidence, freedom))
    return Interval(rate, low, high, confidence, WILSON_CLUSTERED)


def effective_size(clusters: Sequence[Cluster]) -> float:
    """Return how many independent items say as much as these clustered ones: from the number of clusters to the number of items.

    n_eff = p (1 - p) / SE², SE² = G / (G - 1) · Σ_c (k_c - p n_c)² / n² (clustered standard error: Miller 2024, arXiv 2411.00640, section 2.2).
    When all pass or all fail, the spread is unknown and the answer is the number of clusters G.
    """
    groups, count = len(clusters), sum(cluster.count for cluster in clusters)
    rate = sum(cluster.passed for cluster in clusters) / count
    if groups == 1 or rate in {0.0, 1.0}:
        return float(groups)
    spread = sum((cluster.passed - rate * cluster.count) ** 2 for cluster in clusters)
    squared_error = groups / (groups - 1) * spread / count**2
    return min(float(count), max(float(groups), rate * (1 - rate) / squared_error)) if squared_error else float(count)


def wilson(rate: float, size: float, quantile: float) -> tuple[float, float]:
    """Return the Wilson score interval of `rate` seen in `size` trials (Wilson 1927, JASA 22:209). `size` need not be whole."""
    square = quantile * quantile
    scale = 1 + square / size
    middle = (rate + square / (2 * size)) / scale
    half = quantile / scale * math.sqrt(rate * (1 - rate) / size + square / (4 * size * size))
    low = 0.0 if rate == 0 else max(0.0, middle - half)
    high = 1.0 if rate == 1 else min(1.0, middle + half)
    return low, high


def normal_quantile(confidence: float) -> float:
    """Return z such that a standard normal lies within ±z with probability `confidence` (0 to 1, exclusive)."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def student_quantile(confidence: float, freedom: int) -> float:
    """Return t such that Student's t with `freedom` (4 or more) degrees lies within ±t with probability `confidence`.

    Expansion in 1/freedom: Abramowitz and Stegun 26.7.5; within 0.1 % up to 98 % confidence.
    """
    z = normal_quantile(confidence)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / float(freedom) ** power for power, term in enumerate(terms))


def flakiness(passed: int, failed: int) -> float | None:
    """Return 1 - |2p - 1|: 0 when every trial ended alike, 1 when half passed; None under two trials, which cannot tell.

    Errors are no trials here: an outage does not make a scenario flaky.
    """
    count = passed + failed
    return None if count <= 1 else 1 - abs(2 * passed / count - 1)
