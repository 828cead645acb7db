"""Pushing with the real git client."""

from pathlib import Path

from tests.gitops.conftest import GitClient, GitServer


async def test_first_push(server: GitServer, git: GitClient, work: Path) -> None:
    """A push of main moves main and is told to the listener once."""
    commit = await git.commit(work, {"a.txt": "hello\n"})
    run = await git("push", "origin", "main", cwd=work)
    print(run.err)
    run = await git("push", "origin", "main:dev", cwd=work, check=False)
    print(run.err)
    assert await server.repositories.head(server.changes[0]) == commit
    assert 0
