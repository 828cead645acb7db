"""One machine for an hour of steady work: memory and open files of each process, disk by part, Redis keys and stored objects, which must stay flat.

    python -m bench steady [--minutes 60] [--push-every 10] [--sample-every 30] [--keep]
    python -m bench steady --judge bench/out/steady-….csv      print the table of an earlier run

`arena up` on a folder of its own, one hosted project, one job with `onPush` and the history limits that are the default. A bundle change is pushed every
ten seconds, and each push makes a run of 100 mock items. Samples are taken just before a push, when the last run has ended; a worker is seen at its
work in between. What counts as flat, for the samples after a warm-up of a sixth of the time (at most 10 minutes):

  flat     the Theil-Sen slope (the median of the slopes of all pairs of samples) is at most the bar an hour; the bar is a share of the median, and never
           less than a unit that a single step would make
  lasting  what is kept for a stated time, or up to a stated size, and then goes (Events for a day, logs for an hour after their run, the newest changes
           that a watch may resume from, the newest summaries of pruned runs): what it comes to at this rate of pushes is at most the bar
  growing  what grows by nature and never goes, which is git's history alone: its growth a push is at most the bar

There is no peer that does all of this. A run shorter than an hour is a trial: its bars are printed, and noise may miss them. The samples are written to
bench/out/steady-*.csv. A run that is not over when the next push comes is replaced by that push's run, as `onPush` does by default. Exit 1 when a bar is
missed, when a run ends otherwise than with 100 passed items or replaced, or when more than a fifth are replaced: such a machine is too busy for the trial.
"""

import argparse
import csv
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from arena.cli.client import Client
from bench.installation import NAMESPACE, BenchFailed, Installation, await_repository, ensure, in_a_folder, wait_for
from bench.mock_bundle import PROVIDERS, bundle
from bench.steady_rules import Series, judge_all
from bench.steady_samples import Probe, Sample, worker_peak_bytes
from reconcile.arena_run import finished
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN

PROJECT, EVALUATION = "steady", "steady-eval"
SCENARIOS, TRIALS, LATENCY_MS = 10, 5, 50
ITEMS = SCENARIOS * TRIALS * len(PROVIDERS)
WARM_UP_SHARE, WARM_UP_MAX_S = 6, 600.0
PASSED_BAR = 0.8
ENDS = ("passed", "replaced", "other")
"""How a push's run ends. Nobody but the next push cancels a run here, so a cancelled one was replaced."""
POLL_S = 0.5
LAST_RUN_S = 60.0
LEAST_SAMPLES = 3
OUT = Path(__file__).parent / "out"


class Steady:
    """Pushes at even times, and keeps account of the runs that the pushes made."""

    def __init__(self, installation: Installation, client: Client, work: Path) -> None:
        self._installation = installation
        self._client = client
        self._work = work
        self._pending: set[str] = set()
        self.pushes = 0
        self.ends: Counter[str] = Counter()
        self._worker_bytes = 0

    def push(self) -> None:
        """Push the next change of the bundle."""
        self.pushes += 1
        files = bundle(scenarios=SCENARIOS, trials=TRIALS, latency_ms=LATENCY_MS)
        files["prompts/p.yaml"] = files["prompts/p.yaml"].replace("Answer.", f"Answer as of change {self.pushes}.")
        self._pending.add(self._installation.push(self._work, self._client, PROJECT, files))

    def look(self) -> bool | None:
        """Note the runs that have ended and the size of the worker at work; True when no run is awaited, else None."""
        for run in self._client.list(ARENA_RUN, NAMESPACE)["items"] if self._pending else []:
            status = run.get("status") or {}
            commit = status.get("source", {}).get("commit") or run["spec"].get("template", {}).get("ref", "")
            if commit in self._pending and finished(run):
                self._pending.discard(commit)
                self.ends[_end_of(status)] += 1
        self._worker_bytes = max(self._worker_bytes, worker_peak_bytes(self._installation))
        return None if self._pending else True

    def settle(self) -> None:
        """Wait for the runs that are still awaited; those that do not come are missed."""
        try:
            wait_for(self.look, LAST_RUN_S, "a run did not end", step_s=POLL_S)
        except BenchFailed:
            self.ends["other"] += len(self._pending)

    def account(self, seconds: float) -> dict[str, float]:
        """Return what was done in `seconds`, and the largest worker seen since the last call, 0 when none was."""
        size, self._worker_bytes = self._worker_bytes, 0
        runs = {f"runs.{end}": float(self.ends[end]) for end in ENDS}
        return {"seconds": seconds, "pushes": float(self.pushes), **runs, "worker.rss": float(size)}


def _end_of(status: dict[str, Any]) -> str:
    if status["phase"] == "Succeeded" and status.get("progress", {}).get("completed") == ITEMS:
        return "passed"
    return "replaced" if status["phase"] == "Cancelled" else "other"


def work_steadily(steady: Steady, probe: Probe, options: argparse.Namespace, out: Path) -> list[Sample]:
    """Push and sample until the time is over; the samples are written to `out` as they come."""
    samples: list[Sample] = []
    started = due = time.monotonic()
    sampled_at = started - options.sample_every
    with out.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)

        def sample(now: float) -> None:
            samples.append(probe.sample(steady.account(now - started)))
            if len(samples) == 1:
                writer.writerow(samples[0].values)
            writer.writerow(f"{value:.10g}" for value in samples[-1].values.values())
            stream.flush()

        while (now := time.monotonic()) < started + 60 * options.minutes:
            if now >= sampled_at + options.sample_every - options.push_every / 2:
                sampled_at = now
                sample(now)
                _tell(samples)
            steady.push()
            due += options.push_every
            while time.monotonic() < due:
                steady.look()
                time.sleep(max(0.0, min(POLL_S, due - time.monotonic())))
        steady.settle()
        sample(time.monotonic())
    return samples


def _tell(samples: Sequence[Sample]) -> None:
    if len(samples) % 10 == 1:
        values = samples[-1].values
        disk = sum(value for name, value in values.items() if name.startswith("disk."))
        ends = ", ".join(f"{values[f'runs.{end}']:.0f} {end}" for end in ENDS)
        sizes = f"server {values['server.rss'] / 2**20:.1f} MiB, {values['server.files']:.0f} files; disk {disk / 2**20:.1f} MiB"
        print(f"  {values['seconds'] / 60:5.1f} min  {values['pushes']:.0f} pushes: {ends}; {sizes}", flush=True)


def read_samples(path: Path) -> list[Sample]:
    """Return the samples of an earlier run."""
    with path.open(newline="", encoding="utf-8") as stream:
        return [Sample({name: float(value) for name, value in row.items()}) for row in csv.DictReader(stream)]


def report(samples: Sequence[Sample]) -> bool:
    """Print the table; say whether all bars are kept.

    Raises:
        BenchFailed: there are too few samples to say.
    """
    last = samples[-1].values
    warm_up_s = min(WARM_UP_MAX_S, last["seconds"] / WARM_UP_SHARE)
    kept = [sample for sample in samples if sample.values["seconds"] >= warm_up_s]
    if len(kept) < LEAST_SAMPLES:
        raise BenchFailed("too few samples after the warm-up: take more with --minutes or --sample-every")
    hours = [sample.values["seconds"] / 3600 for sample in kept]
    series = {name: Series(hours, [sample.values[name] for sample in kept]) for name in kept[0].values}
    pushes = last["pushes"]
    print(f"{len(samples)} samples, the first {warm_up_s / 60:.1f} minutes are warm-up; {pushes:.0f} pushes in {last['seconds'] / 60:.1f} minutes")
    flat = judge_all(series, pushes_an_hour=series["pushes"].slope())
    enough = last["runs.passed"] >= PASSED_BAR * pushes and last["runs.other"] == 0
    ends = ", ".join(f"{last[f'runs.{end}']:.0f} {end}" for end in ENDS)
    print(
        f"{'ok    ' if enough else 'MISSED'} runs of the pushes: {ends} (at least {PASSED_BAR:.0%} with {ITEMS} passed items, no other end than replaced)"
    )
    return flat and enough


def carry_out(folder: Path, options: argparse.Namespace) -> bool:
    """Do the whole bench in `folder`; say whether the bars are kept."""
    installation = Installation(folder, max_workers=2)
    OUT.mkdir(exist_ok=True)
    out = OUT / f"steady-{datetime.now(UTC):%Y%m%d-%H%M%S}.csv"
    print(f"state      {installation.state.root}\nsamples    {out}", flush=True)
    try:
        client = installation.start()
        ensure(client, ARENA_PROJECT, PROJECT, {"hosted": {}})
        ensure(client, ARENA_JOB, EVALUATION, {"sourceRef": {"name": PROJECT}, "onPush": {}, "workers": {"replicas": 1}})
        await_repository(client, PROJECT)
        steady = Steady(installation, client, folder / "work")
        steady.push()  # the run of first sight, which waited for this push
        steady.settle()
        with Probe(installation) as probe:
            samples = work_steadily(steady, probe, options, out)
        return report(samples)
    finally:
        installation.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench steady", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--push-every", type=float, default=10.0, help="seconds (default: 10)")
    parser.add_argument("--sample-every", type=float, default=30.0, help="seconds (default: 30)")
    parser.add_argument("--keep", action="store_true", help="keep the state directory")
    parser.add_argument("--judge", type=Path, metavar="CSV", help="run nothing: judge the samples of an earlier run")
    options = parser.parse_args(arguments)
    if options.judge:
        return 0 if report(read_samples(options.judge)) else 1
    return in_a_folder("arena-steady-", lambda folder: carry_out(folder, options), keep=options.keep)


if __name__ == "__main__":
    raise SystemExit(main())
