"""Git servers and a controller over one volume, each in a process namespace of its own, so that a death takes its git processes along as a pod's does.

Owns how they start and die, and a client that pushes to them. `python -m bench.replica_pods ROOT` is the controller: it keeps every repository small,
again and again. Linux only, as root or where users may make namespaces.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import structlog

from bench.git_servers import Account
from bench.installation import BenchFailed
from foundation.clock import SystemClock
from gitops.content import ContentVolume, ProjectKey
from gitops.errors import GitError
from gitops.repositories import Repositories

NAMESPACE = "bench"
WAIT_S = 60.0
_BETWEEN_S = 0.05
_NAMES = {"GIT_AUTHOR_NAME": "Jane", "GIT_AUTHOR_EMAIL": "jane@example.com", "GIT_COMMITTER_NAME": "Jane", "GIT_COMMITTER_EMAIL": "jane@example.com"}
_FENCE = {"HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **_NAMES}


class Pod:
    """One process with all its children in a process namespace; `module` runs in it and prints a line when it is ready."""

    def __init__(self, module: str, root: Path, account: Account) -> None:
        self._words = account.within([*_within(), sys.executable, "-m", module, str(root)])
        self._process: subprocess.Popen[bytes] | None = None
        self.said = ""

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self._process = subprocess.Popen(self._words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        line = self._process.stdout.readline() if self._process.stdout is not None else b""
        if not line:
            raise BenchFailed(f"{self._words[-2]} does not start")
        self.said = line.decode().strip()

    def kill(self) -> None:
        """Let it die, with every process in it. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _within() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--pid", "--fork", "--kill-child=KILL"]


class Replicas:
    """Some git servers, and a controller if wanted. A context manager."""

    def __init__(self, root: Path, count: int, *, controller: bool) -> None:
        self.root = root
        self.account = Account()
        self.servers = [Pod("bench.git_servers", root, self.account) for _ in range(count)]
        self.pods = [*self.servers, *([Pod("bench.replica_pods", root, self.account)] if controller else [])]

    def __enter__(self) -> Self:
        for pod in self.pods:
            pod.start()
        return self

    def __exit__(self, *_: object) -> None:
        for pod in self.pods:
            pod.kill()
        self.account.close()

    def url(self, server: int, project: str) -> str:
        """Return a project's clone URL at one of the servers."""
        return f"http://127.0.0.1:{self.servers[server].said}/git/{NAMESPACE}/{project}.git"


@dataclass(frozen=True, slots=True)
class Push:
    """How a push ended: the commit, whether git called it accepted, how long it took, and what git said."""

    commit: str
    accepted: bool
    seconds: float
    said: str


class Pusher:
    """A person with a work tree of one project, who pushes commits of one small file to whichever server is named."""

    def __init__(self, folder: Path, name: str) -> None:
        self._work = folder / name
        self._name = name
        self._work.mkdir()
        self._git("init", "--quiet", "--initial-branch=main")

    def push(self, url: str) -> Push:
        """Commit and push once."""
        (self._work / self._name).write_text(secrets.token_hex(1500))
        self._git("add", "-A")
        self._git("commit", "--quiet", "-m", "change")
        commit = self._git("rev-parse", "HEAD").stdout.strip()
        begun = time.monotonic()
        done = self._git("push", "--quiet", url, "HEAD:refs/heads/main", check=False)
        return Push(commit, done.returncode == 0, time.monotonic() - begun, done.stderr)

    def follow(self, url: str) -> str:
        """Take main as the server has it and go on from there; return it, "" when the server did not answer or has none."""
        if self._git("fetch", "--quiet", url, "+refs/heads/main:refs/remotes/origin/main", check=False).returncode != 0:
            return ""
        self._git("reset", "--quiet", "--hard", "refs/remotes/origin/main")
        return self._git("rev-parse", "HEAD").stdout.strip()

    def _git(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        environment = {"PATH": os.environ["PATH"], **_FENCE}
        done = subprocess.run(["git", *words], cwd=self._work, env=environment, capture_output=True, text=True, check=False, timeout=WAIT_S * 2)
        if check and done.returncode != 0:
            raise BenchFailed(f"git {words[0]}: {done.stderr.strip()}")
        return done


async def _keep_small(root: Path) -> None:
    repositories = Repositories(ContentVolume(root), SystemClock())
    while True:
        for path in sorted(repositories.volume.repositories(NAMESPACE).glob("[a-z]*.git")):
            with contextlib.suppress(GitError):
                await repositories.maintain(ProjectKey(NAMESPACE, path.stem))
        await asyncio.sleep(_BETWEEN_S)


def main(root: str) -> None:
    """Maintain until killed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print("ready", flush=True)
    asyncio.run(_keep_small(Path(root)))


if __name__ == "__main__":
    main(*sys.argv[1:])
