"""Fetching with the real git client."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.gitops.conftest import PROJECT, GitClient, GitServer, git_children, until
from tests.gitops.test_smart_http_push import close

FILES: dict[str, str | bytes] = {"config.arena.yaml": "kind: Arena\n", "prompts/a.yaml": "a\n", "data.bin": bytes(range(256)) * 40}


@pytest.fixture
async def history(git: GitClient, work: Path) -> list[str]:
    """Three commits on main."""
    commits = [await git.commit(work, FILES), await git.commit(work, {"prompts/a.yaml": "b\n"}), await git.commit(work, {"c.txt": "c\n"})]
    await git("push", "-q", "origin", "main", cwd=work)
    return commits


@pytest.mark.parametrize("version", ["0", "1", "2"])
async def test_clone_in_every_protocol_version(server: GitServer, git: GitClient, history: list[str], tmp_path: Path, version: str) -> None:
    """A clone is complete whatever protocol the client prefers."""
    await git("-c", f"protocol.version={version}", "clone", "-q", server.url(), str(tmp_path / "clone"))
    assert (await git("rev-list", "HEAD", cwd=tmp_path / "clone")).out.split() == history[::-1]
    assert (tmp_path / "clone" / "data.bin").read_bytes() == FILES["data.bin"]


async def test_clone_of_an_empty_repository_learns_main(server: GitServer, git: GitClient, tmp_path: Path) -> None:
    """Before the first push a clone already knows the branch's name."""
    await git("-c", "init.defaultBranch=other", "clone", "-q", server.url(), str(tmp_path / "clone"))
    assert (await git("symbolic-ref", "HEAD", cwd=tmp_path / "clone")).out == "refs/heads/main\n"


async def test_shallow_clone_grows(server: GitServer, git: GitClient, work: Path, history: list[str], tmp_path: Path) -> None:
    """A shallow clone holds one commit, takes new ones, can be deepened and made whole."""
    clone = tmp_path / "clone"
    await git("clone", "-q", "--depth=1", server.url(), str(clone))
    assert (await git("rev-list", "HEAD", cwd=clone)).out.split() == history[:1:-1]
    new = await git.commit(work, {"d.txt": "d"})
    await git("push", "-q", "origin", "main", cwd=work)
    await git("pull", "-q", cwd=clone)
    assert (await git("rev-list", "HEAD", cwd=clone)).out.split() == [new, history[2]]
    await git("fetch", "-q", "--deepen=1", cwd=clone)
    await git("fetch", "-q", "--unshallow", cwd=clone)
    assert (await git("rev-list", "HEAD", cwd=clone)).out.split() == [new, *history[::-1]]


async def test_partial_clone_fetches_what_it_checks_out(server: GitServer, git: GitClient, history: list[str], tmp_path: Path) -> None:
    """A clone without blobs checks out, fetching them as it goes."""
    clone = tmp_path / "clone"
    await git("clone", "-q", "--filter=blob:none", server.url(), str(clone))
    assert (clone / "data.bin").read_bytes() == FILES["data.bin"]
    assert (await git("show", f"{history[0]}:prompts/a.yaml", cwd=clone)).out == "a\n"


@pytest.mark.usefixtures("history")
async def test_long_negotiation_is_compressed(server: GitServer, git: GitClient, work: Path, tmp_path: Path) -> None:
    """A client with much of its own history sends gzip bodies in several rounds, and gets what it lacks."""
    clone = tmp_path / "clone"
    await git("clone", "-q", server.url(), str(clone))
    process = await asyncio.create_subprocess_exec("git", "fast-import", "--quiet", cwd=clone, env=git.environment, stdin=asyncio.subprocess.PIPE)
    lines = "".join(f"commit refs/heads/own\ncommitter J <j@x> {4000000000 + n} +0000\ndata 1\nx\n" for n in range(400))
    await process.communicate(lines.encode())
    new = await git.commit(work, {"e.txt": "e"})
    await git("push", "-q", "origin", "main", cwd=work)
    await git("fetch", "-q", "origin", cwd=clone)
    assert (await git("rev-parse", "origin/main", cwd=clone)).out.strip() == new
    assert any(headers.get("content-encoding") == "gzip" for headers in server.authority.headers)


@pytest.mark.parametrize("version", ["0", "2"])
async def test_pin_hides_its_name_not_its_commit(
    server: GitServer, git: GitClient, work: Path, history: list[str], tmp_path: Path, version: str
) -> None:
    """`refs/arena` is advertised to nobody, and a pinned commit that no branch holds is fetched by its SHA."""
    await server.repositories.pin(PROJECT, "run-1", history[2])
    server.authority.allow(allow_force=True)
    await git("push", "-q", "--force", "origin", f"{history[0]}:main", cwd=work)
    listed = await git("-c", f"protocol.version={version}", "ls-remote", server.url())
    assert "refs/arena" not in listed.out
    assert "refs/heads/main" in listed.out
    await git("init", "-q", str(tmp_path / "fresh"))
    await git("-c", f"protocol.version={version}", "fetch", "-q", server.url(), history[2], cwd=tmp_path / "fresh")
    assert (await git("rev-parse", "FETCH_HEAD", cwd=tmp_path / "fresh")).out.strip() == history[2]


async def test_sha256_repository(server: GitServer, git: GitClient, tmp_path: Path) -> None:
    """A project with the SHA-256 object format is seeded, cloned, pushed to and read like any other."""
    project = type(PROJECT)("team", "modern")
    await server.repositories.create(project, object_format="sha256")
    seeded = await server.repositories.seed(project, {"a/b.txt": b"b"}, author="Arena <arena@localhost>")
    clone = tmp_path / "clone"
    await git("clone", "-q", server.url(project), str(clone))
    assert (await git("rev-parse", "HEAD", cwd=clone)).out.strip() == seeded
    commit = await git.commit(clone, {"c.txt": "c"})
    await git("push", "-q", "origin", "main", cwd=clone)
    assert len(commit) == 64
    assert await server.repositories.head(project) == commit
    assert await server.repositories.changed_paths(project, seeded, commit) == ["c.txt"]
    assert (await server.repositories.refs(project)).newest == [("refs/heads/main", commit)]
    assert (await git("fsck", "--full", cwd=server.path(project))).err == ""


async def test_client_that_leaves_ends_its_git(server: GitServer, git: GitClient, work: Path) -> None:
    """A clone whose client is gone costs nothing more: no process of it is left, not even a zombie."""
    commit = await git.commit(work, {"noise.bin": os.urandom(12 << 20)})
    await git("push", "-q", "origin", "main", cwd=work)
    host, _, port = server.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    body = f"0032want {commit}\n00000009done\n".encode()
    head = "POST /git/team/support.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-upload-pack-request\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    assert git_children()
    await close(writer)
    await until(lambda: not git_children(), "git to end")


async def test_credentials_flow(server: GitServer, git: GitClient, history: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Without a credential git is challenged; with one it is let in; and nothing of it is logged."""
    server.authority.password = "Basic dTpzM2NyZXQ="
    refused = await git("ls-remote", server.url(), check=False)
    assert "could not read Username" in refused.err
    run = await git("ls-remote", server.url().replace("http://", "http://u:s3cret@"))
    assert history[2] in run.out
    wrong = await git("ls-remote", server.url().replace("http://", "http://u:wrong@"), check=False)
    assert "Authentication failed" in wrong.err
    said = capsys.readouterr()
    assert not any(word in said.out + said.err for word in ("s3cret", "dTpzM2NyZXQ", "wrong"))


async def test_forbidden_push_says_why(server: GitServer, git: GitClient, work: Path) -> None:
    """Who may only read hears it in words."""
    await git.commit(work, {"a": "a"})
    server.authority.read_only = True
    run = await git("push", "origin", "main", cwd=work, check=False)
    assert "remote: cannot push to 'support': you may only read it" in run.err
    assert server.authority.asked[-1] == ("team", "support", True)
