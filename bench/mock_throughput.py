"""Mock items per second, CPU an item, start-up and memory of `arena eval` and of runs through the queue, beside inspect_ai and promptfoo in one run.

    python -m bench.mock_throughput [--items 1000] [--repeat 5] [--arena .venv/bin/arena] [--only NAME] [--no-queue]

One item is one turn, one check of the turn, one of the conversation. Peers install themselves into bench/out/; one that cannot be had is named
and left out. Rates are net of start-up: (items - 1) / (wall of all - wall of one), medians of `--repeat` runs, runners taking turns. A run through the
queue is one of `arena up` with two worker processes; the CPU time is that of workers, the queue's server and the server with its controllers, each by
itself. Exit 1 when we miss a bar.
"""

import argparse
import shlex
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.installing import obtainable
from bench.peers.measure import CommandFailed, Measured
from bench.peers.runners import Runner, arena, inspect_ai, promptfoo, run_once
from bench.queue_runs import QueueRuns, QueueScores

OUT = Path(__file__).parent / "out"
START_UP_BAR_S = 0.4
START_UP_ITEMS = 13
MEMORY_BAR_BYTES = 100 * 10**6
CPU_BAR_MS = 1.0
FLAT_ITEMS = 10_000
FLATNESS_BAR = 1.15


@dataclass(frozen=True, slots=True)
class Score:
    """Medians of one runner."""

    name: str
    start_s: float
    items_per_s: float
    cpu_ms: float
    peak_bytes: int


def median_of(runs: Sequence[Measured], value: Callable[[Measured], float]) -> float:
    """Return the median of `value` over `runs`."""
    return statistics.median(value(run) for run in runs)


def scores(runners: Sequence[Runner], items: int, repeat: int, beside: Callable[[], object]) -> list[Score]:
    """Measure all runners in turns, so that a noisy minute hits all alike, after one turn that fills caches; a runner that fails is named and left out.

    `beside` is called once a turn: what else takes part.
    """
    small: dict[str, list[Measured]] = {runner.name: [] for runner in runners}
    large: dict[str, list[Measured]] = {runner.name: [] for runner in runners}
    for turn in range(-1, repeat):
        for runner in runners:
            try:
                one, many = run_once(runner, 1), run_once(runner, items if turn >= 0 else 2)
            except CommandFailed as error:
                print(f"skipped: {runner.name}: {error}")
                continue
            if turn >= 0:
                small[runner.name].append(one)
                large[runner.name].append(many)
        if turn >= 0:
            beside()
    return [_score(runner.name, small[runner.name], large[runner.name], items) for runner in runners if small[runner.name]]


def _score(name: str, small: list[Measured], large: list[Measured], items: int) -> Score:
    start_s = median_of(small, lambda run: run.wall_s)
    wall_s = median_of(large, lambda run: run.wall_s) - start_s
    cpu_s = median_of(large, lambda run: run.cpu_s) - median_of(small, lambda run: run.cpu_s)
    return Score(
        name=name,
        start_s=start_s,
        items_per_s=(items - 1) / max(wall_s, 1e-9),
        cpu_ms=1000 * cpu_s / (items - 1),
        peak_bytes=round(median_of(large, lambda run: run.peak_bytes)),
    )


def print_scores(rows: Sequence[Score]) -> None:
    """Print a line a runner, with ratios to ours, which is the first."""
    ours = rows[0]
    print(f"{'runner':<20} {'start-up':>9} {'items/s':>9} {'CPU/item':>9} {'peak':>7}   arena is")
    for row in rows:
        ratio = (
            "" if row is ours else f"{ours.items_per_s / row.items_per_s:.1f} times as fast, {row.cpu_ms / max(ours.cpu_ms, 1e-6):.1f} times less CPU"
        )
        print(f"{row.name:<20} {row.start_s:>7.2f} s {row.items_per_s:>9.0f} {row.cpu_ms:>6.2f} ms {row.peak_bytes / 1e6:>4.0f} MB   {ratio}")


def bars(ours: Runner, score: Score, repeat: int) -> bool:
    """Print start-up and memory against their bars; return whether all are met."""
    start = median_of([run_once(ours, START_UP_ITEMS) for _ in range(max(repeat, 5))], lambda run: run.wall_s)
    peak = run_once(ours, FLAT_ITEMS).peak_bytes
    growth = peak / score.peak_bytes
    checks = [
        (f"start-up with {START_UP_ITEMS} items: {start:.3f} s (bar {START_UP_BAR_S} s)", start <= START_UP_BAR_S),
        (f"CPU an item: {score.cpu_ms:.2f} ms (bar {CPU_BAR_MS} ms)", score.cpu_ms <= CPU_BAR_MS),
        (f"peak memory at {FLAT_ITEMS} items: {peak / 1e6:.0f} MB (bar {MEMORY_BAR_BYTES / 1e6:.0f} MB)", peak <= MEMORY_BAR_BYTES),
        (f"memory growth to {FLAT_ITEMS} items: {growth:.2f} times (bar {FLATNESS_BAR})", growth <= FLATNESS_BAR),
    ]
    for text, met in checks:
        print(f"{'ok  ' if met else 'MISS'} {text}")
    return all(met for _, met in checks)


def compared(options: argparse.Namespace, beside: Callable[[], object]) -> bool:
    """Print the comparison of `arena eval` with its peers; return whether it meets its bars."""
    ours = arena(tuple(shlex.split(options.arena)))
    rows = scores([ours, *obtainable((inspect_ai, promptfoo), OUT, options.only)], options.items, options.repeat, beside)
    if not rows or rows[0].name != ours.name:
        print("error: arena eval itself could not be measured")
        return False
    print_scores(rows)
    return bars(ours, rows[0], options.repeat)


def main() -> int:
    """Run the comparison; return 0 when all bars are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--arena", default=str(Path(sys.executable).with_name("arena")), help="the command that starts arena")
    parser.add_argument("--only", help="only peers whose name contains this; 'none' for no peer")
    parser.add_argument("--no-queue", action="store_true", help="leave the runs through the queue out")
    options = parser.parse_args()
    if options.no_queue:
        return 0 if compared(options, lambda: None) else 1
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as name:
        runs = QueueRuns(Path(name))
        try:
            runs.start()
            queue = QueueScores(runs, (options.items, FLAT_ITEMS))
            met = compared(options, queue.take_turn)
            return 0 if queue.report() and met else 1
        except CommandFailed as error:
            print(f"error: {error}")
            return 1
        finally:
            runs.stop()


if __name__ == "__main__":
    sys.exit(main())
