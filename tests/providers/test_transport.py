"""HTTP to models: addresses that may not be reached, servers that misbehave, and times that run out."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
import trustme
from yarl import URL

from engine.errors import ProviderError
from engine.providers.deadline import Deadline
from engine.providers.sessions import OWN_ADDRESSES
from engine.providers.transport import Answer, Pool, Reach, Timeouts, Transport
from foundation.addresses import Address, AddressPolicy
from tests.providers.vendor_server import Close, Cut, Gate, Hang, Pause, Step, VendorServer, answer, chunk, head, stream_head, vendor_server

LOOPBACK = Reach(AddressPolicy((ip_network("127.0.0.0/8"),)))
USUAL = Timeouts()
SOON = Timeouts(0.2, 0.2)


@pytest.fixture
async def sender() -> AsyncIterator[Transport]:
    """Return a transport for which every name that ends in .test is 127.0.0.1, but those with another address in their name."""

    def find(host: str, port: int) -> list[Address]:
        del port
        if not host.endswith(".test"):
            raise OSError(-2, "Name or service not known")
        return [ip_address(host.removesuffix(".test") if host[0].isdigit() else "127.0.0.1")]

    opened = Transport(find)
    yield opened
    await opened.close()


@pytest.fixture
def pool(sender: Transport) -> Pool:
    """Return connections that may go to loopback."""
    return sender.pool(LOOPBACK)


async def post(pool: Pool, url: str, timeouts: Timeouts = USUAL) -> Answer:
    """Post to a URL."""
    return await pool.post(URL(url), {"authorization": "secret"}, b"{}", timeouts)


async def test_an_answer_is_read_whole(server: VendorServer, pool: Pool) -> None:
    """Status, headers and body come as they are."""
    server.then(answer({"a": 1}, 418, {"X-Kind": "tea"}))
    found = await post(pool, server.url)
    assert (found.status, found.headers["x-kind"], found.body) == (418, "tea", b'{"a": 1}')


async def test_a_redirect_is_an_answer(server: VendorServer, pool: Pool) -> None:
    """A redirect is never followed, so a key goes nowhere else."""
    async with vendor_server() as other:
        server.then(answer({}, 307, {"Location": other.url}))
        assert (await post(pool, server.url)).status == 307
        assert other.requests == []


REFUSED = [
    pytest.param(AddressPolicy(), "http://127.0.0.1:1", "loopback", id="loopback"),
    pytest.param(AddressPolicy(), "http://10.1.2.3.test", "private", id="a name of a private address"),
    pytest.param(AddressPolicy(), "http://[::ffff:127.0.0.1]:1", "loopback", id="a mapped address"),
    pytest.param(OWN_ADDRESSES, "http://169.254.169.254", "metadata", id="a job's: metadata"),
    pytest.param(OWN_ADDRESSES, "http://100.100.100.200.test", "metadata", id="a job's: metadata within CGNAT"),
    pytest.param(OWN_ADDRESSES, "http://[fd00:ec2::254]", "metadata", id="a job's: metadata within private IPv6"),
    pytest.param(OWN_ADDRESSES, "http://169.254.1.1.test", "link-local", id="a job's: link-local"),
    pytest.param(OWN_ADDRESSES, "http://224.0.0.1", "multicast", id="a job's: multicast"),
]


@pytest.mark.parametrize(("policy", "url", "cause"), REFUSED)
async def test_addresses_that_may_not_be_reached(sender: Transport, policy: AddressPolicy, url: str, cause: str) -> None:
    """An address is checked whether it is written or a name has it; the message says which network an operator could allow."""
    with pytest.raises(ProviderError, match=cause) as caught:
        await post(sender.pool(Reach(policy)), url)
    assert (caught.value.kind, caught.value.transient) == ("invalid_request", False)
    assert "--allow-network" in caught.value.message


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0177.0.0.1", "127.0.0.1.", "0"])
async def test_a_number_that_a_resolver_would_read_as_an_address_is_none(server: VendorServer, host: str) -> None:
    """Other spellings of an address are neither names nor addresses: the client asks no resolver for them, so nobody would check what they mean."""
    sender = Transport()
    with pytest.raises(ProviderError) as caught:
        await post(sender.pool(Reach(AddressPolicy())), f"http://{host}:{server.port}")
    await sender.close()
    assert (caught.value.kind, caught.value.transient, server.requests) == ("invalid_request", False, [])


@pytest.mark.parametrize("host", ["127.0.0.1", "model.test"])
async def test_a_jobs_own_addresses_may_be_reached(server: VendorServer, sender: Transport, host: str) -> None:
    """A job's provider may stand on loopback, or in a private network."""
    server.then(answer({}))
    assert (await post(sender.pool(Reach(OWN_ADDRESSES)), f"http://{host}:{server.port}")).status == 200


BROKEN = [
    pytest.param([Close()], "unavailable", id="closes without a word"),
    pytest.param([Cut()], "unavailable", id="cuts"),
    pytest.param([head(200, {"Content-Length": "100"}), b"{", Close()], "unavailable", id="closes in the middle"),
    pytest.param([stream_head(), chunk(b"{"), Close()], "unavailable", id="closes between chunks"),
    pytest.param([stream_head(), b"xyz\r\n", Close()], "protocol", id="no chunk"),
    pytest.param([b"SSH-2.0-OpenSSH\r\n\r\n", Close()], "protocol", id="another protocol"),
    pytest.param([head(200, {"X-Long": "x" * (1 << 20)}), Close()], "protocol", id="a header of a megabyte"),
    pytest.param([head(200, {f"X-{number}": "x" * 1000 for number in range(1000)}), Close()], "protocol", id="a thousand headers"),
]


@pytest.mark.parametrize(("steps", "kind"), BROKEN)
async def test_a_server_that_breaks_off(server: VendorServer, pool: Pool, steps: list[Step], kind: str) -> None:
    """What is no whole answer is an error that another attempt may mend."""
    server.then(*steps)
    with pytest.raises(ProviderError) as caught:
        await post(pool, server.url, Timeouts(5.0))
    assert (caught.value.kind, caught.value.transient) == (kind, True)


async def test_a_body_without_an_end(server: VendorServer) -> None:
    """A body is read up to a limit."""
    small = Transport(max_body_bytes=1 << 20)
    server.then(stream_head(), *[chunk(b"x" * 65536)] * 1000)
    with pytest.raises(ProviderError, match="too long") as caught:
        await post(small.pool(LOOPBACK), server.url)
    await small.close()
    assert (caught.value.kind, caught.value.transient) == ("protocol", False)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([Hang()], id="no answer"),
        pytest.param([head(200, {"Content-Length": "9"}), Hang()], id="no body"),
        pytest.param([stream_head(), *[part for _ in range(40) for part in (chunk(b" "), Pause(0.05))]], id="a trickle"),
    ],
)
async def test_an_answer_has_its_time(server: VendorServer, pool: Pool, steps: list[Step]) -> None:
    """A whole answer must be there within the request's time, however it comes."""
    server.then(*steps)
    began = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        await post(pool, server.url, SOON)
    assert (caught.value.kind, caught.value.transient) == ("timeout", True)
    assert time.monotonic() - began > 0.15


async def test_a_stream_lives_by_its_events(server: VendorServer, pool: Pool) -> None:
    """Bytes that are no event, such as comments, do not keep a stream alive; events do."""
    server.then(stream_head(), *[part for _ in range(60) for part in (chunk(b": ping\n\n"), Pause(0.05))])
    async with await pool.open(URL(server.url), {}, b"", Timeouts(20.0, 1.0)) as stream:
        began = time.monotonic()
        for _ in range(8):
            await stream.read()
            stream.alive()
        with pytest.raises(ProviderError, match="nothing came for 1 s"):
            await stream.answer()
        assert time.monotonic() - began > 1


async def test_a_slow_reader_is_no_silence(server: VendorServer, pool: Pool) -> None:
    """The time that a reader takes for itself is not the server's."""
    server.then(stream_head(), chunk(b"a"), Pause(0.7), chunk(b"b"), b"0\r\n\r\n")
    async with await pool.open(URL(server.url), {}, b"", Timeouts(20.0, 0.5)) as stream:
        assert await stream.read() == b"a"
        stream.alive()
        await asyncio.to_thread(time.sleep, 1.2)
        assert await stream.read() == b"b"


async def test_cancelling_is_no_timeout(server: VendorServer, pool: Pool) -> None:
    """Who is cancelled is cancelled, and its connection is closed."""
    server.then(Hang())
    task = asyncio.create_task(post(pool, server.url))
    await server.asked(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_deadline_leaves_the_cancelling_of_others_alone() -> None:
    """A task that is cancelled while its deadline fires is cancelled, not late."""

    async def wait() -> None:
        with Deadline(0.01):
            asyncio.get_running_loop().call_later(0.01, task.cancel)
            await asyncio.sleep(5)

    task = asyncio.create_task(wait())
    with pytest.raises((asyncio.CancelledError, TimeoutError)):
        await task


@pytest.mark.parametrize(
    ("url", "said"),
    [
        pytest.param("http://nowhere.invalid", "not known", id="no such name"),
        pytest.param("http://127.0.0.1:1", "nobody listens there", id="nobody listens"),
    ],
)
async def test_nobody_there(pool: Pool, url: str, said: str) -> None:
    """A name that is not known and a port that nobody listens on are outages, and said as what they are."""
    with pytest.raises(ProviderError, match=said) as caught:
        await post(pool, url)
    assert (caught.value.kind, caught.value.transient) == ("unavailable", True)


async def test_a_certificate_that_nobody_vouches_for(pool: Pool) -> None:
    """A server whose certificate is not trusted is told nothing, and asking again would not help."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("model.test").configure_cert(context)
    async with vendor_server(ssl=context) as server:
        server.then(answer({}))
        with pytest.raises(ProviderError, match="certificate") as caught:
            await post(pool, f"https://model.test:{server.port}")
        assert (caught.value.kind, caught.value.transient, server.requests) == ("unavailable", False, [])


async def test_connections_to_a_host_have_a_limit_where_one_is_wanted(server: VendorServer, sender: Transport) -> None:
    """`max_conns_per_host` holds; without it there is no limit."""
    gate = asyncio.Event()
    server.then(Gate(gate), answer({}))
    few, many = sender.pool(Reach(LOOPBACK.policy, most_to_a_host=2)), sender.pool(LOOPBACK)
    asked: list[asyncio.Task[Any]] = [asyncio.create_task(post(few, server.url)) for _ in range(5)]
    await server.asked(2)
    asked += [asyncio.create_task(post(many, server.url)) for _ in range(150)]
    await server.asked(152)
    assert len(server.requests) == 152
    gate.set()
    assert {found.status for found in await asyncio.gather(*asked)} == {200}


async def test_an_idle_connection_is_kept_for_its_time(server: VendorServer, sender: Transport) -> None:
    """`idle_conn_timeout` says how long a connection waits for another request."""
    server.then(answer({}))
    brief = sender.pool(Reach(LOOPBACK.policy, keep_alive_s=0.05))
    await post(brief, server.url)
    await asyncio.sleep(0.15)
    await post(brief, server.url)
    assert server.connections == 2


async def test_pieces_that_follow_closely_come_together(server: VendorServer, pool: Pool) -> None:
    """Gathering lets pieces come together, and ends at once with the body."""
    server.then(stream_head(), chunk(b"a"), Pause(0.002), chunk(b"b"), Pause(0.002), chunk(b"c"), b"0\r\n\r\n")
    async with await pool.open(URL(server.url), {}, b"", Timeouts()) as stream:
        assert await stream.read() == b"a"
        await stream.gather(60)
        assert await stream.read() == b"bc"
        await stream.gather(60)
        assert await stream.read() == b""


async def test_gathering_does_not_outlast_its_time(server: VendorServer, pool: Pool) -> None:
    """A stream that goes on is read again after a moment."""
    gate = asyncio.Event()
    server.then(stream_head(), chunk(b"a"), Gate(gate), b"0\r\n\r\n")
    async with await pool.open(URL(server.url), {}, b"", Timeouts()) as stream:
        assert await stream.read() == b"a"
        await stream.gather(0.01)
        gate.set()
        assert await stream.read() == b""


@pytest.mark.parametrize("size_bytes", [0, 1 << 20, (1 << 20) + 1, 5 << 20])
async def test_a_body_goes_out_whole(server: VendorServer, pool: Pool, size_bytes: int) -> None:
    """Pictures make bodies of megabytes; each arrives as it is, with its length."""
    server.then(answer({}))
    body = bytes(size_bytes)
    await pool.post(URL(server.url), {}, body, Timeouts())
    assert server.requests[0].body == body
