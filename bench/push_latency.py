"""Milliseconds from an accepted push to the first item leased, and where they go.

    python -m bench push_latency [--pushes 30] [--cold 10]

A real git client pushes to `arena up`; a job with `onPush` turns each push into a run. Nothing in the product is changed to be measured: the ref's
update is its file's change time, objects are seen by watching the API as kubectl does, the worker's start is in the server's log, and the first lease
is the longest idle time in Redis's list of leased entries. One push at a time, each run ended before the next push. `--cold` more pushes lose the worker
process that waits for work, so a new one has to start. There is no peer that does all of this; the floor printed beside it is what a worker process
needs only to start Python and import itself.
Exit 1 when a bar is missed.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import redis

from arena.cli.client import Client, ServerRefused
from arena.errors import ServerUnreachable
from bench.installation import NAMESPACE, BenchFailed, Installation, await_repository, ensure, wait_for
from bench.mock_bundle import bundle
from engine.items import RunUID
from engine.queue.keys import GROUP, run_keys
from gitops.content import ContentVolume, ProjectKey
from reconcile.arena_run import finished
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, JOB, ResourceKind
from reconcile.kinds.names import REQUESTED_SYNC

PROJECT, EVALUATION = "latency", "latency-eval"
RUN_S = 60.0
P50_BAR_MS, P99_BAR_MS, COLD_BAR_MS = 300.0, 1000.0, 1000.0
POLL_S = 0.002

STEPS = ("project stamped", "run created", "commit pinned", "planned", "Job created", "worker started", "first item leased")
"""What follows the ref's update, in order."""


@dataclass(slots=True)
class Times:
    """When things happened to one push, in seconds since the epoch: `returned` for the git client, and each of `STEPS` once seen."""

    ref: float = 0.0
    returned: float = 0.0
    run: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)

    def note(self, step: str, when: float) -> None:
        """Note the first time that a step is seen."""
        self.steps.setdefault(step, when)

    def ms(self, step: str) -> float:
        """Return the milliseconds from the ref's update to a step."""
        return 1000 * (self.steps[step] - self.ref)


class Observer:
    """Watches the objects of the installation in threads of its own, and notes what it sees for the push that is under way."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stamp = ""
        self.times = Times()
        for kind, see in ((ARENA_PROJECT, self._see_project), (ARENA_RUN, self._see_run), (JOB, self._see_job)):
            threading.Thread(target=self._watch, args=(kind, see), daemon=True).start()

    def expect(self) -> Times:
        """Begin with the next push."""
        self.times = Times()
        return self.times

    def _watch(self, kind: ResourceKind, see: Callable[[float, dict[str, Any]], None]) -> None:
        version = self._client.list(kind, NAMESPACE)["metadata"]["resourceVersion"]
        try:
            for _, obj in self._client.watch(kind, NAMESPACE, version):
                see(time.time(), obj)
        except (OSError, ServerUnreachable, ServerRefused, ValueError):
            return  # the server has been stopped

    def _see_project(self, now: float, project: dict[str, Any]) -> None:
        stamp = project["metadata"].get("annotations", {}).get(REQUESTED_SYNC, "")
        if stamp != self._stamp:
            self._stamp = stamp
            self.times.note("project stamped", now)

    def _see_run(self, now: float, run: dict[str, Any]) -> None:
        if finished(run) and run["metadata"]["uid"] != self.times.run.get("metadata", {}).get("uid"):
            return  # an older one
        status = run.get("status") or {}
        self.times.run = run
        self.times.note("run created", now)
        for step, key in (("commit pinned", "source"), ("planned", "plan")):
            if key in status:
                self.times.note(step, now)

    def _see_job(self, now: float, job: dict[str, Any]) -> None:
        if not job.get("status", {}).get("completionTime"):
            self.times.note("Job created", now)


class Latency:
    """Pushes one commit after another and times each."""

    def __init__(self, installation: Installation, client: Client, work: Path) -> None:
        self._installation = installation
        self._client = client
        self._work = work
        self._observer = Observer(client)
        self._redis = redis.Redis.from_url(f"unix://{installation.state.queue}/queue.sock")
        self._log = (work.parent / "server.log").open(encoding="utf-8")

    def push(self, number: int, *, cold: bool = False) -> Times:
        """Push a commit, wait for the first lease of its run and then for its end. `cold`: no worker process waits for it."""
        self._log.seek(0, 2)
        times = self._observer.expect()
        self._installation.push(self._work, self._client, PROJECT, {**bundle(scenarios=1, trials=8, latency_ms=400), "number.txt": f"{number}\n"})
        times.returned = time.time()
        if cold:
            self._installation.kill_spare()
        wait_for(lambda: times.run.get("metadata"), RUN_S, "no run was made of a push")
        times.note("first item leased", wait_for(lambda: self._first_lease(times), RUN_S, "no item was leased", step_s=POLL_S))
        wait_for(lambda: self._client.get(ARENA_RUN, NAMESPACE, times.run["metadata"]["name"])["status"].get("result"), RUN_S, "a run did not end")
        times.ref = self._ref_file().stat().st_ctime_ns / 1e9
        for when, name in started_workers(self._log):
            if name.startswith(times.run["metadata"]["name"]):
                times.note("worker started", when)
        if unseen := [step for step in STEPS if step not in times.steps]:
            raise BenchFailed(f"cannot time push {number}: '{unseen[0]}' was not seen")
        return times

    def close(self) -> None:
        """Close what is open."""
        self._redis.close()
        self._log.close()

    def _first_lease(self, times: Times) -> float | None:
        items = run_keys(self._installation.state.installation(), RunUID(times.run["metadata"]["uid"])).items
        try:
            rows = self._redis.xpending_range(items, GROUP, "-", "+", 100)
        except redis.ResponseError:
            return None  # the run has no keys yet
        return time.time() - max(int(row["time_since_delivered"]) for row in rows) / 1000 if rows else None

    def _ref_file(self) -> Path:
        repository = ContentVolume(self._installation.state.content).repository(ProjectKey(NAMESPACE, PROJECT))
        return repository / "refs" / "heads" / "main"


def started_workers(log: Any) -> Iterator[tuple[float, str]]:
    """Yield when workers were started, and for which Job, from the server's log on."""
    for line in log:
        if '"worker_started"' in line:
            entry = json.loads(line)
            yield datetime.fromisoformat(entry["timestamp"]).timestamp(), entry["job"]


def import_floor(repeat: int = 5) -> float:
    """Return the median milliseconds of starting Python and importing what a worker needs."""
    taken = []
    for _ in range(repeat):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import arena.cli.worker"], check=True)
        taken.append(1000 * (time.perf_counter() - started))
    return statistics.median(taken)


def quantile(values: Sequence[float], q: float) -> float:
    """Return the `q` quantile of the values by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(q * 100) * len(ordered) // 100) - 1))]


def print_parts(pushes: Sequence[Times]) -> None:
    """Print how long each step took."""
    before = [0.0] * len(pushes)
    for step in STEPS:
        reached = [times.ms(step) for times in pushes]
        part = [now - then for now, then in zip(reached, before, strict=True)]
        print(f"  {step:<20} +{quantile(part, 0.5):>6.0f} {quantile(part, 0.99):>6.0f}   after the ref {quantile(reached, 0.5):>6.0f}")
        before = reached


def report(pushes: Sequence[Times], cold: Sequence[Times]) -> bool:
    """Print the figures; say whether the bars are kept."""
    leased = STEPS[-1]
    total, slow = [times.ms(leased) for times in pushes], [times.ms(leased) for times in cold]
    client = [1000 * (times.steps[leased] - times.returned) for times in pushes]
    print(f"{len(pushes)} pushes of 16 items; milliseconds of each step, median and p99")
    print_parts(pushes)
    print(f"floor: python starts and imports the worker in {import_floor():.0f} ms (no peer does a push to a lease)")
    print(f"push accepted (ref updated) to first item leased: p50 {quantile(total, 0.5):.0f} ms, p99 {quantile(total, 0.99):.0f} ms")
    print(f"push returned to its client to first item leased: p50 {quantile(client, 0.5):.0f} ms, p99 {quantile(client, 0.99):.0f} ms")
    bars = [("p50", quantile(total, 0.5), P50_BAR_MS), ("p99", quantile(total, 0.99), P99_BAR_MS)]
    if slow:
        bars.append((f"p50 of {len(slow)} pushes without a waiting worker process", quantile(slow, 0.5), COLD_BAR_MS))
    for name, value, bar in bars:
        print(f"{'ok    ' if value <= bar else 'MISSED'} {name}: {value:.0f} ms (at most {bar:.0f})")
    return all(value <= bar for _, value, bar in bars)


def carry_out(folder: Path, pushes: int, cold: int) -> bool:
    """Do the whole bench in `folder`; say whether the bars are kept."""
    installation = Installation(folder, max_workers=1)
    try:
        client = installation.start()
        ensure(client, ARENA_PROJECT, PROJECT, {"hosted": {}})
        ensure(client, ARENA_JOB, EVALUATION, {"sourceRef": {"name": PROJECT}, "onPush": {}, "workers": {"replicas": 1, "concurrency": 16}})
        await_repository(client, PROJECT)
        latency = Latency(installation, client, folder / "work")
        try:
            latency.push(0)  # the run of first sight, which waited for this push
            warm = [latency.push(number) for number in range(1, pushes + 1)]
            return report(warm, [latency.push(-number, cold=True) for number in range(1, cold + 1)])
        finally:
            latency.close()
    finally:
        installation.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench push_latency", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pushes", type=int, default=30)
    parser.add_argument("--cold", type=int, default=10)
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="arena-push-"))
    try:
        return 0 if carry_out(folder, options.pushes, options.cold) else 1
    except BenchFailed as error:
        print(f"error: {error}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
