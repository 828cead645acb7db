"""Clients that hang up at each stage: no process, no quarantine and no lock is left, and the next client is served."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gitops import pktline
from gitops.smart_http import ServerLimits
from tests.git.conformance import OPEN
from tests.gitops.conftest import PROJECT, GitClient, GitServer, git, git_children, repositories, server, until, volume, work
from tests.gitops.test_smart_http_push import close, push_body

assert [git, repositories, server, volume, work]  # fixtures

FEW = 100
PATH = "/git/team/support.git"
PUSH = f"POST {PATH}/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-receive-pack-request\r\n"
FETCH = f"POST {PATH}/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-upload-pack-request\r\n"
DISCOVERY = f"GET {PATH}/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def limits() -> ServerLimits:
    """Short patience with a git that should end."""
    return ServerLimits(grace_s=2.0)


def _push(body: bytes, *, sent: int, chunked: bool = False) -> bytes:
    if chunked:
        return f"{PUSH}Transfer-Encoding: chunked\r\n\r\n{sent + 1000:x}\r\n".encode() + body[:sent]
    return f"{PUSH}Content-Length: {len(body)}\r\n\r\n".encode() + body[:sent]


def _fetch(body: bytes, *, sent: int) -> bytes:
    return f"{FETCH}Content-Length: {len(body)}\r\n\r\n".encode() + body[:sent]


# Each stage: what is sent before the client hangs up, made of a push of a new commit and a fetch of all; and how much of the answer is read.
STAGES: dict[str, tuple[Callable[[bytes, bytes], bytes], int]] = {
    "connected": (lambda _push_body, _fetch_body: b"", 0),
    "within the head": (lambda _push_body, _fetch_body: PUSH.encode()[:40], 0),
    "discovery asked": (lambda _push_body, _fetch_body: DISCOVERY.encode(), 0),
    "discovery half read": (lambda _push_body, _fetch_body: DISCOVERY.encode(), 20),
    "push, head only": (lambda body, _: _push(body, sent=0), 0),
    "push, within the commands": (lambda body, _: _push(body, sent=30), 0),
    "push, after the commands": (lambda body, _: _push(body, sent=body.index(b"PACK")), 0),
    "push, within the pack": (lambda body, _: _push(body, sent=len(body) // 2), 0),
    "push, within a chunk": (lambda body, _: _push(body, sent=len(body) // 2, chunked=True), 0),
    "push, one byte missing": (lambda body, _: _push(body, sent=len(body) - 1), 0),
    "fetch, head only": (lambda _, body: _fetch(body, sent=0), 0),
    "fetch, within the request": (lambda _, body: _fetch(body, sent=20), 0),
    "fetch, asked": (lambda _, body: _fetch(body, sent=len(body)), 0),
    "fetch, within the pack": (lambda _, body: _fetch(body, sent=len(body)), 100_000),
}


@pytest.mark.parametrize("stage", STAGES)
async def test_client_that_hangs_up_leaves_nothing(server: GitServer, git: GitClient, work: Path, stage: str) -> None:
    """Wherever the client breaks off: git ends, nothing of the push is kept, and the same push then works."""
    make, read = STAGES[stage]
    server.authority.policy = OPEN
    # An answer that is broken off must not fit the buffers on its way.
    pushed = await git.commit(work, {"noise.bin": os.urandom(12 << 20 if read > FEW else 1000)})
    await git("push", "-q", "origin", "main", cwd=work)
    commit = await git.commit(work, {"more.bin": os.urandom(200_000)})
    push = (await push_body(git, work, commit)).replace(b"refs/heads/main", b"refs/heads/next")
    # Both names have four letters, so the length of the command line stays right.
    fetch = pktline.encode(f"want {pushed}\n".encode()) + pktline.FLUSH + pktline.encode(b"done\n")
    host, _, port = server.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(make(push, fetch))
    await writer.drain()
    if read:
        await reader.readexactly(read)
    await close(writer)
    await until(lambda: not git_children(), "git to end")
    objects = server.path() / "objects"
    await until(lambda: not list(objects.glob("tmp_objdir*")), "the quarantine to go")
    assert not list(server.path().rglob("refs/**/*.lock"))
    assert (await git("ls-remote", server.url(), "refs/heads/next")).out == ""
    await git("push", "-q", "origin", "HEAD:refs/heads/next", cwd=work)
    assert (await git("ls-remote", server.url(), "refs/heads/next")).out.split()[0] == commit
    assert await server.repositories.head(PROJECT) == pushed
