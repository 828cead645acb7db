"""`arena demo`: the tour of two minutes, by itself: a push that passes, a push that fails, each pinned to its commit.

Runs a server of its own on a temporary state directory, and the real git client against it.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from arena.cli.client import Client
from arena.cli.following import follow
from arena.cli.outcome import verdict_lines
from arena.cli.screen import paint
from arena.cli.server import credential_helper
from arena.errors import ServerUnreachable, UsageError
from arena.local.state import StateDirectory
from engine.bundle.starter import starter_files, starter_regression
from gitops.content import ContentVolume
from reconcile.arena_run import created, finished
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN

NAMESPACE = "default"
START_S = 30.0
RUN_S = 60.0


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("demo")(demo)


def demo() -> None:
    """Push a passing and a failing bundle to a throw-away installation and show both verdicts."""
    if shutil.which("git") is None:
        raise UsageError("cannot run the demo: git is not installed")
    with tempfile.TemporaryDirectory(prefix="arena-demo-") as folder:
        state = StateDirectory(Path(folder) / "state")
        with _server(state) as client:
            _tour(client, state, Path(folder) / "support")


def _tour(client: Client, state: StateDirectory, work: Path) -> None:
    _step("apply a project and a job that runs on every push")
    client.create(ARENA_PROJECT, NAMESPACE, {"metadata": {"name": "support"}, "spec": {"hosted": {}}})
    client.create(ARENA_JOB, NAMESPACE, {"metadata": {"name": "support-eval"}, "spec": {"sourceRef": {"name": "support"}, "onPush": {}}})
    url = f"{client.url}/git/{NAMESPACE}/support.git"
    _step(f"git push {url}")
    _git(work, "init", "--quiet", "--initial-branch=main", str(work))
    _git(work, "config", f"credential.{client.url}.helper", credential_helper(state))
    first = _commit(work, starter_files(), "Answer refund questions")
    _git(work, "push", "--quiet", url, "main")
    _verdict(client, state, first)
    _step("a change of the prompt that forgets the refund window, pushed")
    second = _commit(work, starter_regression(), "Shorten the answers")
    _git(work, "push", "--quiet", url, "main")
    _verdict(client, state, second)
    _step("both runs, each with the commit it tested")
    subprocess.run([sys.executable, "-m", "arena", "runs", "--state", str(state.root)], check=True)  # noqa: S603 - our own command


def _verdict(client: Client, state: StateDirectory, commit: str) -> None:
    run = _run_of(client, commit)
    directory = ContentVolume(state.content).run(NAMESPACE, run["metadata"]["name"])
    sys.stdout.write("".join(f"  {line}\n" for line in verdict_lines(run, directory)))
    sys.stdout.flush()


def _run_of(client: Client, commit: str) -> dict[str, Any]:
    """Return the ended run of a commit, waiting for it to appear and to end."""
    deadline = time.monotonic() + RUN_S
    while time.monotonic() < deadline:
        runs = sorted(client.list(ARENA_RUN, NAMESPACE)["items"], key=created)
        mine = [run for run in runs if ((run.get("status") or {}).get("source") or {}).get("commit") == commit]
        if mine:
            return next(run for run in follow(client, ARENA_RUN, mine[-1], until="it ended") if finished(run))
        time.sleep(0.05)
    raise UsageError(f"no run of commit {commit[:12]} came within {RUN_S:.0f} s")


def _commit(work: Path, files: Mapping[str, bytes], message: str) -> str:
    for name, content in files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    _git(work, "add", "--all")
    _git(work, "-c", "user.name=Demo", "-c", "user.email=demo@localhost", "commit", "--quiet", "--message", message)
    return _git(work, "rev-parse", "HEAD").strip()


def _git(work: Path, *arguments: str) -> str:
    command = ["git", *([] if arguments[0] == "init" else ["-C", str(work)]), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode:
        raise UsageError(f"cannot run 'git {arguments[0]}': {done.stderr.strip()}")
    return done.stdout


@contextmanager
def _server(state: StateDirectory) -> Iterator[Client]:
    """Run `arena up` on a free port until the block ends."""
    command = [sys.executable, "-m", "arena", "up", "--port", "0", "--state", str(state.root)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
    try:
        yield _connect(process, state)
    finally:
        process.terminate()
        process.wait()


def _connect(process: "subprocess.Popen[bytes]", state: StateDirectory) -> Client:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise UsageError("the demo's server did not start; its words are above")
        try:
            return Client.of(state)
        except ServerUnreachable:
            time.sleep(0.05)
    raise UsageError(f"the demo's server did not answer within {START_S:.0f} s")


def _step(text: str) -> None:
    sys.stdout.write(f"\n{paint('•', 'blue')} {text}\n")
    sys.stdout.flush()
