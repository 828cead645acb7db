"""Arena as a cluster runs it: controllers and git servers as real processes on a real API server, a queue server, a content volume and a node.

Owns how these processes are started, asked, killed and ended; what is to be true of them is the tests'. Every wait is a deadline on a condition.
"""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from engine.queue.embedded import find_server
from gitops.content import ContentVolume, ProjectKey
from reconcile.arena_run import finished
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, LEASE, NAMESPACE
from reconcile.kinds.names import WORKSPACE_LABEL
from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane
from tests.apiserver.node import Node
from tests.apiserver.objects import Object, Objects
from tests.e2e.installation import ARENA, Checkout, Git, clean_environment, until
from tests.ports import free_ports

SYSTEM = "arena"
"""The namespace that the controllers are in, and their Lease."""
CLAIM = "arena-content"
START_S = 90.0
RUN_S = 150.0
STARTS = 3
STOP_S = 40.0


@dataclass(frozen=True)
class Answer:
    """What a probe answered; `code` 0 when nobody did."""

    code: int
    text: str = ""

    @property
    def is_ready(self) -> bool:
        """Say whether it answered yes."""
        return self.code == HTTPStatus.OK


class QueueServer:
    """A queue server on a port of loopback, with an append-only file that outlives its process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start it, on what an earlier one has left."""
        settings = {"bind": "127.0.0.1", "port": str(self._port), "dir": str(self._folder), "appendonly": "yes", "save": ""}
        settings |= {"appendfsync": "everysec", "maxmemory-policy": "noeviction"}
        words = [str(find_server()), *(word for name, value in settings.items() for word in (f"--{name}", value))]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it, as `kill -9` does, and wait until it is gone."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(STOP_S)
            self._process = None


class Replica:
    """One process of the installation, `python -m arena controller` or `git-server`. `name` is unlike that of every other one that was started."""

    def __init__(self, name: str, role: str, environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.log_file = folder / f"{name}.log"
        self._words = [*ARENA, role]
        self._environment = environment
        self._starts = 0
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        self._starts += 1
        probe_port, self.port = free_ports(2)
        self._probes = f"http://127.0.0.1:{probe_port}"
        environment = {**self._environment, "ARENA_PROBE_PORT": str(probe_port), "ARENA_PORT": str(self.port)}
        with self.log_file.open("ab") as log:
            return subprocess.Popen(self._words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def ask(self, probe: str = "readyz") -> Answer:
        """Ask a probe."""
        try:
            with urllib.request.urlopen(f"{self._probes}/{probe}", timeout=10) as answer:  # noqa: S310 - loopback
                return Answer(answer.status, answer.read().decode())
        except HTTPError as error:
            with error:
                return Answer(error.code, error.read().decode())
        except OSError:
            return Answer(0)

    def await_ready(self) -> "Replica":
        """Wait until it is ready. One that found a port taken, by somebody who was quicker, is started again."""

        def look() -> Answer | None:
            if not self.is_running and self._starts < STARTS and "cannot listen" in self.last_words():
                self.process = self._start()
            assert self.process.poll() is None, f"{self.name} ended with exit code {self.process.returncode}:\n{self.last_words()}"
            answer = self.ask()
            return answer if answer.is_ready else None

        until(look, f"{self.name} to be ready", deadline_s=START_S)
        return self

    def events(self) -> list[dict[str, Any]]:
        """Return what it has logged; a last line that is still being written is none."""
        whole = self.log_file.read_text(encoding="utf-8").rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]

    def identity(self) -> str:
        """Return the name that it has had as a leader, "" before it was one."""
        return next((str(event["identity"]) for event in self.events() if event["event"] == "leader.elected"), "")

    def last_words(self) -> str:
        """Return the end of its log."""
        return self.log_file.read_bytes()[-4000:].decode(errors="replace")

    @property
    def is_running(self) -> bool:
        """Say whether its process is there."""
        return self.process.poll() is None

    def kill(self) -> None:
        """Kill it, as `kill -9` does."""
        self.process.kill()
        self.process.wait(STOP_S)

    def terminate(self) -> int:
        """End it as a kubelet does, and return its exit code."""
        if self.is_running:
            self.process.terminate()
        return self.process.wait(STOP_S)


class Installation:
    """Arena on a control plane. Started processes are in `controllers` and `git_servers` until the block of `installed` ends, dead ones too."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.objects = Objects(plane)
        self.content = folder / "content"
        self.content.mkdir(parents=True)
        self.queue = QueueServer(folder / "queue")
        self.controllers: list[Replica] = []
        self.git_servers: list[Replica] = []
        self._folder = folder

    def start_controller(self, **variables: str) -> Replica:
        """Start one more controller, which is not ready yet; `variables` are more of its environment."""
        settings = {
            "REDIS_URL": self.queue.url,
            "ARENA_CONTENT_CLAIM": CLAIM,
            "ARENA_IMAGE": "arena:test",
            "ARENA_GIT_URL": "http://arena.test/git",
            "ARENA_ALLOW_NETWORK": "127.0.0.0/8",
            "ARENA_WEBHOOK_PORT": "0",
        }
        replica = Replica(f"controller-{len(self.controllers)}", "controller", self._environment(**(settings | variables)), self._folder)
        self.controllers.append(replica)
        return replica

    def start_git_server(self, **variables: str) -> Replica:
        """Start one more git server, which is not ready yet."""
        replica = Replica(f"git-server-{len(self.git_servers)}", "git-server", self._environment(**variables), self._folder)
        self.git_servers.append(replica)
        return replica

    def git_url(self, server: Replica | None = None) -> str:
        """Return the address of a git server, with a credential; of the first one that lives when none is named."""
        chosen = server or next(each for each in self.git_servers if each.is_running)
        return f"http://git:{ADMIN_TOKEN}@127.0.0.1:{chosen.port}/git"

    def leader(self) -> Replica | None:
        """Return the controller that the Lease names; None when it names none that lives."""
        lease = self.objects.find(LEASE, SYSTEM, "arena-controller") or {"spec": {}}
        holder = lease["spec"].get("holderIdentity")
        return next((each for each in self.controllers if holder and each.is_running and each.identity() == holder), None)

    def await_leader(self, *, other_than: Replica | None = None) -> Replica:
        """Wait until a controller leads, and return it."""

        def look() -> Replica | None:
            found = self.leader()
            return found if found is not other_than else None

        return until(look, "a controller to lead", deadline_s=START_S)

    def stop(self) -> None:
        """Kill all processes."""
        for replica in (*self.controllers, *self.git_servers):
            replica.kill()
        self.queue.kill()

    def _environment(self, **variables: str) -> dict[str, str]:
        home = self._folder / "home"
        home.mkdir(exist_ok=True)
        common = {
            "ARENA_CONTENT": str(self.content),
            "ARENA_HOST": "127.0.0.1",
            "KUBECONFIG": str(self.plane.kubeconfig),
            "POD_NAMESPACE": SYSTEM,
        }
        return clean_environment(home, **(common | variables))


class Team:
    """A namespace of the cluster and somebody who works in it."""

    def __init__(self, installation: Installation, name: str, folder: Path, labels: Mapping[str, str] | None = None) -> None:
        self.installation = installation
        self.objects = installation.objects
        self.name = name
        self.volume = ContentVolume(installation.content, lambda namespace: (labels or {}).get(WORKSPACE_LABEL, namespace))
        self._folder = folder
        self._git = Git(folder / "home")
        self.objects.create(NAMESPACE, "", name, metadata={"labels": dict(labels or {})})

    def project(self, name: str = "support") -> Checkout:
        """Create a hosted project, wait until it takes pushes, and return a working copy of it."""
        self.objects.create(ARENA_PROJECT, self.name, name, spec={"hosted": {}})
        until(lambda: (self.objects.get(ARENA_PROJECT, self.name, name).get("status") or {}).get("repositoryURL"), f"project {name} to be hosted")
        return self.checkout(name)

    def checkout(self, project: str = "support", *, server: Replica | None = None) -> Checkout:
        """Return one more working copy of a project, which pushes to one git server."""
        folder = self._folder / f"{project}-{len([*self._folder.iterdir()])}"
        repository = self.volume.repository(ProjectKey(self.name, project))
        return Checkout(self._git, folder, f"{self.installation.git_url(server)}/{self.name}/{project}.git", repository)

    def push(self, checkout: Checkout, files: Mapping[str, str]) -> str:
        """Commit files and push them, which must succeed; return the commit."""
        commit = checkout.commit(files)
        pushed = checkout.push()
        assert pushed.code == 0, pushed.err
        return commit

    def job(self, name: str = "eval", *, project: str = "support", **spec: Any) -> Object:
        """Create a job that tests a project."""
        return self.objects.create(ARENA_JOB, self.name, name, spec={"sourceRef": {"name": project}, **spec})

    def runs(self) -> list[Object]:
        """Return the runs, oldest first."""
        return self.objects.list(ARENA_RUN, self.name)

    def ended_runs(self, count: int = 1) -> list[Object]:
        """Wait until there are `count` runs and all have ended, and return them."""

        def look() -> list[Object] | None:
            runs = self.runs()
            return runs if len(runs) >= count and all(finished(run) for run in runs) else None

        return until(look, f"{count} runs of namespace {self.name} to end", deadline_s=RUN_S)

    def results(self, run: Object) -> list[str]:
        """Return the items of a run's results, in the order of the file."""
        lines = (self.volume.run(self.name, run["metadata"]["name"]) / "results.jsonl").read_text(encoding="utf-8").splitlines()
        return [str(json.loads(line)["item"]) for line in lines]


@contextmanager
def installed(plane: ControlPlane, folder: Path, *, controllers: int = 2, git_servers: int = 2) -> Iterator[Installation]:
    """Run Arena on a control plane until the block ends; all its processes end with it."""
    installation = Installation(plane, folder)
    node = Node(plane, folder / "node", claims={CLAIM: installation.content})
    node.start()
    try:
        installation.queue.start()
        started = [installation.start_controller() for _ in range(controllers)] + [installation.start_git_server() for _ in range(git_servers)]
        for replica in started:
            replica.await_ready()
        yield installation
    finally:
        installation.stop()
        node.stop()
        if sys.exc_info()[0] is not None:
            for replica in (*installation.controllers, *installation.git_servers):
                sys.stderr.write(f"--- {replica.name}\n{replica.last_words()}\n")
