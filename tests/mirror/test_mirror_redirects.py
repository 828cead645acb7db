"""Redirects: at most three, on the same host, resolved by the listing; and what git itself is allowed."""

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network

import pytest

from foundation.addresses import AddressPolicy
from gitops.errors import RemoteCause
from tests.mirror.conftest import PROJECT, Mirrored
from tests.mirror.https_host import HttpsHost, Upstream
from tests.mirror.misbehaving_host import MisbehavingHost, Request, answer, misbehaving, through
from tests.processes import told

TOKEN = "t0ken-of-the-host"


@pytest.fixture
def liar(host: HttpsHost) -> Iterator[MisbehavingHost]:
    """A host that passes everything on until a test says what it does instead."""
    with misbehaving(host.authority) as running:
        running.behaviour = lambda request: [through(host, request)]
        yield running


@pytest.mark.parametrize("prefix", ["moved/", "hops/1/", "hops/3/"])
async def test_redirects_on_the_same_host_are_followed(mirrored: Mirrored, upstream: Upstream, host: HttpsHost, prefix: str) -> None:
    """Up to three redirects on the host lead to the repository, and git goes straight to the last."""
    tip = upstream.commit()
    await mirrored.aim(host.url(upstream.name, prefix=prefix)).fetch()
    assert await mirrored.repositories.head(PROJECT) == tip
    by_git = [line.split('"')[1].split(" ")[1] for line in host.requests(upstream.name) if '"git/2' in line]
    assert by_git
    assert all(path.startswith(f"/{upstream.name}.git/") for path in by_git)


@pytest.mark.parametrize(
    ("prefix", "says"),
    [
        pytest.param("hops/4/", "redirects more than 3 times", id="four"),
        pytest.param("loop/", "redirects more than 3 times", id="a loop"),
        pytest.param("away/", "which is another host", id="another host"),
        pytest.param("other-port/", "which is another host", id="another port"),
        pytest.param("plain/", "only https remotes are mirrored", id="plain http"),
        pytest.param("elsewhere/", "/login', which is no repository", id="a page"),
    ],
)
async def test_other_redirects_are_refused(mirrored: Mirrored, upstream: Upstream, host: HttpsHost, prefix: str, says: str) -> None:
    """What leads elsewhere is refused with where it leads, before and after a good fetch."""
    upstream.commit()
    failure = await mirrored.aim(host.url(upstream.name, prefix=prefix)).failure()
    assert (failure.cause, says in failure.message) == (RemoteCause.REDIRECT, True), failure.message


@pytest.mark.parametrize(
    "location",
    [
        "//other.git.example.test/{path}",
        "https://user:pw@localhost:{port}/{path}",
        "https://localhost:{port}/a/../{path}",
        "https://localhost.:{port}/{path}",
        "file:///{path}",
        "",
        "\x7f",
    ],
)
async def test_odd_redirects_are_refused(mirrored: Mirrored, upstream: Upstream, liar: MisbehavingHost, location: str) -> None:
    """A location that two programs could read differently, or that holds a credential, is refused; the credential is not repeated."""
    target = location.format(port=liar.port, path=f"{upstream.name}.git/info/refs?service=git-upload-pack")
    liar.behaviour = lambda _: [answer("302 Found", b"", f"Location: {target}")]
    failure = await mirrored.aim(liar.url(upstream.name)).failure()
    assert failure.cause is RemoteCause.REDIRECT
    assert "pw" not in failure.message


async def test_another_host_never_hears_of_the_credential(mirrored: Mirrored, upstream: Upstream, host: HttpsHost, liar: MisbehavingHost) -> None:
    """Neither the listing nor git follows a redirect to another host, so that host gets no request at all (go-gitea/gitea#38320)."""
    upstream.commit()
    with misbehaving(host.authority) as other:
        away = [answer("302 Found", b"", f"Location: https://localhost:{other.port}/{upstream.name}.git/info/refs?service=git-upload-pack")]
        liar.behaviour = lambda _: away
        mirrored.aim(liar.url(upstream.name), token=TOKEN)
        assert (await mirrored.failure()).cause is RemoteCause.REDIRECT
        liar.behaviour = lambda request: away if b"User-Agent: git/2" in request.head else [through(host, request)]
        assert (await mirrored.failure()).cause is RemoteCause.REDIRECT
        assert other.requests == []
        assert other.handshakes == 0


async def test_git_goes_to_the_address_that_was_checked(mirrored: Mirrored, upstream: Upstream, host: HttpsHost, liar: MisbehavingHost) -> None:
    """Listing and git speak to the pinned address with the host's own name: the system's resolver does not know it."""
    tip = upstream.commit()
    liar.behaviour = lambda request: [through(host, request)]
    await mirrored.aim(liar.url(upstream.name, host="git.example.test")).fetch()
    assert await mirrored.repositories.head(PROJECT) == tip
    hosts = {line for request in liar.requests for line in request.head.decode().split("\r\n") if line.lower().startswith("host:")}
    assert hosts == {f"Host: git.example.test:{liar.port}"}
    assert any(b"User-Agent: git/2" in request.head for request in liar.requests)


async def test_nothing_else_is_fetched(mirrored: Mirrored, upstream: Upstream, host: HttpsHost) -> None:
    """Submodules, Git LFS and whatever else a repository's files point at are not fetched (charmbracelet/soft-serve#525)."""
    with misbehaving(host.authority) as other:
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n"
        files = {
            ".gitmodules": f'[submodule "x"]\n\tpath = x\n\turl = {other.url("team/x")}\n'.encode(),
            ".lfsconfig": f"[lfs]\n\turl = {other.url('team/x')}\n".encode(),
            ".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n",
            "a.bin": pointer,
        }
        tip = upstream.commit(files=files)
        await mirrored.fetch()
        assert await mirrored.repositories.head(PROJECT) == tip
        assert other.handshakes == 0


@pytest.mark.parametrize("literal", ["127.0.0.1", "[::1]"])
async def test_a_host_may_be_an_address(mirrored: Mirrored, upstream: Upstream, host: HttpsHost, literal: str) -> None:
    """A URL with an address for a host is fetched like any other, where its network is allowed."""
    upstream.commit()
    mirrored.start(AddressPolicy((IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))))
    with misbehaving(host.authority, lambda request: [through(host, request)], address=literal.strip("[]")) as relay:
        assert (await mirrored.aim(f"https://{literal}:{relay.port}/{upstream.name}.git").fetch()).fetched


async def test_no_proxy_is_asked(mirrored: Mirrored, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment is asked by neither the listing nor git."""
    upstream.commit()
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await mirrored.fetch()).fetched


async def test_a_credential_is_written_nowhere(mirrored: Mirrored, host: HttpsHost, liar: MisbehavingHost, capfd: pytest.CaptureFixture[str]) -> None:
    """While git fetches with it, the token stands in no command line; afterwards in no file of the mirror, no message and no log (gogs/gogs#1086)."""
    upstream = host.create("private/token")
    upstream.commit()
    host.users(reader="secret", robot=TOKEN)
    lines: list[bytes] = []

    def watching(request: Request) -> list[bytes]:
        lines.extend(words for _, words in told("cmdline"))
        return [through(host, request)]

    liar.behaviour = watching
    await mirrored.aim(liar.url(upstream.name), username="robot", token=TOKEN).fetch()
    header = mirrored.remote.credentials.authorization
    assert header is not None
    secrets = (TOKEN.encode(), header.removeprefix("Basic ").encode())
    assert any(header.encode() in request.head for request in liar.requests)
    assert not [line for line in lines if any(secret in line for secret in secrets)]
    files = [path for path in mirrored.path.rglob("*") if path.is_file()]
    assert not [path for path in files if any(secret in path.read_bytes() for secret in secrets)]
    liar.behaviour = lambda _: [answer("400 " + TOKEN, TOKEN.encode())]
    failure = await mirrored.failure()
    liar.behaviour = lambda request: [answer("500 no", TOKEN.encode(), "Content-Type: text/plain")] if request.is_pack else [through(host, request)]
    upstream.commit()
    second = await mirrored.failure()
    said = f"{failure!r}{failure.hint}{failure.__cause__!r}{second!r}{second.hint}{second.__cause__!r}{getattr(second.__cause__, 'stderr', '')}"
    out, err = capfd.readouterr()
    assert not [secret for secret in secrets if secret.decode() in said + out + err]
    host.users(reader="secret")
