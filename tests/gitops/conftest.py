"""What the tests of gitops share: a volume, repositories, the server under a real uvicorn on a free port, and the real git client."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from foundation.clock import SystemClock
from gitops.content import ContentVolume, ProjectKey
from gitops.errors import Forbidden, Unauthenticated
from gitops.push_policy import PushPolicy
from gitops.repositories import Repositories
from gitops.smart_http import Access, ServerLimits, SmartHTTP
from tests.processes import told

PROJECT = ProjectKey("team", "support")
DEADLINE_S = 60.0


@dataclass(frozen=True)
class GitRun:
    """How a git client ended."""

    status: int
    out: str
    err: str


class GitClient:
    """The real git client of a person without any configuration."""

    def __init__(self, home: Path) -> None:
        self._home = home

    async def __call__(self, *arguments: str, cwd: Path | None = None, check: bool = True, env: Mapping[str, str] | None = None) -> GitRun:
        """Run git; with `check`, a failure fails the test."""
        process = await asyncio.create_subprocess_exec(
            "git",
            *arguments,
            cwd=cwd or self._home,
            env={**self.environment, **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        run = GitRun(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
        assert not check or run.status == 0, f"git {' '.join(arguments)}: {run.err}"
        return run

    @property
    def environment(self) -> dict[str, str]:
        """Nothing but what git needs."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_AUTHOR_NAME": "Jane",
            "GIT_AUTHOR_EMAIL": "jane@example.com",
            "GIT_COMMITTER_NAME": "Jane",
            "GIT_COMMITTER_EMAIL": "jane@example.com",
            "LC_ALL": "C",
        }

    async def commit(self, work: Path, files: Mapping[str, str | bytes], message: str = "change") -> str:
        """Write files, commit all, and return the commit."""
        for name, content in files.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        await self("add", "-A", cwd=work)
        await self("commit", "-q", "-m", message, cwd=work)
        head = (work / ".git" / "HEAD").read_text().strip()
        return (work / ".git" / head.removeprefix("ref: ")).read_text().strip()

    async def start(self, work: Path, url: str) -> Path:
        """Make what a clone of an empty repository is, without asking the server."""
        await self("init", "-q", "--template=", "--initial-branch=main", str(work))
        with (work / ".git" / "config").open("a") as config:
            config.write(
                f'[remote "origin"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n'
            )
        return work


@dataclass
class Authority:
    """An authorizer that a test turns about: open by default, or asking for a password."""

    policy: PushPolicy = field(default_factory=PushPolicy)
    password: str = ""
    read_only: bool = False
    asked: list[tuple[str, str, bool]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def __call__(self, headers: Mapping[str, str], namespace: str, project: str, *, write: bool, source: str) -> Access:
        """Grant, or say what is missing."""
        del source
        self.asked.append((namespace, project, write))
        self.headers.append(dict(headers))
        if self.password and headers.get("authorization") != self.password:
            raise Unauthenticated("cannot tell who you are", hint="use the token as the password")
        if self.read_only and write:
            raise Forbidden("cannot push to 'support': you may only read it")
        return Access(ProjectKey(namespace, project), self.policy)

    def allow(self, **changes: object) -> None:
        """Change the policy."""
        self.policy = replace(self.policy, **changes)  # type: ignore[arg-type]


class Changes(list[ProjectKey]):
    """What `on_change` heard; raises `failure` when a test sets it."""

    failure: Exception | None = None

    async def __call__(self, project: ProjectKey) -> None:
        """Remember one change."""
        self.append(project)
        if self.failure is not None:
            raise self.failure


@dataclass
class GitServer:
    """A running server and what stands behind it."""

    address: str
    repositories: Repositories
    authority: Authority
    changes: Changes

    def url(self, project: ProjectKey = PROJECT) -> str:
        """Return the clone URL."""
        return f"http://{self.address}/git/{project.namespace}/{project.name}.git"

    def path(self, project: ProjectKey = PROJECT) -> Path:
        """Return the bare repository."""
        return self.repositories.volume.repository(project)


@contextlib.asynccontextmanager
async def serving(application: Any) -> AsyncIterator[str]:
    """Serve an application on a free port of this machine; yields `host:port`."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(application, lifespan="off", log_level="warning", ws="none", timeout_graceful_shutdown=2)
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        # Without `serve`, whose loop ticks ten times a second and takes the signals of the test run.
        await server.startup(sockets=[listener])
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            await server.shutdown(sockets=[listener])


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` holds; fail after the deadline, naming `what` was awaited."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.005)


def git_children() -> list[int]:
    """Return the ids of the git processes that descend from this test, zombies included."""
    parents: dict[int, tuple[int, str]] = {}
    for pid, status in told("stat"):
        head, _, tail = status.decode("utf-8", "replace").rpartition(")")
        parents[pid] = (int(tail.split()[1]), head.partition(" (")[2])
    return [pid for pid, (_, name) in parents.items() if name.startswith("git") and _descends(pid, parents)]


def _descends(pid: int, parents: Mapping[int, tuple[int, str]]) -> bool:
    while pid in parents:
        pid = parents[pid][0]
        if pid == os.getpid():
            return True
    return False


@pytest.fixture
def volume(tmp_path: Path) -> ContentVolume:
    """An empty content volume."""
    return ContentVolume(tmp_path / "content")


@pytest.fixture
def repositories(volume: ContentVolume) -> Repositories:
    """Repositories on the volume, none yet."""
    return Repositories(volume, SystemClock())


@pytest.fixture
def git(tmp_path: Path) -> GitClient:
    """The git client; its home is empty."""
    home = tmp_path / "home"
    home.mkdir()
    return GitClient(home)


@pytest.fixture
def limits() -> ServerLimits:
    """The limits of the server; a test module may give its own."""
    return ServerLimits()


@pytest.fixture
async def server(repositories: Repositories, limits: ServerLimits) -> AsyncIterator[GitServer]:
    """A server with one empty repository, `team/support`."""
    await repositories.create(PROJECT)
    authority, changes = Authority(), Changes()
    async with serving(SmartHTTP(repositories, authorize=authority, on_change=changes, limits=limits)) as address:
        yield GitServer(address, repositories, authority, changes)


@pytest.fixture
async def work(server: GitServer, git: GitClient, tmp_path: Path) -> Path:
    """A clone of the empty repository, on branch main."""
    return await git.start(tmp_path / "work", server.url())
