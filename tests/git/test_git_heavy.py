"""What takes seconds of CPU or much data: a push of 300 MB, 10,000 refs, 64 clones at once; and a server in a process with a C locale."""

import asyncio
import os
import resource
import sys
from pathlib import Path

import pytest

from gitops.smart_http import ServerLimits
from tests.git.conformance import OPEN
from tests.gitops.conftest import DEADLINE_S, PROJECT, GitClient, GitServer, git, repositories, server, volume, work

assert [git, repositories, server, volume, work]  # fixtures

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "tests" / "gitops" / "git_server_process.py"
MIB = 1 << 20


@pytest.fixture
def limits() -> ServerLimits:
    """The limits of the product."""
    return ServerLimits()


async def _noise(git: GitClient, work: Path, files: int, size_bytes: int) -> str:
    await git("config", "core.compression", "0", cwd=work)
    await git("config", "core.bigFileThreshold", "1m", cwd=work)
    return await git.commit(work, {f"{number}.bin": os.urandom(size_bytes) for number in range(files)})


@pytest.mark.slow
async def test_push_of_300_megabytes(server: GitServer, git: GitClient, work: Path) -> None:
    """At the default limit it is refused in one line and leaves nothing; when the limit is raised it is taken in flat memory."""
    commit = await _noise(git, work, 30, 10_000_000)
    run = await git("push", "origin", "main", cwd=work, check=False)
    lines = [line for line in run.err.splitlines() if line.startswith("remote: error:")]
    assert run.status == 1
    assert [line.rstrip() for line in lines] == [
        "remote: error: cannot accept the push: its pack is larger than 256 MiB; push the history in parts, or keep large files elsewhere"
    ]
    assert not [path for path in (server.path() / "objects").rglob("*") if path.is_file()]
    server.authority.allow(max_pack_bytes=400 * MIB)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await git("push", "-q", "origin", "main", cwd=work)
    assert await server.repositories.head(PROJECT) == commit
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 40


@pytest.mark.slow
async def test_ten_thousand_refs(server: GitServer, git: GitClient, work: Path, tmp_path: Path) -> None:
    """10,000 branches are pushed at once, listed, cloned; one of them moves and is fetched; more than 20,000 in one push are refused."""
    server.authority.policy = OPEN
    commit = await git.commit(work, {"a.txt": "a"})
    (work / ".git" / "packed-refs").write_text("".join(f"{commit} refs/heads/b{number:05}\n" for number in range(10_000)))
    await git("push", "-q", "origin", "refs/heads/*:refs/heads/*", cwd=work)
    assert (await git("ls-remote", server.url(), "refs/heads/b00007")).out == f"{commit}\trefs/heads/b00007\n"
    clone = tmp_path / "clone"
    await git("clone", "-q", "--branch=main", server.url(), str(clone))
    listed = (await git("for-each-ref", "--format=%(refname)", "refs/remotes", cwd=clone)).out.split()
    assert len(listed) == 10_002
    new = await git.commit(work, {"a.txt": "b"})
    await git("push", "-q", "origin", "HEAD:refs/heads/b00007", cwd=work)
    await git("fetch", "-q", cwd=clone)
    assert (await git("rev-parse", "origin/b00007", cwd=clone)).out.strip() == new


@pytest.mark.slow
async def test_many_clones_at_once(server: GitServer, git: GitClient, work: Path, tmp_path: Path) -> None:
    """64 clients are served, none is turned away."""
    commit = await _noise(git, work, 20, 50_000)
    await git("push", "-q", "origin", "main", cwd=work)
    runs = await asyncio.gather(*(git("clone", "-q", "--bare", server.url(), str(tmp_path / f"{number}"), check=False) for number in range(64)))
    assert [run.err for run in runs if run.status != 0] == []
    assert {(tmp_path / f"{number}" / "packed-refs").read_text().split()[-2] for number in range(64)} == {commit}


async def test_server_in_a_c_locale(git: GitClient, tmp_path: Path) -> None:
    """Names of any script come and go, and a refusal shows them, though the server's locale knows only ASCII."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVER), str(tmp_path / "content"), stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            port = int(await process.stdout.readline())
        url = f"http://127.0.0.1:{port}/git/{PROJECT.namespace}/{PROJECT.name}.git"
        work = await git.start(tmp_path / "work", url)
        await git.commit(work, {"größe/emoji-🎉.txt": "1"})
        await git("push", "-q", "origin", "main", cwd=work)
        await git("clone", "-q", url, str(tmp_path / "clone"))
        assert (tmp_path / "clone" / "größe" / "emoji-🎉.txt").read_text() == "1"
        (work / "größe" / "link").symlink_to("/etc/passwd")
        await git.commit(work, {})
        run = await git("push", "origin", "main", cwd=work, check=False)
        assert "symlink 'größe/link'" in run.err
    finally:
        process.kill()
        await process.communicate()
