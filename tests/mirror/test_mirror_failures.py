"""Each way in which a remote fails: what is said, and that the mirror recovers without help."""

import asyncio
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.clock import Clock, FakeClock
from gitops.errors import RemoteCause, RemoteFailed
from gitops.mirrors import MirrorLimits
from tests.mirror.conftest import PROJECT, Mirrored
from tests.mirror.https_host import NAMES, HttpsHost, Upstream
from tests.mirror.misbehaving_host import ADVERTISEMENT, MisbehavingHost, Request, answer, misbehaving, through
from tests.ports import free_ports

GIT = b"User-Agent: git/2"
GOOD_HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: {ADVERTISEMENT}\r\n\r\n".encode()
SECRET = "s3cr3t-of-the-reader"


@pytest.fixture
def clock() -> Clock:
    """A clock that stands at the beginning of 2026."""
    return FakeClock()


@pytest.fixture
def limits() -> MirrorLimits:
    """Limits of size that a test can reach."""
    return MirrorLimits(listing_bytes=200_000, pack_bytes=600_000)


@pytest.fixture
def liar(host: HttpsHost) -> Iterator[MisbehavingHost]:
    """A host that passes everything on until a test says what it does instead."""
    with misbehaving(host.authority) as running:
        running.behaviour = lambda request: [through(host, request)]
        yield running


def instead(host: HttpsHost, of: Callable[[Request], bool], parts: Iterable[bytes]) -> Callable[[Request], Iterable[bytes]]:
    """Return a behaviour that passes everything on but what `of` says."""
    return lambda request: parts if of(request) else [through(host, request)]


async def recovers(mirrored: Mirrored, upstream: Upstream) -> None:
    """Let the next fetch bring what the remote has, with nothing left of the one that failed."""
    tip = upstream.commit()
    await mirrored.fetch()
    assert await mirrored.repositories.head(PROJECT) == tip
    mirrored.check()


STATUSES = {
    401: (RemoteCause.REFUSED, "the host asks for a credential (401)", None),
    403: (RemoteCause.REFUSED, "the host asks for a credential (403)", None),
    404: (RemoteCause.NOT_FOUND, "the host has no such repository (404)", None),
    429: (RemoteCause.BUSY, "the host answers 429 and asks to be left alone for 120 s", 120.0),
    500: (RemoteCause.BUSY, "the host answers 500", None),
    502: (RemoteCause.BUSY, "the host answers 502", None),
    503: (RemoteCause.BUSY, "the host answers 503 and asks to be left alone for 120 s", 120.0),
}


@pytest.mark.parametrize("status", STATUSES)
async def test_what_a_status_means(mirrored: Mirrored, upstream: Upstream, host: HttpsHost, status: int) -> None:
    """Each status has its cause and its words; the mirror answers meanwhile, and goes on when the host does (argoproj/argo-cd#1895)."""
    cause, says, retry_after_s = STATUSES[status]
    tip = upstream.commit()
    await mirrored.fetch()
    with host.answering(upstream.name, status):
        failure = await mirrored.failure()
    assert (failure.cause, failure.message) == (cause, f"cannot fetch '{upstream.url}': {says}")
    assert failure.hint
    assert failure.retry_after_s == retry_after_s
    assert await mirrored.repositories.head(PROJECT) == tip
    await recovers(mirrored, upstream)


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("7", 7.0),
        ("Thu, 01 Jan 2026 00:02:00 GMT", 120.0),
        ("Wed, 31 Dec 2025 23:00:00 GMT", 0.0),
        ("99999999", 86400.0),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
async def test_retry_after_in_both_forms(mirrored: Mirrored, liar: MisbehavingHost, retry_after: str, seconds: float | None) -> None:
    """Seconds and dates are understood, a date that has passed is now, a year is a day, and nonsense says nothing."""
    liar.behaviour = lambda _: [answer("429 Busy", b"", f"Retry-After: {retry_after}")]
    failure = await mirrored.aim(liar.url("team/x")).failure()
    assert (failure.cause, failure.retry_after_s) == (RemoteCause.BUSY, seconds)


async def test_a_403_with_retry_after_is_a_rate_limit(mirrored: Mirrored, liar: MisbehavingHost) -> None:
    """Some hosts say with 403 that they are asked too often; waiting helps there, another credential does not."""
    liar.behaviour = lambda _: [answer("403 Forbidden", b"", "Retry-After: 60")]
    failure = await mirrored.aim(liar.url("team/x")).failure()
    assert (failure.cause, failure.retry_after_s) == (RemoteCause.BUSY, 60.0)


async def test_credentials_and_their_rotation(mirrored: Mirrored, host: HttpsHost) -> None:
    """A private repository needs the credential of the moment: none, a wrong one and an old one are refused, the new one is taken at the next fetch."""
    upstream = host.create(f"private/{os.urandom(5).hex()}")
    upstream.commit()
    user = f"reader-{os.urandom(3).hex()}"
    host.users(**{user: SECRET})
    assert "asks for a credential (401)" in (await mirrored.aim(upstream.url).failure()).message
    assert "refuses the credential (401)" in (await mirrored.aim(username=user, password="wrong").failure()).message
    await mirrored.aim(password=SECRET).fetch()
    host.users(**{user: "rotated"})
    failure = await mirrored.failure()
    assert failure.cause is RemoteCause.REFUSED
    assert SECRET not in failure.message + failure.hint
    mirrored.aim(password="", token="rotated")
    await recovers(mirrored, upstream)
    host.users(reader="secret")


async def test_a_credential_that_dies_between_listing_and_fetch(
    mirrored: Mirrored, upstream: Upstream, host: HttpsHost, liar: MisbehavingHost
) -> None:
    """What git meets is said in the same words as what the listing meets."""
    upstream.commit()
    liar.behaviour = instead(host, lambda request: GIT in request.head, [answer("401 Who", b"", 'WWW-Authenticate: Basic realm="x"')])
    failure = await mirrored.aim(liar.url(upstream.name), token=SECRET).failure()
    assert (failure.cause, "refuses the credential" in failure.message) == (RemoteCause.REFUSED, True)
    liar.behaviour = instead(host, lambda request: GIT in request.head, [answer("503 Busy")])
    assert (await mirrored.failure()).cause is RemoteCause.BUSY
    liar.behaviour = lambda request: [through(host, request)]
    await recovers(mirrored, upstream)


class TestUnreachable:
    """Names that lead nowhere, and connections that do not come about or do not stay."""

    async def test_a_name_without_an_address(self, mirrored: Mirrored) -> None:
        """The name is said, and that the resolver knows it not."""
        failure = await mirrored.aim("https://no-such-host.invalid/team/x").failure()
        assert failure.cause is RemoteCause.UNREACHABLE
        assert "the name no-such-host.invalid leads to no address" in failure.message

    async def test_a_port_where_nobody_listens(self, mirrored: Mirrored) -> None:
        """A refused connection names host and port."""
        (port,) = free_ports(1)
        failure = await mirrored.aim(f"https://localhost:{port}/team/x").failure()
        assert failure.cause is RemoteCause.UNREACHABLE
        assert f"no connection to localhost:{port} (connection refused)" in failure.message

    async def test_a_connection_that_is_dropped(self, mirrored: Mirrored, liar: MisbehavingHost) -> None:
        """A host that hangs up without a word is unreachable."""
        liar.behaviour = lambda _: []
        assert (await mirrored.aim(liar.url("team/x")).failure()).cause is RemoteCause.UNREACHABLE

    async def test_the_next_address_is_tried(self, mirrored: Mirrored, upstream: Upstream) -> None:
        """When a name has several addresses, one that refuses does not stop the fetch, and git goes to the one that answered."""
        upstream.commit()
        mirrored.start(names={"git.example.test": ["127.0.0.2", "127.0.0.1"]})
        assert (await mirrored.aim(upstream.url.replace("localhost", "git.example.test")).fetch()).fetched

    async def test_a_kept_connection_that_the_host_has_closed(
        self, mirrored: Mirrored, upstream: Upstream, host: HttpsHost, liar: MisbehavingHost
    ) -> None:
        """A host may close what we keep, also without a word: the poll connects again and does not fail."""
        upstream.commit()
        del host
        await mirrored.aim(liar.url(upstream.name)).fetch()
        assert not (await mirrored.fetch()).fetched


class TestCertificates:
    """Whom a remote's certificate must convince."""

    async def test_an_unknown_authority(self, mirrored: Mirrored) -> None:
        """Without ca.crt the system's authorities decide, and do not know this one."""
        failure = await mirrored.aim(ca_certificates="").failure()
        assert failure.cause is RemoteCause.CERTIFICATE
        assert "the host's certificate is not trusted (unable to get local issuer certificate)" in failure.message
        assert failure.hint == "put the certificate of its authority as ca.crt into the Secret that spec.external.secretRef names"

    async def test_another_authority(self, mirrored: Mirrored) -> None:
        """With ca.crt that authority alone is trusted."""
        other = trustme.CA().cert_pem.bytes().decode()
        failure = await mirrored.aim(ca_certificates=other).failure()
        assert (failure.cause, failure.hint) == (RemoteCause.CERTIFICATE, "check ca.crt in the Secret")

    async def test_words_between_certificates(self, mirrored: Mirrored, upstream: Upstream) -> None:
        """What a bundle says of its authorities, in whatever language, is in nobody's way."""
        upstream.commit()
        named = f"# Főtanúsítvány, Gegründet 1999\n{mirrored.remote.credentials.ca_certificates}"
        assert (await mirrored.aim(ca_certificates=named).fetch()).fetched

    @pytest.mark.parametrize("content", ["ü", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
    async def test_a_ca_crt_without_a_certificate(self, mirrored: Mirrored, content: str) -> None:
        """A key that holds no certificate is said to hold none."""
        failure = await mirrored.aim(ca_certificates=content).failure()
        assert (failure.cause, "ca.crt holds no certificate" in failure.message) == (RemoteCause.CERTIFICATE, True)

    @pytest.mark.parametrize(("name", "days", "says"), [("other.example.test", 1, "mismatch"), (NAMES[0], -1, "expired")])
    async def test_a_wrong_certificate(self, mirrored: Mirrored, host: HttpsHost, name: str, days: int, says: str) -> None:
        """A certificate of another host's, or of yesterday's, is refused."""
        now = datetime.now(UTC)
        certificate = host.authority.issue_cert(name, not_before=now - timedelta(days=9), not_after=now + timedelta(days=days))
        with misbehaving(host.authority, certificate=certificate) as wrong:
            failure = await mirrored.aim(wrong.url("team/x")).failure()
        assert (failure.cause, says in failure.message) == (RemoteCause.CERTIFICATE, True), failure.message

    async def test_git_checks_for_itself(self, mirrored: Mirrored, upstream: Upstream, host: HttpsHost) -> None:
        """A certificate that is exchanged between listing and fetch stops git, too."""
        upstream.commit()
        exchanged = trustme.CA().issue_cert(*NAMES)
        with misbehaving(host.authority) as liar:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            exchanged.configure_cert(context)
            liar.behaviour = lambda request: [through(host, request)]
            mirrored.aim(liar.url(upstream.name))
            await mirrored.fetch()
            upstream.commit()
            liar.exchange_after(2, context)
            failure = await mirrored.failure()
        assert failure.cause is RemoteCause.CERTIFICATE

    async def test_a_port_that_speaks_no_tls(self, mirrored: Mirrored) -> None:
        """Plain HTTP where TLS should be is said as what it is."""
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def talk() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

            thread = threading.Thread(target=talk, daemon=True)
            thread.start()
            failure = await mirrored.aim(f"https://localhost:{listener.getsockname()[1]}/team/x").failure()
            thread.join()
        assert failure.cause is RemoteCause.PROTOCOL
        assert "does not speak HTTPS" in failure.message


@pytest.mark.slow
class TestTime:
    """Hosts that are silent, slow, or never come to an end."""

    @pytest.fixture
    def limits(self) -> MirrorLimits:
        """Limits that a test can wait for, and a fetch on a busy machine can keep."""
        return MirrorLimits(listing_s=4.0, connect_s=4.0, fetch_s=8.0, stall_s=4)

    async def test_a_silent_host(self, mirrored: Mirrored, liar: MisbehavingHost) -> None:
        """A host that answers nothing is given up after the limit (fluxcd/source-controller#565)."""
        liar.behaviour = lambda _: liar.stall()
        assert (await timed(mirrored.aim(liar.url("team/x")))).cause is RemoteCause.TIMED_OUT

    async def test_an_answer_byte_by_byte(self, mirrored: Mirrored, liar: MisbehavingHost) -> None:
        """A host that says one byte after the other, in headers or body, meets the same limit."""
        liar.behaviour = lambda _: liar.drip(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 5000)
        assert (await timed(mirrored.aim(liar.url("team/x")))).cause is RemoteCause.TIMED_OUT
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {ADVERTISEMENT}\r\nContent-Length: 99999\r\n\r\n".encode()
        liar.behaviour = lambda _: (part for parts in ([head], liar.drip(b"x" * 5000)) for part in parts)
        assert (await timed(mirrored)).cause is RemoteCause.TIMED_OUT

    async def test_a_pack_that_stalls(self, mirrored: Mirrored, upstream: Upstream, host: HttpsHost, liar: MisbehavingHost) -> None:
        """A host that stops in the middle of a pack is given up, and nothing of the pack is left (argoproj/argo-cd#2991)."""
        upstream.commit(files={"a.bin": os.urandom(400_000)})
        whole: list[bytes] = []

        def half(request: Request) -> Iterator[bytes]:
            whole.append(through(host, request))
            yield whole[0][:250_000]
            yield from liar.stall()

        liar.behaviour = lambda request: half(request) if request.is_pack else [through(host, request)]
        failure = await timed(mirrored.aim(liar.url(upstream.name)))
        assert failure.cause is RemoteCause.TIMED_OUT
        liar.behaviour = lambda request: [through(host, request)]
        await recovers(mirrored, upstream)

    async def test_a_pack_without_end(self, mirrored: Mirrored, upstream: Upstream, host: HttpsHost, liar: MisbehavingHost) -> None:
        """A host that sends just fast enough meets the limit of the whole fetch."""
        upstream.commit(files={"a.bin": os.urandom(150_000)})
        liar.behaviour = lambda request: liar.drip_in(through(host, request), 120) if request.is_pack else [through(host, request)]
        failure = await timed(mirrored.aim(liar.url(upstream.name)), 40.0)
        assert (failure.cause, "takes longer than 8 s" in failure.message) == (RemoteCause.TIMED_OUT, True)
        liar.behaviour = lambda request: [through(host, request)]
        await recovers(mirrored, upstream)


async def timed(mirrored: Mirrored, seconds: float = 30.0) -> RemoteFailed:
    """Return the failure of a fetch, which must come in time."""
    begun = time.monotonic()
    failure = await mirrored.failure()
    assert time.monotonic() - begun < seconds
    return failure


class TestSize:
    """More than the limits allow."""

    async def test_a_pack_that_is_too_large(self, mirrored: Mirrored, upstream: Upstream) -> None:
        """A pack over the limit is stopped while it comes in, leaves nothing, and a smaller history is taken afterwards."""
        upstream.commit(files={"a.bin": os.urandom(1_200_000)})
        failure = await mirrored.failure()
        assert (failure.cause, "its pack is larger than the limit" in failure.message) == (RemoteCause.TOO_LARGE, True), failure.message
        assert sum(path.stat().st_size for path in mirrored.path.rglob("*") if path.is_file()) < 50_000
        upstream.delete_ref("refs/heads/main")
        await recovers(mirrored, upstream)

    async def test_a_list_of_refs_without_end(self, mirrored: Mirrored, liar: MisbehavingHost) -> None:
        """An advertisement over the limit is given up before it fills the memory."""
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {ADVERTISEMENT}\r\n\r\n".encode()
        liar.behaviour = lambda _: (part for parts in ([head], (b"0032" + b"a" * 46 for _ in range(100_000))) for part in parts)
        failure = await mirrored.aim(liar.url("team/x")).failure()
        assert (failure.cause, "larger than 200000 bytes" in failure.message) == (RemoteCause.TOO_LARGE, True)


class TestProtocol:
    """What answers, but not as git does."""

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            pytest.param(b"<html>sign in</html>", "text/html", id="a sign-in page"),
            pytest.param(b"0" * 40 + b"\trefs/heads/main\n", "text/plain", id="a dumb server"),
            pytest.param(b"", ADVERTISEMENT, id="nothing"),
            pytest.param(b"garbage", ADVERTISEMENT, id="garbage"),
            pytest.param(b"001e# service=git-upload-pack\n0000", ADVERTISEMENT, id="a list without an end"),
            pytest.param(b"000eversion 2\n0013ls-refs=unborn\n", ADVERTISEMENT, id="capabilities without an end"),
            pytest.param(b"000eversion 9\n0000", ADVERTISEMENT, id="another version"),
            pytest.param(b"0010ERR go away\n", ADVERTISEMENT, id="an error"),
            pytest.param(b"\xff" * 100, ADVERTISEMENT, id="no text"),
        ],
    )
    async def test_no_git(self, mirrored: Mirrored, liar: MisbehavingHost, body: bytes, kind: str) -> None:
        """Whatever it is, it is said to be no git, with what to check."""
        liar.behaviour = lambda _: [answer("200 OK", body, f"Content-Type: {kind}")]
        failure = await mirrored.aim(liar.url("team/x")).failure()
        assert failure.cause is RemoteCause.PROTOCOL
        assert "spec.external.url" in failure.hint

    @settings(max_examples=40)
    @given(
        garbage=st.binary(max_size=300),
        form=st.sampled_from((b"%b", b"HTTP/1.1 200 OK\r\n%b", GOOD_HEAD + b"%b", GOOD_HEAD + b"000eversion 2\n%b0000")),
    )
    def test_whatever_answers_there(self, mirrored: Mirrored, liar: MisbehavingHost, garbage: bytes, form: bytes) -> None:
        """Any bytes at all lead to a failure with a cause, never to another error, and never to a mirror."""
        liar.behaviour = lambda _: [form % garbage]
        failure = asyncio.run(mirrored.aim(liar.url("team/x")).failure())
        assert failure.message.isprintable()

    async def test_a_listing_that_breaks_off(self, mirrored: Mirrored, upstream: Upstream, host: HttpsHost, liar: MisbehavingHost) -> None:
        """Half a list of refs is no list: branches that it does not name are not pruned."""
        upstream.commit()
        upstream.commit("z-last")
        await mirrored.aim(liar.url(upstream.name)).fetch()
        before = mirrored.refs()

        def half(request: Request) -> list[bytes]:
            whole = through(host, request)
            return [whole if request.is_discovery else whole[: whole.index(b"z-last") - 60]]

        liar.behaviour = half
        failure = await mirrored.failure()
        assert failure.cause in {RemoteCause.PROTOCOL, RemoteCause.UNREACHABLE}
        assert mirrored.refs() == before

    async def test_a_truncated_pack(self, mirrored: Mirrored, upstream: Upstream, host: HttpsHost, liar: MisbehavingHost) -> None:
        """A pack that breaks off changes no ref and leaves nothing; the next fetch brings it whole."""
        upstream.commit(files={"a.bin": os.urandom(100_000)})
        liar.behaviour = lambda request: [through(host, request)[:50_000] if request.is_pack else through(host, request)]
        failure = await mirrored.aim(liar.url(upstream.name)).failure()
        assert failure.cause is RemoteCause.PROTOCOL
        assert "breaks off" in failure.message
        assert mirrored.refs() == {}
        liar.behaviour = lambda request: [through(host, request)]
        await recovers(mirrored, upstream)

    async def test_a_damaged_pack(self, mirrored: Mirrored, upstream: Upstream, host: HttpsHost, liar: MisbehavingHost) -> None:
        """A pack with one wrong byte is refused as a whole."""
        upstream.commit(files={"a.bin": os.urandom(100_000)})

        def damaged(request: Request) -> bytes:
            whole = bytearray(through(host, request))
            if request.is_pack:
                whole[50_000] ^= 1
            return bytes(whole)

        liar.behaviour = lambda request: [damaged(request)]
        assert (await mirrored.aim(liar.url(upstream.name)).failure()).cause is RemoteCause.PROTOCOL
        liar.behaviour = lambda request: [through(host, request)]
        await recovers(mirrored, upstream)

    async def test_a_host_without_protocol_2(self, mirrored: Mirrored, upstream: Upstream, host: HttpsHost, liar: MisbehavingHost) -> None:
        """An old host that answers in protocol 0 is mirrored like any other."""
        tip = upstream.commit()
        upstream.git("tag", "-a", "-m", "x", "v1", "main")
        liar.behaviour = lambda request: [through(host, Request(request.head.replace(b"Git-Protocol: version=2", b"X-Nothing: 1"), request.body))]
        state = await mirrored.aim(liar.url(upstream.name)).fetch()
        assert state.default_branch == "refs/heads/main"
        assert mirrored.refs() == {"refs/heads/main": tip, "refs/tags/v1": upstream.tip("refs/tags/v1")}
        assert not (await mirrored.fetch()).fetched


class TestHistory:
    """Old histories, and broken ones."""

    async def test_harmless_faults_of_old_tools(self, mirrored: Mirrored, upstream: Upstream) -> None:
        """Faults that old tools left in public histories harm nobody and are taken."""
        tips = {f"refs/heads/{fault}": faulty(upstream, fault, committer) for fault, committer in HARMLESS.items()}
        await mirrored.fetch()
        assert mirrored.refs() == dict(sorted(tips.items()))

    async def test_a_fault_that_harms_is_named(self, mirrored: Mirrored, upstream: Upstream) -> None:
        """What is refused names the object, the check and the remedy, changes nothing, and does not hold up a mended history."""
        blob = upstream.git("hash-object", "-w", "--stdin", stdin=b"x")
        raw = b"100644 .git\0" + bytes.fromhex(blob)
        tree = upstream.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw)
        upstream.set_ref("refs/heads/main", upstream.git("commit-tree", "-m", "x", tree))
        failure = await mirrored.failure()
        assert failure.cause is RemoteCause.FAULTY
        assert f"object {tree} fails check 'hasDotgit'" in failure.message
        assert "git filter-repo" in failure.hint
        upstream.delete_ref("refs/heads/main")
        await recovers(mirrored, upstream)


HARMLESS = {
    "badTimezone": b"A <a@x> 1 +051800",
    "missingSpaceBeforeDate": b"A <a@x>1 +0000",
    "missingSpaceBeforeEmail": b"A<a@x> 1 +0000",
    "zeroPaddedDate": b"A <a@x> 01 +0000",
    "badEmail": b"A <a<b> 1 +0000",
    "badDateOverflow": b"A <a@x> 99999999999999999999 +0000",
}


def faulty(upstream: Upstream, branch: str, committer: bytes) -> str:
    """Put a commit on a branch whose committer line is as given, and return it."""
    tree = upstream.git("hash-object", "-w", "-t", "tree", "--stdin")
    raw = b"tree %b\nauthor A <a@x> 1 +0000\ncommitter %b\n\nx\n" % (tree.encode(), committer)
    commit = upstream.git("hash-object", "-w", "-t", "commit", "--literally", "--stdin", stdin=raw)
    upstream.set_ref(f"refs/heads/{branch}", commit)
    return commit
