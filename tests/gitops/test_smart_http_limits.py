"""What the server answers to requests that git would not send, and to too many of them."""

import asyncio
import gzip
import os
from dataclasses import replace

import pytest

from gitops import pktline
from gitops.smart_http import ServerLimits, SmartHTTP
from tests.gitops.conftest import DEADLINE_S, GitServer, git_children, serving, until
from tests.gitops.test_smart_http_push import close, raw_post

UPLOAD = "application/x-git-upload-pack-request"


@pytest.fixture
def limits() -> ServerLimits:
    """Small limits, so that a test meets them soon."""
    return ServerLimits(negotiation_body_bytes=2 << 20, push_body_bytes=500_000, idle_s=1.5, grace_s=1.0)


async def ask(server: GitServer, method: str, path: str, headers: str = "", body: bytes = b"") -> tuple[int, str]:
    """Send one request by hand; return the status and the whole answer."""
    host, _, port = server.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body)
    answer = (await reader.read()).decode("latin-1")
    await close(writer)
    return int(answer.split(" ", 2)[1]), answer


REPOSITORY = "/git/team/support.git"
SHALLOW = pktline.encode(b"shallow " + b"0" * 40)  # 52 bytes that upload-pack takes any number of


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        pytest.param("GET", f"{REPOSITORY}/info/refs", 403, "dumb HTTP", id="dumb discovery"),
        pytest.param("GET", f"{REPOSITORY}/HEAD", 403, "dumb HTTP", id="dumb HEAD"),
        pytest.param("GET", f"{REPOSITORY}/objects/info/packs", 403, "dumb HTTP", id="dumb packs"),
        pytest.param("GET", f"{REPOSITORY}/config", 403, "dumb HTTP", id="the configuration"),
        pytest.param("GET", f"{REPOSITORY}/info/refs?service=git-upload-archive", 403, "only git-upload-pack", id="another service"),
        pytest.param("GET", f"{REPOSITORY}/arena.lock", 404, "cannot find", id="a file of ours"),
        pytest.param("GET", "/git/team/nobody.git/info/refs?service=git-upload-pack", 404, "does not exist", id="another project"),
        pytest.param("GET", "/git/team/../team/support.git/info/refs?service=git-upload-pack", 404, "cannot find", id="a path that climbs"),
        pytest.param("GET", "/git/team/%2e%2e/support.git/info/refs?service=git-upload-pack", 404, "cannot find", id="an encoded path that climbs"),
        pytest.param("GET", "/git/team/support.git/../support.git/HEAD", 404, "cannot find", id="a path through another"),
        pytest.param("GET", "/git/Team/support.git/info/refs?service=git-upload-pack", 404, "cannot find", id="a name that is none"),
        pytest.param("GET", "/git/team/a..b.git/info/refs?service=git-upload-pack", 404, "a..b", id="a name with two dots"),
        pytest.param("GET", f"{REPOSITORY}/git-upload-pack", 405, "use POST", id="GET for POST"),
        pytest.param("POST", f"{REPOSITORY}/info/refs?service=git-upload-pack", 405, "use GET", id="POST for GET"),
        pytest.param("POST", f"{REPOSITORY}/git-upload-pack", 415, "content type", id="no content type"),
    ],
)
async def test_request_that_is_not_gits(server: GitServer, method: str, path: str, status: int, said: str) -> None:
    """Everything that is not smart HTTP is refused in words, and reads no file."""
    got, answer = await ask(server, method, path)
    assert got == status
    assert said in answer


async def test_unknown_encoding_is_refused(server: GitServer) -> None:
    """Only gzip is inflated."""
    got, answer = await ask(server, "POST", f"{REPOSITORY}/git-upload-pack", f"Content-Type: {UPLOAD}\r\nContent-Encoding: br\r\n", b"x")
    assert (got, "gzip" in answer) == (415, True)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"no gzip", 400, id="no gzip at all"),
        pytest.param(gzip.compress(b"0000" * 100)[:-4], 400, id="cut off"),
        pytest.param(gzip.compress(b"0000") + b"more", 400, id="more behind its end"),
        pytest.param(gzip.compress(SHALLOW * 60_000, 1), 413, id="over the limit when inflated"),
        pytest.param(gzip.compress(SHALLOW * 35_000), 413, id="inflates more than a hundredfold"),
    ],
)
async def test_gzip_body_is_not_trusted(server: GitServer, body: bytes, status: int) -> None:
    """A damaged or exploding gzip body is refused, and git never sees the rest of it."""
    got, _ = await ask(server, "POST", f"{REPOSITORY}/git-upload-pack", f"Content-Type: {UPLOAD}\r\nContent-Encoding: gzip\r\n", body)
    assert got == status
    await until(lambda: not git_children(), "git to end")


async def test_garbage_fetch_is_refused(server: GitServer) -> None:
    """Bytes that upload-pack cannot read are a bad request, not an empty success."""
    got, _ = await ask(server, "POST", f"{REPOSITORY}/git-upload-pack", f"Content-Type: {UPLOAD}\r\n", b"zzzz")
    assert got == 400


async def test_declared_length_over_the_limit_is_refused_before_the_body(server: GitServer) -> None:
    """A client that waits for 100-continue does not upload what would be refused."""
    reader, writer = await raw_post(server, "git-receive-pack", b"", length=500_001, headers="Expect: 100-continue\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 413")
    await close(writer)


async def test_chunked_body_over_the_limit_is_refused(server: GitServer) -> None:
    """Without a declared length the bytes are counted."""
    host, _, port = server.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = "Host: x\r\nTransfer-Encoding: chunked\r\nContent-Type: application/x-git-receive-pack-request\r\n\r\n"
    command = pktline.encode(f"{'0' * 40} {'1' * 40} refs/heads/dev\0report-status".encode()) + pktline.FLUSH
    body = command + os.urandom(600_000)
    writer.write(f"POST {REPOSITORY}/git-receive-pack HTTP/1.1\r\n{head}".encode() + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 413")
    await close(writer)


async def test_stalled_body_is_refused(server: GitServer) -> None:
    """A client that stops sending is not waited for, and its git ends."""
    command = pktline.encode(f"{'0' * 40} {'1' * 40} refs/heads/main\0report-status side-band-64k".encode()) + pktline.FLUSH
    reader, writer = await raw_post(server, "git-receive-pack", command + b"PACK", length=10_000)
    assert (await reader.readline()).startswith(b"HTTP/1.1 408")
    await close(writer)
    await until(lambda: not git_children(), "git to end")


async def test_waiting_too_long_for_a_slot(server: GitServer) -> None:
    """Beyond the limit of processes a request waits, then hears when to come back; a place that is free again is given."""
    patient = ServerLimits(per_repository=1, waiting=1, wait_s=0.05, grace_s=1.0)
    application = SmartHTTP(server.repositories, authorize=server.authority, on_change=server.changes, limits=patient)
    async with serving(application) as address:
        other = replace(server, address=address)
        command = pktline.encode(f"{'0' * 40} {'1' * 40} refs/heads/main\0report-status side-band-64k".encode()) + pktline.FLUSH
        _, writer = await raw_post(other, "git-receive-pack", command + b"PACK", length=10_000)
        await until(lambda: bool(git_children()), "the first push to begin")
        push = ("POST", f"{REPOSITORY}/git-receive-pack", "Content-Type: application/x-git-receive-pack-request\r\n", b"0000")
        got, answer = await ask(other, *push)
        await close(writer)
        assert got == 503
        assert "retry-after: 5" in answer.lower()
        async with asyncio.timeout(DEADLINE_S):
            while (await ask(other, *push))[0] != 200:
                pass


async def test_challenge_comes_before_the_body(server: GitServer) -> None:
    """A push without a credential is answered 401 before it uploads."""
    server.authority.password = "Basic x"
    reader, writer = await raw_post(server, "git-receive-pack", b"", length=1000, headers="Expect: 100-continue\r\n")
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    await close(writer)
    assert head.startswith(b"http/1.1 401")
    assert b'www-authenticate: basic realm="arena"' in head
