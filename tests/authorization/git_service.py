"""The git server behind an authorizer, with one hosted project, and the real git client of somebody who has a token."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from arena.authorization.entrance import Entrance
from arena.authorization.failures import Failures
from arena.authorization.git_access import GitAccess
from arena.authorization.port import Authorizer
from foundation.clock import SystemClock
from gitops.content import ContentVolume, ProjectKey
from gitops.repositories import Repositories
from gitops.smart_http import SmartHTTP
from reconcile.cluster.port import ARENA_PROJECT, Cluster
from tests.authorization.adapters import HOME
from tests.gitops.conftest import Changes, GitClient, GitRun, serving

PROJECT = "support"


@dataclass
class GitService:
    """A running server; `git` is the client."""

    address: str
    git: GitClient
    folder: Path

    def url(self, token: str = "", project: str = PROJECT, namespace: str = HOME) -> str:
        """Return a clone URL, with a token as password."""
        return f"http://{f'arena:{token}@' if token else ''}{self.address}/git/{namespace}/{project}.git"

    async def fetch(self, token: str = "", project: str = PROJECT, namespace: str = HOME) -> GitRun:
        """Ask for the refs, as every fetch begins."""
        return await self.git("ls-remote", self.url(token, project, namespace), check=False)

    async def clone(self, token: str, name: str) -> Path:
        """Clone the project."""
        await self.git("clone", "-q", self.url(token), str(self.folder / name))
        return self.folder / name

    async def push(self, token: str, work: Path, message: str = "change") -> GitRun:
        """Commit something and push it with a token."""
        await self.git.commit(work, {"prompt.txt": message}, message)
        return await self.git("push", "-q", self.url(token), "HEAD:main", cwd=work, check=False)


@asynccontextmanager
async def git_service(cluster: Cluster, authorizer: Authorizer, folder: Path, failures: Failures) -> AsyncIterator[GitService]:
    """Run the git server for a while."""
    document = {"apiVersion": ARENA_PROJECT.api_version, "kind": ARENA_PROJECT.kind, "metadata": {"name": PROJECT, "namespace": HOME}}
    await cluster.create({**document, "spec": {"hosted": {}}})
    repositories = Repositories(ContentVolume(folder / "content"), SystemClock())
    await repositories.create(ProjectKey(HOME, PROJECT))
    await repositories.seed(ProjectKey(HOME, PROJECT), {"README": b"hello\n"}, author="Arena <arena@localhost>")
    access = GitAccess(cluster, Entrance(authorizer, failures))
    home = folder / "home"
    home.mkdir()
    async with serving(SmartHTTP(repositories, authorize=access, on_change=Changes())) as address:
        yield GitService(address, GitClient(home), folder)
