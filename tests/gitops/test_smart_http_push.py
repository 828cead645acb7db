"""Pushing with the real git client, and with clients that break off."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from gitops import pktline
from tests.gitops.conftest import PROJECT, GitClient, GitServer, git_children, until

ZERO = "0" * 40


async def raw_post(
    server: GitServer, service: str, body: bytes, *, length: int | None = None, headers: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send one POST by hand and leave the connection open."""
    host, _, port = server.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"POST /git/{PROJECT.namespace}/{PROJECT.name}.git/{service} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-{service}-request\r\n"
        f"Content-Length: {len(body) if length is None else length}\r\n{headers}\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    return reader, writer


async def close(writer: asyncio.StreamWriter) -> None:
    """Break a connection off."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def push_body(git: GitClient, work: Path, commit: str) -> bytes:
    """Return what a client would send to create main."""
    pack = await asyncio.create_subprocess_exec(
        "git",
        "pack-objects",
        "--stdout",
        "--revs",
        "-q",
        cwd=work,
        env=git.environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    data, _ = await pack.communicate(f"{commit}\n".encode())
    command = f"{ZERO} {commit} refs/heads/main\0report-status side-band-64k agent=test".encode()
    return pktline.encode(command) + pktline.FLUSH + data


async def test_pushes_move_main_and_are_told(server: GitServer, git: GitClient, work: Path) -> None:
    """The first and the next push move main; each is told once, before the client has its answer."""
    for number in (1, 2):
        commit = await git.commit(work, {"a.txt": f"{number}\n"})
        await git("push", "origin", "main", cwd=work)
        assert await server.repositories.head(PROJECT) == commit
        assert server.changes == [PROJECT] * number
    fsck = await git("fsck", "--full", "--strict", cwd=server.path())
    assert fsck.err == ""


async def test_push_of_nothing_is_no_change(server: GitServer, git: GitClient, work: Path) -> None:
    """A push that is up to date tells nobody."""
    await git.commit(work, {"a.txt": "a"})
    await git("push", "-q", "origin", "main", cwd=work)
    await git("push", "origin", "main", cwd=work)
    assert server.changes == [PROJECT]


@pytest.mark.parametrize("version", ["0", "1", "2"])
async def test_push_in_every_protocol_version(server: GitServer, git: GitClient, work: Path, version: str) -> None:
    """A push works whatever protocol the client prefers."""
    commit = await git.commit(work, {"a.txt": "a"})
    await git("-c", f"protocol.version={version}", "push", "-q", "origin", "main", cwd=work)
    assert await server.repositories.head(PROJECT) == commit


async def test_large_push_arrives_in_chunks(server: GitServer, git: GitClient, work: Path) -> None:
    """A pack larger than the client's buffer comes chunked, after a probe, and is intact."""
    commit = await git.commit(work, {"noise.bin": os.urandom(3 << 20)})
    await git("-c", "http.postBuffer=65536", "push", "-q", "origin", "main", cwd=work)
    assert await server.repositories.head(PROJECT) == commit
    assert "transfer-encoding" in server.authority.headers[-1]
    assert (await git("fsck", "--full", cwd=server.path())).err == ""


async def test_push_from_a_shallow_clone(server: GitServer, git: GitClient, work: Path, tmp_path: Path) -> None:
    """A shallow clone can push on top of what it knows."""
    for number in range(3):
        await git.commit(work, {"a.txt": f"{number}"})
    await git("push", "-q", "origin", "main", cwd=work)
    await git("clone", "-q", "--depth=1", server.url(), str(tmp_path / "shallow"))
    commit = await git.commit(tmp_path / "shallow", {"b.txt": "b"})
    await git("push", "-q", "origin", "HEAD:main", cwd=tmp_path / "shallow")
    assert await server.repositories.head(PROJECT) == commit


async def test_racing_pushes_lose_nothing(server: GitServer, git: GitClient, work: Path, tmp_path: Path) -> None:
    """Of pushes that race from one commit exactly one is reported ok, and that one is main."""
    await git.commit(work, {"a.txt": "a"})
    await git("push", "-q", "origin", "main", cwd=work)

    async def race(number: int) -> str | None:
        clone = tmp_path / f"racer{number}"
        commit = await git.commit(clone, {f"{number}.txt": f"{number}"})
        run = await git("push", "-q", "origin", "HEAD:main", cwd=clone, check=False)
        return commit if run.status == 0 else None

    for number in range(4):
        await git("clone", "-q", server.url(), str(tmp_path / f"racer{number}"))
    won = [commit for commit in await asyncio.gather(*(race(number) for number in range(4))) if commit]
    assert won == [await server.repositories.head(PROJECT)]
    assert not list((server.path() / "objects").glob("tmp_objdir*"))


async def test_listener_that_fails_fails_no_push(server: GitServer, git: GitClient, work: Path) -> None:
    """The push is in, whatever the listener says; main is read again anyway."""
    server.changes.failure = RuntimeError("store down")
    commit = await git.commit(work, {"a.txt": "a"})
    await git("push", "-q", "origin", "main", cwd=work)
    assert await server.repositories.head(PROJECT) == commit


async def test_client_that_leaves_after_its_push_is_complete(server: GitServer, git: GitClient, work: Path) -> None:
    """A complete push is decided and told though nobody waits for the answer."""
    commit = await git.commit(work, {"a.txt": "a"})
    _, writer = await raw_post(server, "git-receive-pack", await push_body(git, work, commit))
    await until(lambda: bool(git_children()), "receive-pack to begin")
    await close(writer)
    await until(lambda: bool(server.changes), "the change to be told")
    assert await server.repositories.head(PROJECT) == commit
    await until(lambda: not git_children(), "git to end")


async def test_client_that_breaks_off_leaves_nothing(server: GitServer, git: GitClient, work: Path) -> None:
    """A push whose body breaks off changes nothing, and neither a process nor a quarantine stays."""
    commit = await git.commit(work, {"noise.bin": os.urandom(300_000)})
    body = await push_body(git, work, commit)
    objects = server.path() / "objects"
    _, writer = await raw_post(server, "git-receive-pack", body[:200_000], length=len(body))
    await until(lambda: bool(list(objects.glob("tmp_objdir*"))), "the quarantine")
    await close(writer)
    await until(lambda: not git_children(), "git to end")
    assert not [path for path in objects.rglob("*") if path.is_file()]
    assert await server.repositories.head(PROJECT) is None
    assert server.changes == []


@pytest.mark.parametrize(
    "garbage_bytes", [pytest.param(0, id="a wrong checksum"), pytest.param(6 << 20, id="garbage from its beginning, and much of it")]
)
async def test_damaged_pack_is_refused(server: GitServer, git: GitClient, work: Path, garbage_bytes: int) -> None:
    """A pack that git cannot read is refused in words, however early git gives up, and leaves nothing."""
    commit = await git.commit(work, {"a.txt": "a"})
    body = bytearray(await push_body(git, work, commit))
    start = body.index(b"PACK") + 12
    body[-1] ^= 1
    body[start:start] = bytes(garbage_bytes)
    reader, writer = await raw_post(server, "git-receive-pack", bytes(body), headers="Connection: close\r\n")
    answer = await reader.read()
    await close(writer)
    assert b"error: cannot accept the push: the pack is damaged" in answer
    assert await server.repositories.head(PROJECT) is None
    assert not [path for path in (server.path() / "objects").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"garbage", id="no pkt-line"),
        pytest.param(pktline.encode(b"hello"), id="no command"),
        pytest.param(pktline.encode(f"{ZERO} {ZERO} --upload-pack=x".encode()) + b"0000", id="no ref"),
        pytest.param(b"", id="empty"),
        pytest.param(b"".join(pktline.encode(f"{ZERO} {'1' * 40} refs/heads/b{n}".encode()) for n in range(20_001)) + b"0000", id="too many refs"),
    ],
)
async def test_malformed_command_list_is_a_bad_request(server: GitServer, body: bytes) -> None:
    """What is no command list never reaches git."""
    reader, writer = await raw_post(server, "git-receive-pack", body, headers="Connection: close\r\n")
    answer = await reader.read()
    await close(writer)
    assert answer.startswith(b"HTTP/1.1 400")


async def test_waits_for_100_continue(server: GitServer, git: GitClient, work: Path) -> None:
    """A client that asks before it sends is told to go on at once."""
    commit = await git.commit(work, {"a.txt": "a"})
    body = await push_body(git, work, commit)
    reader, writer = await raw_post(server, "git-receive-pack", b"", length=len(body), headers="Expect: 100-continue\r\nConnection: close\r\n")
    assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
    writer.write(body)
    answer = await reader.read()
    await close(writer)
    assert b"unpack ok" in answer
    assert await server.repositories.head(PROJECT) == commit


async def test_unicode_paths_and_executables(server: GitServer, git: GitClient, work: Path) -> None:
    """Ordinary trees of real projects are let in: other scripts, spaces, executables, links that stay inside."""
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o755)
    (work / "link").symlink_to("run.sh")
    commit = await git.commit(work, {"日本語/ein Name.yaml": "x", ".gitignore": "*.tmp", ".gitattributes": "* text=auto"})
    await git("push", "-q", "origin", "main", cwd=work)
    assert await server.repositories.head(PROJECT) == commit
