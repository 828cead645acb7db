"""Kill -9 of leader, standby, worker, Redis, API server and etcd, by seed, while runs go on a real API server: every run ends, every item counts once.

    python -m bench cluster_chaos [--runs 50] [--seed S] [--at-once 5] [--keep]

Two controllers, a git server, a queue server, etcd, the API server and the real Job controller are processes of this machine; worker pods run under the
test kubelet. What is killed is started again after a while. Each run's results, sums and status are compared with those of an undisturbed run, and the
API server's audit log says whether a controller wrote anything while the Lease named another. All choices come from the seed; when a process is hit
depends on the machine. Exit 1 when a run does not end, an item is lost or counted twice, or two leaders wrote.
"""

import argparse
import json
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.error import HTTPError

import yaml

from bench.installation import BenchFailed, in_a_folder, kill
from bench.lease_audit import LeaseAudit
from bench.mock_bundle import bundle
from bench.trials import Run, Trial, Trials, undisturbed
from engine.queue.processes import command_line
from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.crds import crd
from tests.apiserver.binary import BinaryMissing, programs
from tests.apiserver.control_plane import ControlPlane, Extras, kubeconfig, started
from tests.apiserver.installation import CLAIM, SYSTEM, Installation, Replica, Team
from tests.apiserver.kubelet import Machine
from tests.apiserver.kubelet_container import Process, in_folders
from tests.apiserver.node import Node
from tests.apiserver.server_fixture import namespace

TEAM, PROJECT = "chaos", "support"
WORKERS, CONCURRENCY = 3, 1
LEASE_S = 3.0
MAX_WORKER_KILLS = 4
MAX_SLOT_KILLS = 2
RUN_S = 240.0
POLL_S = 0.25
_ROUND = ("leader", "leader", "standby", "worker", "worker", "worker", "queue", "queue", "api-server", "api-server", "etcd")
"""What is struck, as often as among the others as it stands here."""


@dataclass(frozen=True, slots=True)
class Blow:
    """After a gap, one kind of process; `pick` (0 to 1) chooses among workers, and what was killed stays down for `down_s`."""

    gap_s: float
    target: str
    pick: float
    down_s: float


def blows(seed: int) -> Iterator[Blow]:
    """Yield blows without end, the same for the same seed; each kind comes as often as the round says, in any order."""
    chance = random.Random(seed)  # noqa: S311 - a repeatable choice
    bag: list[str] = []
    while True:
        bag = bag or chance.sample(_ROUND, len(_ROUND))
        yield Blow(chance.uniform(0.5, 3.0), bag.pop(), chance.random(), chance.choice((0.0, chance.uniform(0.1, 3.0))))


_STORE = frozenset({"etcd", "api-server"})
_NEEDS: dict[str, frozenset[str]] = {"queue": frozenset(), "etcd": frozenset(), "api-server": frozenset({"etcd"}), "controller": _STORE}
"""What is started again, in this order, and what must be up before."""


@dataclass(frozen=True, slots=True)
class _Due:
    """Something that is to be started."""

    at_s: float
    target: str
    start: Callable[[], object]


class Cluster:
    """What is killed and started again: the control plane, the queue server and the controllers, each of which has a user of its own."""

    def __init__(self, plane: ControlPlane, installation: Installation, folder: Path) -> None:
        self._plane = plane
        self._installation = installation
        self._folder = folder
        self._users = 0
        self._due: list[_Due] = []
        self.down: set[str] = set()

    def start_controller(self) -> Replica:
        """Start a controller that nobody takes for another one: its writes bear its name in the audit log."""
        self._users += 1
        name = f"controller-{self._users}"
        token = self._new_user(name)
        path = self._folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig(self._plane.url, self._plane.ca_file, {"token": token})))
        return self._installation.start_controller(KUBECONFIG=str(path))

    @property
    def has_store(self) -> bool:
        """Say whether the API server can answer: without its etcd it lets one wait for a minute."""
        return not self.down & _STORE

    def strike(self, blow: Blow) -> bool:
        """Kill what a blow is for, and have it started again; say whether there was anything to kill."""
        controllers = [replica for replica in self._installation.controllers if replica.is_running]
        if blow.target in ("leader", "standby"):
            leader = self._installation.leader() if self.has_store else None
            chosen = [each for each in controllers if (each is leader) == (blow.target == "leader")]
            if leader is None or not chosen:
                return False
            chosen[0].kill()
            self._later(blow, "controller", self.start_controller)
            return True
        if blow.target in self.down:
            return False
        if blow.target == "queue":
            self._installation.queue.kill()
            self._later(blow, "queue", self._installation.queue.start)
        elif blow.target == "etcd":
            self._plane.kill("etcd")
            self._later(blow, "etcd", self._plane.start_etcd)
        else:
            self._plane.kill("kube-apiserver")
            self._later(blow, "api-server", self._plane.start_api_server)
        return True

    def revive(self, *, everything: bool = False) -> None:
        """Start what has been down for long enough: an API server needs its etcd, and a controller's new user both."""
        for target, needed in _NEEDS.items():
            for due in [due for due in self._due if due.target == target]:
                if (everything or time.monotonic() >= due.at_s) and not needed & self.down:
                    self._due.remove(due)
                    due.start()
                    self.down.discard(due.target)

    def _later(self, blow: Blow, target: str, start: Callable[[], object]) -> None:
        if target != "controller":
            self.down.add(target)
        self._due.append(_Due(time.monotonic() + blow.down_s, target, start))

    def _new_user(self, name: str) -> str:
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": SYSTEM}],
        }
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": SYSTEM}}
        made = self._plane.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": [account, binding]}))
        token = self._plane.kubectl("create", "token", name, "-n", SYSTEM, "--duration", "3h")
        if made.returncode or token.returncode:
            raise BenchFailed(f"cannot make a user for {name}: {made.stderr}{token.stderr}")
        return token.stdout.strip()


class Campaign:
    """Runs going, blows falling."""

    def __init__(self, cluster: Cluster, team: Team, node: Path, seed: int, trials: Trials) -> None:
        self._cluster = cluster
        self._team = team
        self._node = node
        self._blows = blows(seed)
        self._next = next(self._blows)
        self._due_s = time.monotonic() + self._next.gap_s
        self.trials = trials
        self.fallen: Counter[str] = Counter()

    def carry_out(self, runs: int, at_once: int) -> None:
        """Start `runs` runs, `at_once` at a time, and strike until all have ended or are given up."""
        while len(self.trials.all) < runs or self.trials.open:
            self._strike_if_due()
            self._cluster.revive()
            if self._cluster.has_store:
                try:
                    self.trials.observe(self._team.runs())
                    if len(self.trials.all) < runs and len(self.trials.open) < at_once:
                        self._begin()
                except HTTPError as error:  # an API server that has just begun
                    error.close()
            time.sleep(max(0.0, min(POLL_S, self._due_s - time.monotonic())))

    def _begin(self) -> None:
        job = f"c{len(self.trials.all):03}"
        create_job(self._team, job)
        self.trials.begin(job)

    def _strike_if_due(self) -> None:
        if time.monotonic() < self._due_s:
            return
        blow, self._next = self._next, next(self._blows)
        struck = self._strike_worker(blow) if blow.target == "worker" else self._cluster.strike(blow)
        if struck:
            self.fallen[blow.target] += 1
            if blow.target != "worker":
                self.trials.meet(blow.target)
        self._due_s = time.monotonic() + self._next.gap_s

    def _strike_worker(self, blow: Blow) -> bool:
        trials = self.trials.by_run()
        found = [(pid, run, slot) for pid, run, slot in workers(self._node) if run in trials and bears(trials[run], slot)]
        if not found:
            return False
        pid, run, slot = found[int(blow.pick * len(found))]
        if not kill(pid, signal.SIGKILL):
            return False
        trials[run].slots[slot] += 1
        trials[run].met["worker"] += 1
        return True


def workers(node: Path) -> list[tuple[int, str, str]]:
    """Return the worker processes of a node: pid, the run's name, and which of its workers it is."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        if command_line(pid).split()[-1:] != ["worker"]:
            continue
        try:
            if not (entry / "cwd").readlink().is_relative_to(node):
                continue
            variables = dict(line.partition("=")[::2] for line in (entry / "environ").read_text().split("\0"))
        except OSError:
            continue
        found.append((pid, variables.get("ARENA_RUN_NAME", ""), variables.get("JOB_COMPLETION_INDEX", "")))
    return sorted(found, key=lambda worker: worker[1:])


def bears(trial: Trial, slot: str) -> bool:
    """Say whether one more worker of a run may be killed: a slot of a run's Job bears three failures, and an item four, by contract."""
    return trial.slots[slot] < MAX_SLOT_KILLS and trial.slots.total() < MAX_WORKER_KILLS


def create_job(team: Team, name: str) -> None:
    """Create a job, or find it there: an answer may get lost; its first run starts at once."""
    try:
        team.job(name, project=PROJECT, workers={"replicas": WORKERS, "concurrency": CONCURRENCY})
    except HTTPError as error:
        if error.code != 409:
            raise
        error.close()


def report(campaign: Campaign, audit: LeaseAudit, seconds: float) -> bool:
    """Print the figures; say whether all is well."""
    intrusions, kinds = audit.intrusions(), list(dict.fromkeys(_ROUND))
    for line in intrusions[:20]:
        print(f"  {line}")
    print(f"kills      {', '.join(f'{campaign.fallen[kind]} {kind}' for kind in kinds)}")
    good = campaign.trials.report(kinds) and not intrusions
    print(f"leaders    {audit.terms} terms, {audit.writes} writes, {len(intrusions)} while the Lease named another")
    print(f"time       {seconds:.0f} s")
    print(
        f"{'ok    ' if good else 'MISSED'} every run ends, every item is counted once, no two leaders write (no peer keeps a run over all of these)"
    )
    return good


def leased(process: Process, home: Path) -> Process:
    """Run a container with short leases, so that a killed worker's items return while the next blow falls."""
    return in_folders(replace(process, environment={**process.environment, "ARENA_LEASE_SECONDS": f"{LEASE_S:g}"}), home)


def carry_out(folder: Path, options: argparse.Namespace) -> bool:
    """Do the whole bench in `folder`; say whether all is well."""
    began = time.monotonic()
    audit = LeaseAudit(folder)
    (folder / "plane").mkdir()
    plane = started(programs(), folder / "plane", Extras(arguments=audit.arguments))
    installation = Installation(plane, folder)
    node = Node(plane, folder / "node", claims={CLAIM: installation.content}, machine=Machine(runtime=leased))
    try:
        plane.install(*(crd(kind) for kind in CATALOG), namespace(SYSTEM))
        plane.start_controllers()
        node.start()
        installation.queue.start()
        cluster = Cluster(plane, installation, folder)
        for replica in (cluster.start_controller(), cluster.start_controller(), installation.start_git_server()):
            replica.await_ready()
        team = Team(installation, TEAM, folder)
        team.push(team.project(PROJECT), bundle())

        def directory_of(run: Run) -> Path:
            return team.volume.run(TEAM, run["metadata"]["name"])

        create_job(team, "undisturbed")
        whole = undisturbed(team.runs, directory_of, RUN_S)
        campaign = Campaign(cluster, team, folder / "node", options.seed, Trials(whole, directory_of, RUN_S))
        campaign.carry_out(options.runs, options.at_once)
        cluster.revive(everything=True)
        return report(campaign, audit, time.monotonic() - began)
    finally:
        installation.stop()
        node.stop()
        plane.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return 1 when its bar is missed."""
    parser = argparse.ArgumentParser(prog="bench cluster_chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="default: a new one")
    parser.add_argument("--at-once", type=int, default=5, help="runs at a time (default: 5)")
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    options = parser.parse_args(arguments)
    try:
        programs()
    except BinaryMissing as missing:
        print(f"skipped: {missing}")
        return 0
    print(f"seed       {options.seed}", flush=True)
    return in_a_folder("arena-chaos-", lambda folder: carry_out(folder, options), keep=options.keep)


if __name__ == "__main__":
    raise SystemExit(main())
