"""A real `arena up` on a state directory, with the clients that a person has: git, the command line, HTTP.

Waits are deadlines on a condition, never a fixed time.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from arena.cli.client import Client
from arena.cli.server import credential_helper
from arena.local.state import StateDirectory
from engine.results.parts import PARTS
from gitops.content import ContentVolume, ProjectKey
from reconcile.arena_run import created, finished
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN

ARENA = (sys.executable, "-m", "arena")
DEADLINE_S = 60.0
T = TypeVar("T")


Run = Callable[[Sequence[str], Mapping[str, str], Path, str], "Done"]
"""Runs a command of the command line: its words, its whole environment, where, and what it reads."""


def until(probe: Callable[[], T | None], what: str, *, deadline_s: float = DEADLINE_S) -> T:
    """Return what `probe` finds, asking until it finds something or the deadline is over."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        found = probe()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {deadline_s:.0f} s")


def clean_environment(home: Path, **extra: str) -> dict[str, str]:
    """Return an environment without ARENA_ and GIT_ variables, with a HOME of its own."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ARENA_", "GIT_", "REDIS_")) and key != "NO_COLOR"}
    return {**kept, "HOME": str(home), "COLUMNS": "200", **extra}


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str


def run_command(words: Sequence[str], *, environment: Mapping[str, str], cwd: Path | None = None, text: str = "") -> Done:
    """Run a command to its end."""
    done = subprocess.run(list(words), env=dict(environment), cwd=cwd, input=text, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def run_interpreter(words: Sequence[str], environment: Mapping[str, str], cwd: Path, text: str) -> Done:
    """Run `python -m arena` to its end."""
    return run_command([*ARENA, *words], environment=environment, cwd=cwd, text=text)


class ServerProcess(Protocol):
    """A process with its stdout, as `subprocess.Popen` is one."""

    pid: int
    stdout: IO[bytes] | None

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""

    def send_signal(self, sig: int) -> None:
        """Send a signal."""

    def kill(self) -> None:
        """Kill it."""


def start_interpreter(words: Sequence[str], environment: Mapping[str, str], stderr: int) -> ServerProcess:
    """Start `python -m arena`."""
    return subprocess.Popen([*ARENA, *words], stdout=subprocess.PIPE, stderr=stderr, env=dict(environment))


class Server:
    """One process of `arena up`."""

    def __init__(
        self,
        state: Path,
        home: Path,
        *options: str,
        environment: Mapping[str, str] | None = None,
        start: Callable[[Sequence[str], Mapping[str, str], int], ServerProcess] = start_interpreter,
    ) -> None:
        self.state = StateDirectory(state)
        self.home = home
        self.stderr_file = home / f"arena-up-{time.monotonic_ns()}.log"
        self.environment = {**clean_environment(home, ARENA_STATE=str(state)), **(environment or {})}
        with self.stderr_file.open("wb") as stderr:
            self.process = start(["up", "--port", "0", "--state", str(state), *options], self.environment, stderr.fileno())
        self.greeting = self._greeting()

    @property
    def client(self) -> Client:
        """Return a client of the server."""
        return Client.of(self.state)

    @property
    def url(self) -> str:
        """Return the server's address."""
        return self.state.address().url

    @property
    def stderr(self) -> str:
        """Return what the server has written to stderr."""
        return self.stderr_file.read_text(encoding="utf-8")

    def _greeting(self) -> str:
        """Wait for the words that say that the server is up."""
        stream = self.process.stdout
        assert stream is not None
        said, end = b"", time.monotonic() + DEADLINE_S
        while b"next" not in said:
            ready, _, _ = select.select([stream], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(stream.fileno(), 4096) if ready else b""
            if not chunk:
                self.kill()
                raise AssertionError(f"arena up did not start: {self.stderr}")
            said += chunk
        return said.decode()

    def arena(self, *words: str, text: str = "", run: Run = run_interpreter, **environment: str) -> Done:
        """Run a command of the command line against this server."""
        return run(words, {**self.environment, **environment}, self.home, text)

    def kill(self) -> None:
        """Kill the server by SIGKILL; what it started stays."""
        self.process.kill()
        self._end()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop the server cleanly and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self._end()

    def _end(self) -> int:
        code = self.process.wait(DEADLINE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


@contextmanager
def serving(state: Path, home: Path, *options: str) -> Iterator[Server]:
    """Run `arena up` until the block ends, however it ends."""
    home.mkdir(exist_ok=True)
    server = Server(state, home, *options)
    try:
        yield server
    finally:
        server.stop()


class Git:
    """The real git client of one person, with a HOME of its own."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.environment = clean_environment(
            home,
            GIT_CONFIG_NOSYSTEM="1",
            GIT_TERMINAL_PROMPT="0",
            LC_ALL="C",
            GIT_AUTHOR_DATE="2026-01-01T00:00:00Z",
            GIT_COMMITTER_DATE="2026-01-01T00:00:00Z",
        )
        for key, value in (("user.name", "Ada"), ("user.email", "ada@example.com"), ("init.defaultBranch", "main")):
            self.run("config", "--global", key, value)

    def run(self, *words: str, cwd: Path | None = None, text: str = "") -> str:
        """Run git, which must succeed, and return what it prints."""
        done = self.attempt(*words, cwd=cwd, text=text)
        assert done.code == 0, f"git {' '.join(words)}: {done.err}"
        return done.out.strip()

    def attempt(self, *words: str, cwd: Path | None = None, text: str = "") -> Done:
        """Run git, whatever comes of it."""
        return run_command(["git", *words], environment=self.environment, cwd=cwd or self.home, text=text)


class GitClient(Git):
    """A git client with arena as its credential helper for a server."""

    def __init__(self, server: Server, home: Path) -> None:
        super().__init__(home)
        self.run("config", "--global", f"credential.{server.url}.helper", credential_helper(server.state))


class Checkout:
    """A working copy of one project."""

    def __init__(self, git: Git, folder: Path, url: str, repository: Path) -> None:
        self.git = git
        self.folder = folder
        self.url = url
        self.repository = repository
        git.run("init", "--quiet", str(folder))

    def commit(self, files: Mapping[str, bytes | str], message: str = "change") -> str:
        """Write files, commit everything, and return the commit."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git.run("add", "--all", "--force", cwd=self.folder)
        self.git.run("commit", "--quiet", "--allow-empty", "-m", message, cwd=self.folder)
        return self.git.run("rev-parse", "HEAD", cwd=self.folder)

    def push(self, spec: str = "main", *options: str) -> Done:
        """Push to the project's repository."""
        return self.git.attempt("push", *options, self.url, spec, cwd=self.folder)

    def remote_refs(self) -> str:
        """Return what the server's repository has, read from its files."""
        return self.git.run("--git-dir", str(self.repository), "for-each-ref", cwd=self.folder)


class Namespace:
    """One test's own namespace of a shared server."""

    def __init__(self, server: Server, name: str, folder: Path, *, run: Run = run_interpreter) -> None:
        self.server = server
        self.name = name
        self._run = run
        self.git = GitClient(server, folder / "home")
        self._folder = folder

    @property
    def client(self) -> Client:
        """Return a client of the server."""
        return self.server.client

    def project(self, name: str = "support", **metadata: Any) -> Checkout:
        """Create a hosted project and return a working copy of it."""
        self.client.create(ARENA_PROJECT, self.name, {"metadata": {"name": name, **metadata}, "spec": {"hosted": {}}})
        return self.checkout(name)

    def checkout(self, project: str = "support") -> Checkout:
        """Return one more working copy of a project."""
        folder = self._folder / f"{project}-{time.monotonic_ns()}"
        repository = ContentVolume(self.server.state.content).repository(ProjectKey(self.name, project))
        return Checkout(self.git, folder, f"{self.server.url}/git/{self.name}/{project}.git", repository)

    def job(self, name: str = "eval", *, annotations: Mapping[str, str] | None = None, spec: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Create a job that tests project `support`."""
        body = {"metadata": {"name": name, "annotations": dict(annotations or {})}, "spec": {"sourceRef": {"name": "support"}, **(spec or {})}}
        return self.client.create(ARENA_JOB, self.name, body)

    def runs(self) -> list[dict[str, Any]]:
        """Return the runs, oldest first."""
        return sorted(self.client.list(ARENA_RUN, self.name)["items"], key=created)

    def ended_run(self, *, count: int = 1) -> dict[str, Any]:
        """Return the last run, once there are `count` and all have ended; of runs of one second the last by name."""

        def probe() -> dict[str, Any] | None:
            runs = self.runs()
            return runs[-1] if len(runs) >= count and all(finished(run) for run in runs) else None

        return until(probe, f"{count} runs of namespace {self.name} to end")

    def ended_run_of(self, commit: str) -> dict[str, Any]:
        """Return the run that tested a commit, once it has ended."""

        def probe() -> dict[str, Any] | None:
            tested = [run for run in self.runs() if ((run.get("status") or {}).get("source") or {}).get("commit") == commit]
            return next((run for run in tested if finished(run)), None)

        return until(probe, f"the run of commit {commit[:12]} to end")

    def output(self, run: Mapping[str, Any]) -> Path:
        """Return the directory of a run's results."""
        return ContentVolume(self.server.state.content).run(self.name, run["metadata"]["name"])

    def arena(self, *words: str, text: str = "", **environment: str) -> Done:
        """Run a command of the command line in this namespace."""
        return self.server.arena(*words, text=text, run=self._run, ARENA_NAMESPACE=self.name, **environment)


def lines_written(output: Path) -> int:
    """Return how many items the workers have written down in the directory of a run's results, which need not be there yet."""
    parts = output / PARTS
    return sum(part.read_bytes().count(b"\n") for part in parts.iterdir()) if parts.is_dir() else 0


def files_below(folder: Path) -> Iterator[Path]:
    """Return the files below a folder in which others work meanwhile: what goes away while we look is passed over, links are not followed."""

    def fail_unless_gone(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for directory, _, names in os.walk(folder, onerror=fail_unless_gone):
        yield from (Path(directory, name) for name in names)


def ready(obj: Mapping[str, Any]) -> tuple[str, str]:
    """Return reason and message of an object's Ready condition."""
    found = next((c for c in (obj.get("status") or {}).get("conditions", []) if c["type"] == "Ready"), {"reason": "", "message": ""})
    return found["reason"], found["message"]


def descendants(marker: str) -> list[int]:
    """Return the processes of this machine whose command line or environment holds a text, such as a state directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            zombie = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if marker.encode() in told and not zombie:
            found.append(int(entry.name))
    return sorted(found)
