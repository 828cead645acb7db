"""Distributions that merge: exact sums, and quantiles within one percent.

A sketch counts values in logarithmic buckets (DDSketch: Masson, Rim, Lee, VLDB 2019) and merges by adding counts, so any order and any
split of the same values gives the same sketch. Must not know what is measured.
"""

import math

RELATIVE_ERROR = 0.01
"""A quantile differs from the value at its rank by at most this share of that value."""

_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG_GAMMA = math.log(_GAMMA)
_MIDDLE = 2 / (_GAMMA + 1)
_SMALLEST = 1e-9
_SCALE_BITS = 1074
_RANK_DIGITS = 9
"""A rank is rounded to so many, since 0.07 * 100 is a little more than 7."""


def bucket_of(value: float) -> int:
    """Return the number of the log bucket that holds a positive `value`."""
    return math.ceil(math.log(value) / _LOG_GAMMA)


class ExactSum:
    """A sum of floats without rounding, so that it does not depend on their order.

    Every finite double is a whole multiple of 2**-1074; the multiples are added as one integer and rounded once, in `value`.
    """

    __slots__ = ("multiple",)

    def __init__(self) -> None:
        self.multiple = 0

    def add(self, value: float) -> None:
        """Add a finite `value`; others are ignored."""
        if value and math.isfinite(value):
            numerator, denominator = value.as_integer_ratio()
            self.multiple += numerator << (_SCALE_BITS + 1 - denominator.bit_length())

    def merge(self, other: "ExactSum") -> None:
        """Add all that `other` was given."""
        self.multiple += other.multiple

    @property
    def value(self) -> float:
        """Return the nearest float."""
        return self.multiple / (1 << _SCALE_BITS)


class Sketch:
    """Count non-negative values; answer mean, extremes (exact) and quantiles (within `RELATIVE_ERROR`).

    Values under 1e-9 count as zero. About 4 KB for values over six decades.
    """

    __slots__ = ("buckets", "count", "high", "low", "total", "zeros")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.total = ExactSum()
        self.zeros = 0
        self.count = 0
        self.low = math.inf
        self.high = 0.0

    def add(self, value: float) -> None:
        """Count `value`; a negative one counts as zero, NaN and infinity are ignored."""
        if not math.isfinite(value):
            return
        value = max(0.0, value)
        self.count += 1
        self.total.add(value)
        self.low = min(self.low, value)
        self.high = max(self.high, value)
        if value < _SMALLEST:
            self.zeros += 1
            return
        bucket = bucket_of(value)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1

    def merge(self, other: "Sketch") -> None:
        """Count all that `other` counted."""
        for bucket, count in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count
        self.total.merge(other.total)
        self.zeros += other.zeros
        self.count += other.count
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)

    @property
    def mean(self) -> float | None:
        """Return the exact mean, None without values."""
        return self.total.value / self.count if self.count else None

    def quantile(self, share: float) -> float | None:
        """Return the least value that `share` (0 to 1) of all values do not exceed (the nearest rank), None without values.

        So the 99th percentile of a few values is the greatest of them, and never one that a third of them exceed.
        """
        if not self.count:
            return None
        rank = max(1, math.ceil(round(share * self.count, _RANK_DIGITS))) - 1
        seen = self.zeros
        if rank < seen:
            return 0.0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if rank < seen:
                return min(max(_MIDDLE * _GAMMA**bucket, self.low), self.high)
        return self.high
