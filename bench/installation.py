"""One local installation under trial: `arena up` on a directory of its own, its processes, and the git client against it.

Owns how a bench starts, finds and ends the processes of its own installation; it never touches another's. Linux only: it reads /proc.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from arena.cli.client import Client, ServerRefused
from arena.cli.server import credential_helper
from arena.errors import ServerUnreachable
from arena.local.process_times import start_time
from arena.local.state import StateDirectory
from engine.queue.processes import command_line
from reconcile.cluster.port import ARENA_PROJECT, ResourceKind

NAMESPACE = "default"
STEP_S = 0.02
START_S = 60.0
STOP_S = 40.0
ARENA = (sys.executable, "-m", "arena")
T = TypeVar("T")


class BenchFailed(Exception):
    """What was to be measured did not work; the message says what."""


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """One worker process: whose run it works on, and as which of the run's workers."""

    pid: int
    run: str
    name: str


class Installation:
    """`arena up` on `<folder>/state`; its log is `<folder>/server.log`."""

    def __init__(self, folder: Path, *, max_workers: int, environment: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._environment = {**os.environ, **(environment or {})}
        self._max_workers = max_workers
        self._process: subprocess.Popen[bytes] | None = None
        self.state = StateDirectory(folder / "state")

    def launch(self) -> None:
        """Start the server without waiting for it."""
        words = [*ARENA, "up", "--port", "0", "--max-workers", str(self._max_workers), "--log-level", "info", "--state", str(self.state.root)]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment)

    def start(self) -> Client:
        """Start the server and wait until it answers."""
        self.launch()
        return wait_for(self.client, START_S, "the server did not come up")

    def client(self) -> Client | None:
        """Return a client of the server that runs now; None while it does not answer yet.

        Raises:
            BenchFailed: it ended by itself.
        """
        if self._process is None:
            return None
        if (code := self._process.poll()) is not None:
            raise BenchFailed(f"`arena up` ended by itself with exit code {code}; its last words:\n{self.last_words()}")
        with contextlib.suppress(ServerUnreachable):
            if self.state.address().pid == self._process.pid:
                return Client.of(self.state)
        return None

    def was_killed(self) -> bool:
        """Say whether the server is not there because somebody killed it."""
        return self._process is None or self._process.poll() == -signal.SIGKILL

    def revive(self) -> Client | None:
        """Start the server again if somebody killed it; return a client, None while it does not answer yet.

        Raises:
            BenchFailed: it ended by itself.
        """
        if self.was_killed():
            self.launch()
        try:
            return self.client()
        except BenchFailed:
            if self.was_killed():
                return None
            raise

    def kill_server(self) -> None:
        """Kill the server with SIGKILL; workers and queue server stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def queue_server(self) -> int:
        """Return the queue server's pid, 0 when there is none."""
        folder = str(self.state.queue)
        try:
            pid = int((self.state.queue / "server.pid").read_text())
        except (OSError, ValueError):
            return 0
        return pid if start_time(pid) is not None and folder in command_line(pid) else 0

    def workers(self) -> list[WorkerProcess]:
        """Return the worker processes of this installation, by name; those that no record names are there too."""
        found = [worker for entry in Path("/proc").glob("[0-9]*") if (worker := self._worker(int(entry.name)))]
        return sorted(found, key=lambda worker: (worker.name, worker.pid))

    def kill_spare(self) -> None:
        """Kill the worker process that the server keeps waiting for work, if there is one."""
        server = self._process.pid if self._process is not None else 0
        for entry in Path("/proc").glob("[0-9]*"):
            pid = int(entry.name)
            if command_line(pid).split()[1:5] == ["-m", "arena", "worker", "--spare"] and parent_of(pid) == server:
                kill(pid)

    def _worker(self, pid: int) -> WorkerProcess | None:
        """Tell a worker by its command and by the log that it writes: one that was started ahead has nothing else of its run in /proc."""
        words = command_line(pid).split()
        if words[1:4] != ["-m", "arena", "worker"] or start_time(pid) is None:  # its shell has other words before them
            return None
        with contextlib.suppress(OSError):
            log = Path(f"/proc/{pid}/fd/1").readlink()
            if log.is_relative_to(self.state.logs):
                return WorkerProcess(pid, run=log.parent.name, name=log.stem)
        return None

    def stop(self) -> None:
        """End the server in order, and what it leaves behind by force."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        for pid in (*(worker.pid for worker in self.workers()), self.queue_server()):
            kill(pid)

    def last_words(self) -> str:
        """Return the end of the server's log."""
        return (self._folder / "server.log").read_bytes()[-2000:].decode(errors="replace")

    def push(self, work: Path, client: Client, project: str, files: Mapping[str, str]) -> str:
        """Commit `files` on main of the work tree `work` (made at first) and push them; return the commit."""
        if not (work / ".git").is_dir():
            work.mkdir(parents=True)
            git(work, "init", "--quiet", "--initial-branch=main")
        for name, text in files.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git(work, "add", "--all")
        git(work, "-c", "user.name=Bench", "-c", "user.email=bench@localhost", "commit", "--quiet", "--message", "Bench")
        commit = git(work, "rev-parse", "HEAD").strip()
        git(work, *self.credentials(client), "push", "--quiet", clone_url(client, project), "main")
        return commit

    def credentials(self, client: Client) -> tuple[str, ...]:
        """Return the words that let git find this installation's token."""
        return ("-c", f"credential.{client.url}.helper={credential_helper(self.state)}")


def clone_url(client: Client, project: str) -> str:
    """Return where git finds a project."""
    return f"{client.url}/git/{NAMESPACE}/{project}.git"


def ensure(client: Client, kind: ResourceKind, name: str, spec: Mapping[str, object]) -> None:
    """Create an object unless it is there: an answer that a killed server did not give may have been a yes."""
    try:
        client.create(kind, NAMESPACE, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": dict(spec)})
    except ServerRefused as error:
        if error.reason != "AlreadyExists":
            raise


def await_repository(client: Client, project: str) -> None:
    """Wait until a project can be pushed to."""

    def has_url() -> bool | None:
        with contextlib.suppress(ServerRefused):
            if (client.get(ARENA_PROJECT, NAMESPACE, project).get("status") or {}).get("repositoryURL"):
                return True
        return None

    wait_for(has_url, START_S, f"project '{project}' took no push")


def parent_of(pid: int) -> int:
    """Return the pid of a process's parent, 0 when the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
    """Send a process a signal; False when it had ended already, or `pid` is 0: there was none."""
    if not pid:
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def git(work: Path, *words: str) -> str:
    """Run git in a work tree and return what it says.

    Raises:
        BenchFailed: it failed.
    """
    done = subprocess.run(["git", "-C", str(work), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchFailed(f"cannot run 'git {' '.join(words)}': {done.stderr.strip()}")
    return done.stdout


def wait_for(look: Callable[[], T | None], seconds: float, otherwise: str, *, step_s: float = STEP_S) -> T:
    """Return the first answer of `look`, asked every `step_s`, that is not None.

    Raises:
        BenchFailed: none came within `seconds`; `otherwise` says what that means.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found is not None:
            return found
        time.sleep(step_s)
    raise BenchFailed(f"{otherwise} within {seconds:g} s")


def in_a_folder(prefix: str, trial: Callable[[Path], bool], *, keep: bool) -> int:
    """Carry out a trial in a folder of its own and return the exit code; the folder goes when all is well and nobody wants to keep it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    good = False
    try:
        good = trial(folder)
    except BenchFailed as error:
        print(f"error: {error}")
    if good and not keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"kept       {folder}")
    return 0 if good else 1
