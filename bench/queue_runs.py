"""Runs of mock items through everything: `arena up`, its queue, worker processes; and what each kind of process spends on them.

Owns one installation, how its processes' CPU time and memory are read, and the bars of a run. Who else is measured is `mock_throughput.py`'s.
"""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.installation import NAMESPACE, BenchFailed, Installation, await_repository, ensure
from bench.peers.measure import CommandFailed
from bench.peers.runners import CONCURRENCY, arena_bundle
from reconcile.arena_run import finished
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN

if TYPE_CHECKING:
    from arena.cli.client import Client

PROJECT = "throughput"
SCENARIOS = 10
WORKERS = 2
LONGEST_S = 300.0
STEP_S = 0.1
CPU_BAR_MS = 1.5
MEMORY_BAR_BYTES = 100 * 10**6
FLATNESS_BAR = 1.15
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of CPU (user and system): of worker processes, of the queue's server, and of the server, whose controllers put and settle."""

    workers_s: float
    queue_s: float
    server_s: float

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.workers_s - other.workers_s, self.queue_s - other.queue_s, self.server_s - other.server_s)


@dataclass(frozen=True, slots=True)
class QueueRun:
    """One run: its items, seconds from its order to its end, what was spent, and the peak resident bytes of its largest worker."""

    items: int
    wall_s: float
    spent: Spent
    peak_bytes: int


class QueueRuns:
    """An installation that runs as many mock items as are asked for, `WORKERS` processes at a time."""

    name = "arena up"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._installation = Installation(folder, max_workers=WORKERS)
        self._client: Client
        self._number = 0

    def start(self) -> None:
        """Start the installation and push the bundle.

        Raises:
            CommandFailed: it does not come up, or takes no push.
        """
        try:
            self._client = self._installation.start()
            ensure(self._client, ARENA_PROJECT, PROJECT, {"hosted": {}})
            await_repository(self._client, PROJECT)
            self._installation.push(self._folder / "work", self._client, PROJECT, arena_bundle([1] * SCENARIOS))
        except BenchFailed as error:
            raise CommandFailed(str(error)) from error

    def run(self, items: int) -> QueueRun:
        """Run `items` items, a multiple of `SCENARIOS`.

        Raises:
            CommandFailed: they did not all pass.
        """
        self._number += 1
        job, before, started, peak = f"run-{self._number:03}", self._spent(), time.perf_counter(), 0
        workers = {"replicas": WORKERS, "concurrency": CONCURRENCY // WORKERS}
        ensure(self._client, ARENA_JOB, job, {"sourceRef": {"name": PROJECT}, "workers": workers, "trials": items // SCENARIOS})
        while (run := self._ended(job)) is None:
            peak = max((peak, *(_peak_bytes(worker.pid) for worker in self._installation.workers())))
            if time.perf_counter() - started > LONGEST_S:
                raise CommandFailed(f"cannot measure {self.name}: {items} items took longer than {LONGEST_S:g} s")
            time.sleep(STEP_S)
        wall_s = time.perf_counter() - started
        self._await_end_of_workers()
        status = run["status"]
        passed = ((status.get("result") or {}).get("summary") or {}).get("passedItems")
        if status["phase"] != "Succeeded" or passed != str(items):
            raise CommandFailed(f"cannot measure {self.name}: {passed} of {items} items passed, and the run is {status['phase']}")
        return QueueRun(items, wall_s, self._spent() - before, peak)

    def stop(self) -> None:
        """End the installation."""
        self._installation.stop()

    def _ended(self, job: str) -> Mapping[str, Any] | None:
        runs: Sequence[Mapping[str, Any]] = self._client.list(ARENA_RUN, NAMESPACE)["items"]
        return next((run for run in runs if run["spec"]["jobRef"]["name"] == job and finished(run)), None)

    def _await_end_of_workers(self) -> None:
        """Wait until the run's workers were reaped: only then their CPU time is their parent's."""
        deadline = time.perf_counter() + LONGEST_S
        while self._installation.workers() and time.perf_counter() < deadline:
            time.sleep(STEP_S)

    def _spent(self) -> Spent:
        """Return what was spent so far. Programs that the server starts are counted as workers: in a run it starts nothing else."""
        server = _times(self._installation.state.address().pid)
        queue = _times(self._installation.queue_server())
        return Spent(workers_s=server[2] + server[3], queue_s=queue[0] + queue[1], server_s=server[0] + server[1])


class QueueScores:
    """Medians of runs of several sizes, net of a run of `SCENARIOS` items: what starting workers costs is shown apart."""

    def __init__(self, runs: QueueRuns, sizes: Sequence[int]) -> None:
        self._runs = runs
        self._found: dict[int, list[QueueRun]] = {size: [] for size in (SCENARIOS, *sizes)}

    def take_turn(self) -> None:
        """Run each size once.

        Raises:
            CommandFailed: a run failed.
        """
        for size, found in self._found.items():
            found.append(self._runs.run(size))

    def report(self) -> bool:
        """Print a line a size and the bars; return whether all are met."""
        small, *sizes = self._found
        start = {name: self._median(small, read) for name, read in _CPU.items()}
        print(f"\n{'through the queue':<20} {'items/s':>9} {'CPU/item':>9}   {'workers':>8} {'queue':>8} {'server':>8} {'peak':>7}   with start-up")
        met = []
        for size in sizes:
            net = {name: 1000 * (self._median(size, read) - start[name]) / (size - small) for name, read in _CPU.items()}
            rate = (size - small) / max(1e-9, self._median(size, lambda run: run.wall_s) - self._median(small, lambda run: run.wall_s))
            gross = 1000 * sum(self._median(size, read) for read in _CPU.values()) / size
            shares = " ".join(f"{net[name]:>5.2f} ms" for name in _CPU)
            print(f"{size:>14,} items {rate:>9.0f} {sum(net.values()):>6.2f} ms   {shares} {self._peak(size) / 1e6:>4.0f} MB   {gross:.2f} ms")
            met.append((f"CPU an item at {size:,} items: {sum(net.values()):.2f} ms (bar {CPU_BAR_MS} ms)", sum(net.values()) <= CPU_BAR_MS))
        peak, growth = self._peak(sizes[-1]), self._peak(sizes[-1]) / self._peak(sizes[0])
        met.append((f"peak memory of a worker: {peak / 1e6:.0f} MB (bar {MEMORY_BAR_BYTES / 1e6:.0f} MB)", peak <= MEMORY_BAR_BYTES))
        met.append((f"its growth from {sizes[0]:,} to {sizes[-1]:,} items: {growth:.2f} times (bar {FLATNESS_BAR})", growth <= FLATNESS_BAR))
        for text, good in met:
            print(f"{'ok  ' if good else 'MISS'} {text}")
        return all(good for _, good in met)

    def _median(self, size: int, read: Callable[[QueueRun], float]) -> float:
        return statistics.median(read(run) for run in self._found[size])

    def _peak(self, size: int) -> float:
        return self._median(size, lambda run: run.peak_bytes)


_CPU: Mapping[str, Callable[[QueueRun], float]] = {
    "workers": lambda run: run.spent.workers_s,
    "queue": lambda run: run.spent.queue_s,
    "server": lambda run: run.spent.server_s,
}


def _times(pid: int) -> tuple[float, float, float, float]:
    """Return user and system seconds of a process, and those of its children that ended (proc(5), fields 14 to 17)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, user_below, system_below = (int(field) / _TICKS for field in fields[11:15])
    return user, system, user_below, system_below


def _peak_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
