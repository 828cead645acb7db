"""Kill -9 of the server, the workers and the queue server, by seed, while runs of 200 items go: every run ends, every item is counted once.

    python -m bench kills [--runs 50] [--seed S] [--at-once 5] [--keep]

Several runs go at once in one installation. After each kill of the server it is started again on the same state directory; workers and queue server
are brought back by it. Each run's results, sums and status are compared with those of an undisturbed run. All choices come from the seed; when a
process is hit depends on the machine. Workers are also stalled past their leases, so that two work on one item and the first one reports it late.
A slot of a run's Job bears three failures and an item four crashes by contract, so no more than `MAX_WORKER_KILLS` workers of a run are struck.
Exit 1 when a run does not end, or an item is lost or counted twice.
"""

import argparse
import asyncio
import contextlib
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from arena.cli.client import Client
from arena.errors import ServerUnreachable
from bench.installation import NAMESPACE, BenchFailed, Installation, await_repository, ensure, in_a_folder, kill, wait_for
from bench.mock_bundle import bundle
from bench.trials import Run, Trial, Trials, undisturbed
from engine.errors import QueueUnavailable
from engine.items import RunUID
from engine.queue.redis import RedisWorkQueue
from gitops.content import ContentVolume
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN

PROJECT = "kills"
WORKERS, CONCURRENCY = 3, 1
LEASE_S = 2.0
MAX_WORKER_KILLS = 4
MAX_SLOT_KILLS = 3
MAX_STALLS = 1
MAX_VICTIMS = 4
STRUCK_AGAIN = 0.2
RUN_S = 120.0
QUIET_S = 20.0
POLL_S = 0.2
TARGETS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("server",), 3),
    (("worker",), 4),
    (("queue",), 3),
    (("stall",), 3),
    (("server", "queue"), 1),
    (("server", "worker"), 1),
    (("server", "worker", "queue"), 1),
)
"""What is struck at one moment, and how often among the others. A stall stops a worker for longer than its leases last, then lets it go on."""
_ROUND = [kinds for kinds, count in TARGETS for _ in range(count)]


@dataclass(frozen=True, slots=True)
class Kill:
    """One blow: after a gap, these kinds of process at once; `picks` (0 to 1) choose among workers, the server is down for `down_s`, a stall is `stall_s`."""

    gap_s: float
    targets: tuple[str, ...]
    picks: tuple[float, ...]
    down_s: float
    stall_s: float


def kills(seed: int) -> Iterator[Kill]:
    """Yield blows without end, the same for the same seed; each kind comes as often as `TARGETS` says, in any order."""
    chance = random.Random(seed)  # noqa: S311 - a repeatable choice
    bag: list[tuple[str, ...]] = []
    while True:
        bag = bag or chance.sample(_ROUND, len(_ROUND))
        picks = tuple(chance.random() for _ in range(chance.randint(1, MAX_VICTIMS)))
        down_s, stall_s = chance.choice((0.0, 0.0, chance.uniform(0.1, 1.5))), LEASE_S * chance.uniform(1.2, 2.0)
        yield Kill(chance.uniform(0.2, 1.8), bag.pop(), picks, down_s, stall_s)


class Campaign:
    """Runs going, blows falling."""

    def __init__(self, installation: Installation, seed: int, trials: Trials) -> None:
        self._installation = installation
        self._kills = kills(seed)
        self._next = next(self._kills)
        self._due_s = time.monotonic() + self._next.gap_s
        self._launch_s: float | None = None
        self._outage = False
        self._stalled: list[tuple[float, int]] = []
        self.trials = trials
        self.fallen: Counter[str] = Counter()

    def carry_out(self, runs: int, at_once: int) -> None:
        """Start `runs` runs, `at_once` at a time, and strike until all have ended or are given up."""
        while len(self.trials.all) < runs or self.trials.open:
            self._strike_if_due()
            self._let_go()
            client = self._client()
            if client is not None:
                with contextlib.suppress(ServerUnreachable):
                    self._outage = False
                    self.trials.observe(runs_of(client))
                    if len(self.trials.all) < runs and len(self.trials.open) < at_once:
                        self._begin(client)
            time.sleep(max(0.0, min(POLL_S, self._due_s - time.monotonic())))

    def recover(self) -> Client:
        """Strike no more, and wait for the server."""
        self._let_go(all_of_them=True)
        if self._launch_s is not None:
            self._installation.launch()
            self._launch_s = None
        return wait_for(self._installation.client, RUN_S, "the server did not come back")

    def _begin(self, client: Client) -> None:
        job = f"k{len(self.trials.all):03}"
        create_job(client, job)
        self.trials.begin(job)

    def _client(self) -> Client | None:
        if self._launch_s is not None and time.monotonic() >= self._launch_s:
            self._installation.launch()
            self._launch_s = None
        return self._installation.client() if self._launch_s is None else None

    def _strike_if_due(self) -> None:
        if time.monotonic() < self._due_s:
            return
        blow = self._next
        if self.trials.open:
            for target in blow.targets:
                self._strike(target, blow)
        self._next = next(self._kills)
        self._due_s = time.monotonic() + self._next.gap_s

    def _strike(self, target: str, blow: Kill) -> None:
        """Kill one process of a kind, of workers several."""
        if target in ("worker", "stall"):
            for pick in blow.picks:
                self._strike_worker(target, pick, blow.stall_s)
        elif self._kill_server(blow) if target == "server" else kill(self._installation.queue_server()):
            self.fallen[target] += 1
            self.trials.meet(target)

    def _kill_server(self, blow: Kill) -> bool:
        """Kill the server, unless it is down, or has not answered since the last time: that may happen, but not every time."""
        if self._launch_s is not None or (self._outage and blow.picks[0] > STRUCK_AGAIN):
            return False
        self._installation.kill_server()
        self._launch_s, self._outage = time.monotonic() + blow.down_s, True
        return True

    def _strike_worker(self, target: str, pick: float, stall_s: float) -> None:
        trials = self.trials.by_run()
        candidates = [worker for worker in self._installation.workers() if worker.run in trials and bears(trials[worker.run], target, worker.name)]
        if not candidates:
            return
        victim = candidates[int(pick * len(candidates))]
        if kill(victim.pid, signal.SIGKILL if target == "worker" else signal.SIGSTOP):
            if target == "stall":
                self._stalled.append((time.monotonic() + stall_s, victim.pid))
            self.fallen[target] += 1
            trials[victim.run].slots[victim.name] += 1
            trials[victim.run].met[target] += 1

    def _let_go(self, *, all_of_them: bool = False) -> None:
        """Let stalled workers go on whose time has come."""
        for due_s, pid in list(self._stalled):
            if all_of_them or time.monotonic() >= due_s:
                self._stalled.remove((due_s, pid))
                kill(pid, signal.SIGCONT)


def bears(trial: Trial, target: str, slot: str) -> bool:
    """Say whether one more worker of a run may be struck so, the one of this slot."""
    few_stalls = target != "stall" or trial.met["stall"] < MAX_STALLS
    return few_stalls and trial.slots[slot] < MAX_SLOT_KILLS and trial.slots.total() < MAX_WORKER_KILLS


def create_job(client: Client, name: str) -> None:
    """Create a job; its first run starts at once."""
    spec = {"sourceRef": {"name": PROJECT}, "workers": {"replicas": WORKERS, "concurrency": CONCURRENCY}}
    ensure(client, ARENA_JOB, name, spec)


def runs_of(client: Client) -> list[Run]:
    """Return all runs."""
    runs: list[Run] = client.list(ARENA_RUN, NAMESPACE)["items"]
    return runs


def directory_of(installation: Installation, run: Run) -> Path:
    """Return where a run's results lie."""
    return ContentVolume(installation.state.content).run(NAMESPACE, run["metadata"]["name"])


def leftovers(installation: Installation) -> list[str]:
    """Return what ended runs left behind, in words, after a time in which it may go: worker processes, keys in the queue's store."""

    def look() -> list[str]:
        workers = [f"worker {worker.name} (pid {worker.pid}) still runs although its run has ended" for worker in installation.workers()]
        try:
            keys = asyncio.run(_runs_with_keys(installation))
        except QueueUnavailable as error:
            return [*workers, error.message]
        return workers + [f"the queue still has the keys of run {run}" for run in keys]

    with contextlib.suppress(BenchFailed):
        wait_for(lambda: None if look() else True, QUIET_S, "something is left")
    return look()


async def _runs_with_keys(installation: Installation) -> list[RunUID]:
    queue = RedisWorkQueue(f"unix://{installation.state.queue}/queue.sock", installation=installation.state.installation())
    try:
        return await queue.runs()
    finally:
        await queue.close()


def report(campaign: Campaign, left: Sequence[str], seconds: float) -> bool:
    """Print the figures; say whether all is well."""
    for line in left:
        print(f"  {line}")
    fallen = campaign.fallen
    print(f"kills      {', '.join(f'{fallen[kind]} {kind}' for kind in ('server', 'worker', 'queue'))}; {fallen['stall']} stalls of workers")
    good = campaign.trials.report(("server", "worker", "queue", "stall")) and not left
    print(f"time       {seconds:.0f} s")
    print(
        f"{'ok    ' if good else 'MISSED'} every run ends, every item is counted once (no peer: nothing else keeps a run over kill -9 of all its parts)"
    )
    return good


def carry_out(folder: Path, options: argparse.Namespace) -> bool:
    """Do the whole bench in `folder`; say whether all is well."""
    started = time.monotonic()
    installation = Installation(folder, max_workers=WORKERS * options.at_once, environment={"ARENA_LEASE_SECONDS": f"{LEASE_S:g}"})
    try:
        client = installation.start()
        ensure(client, ARENA_PROJECT, PROJECT, {"hosted": {}})
        await_repository(client, PROJECT)
        installation.push(folder / "work", client, PROJECT, bundle())
        create_job(client, "undisturbed")
        place = partial(directory_of, installation)
        whole = undisturbed(lambda: runs_of(client), place, RUN_S)
        campaign = Campaign(installation, options.seed, Trials(whole, place, RUN_S))
        campaign.carry_out(options.runs, options.at_once)
        campaign.recover()
        return report(campaign, leftovers(installation), time.monotonic() - started)
    finally:
        installation.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return 1 when its bar is missed."""
    parser = argparse.ArgumentParser(prog="bench kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="default: a new one")
    parser.add_argument("--at-once", type=int, default=5, help="runs at a time (default: 5)")
    parser.add_argument("--keep", action="store_true", help="keep the state directory")
    options = parser.parse_args(arguments)
    print(f"seed       {options.seed}", flush=True)
    return in_a_folder("arena-kills-", lambda folder: carry_out(folder, options), keep=options.keep)


if __name__ == "__main__":
    raise SystemExit(main())
