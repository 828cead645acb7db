"""What `info/refs` answers from memory is what git answers."""

from pathlib import Path

import pytest

from gitops.advertisements import Advertisements
from gitops.push_policy import PushPolicy
from gitops.repositories import Repositories
from gitops.serving import Access
from tests.gitops.conftest import PROJECT, GitClient, GitServer

AUTHOR = "Arena <arena@localhost>"
UPLOAD, RECEIVE = "git-upload-pack", "git-receive-pack"


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize(("service", "protocol"), [(UPLOAD, "version=2"), (RECEIVE, ""), (RECEIVE, "version=2")])
async def test_recalled_answer_is_gits(repositories: Repositories, object_format: str, service: str, protocol: str) -> None:
    """Before the first commit and after it, git and memory give the same bytes, whichever of the two states was asked about."""
    await repositories.create(PROJECT, object_format=object_format)
    access = Access(PROJECT)
    asked_before, asked_after = Advertisements(repositories), Advertisements(repositories)
    assert await asked_before.recall(access, service, protocol) is None
    empty = await asked_before.ask(access, service, protocol)
    assert await asked_before.recall(access, service, protocol) == empty
    await repositories.seed(PROJECT, {"a": b"a"}, author=AUTHOR)
    full = await asked_after.ask(access, service, protocol)
    assert await asked_before.recall(access, service, protocol) == full
    assert await asked_after.recall(access, service, protocol) == full


@pytest.mark.parametrize(
    ("service", "protocol", "policy"),
    [
        pytest.param(UPLOAD, "", PushPolicy(), id="a fetch in protocol 0 lists refs"),
        pytest.param(UPLOAD, "version=1", PushPolicy(), id="a fetch in protocol 1 lists refs"),
        pytest.param(UPLOAD, "version=2:other=1", PushPolicy(), id="what a client adds is not remembered"),
        pytest.param(RECEIVE, "", PushPolicy(refs="any"), id="a push to any branch lists them all"),
    ],
)
async def test_what_depends_on_refs_is_asked_each_time(repositories: Repositories, service: str, protocol: str, policy: PushPolicy) -> None:
    """Only what cannot change is remembered."""
    await repositories.create(PROJECT)
    advertisements = Advertisements(repositories)
    await advertisements.ask(Access(PROJECT, policy), service, protocol)
    assert await advertisements.recall(Access(PROJECT, policy), service, protocol) is None


async def test_new_configuration_is_asked_about(repositories: Repositories) -> None:
    """A repository of another format in the same place gets its own answer."""
    await repositories.create(PROJECT)
    advertisements = Advertisements(repositories)
    await advertisements.ask(Access(PROJECT), UPLOAD, "version=2")
    await repositories.remove(PROJECT)
    await repositories.create(PROJECT, object_format="sha256")
    assert await advertisements.recall(Access(PROJECT), UPLOAD, "version=2") is None
    assert b"object-format=sha256" in await advertisements.ask(Access(PROJECT), UPLOAD, "version=2")


async def test_push_after_a_change_behind_our_back(server: GitServer, git: GitClient, work: Path) -> None:
    """Main is read anew for each client: a commit that another process put there is told."""
    first = await git.commit(work, {"a.txt": "1"})
    await git("push", "-q", "origin", "main", cwd=work)
    second = await git.commit(work, {"a.txt": "2"})
    await git("push", "-q", "origin", "main", cwd=work)
    await git("update-ref", "refs/heads/main", first, cwd=server.path())
    await git("pack-refs", "--all", cwd=server.path())
    assert not list(server.path().glob("refs/heads/*"))
    await git("push", "-q", "origin", "main", cwd=work)
    assert await server.repositories.head(PROJECT) == second
