"""When a quantity of a steady installation counts as flat: a robust slope, and a bar for each quantity.

Owns the bars. Pure: series in, verdicts out. What the three rules mean says the docstring of `bench.steady`.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

MIB, KIB = 2**20, 2**10
DAY_H = 24.0
LOG_H = 1.0 + 2 * 10 / 60
"""A worker's log goes at the first look, one every ten minutes, that finds its run gone for an hour."""


@dataclass(frozen=True, slots=True)
class Series:
    """One quantity over time; `hours` and `values` are of equal length."""

    hours: Sequence[float]
    values: Sequence[float]

    @property
    def median(self) -> float:
        """Return the median value."""
        return statistics.median(self.values)

    def slope(self) -> float:
        """Return the growth an hour by Theil and Sen: the median of the slopes of all pairs (Sen, JASA 63, 1968); a third of the samples may be wild."""
        points = list(zip(self.hours, self.values, strict=True))
        return statistics.median((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 > x1)


@dataclass(frozen=True, slots=True)
class Quantity:
    """One row of the table.

    `bar` is, for `flat`, the share of the median that the slope may have an hour, at least `least` in the quantity's unit; for `lasting`, what it may
    come to, with `lasts_h` the hours that one push's share is kept (0: its owner bounds it by size, and its greatest value is judged); for `growing`,
    what one push may add. `unit` divides values for the table.
    """

    name: str
    words: str
    rule: Literal["flat", "lasting", "growing"]
    bar: float
    least: float = 0.0
    lasts_h: float = 0.0
    unit: float = 1.0


def _memory(name: str, words: str) -> Quantity:
    return Quantity(name, f"{words}, MiB", "flat", 0.03, least=MIB, unit=MIB)


def _count(name: str, words: str) -> Quantity:
    return Quantity(name, words, "flat", 0.02, least=1.0)


def _disk(name: str, words: str) -> Quantity:
    return Quantity(name, f"{words}, MiB", "flat", 0.05, least=MIB / 4, unit=MIB)


QUANTITIES = (
    _memory("server.rss", "server: resident"),
    _memory("server.pss", "server: proportional"),
    _count("server.files", "server: open files"),
    _count("server.threads", "server: threads"),
    _memory("queue.rss", "queue server: resident"),
    _memory("queue.pss", "queue server: proportional"),
    _count("queue.files", "queue server: open files"),
    _count("queue.threads", "queue server: threads"),
    _count("waiting.processes", "processes beside them, at rest"),
    _memory("waiting.pss", "their memory, proportional"),
    _count("waiting.files", "their open files"),
    _memory("worker.rss", "worker at work: resident"),
    _disk("disk.snapshots", "disk: snapshots"),
    _disk("disk.runs", "disk: runs"),
    _disk("disk.processes", "disk: process records"),
    _disk("disk.other", "disk: everything else"),
    Quantity("disk.queue", "disk: queue's append-only file, MiB", "lasting", 160 * MIB, unit=MIB),
    Quantity("disk.store", "disk: store with its changes, MiB", "lasting", 192 * MIB, unit=MIB),
    Quantity("disk.logs", "disk: worker logs, MiB", "lasting", 16 * MIB, lasts_h=LOG_H, unit=MIB),
    Quantity("disk.summaries", "disk: summaries of pruned runs, MiB", "lasting", 72 * MIB, unit=MIB),
    Quantity("disk.repositories", "disk: repositories, KiB", "growing", 8 * KIB, unit=KIB),
    _count("redis.keys", "redis: keys of runs"),
    _count("redis.marks", "redis: marks of settled runs"),
    Quantity("redis.memory", "redis: memory, MiB", "flat", 0.05, least=MIB / 8, unit=MIB),
    _count("store.runs", "store: ArenaRuns"),
    _count("store.jobs", "store: Jobs"),
    _count("store.others", "store: other objects"),
    Quantity("store.events", "store: Events", "lasting", 120_000, lasts_h=DAY_H),
    Quantity("store.changes", "store: changes to resume from", "lasting", 21_000),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A row judged: the figure that the rule looks at, and its bar."""

    figure: float
    bar: float

    @property
    def kept(self) -> bool:
        """Say whether the bar is kept."""
        return self.figure <= self.bar


def judge(quantity: Quantity, series: Series, pushes_an_hour: float) -> Verdict:
    """Return what a quantity's rule says of its series."""
    slope = series.slope()
    if quantity.rule == "flat":
        return Verdict(slope, max(quantity.bar * series.median, quantity.least))
    if quantity.rule == "growing":
        return Verdict(slope / pushes_an_hour, quantity.bar)
    if not quantity.lasts_h:
        return Verdict(max(series.values), quantity.bar)
    begun = statistics.median(series.values) - slope * statistics.median(series.hours)  # what does not go, by the line's beginning
    return Verdict(max(begun, 0.0) + max(slope, 0.0) * quantity.lasts_h, quantity.bar)


def judge_all(series: Mapping[str, Series], *, pushes_an_hour: float) -> bool:
    """Print a line a quantity; say whether all bars are kept."""
    print(f"       {'quantity':<38} {'median':>10} {'an hour':>10} {'a push':>10}   judged by")
    good = True
    for quantity in QUANTITIES:
        one = series[quantity.name]
        verdict = judge(quantity, one, pushes_an_hour)
        good = good and verdict.kept
        slope = one.slope()
        numbers = f"{one.median / quantity.unit:>10,.2f} {slope / quantity.unit:>+10,.2f} {slope / pushes_an_hour / quantity.unit:>+10,.4f}"
        print(f"{'ok    ' if verdict.kept else 'MISSED'} {quantity.words:<38} {numbers}   {_judgement(quantity, verdict)}")
    _print_cpu(series, pushes_an_hour)
    return good


def _judgement(quantity: Quantity, verdict: Verdict) -> str:
    figure, bar = verdict.figure / quantity.unit, verdict.bar / quantity.unit
    if quantity.rule == "flat":
        return f"flat: {figure:+,.2f} an hour (at most {bar:,.2f})"
    if quantity.rule == "growing":
        return f"growing by nature: {figure:+,.2f} a push (at most {bar:,.2f})"
    if quantity.lasts_h:
        return f"kept for {quantity.lasts_h:.3g} h: comes to {figure:,.1f} (at most {bar:,.0f})"
    return f"bounded by size: {figure:,.1f} at most so far (at most {bar:,.0f})"


def _print_cpu(series: Mapping[str, Series], pushes_an_hour: float) -> None:
    """Print what a push costs in the first and in the last half, which no leak of work would leave alike."""
    for name in ("server.cpu", "queue.cpu"):
        values, hours = series[name].values, series[name].hours
        middle = len(values) // 2
        halves = [(values[b] - values[a]) / ((hours[b] - hours[a]) * pushes_an_hour) for a, b in ((0, middle), (middle, len(values) - 1))]
        print(f"       {name.replace('.', ': ')}, ms a push: {1000 * halves[0]:.0f} in the first half, {1000 * halves[1]:.0f} in the second")
