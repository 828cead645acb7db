"""Deaths at named places of a run's life: of the server, of a worker, and of the queue server while one of them stands there.

Owns what happens to one run. Which places there are says `PLACES`; which of them a run meets, and in which order, comes from the seed.
"""

import contextlib
import itertools
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena.cli.client import Client, ServerRefused
from arena.errors import ServerUnreachable
from arena.local.process_times import start_time
from bench.accounts import Account, account_of, differences
from bench.installation import NAMESPACE, BenchFailed, Installation, await_repository, ensure, kill, wait_for
from bench.kills import directory_of
from bench.mock_bundle import PROVIDERS, bundle
from bench.orders import Orders
from bench.trials import words_of
from engine.results.parts import PARTS
from gitops.content import ContentVolume, ProjectKey
from reconcile.arena_run import finished
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN

PROJECT = "crashes"
SCENARIOS, TRIALS, LATENCY_MS = 3, 10, 300
ITEMS = SCENARIOS * len(PROVIDERS) * TRIALS
WORKERS = {"replicas": 3, "concurrency": 1}
LEASE_S = 1.0
STAND_S = 0.7
MEET_S = 12.0
WAIT_S = 90.0

PLACES: Mapping[str, tuple[str, ...]] = {
    "put": ("put.before", "put.after"),
    "settle": ("settle.begun", "settle.written", "settle.renamed", "settle.files_written", "settle.keys_before", "settle.keys_dropped"),
    "lease": ("worker.leased",),
    "line": ("worker.line_written",),
    "counted": ("worker.counted",),
    "delete": (
        "delete.stopped",
        "delete.workers_ended",
        "delete.keys_dropped",
        "delete.ref_removed",
        "delete.directory_removed",
        "delete.output_released",
    ),
}


@dataclass(frozen=True, slots=True)
class Blow:
    """One death: of the process that comes to a place, or, with `redis`, of the queue server while that process stands there for `stand_s`."""

    place: str
    spec: str
    redis: bool
    stand_s: float


@dataclass(slots=True)
class Trial:
    """One run: what fell on it, and what was wrong with it in the end."""

    job: str
    met: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    account: Account | None = None
    problems: list[str] = field(default_factory=list)


class CrashRuns:
    """Runs of one installation, one after the other, each with its blows."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._chance = random.Random(seed)  # noqa: S311 - a repeatable choice
        self._orders = Orders(folder)
        environment = {"ARENA_LEASE_SECONDS": f"{LEASE_S:g}", **self._orders.environment}
        self.installation = Installation(folder, max_workers=WORKERS["replicas"], environment=environment)
        self.whole: Account | None = None
        self._numbers = itertools.count()

    def prepare(self) -> None:
        """Start the installation, push the bundle, and run it once in peace."""
        client = self.installation.start()
        ensure(client, ARENA_PROJECT, PROJECT, {"hosted": {}})
        await_repository(client, PROJECT)
        self.installation.push(self._folder / "work", client, PROJECT, bundle(scenarios=SCENARIOS, trials=TRIALS, latency_ms=LATENCY_MS))
        trial = self._settled(Trial("undisturbed"), [])
        if trial.problems or trial.account is None:
            raise BenchFailed(f"the undisturbed run is not whole: {'; '.join(trial.problems)}")
        self.whole = trial.account

    def settle_one(self) -> Trial:
        """Let one run meet every place but those of a deletion, each once for a kill and once for Redis."""
        blows = [*self._puts(), *self._works(), *self._settlings()]
        return self._settled(Trial(f"r{next(self._numbers):03}"), blows)

    def delete_one(self) -> Trial:
        """Let one run be deleted while it goes; the server is killed at one place of that, and Redis at another."""
        trial = Trial(f"d{next(self._numbers):03}")
        self._create(trial.job)
        run = self._await(lambda client: self._run_of(client, trial.job, lines=1), f"run of {trial.job} to begin")
        done = threading.Event()
        asking = threading.Thread(target=self._keep_asking, args=(run, done))
        blows = [self._blow("delete", redis=False), self._blow("delete", redis=True)]
        self._arm(blows[0])
        asking.start()  # in a thread: a server that stands still does not answer
        try:
            self._strike_all(trial, blows)
        finally:
            done.set()
            asking.join()
        self._await(lambda client: self._delete(client, run), f"run of {trial.job} to go")
        trial.problems += self._remains(run)
        if self._await(lambda client: [self._run_of(client, trial.job)], "the runs to be listed") != [None]:
            trial.problems.append("a run was made in its place")
        return trial

    def stop(self) -> None:
        """End the installation."""
        self._orders.withdraw()
        self.installation.stop()

    def _settled(self, trial: Trial, blows: Sequence[Blow]) -> Trial:
        if blows:
            self._arm(blows[0])
        self._create(trial.job)
        self._strike_all(trial, blows)
        run = self._await(lambda client: self._run_of(client, trial.job, ended=True), f"run of {trial.job} to end")
        trial.account = account_of(run, directory_of(self.installation, run))
        if self.whole is not None:
            trial.problems += list(differences(trial.account, self.whole))
        elif trial.account.phase != "Succeeded" or trial.account.double(ITEMS) or len(trial.account.counts) != ITEMS:
            trial.problems.append("it is not whole")
        if trial.problems:
            trial.problems.append(words_of(run))
        return trial

    def _puts(self) -> list[Blow]:
        """A put that was answered is not done again, so the first blow falls before it."""
        first = self._chance.random() < 1 / 2
        return [self._blow("put", redis=first, spec="put.before"), self._blow("put", redis=not first)]

    def _works(self) -> list[Blow]:
        blows = [self._blow(place, redis=redis) for place in ("lease", "line", "counted") for redis in (False, True)]
        self._chance.shuffle(blows)
        return blows

    def _settlings(self) -> list[Blow]:
        """A pass that lost Redis may come to its end, so a kill after that falls on what follows; a pass that was killed begins anew."""
        files, keys = PLACES["settle"][:4], PLACES["settle"][4:]
        if self._chance.random() < 1 / 2:
            return [self._blow("settle", redis=False, spec=self._chance.choice(files)), self._blow("settle", redis=True)]
        return [self._blow("settle", redis=True, spec=self._chance.choice(files)), self._blow("settle", redis=False, spec=self._chance.choice(keys))]

    def _blow(self, place: str, *, redis: bool, spec: str = "") -> Blow:
        chosen = spec or self._chance.choice(PLACES[place])
        return Blow(place, chosen, redis, self._chance.uniform(0, STAND_S))

    def _arm(self, blow: Blow) -> None:
        self._orders.give(blow.spec, halt=blow.redis)

    def _strike_all(self, trial: Trial, blows: Sequence[Blow]) -> None:
        """See each blow met, the next one armed before anybody goes on, and the dead back."""
        for blow, following in itertools.zip_longest(blows, blows[1:]):
            met = self._orders.wait(MEET_S, self.installation.revive)
            if met is None:
                trial.missed.append(f"{blow.spec}{' (Redis)' if blow.redis else ''}")
            elif blow.redis:
                kill(self.installation.queue_server())
                time.sleep(blow.stand_s)  # while a worker stands, the server brings the queue server back
            if following is not None:
                self._arm(following)
            if met is not None:
                if blow.redis:
                    kill(met.pid, signal.SIGCONT)
                trial.met[kind_of("Redis" if blow.redis else "kill", blow.place)] += 1
                if not blow.redis:
                    wait_for(lambda pid=met.pid: None if start_time(pid) is not None else True, WAIT_S, "a killed process is still there")  # type: ignore[misc]
            self.installation.revive()

    def _keep_asking(self, run: dict[str, Any], done: threading.Event) -> None:
        while not done.wait(0.3):
            with contextlib.suppress(ServerUnreachable, BenchFailed):
                client = self.installation.client()
                if client is not None and self._delete(client, run):
                    return

    def _await(self, look: Any, what: str) -> Any:
        def probe() -> Any:
            with contextlib.suppress(ServerUnreachable):
                client = self.installation.revive()
                return look(client) if client is not None else None
            return None

        return wait_for(probe, WAIT_S, f"{what}: not", step_s=0.05)

    def _create(self, job: str) -> None:
        def create(client: Client) -> bool:
            ensure(client, ARENA_JOB, job, {"sourceRef": {"name": PROJECT}, "workers": WORKERS})
            return True

        self._await(create, f"{job} to be taken")

    def _run_of(self, client: Client, job: str, *, lines: int = 0, ended: bool = False) -> dict[str, Any] | None:
        for run in client.list(ARENA_RUN, NAMESPACE)["items"]:
            if run["spec"]["jobRef"]["name"] == job and (finished(run) or not ended) and self._lines(run) >= lines:
                found: dict[str, Any] = run
                return found
        return None

    def _lines(self, run: dict[str, Any]) -> int:
        parts = directory_of(self.installation, run) / PARTS
        return sum(part.read_bytes().count(b"\n") for part in parts.iterdir()) if parts.is_dir() else 0

    def _delete(self, client: Client, run: dict[str, Any]) -> bool | None:
        """Ask for a run's deletion, once; return True when it is gone."""
        found = client.find(ARENA_RUN, NAMESPACE, run["metadata"]["name"])
        if found is None:
            return True
        if "deletionTimestamp" not in found["metadata"]:
            with contextlib.suppress(ServerRefused):
                client.delete(ARENA_RUN, NAMESPACE, run["metadata"]["name"])
        return None

    def _remains(self, run: dict[str, Any]) -> list[str]:
        name, uid = run["metadata"]["name"], run["metadata"]["uid"]
        volume = ContentVolume(self.installation.state.content)
        pin = volume.repository(ProjectKey(NAMESPACE, PROJECT)) / "refs" / "arena" / "runs" / uid
        found = [
            f"{what} of {name} is still there"
            for what, path in (("the directory", volume.run(NAMESPACE, name)), ("the keep-ref", pin))
            if path.exists()
        ]
        return found + [f"worker {worker.name} of {name} still runs" for worker in self.installation.workers() if worker.run == name]


def kind_of(who: str, place: str) -> str:
    """Return under which name a death is counted."""
    return f"{who} at {place}"
