"""The webhook over TLS: a certificate that is exchanged while it serves, and what it does without one."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from arena.http_protocol import BoundedProtocol
from foundation.clock import FakeClock, SystemClock
from hooks.admission import PATH
from hooks.admission_registration import WEBHOOK_CONFIGURATION, Registration, trusting, webhook_configuration
from hooks.admission_server import RETRY_S, AdmissionServer
from hooks.certificates import Certificate, issue
from hooks.errors import CertificateUnavailable
from reconcile.cluster.port import Object
from reconcile.cluster.sqlite import SqliteCluster

DEADLINE_S = 20
REVIEW = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u"}}).encode()


def a_certificate() -> Certificate:
    """Return a new certificate for loopback, valid now."""
    chain, key, authority = issue(["127.0.0.1"], SystemClock().now())
    return Certificate(chain, key, authority)


class Certificates:
    """A source whose answers a test sets."""

    def __init__(self, answer: Certificate | CertificateUnavailable) -> None:
        self.answer = answer

    async def current(self) -> Certificate:
        """Return or raise what the test set."""
        if isinstance(self.answer, CertificateUnavailable):
            raise self.answer
        return self.answer


@asynccontextmanager
async def store() -> AsyncIterator[SqliteCluster]:
    """Give an empty store: there is no registration in it."""
    cluster = SqliteCluster(":memory:", FakeClock())
    yield cluster
    await cluster.close()


class Replica:
    """A server on a port of its own, with a clock that the test moves."""

    def __init__(self, certificates: Certificates, cluster: SqliteCluster) -> None:
        self.clock = FakeClock()
        self.cluster = cluster
        self.server = AdmissionServer(certificates, Registration(cluster, "arena"), self.clock, BoundedProtocol)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self.task = asyncio.create_task(self.server.run(self.listener))

    async def ask(self, trusted: bytes) -> Any:
        """Ask over a new connection that trusts these authorities; return the response."""
        context = ssl.create_default_context(cadata=trusted.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        answer = await exchange(reader, writer)
        writer.close()
        await writer.wait_closed()
        return answer


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
    """Send one review and return the response."""
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(REVIEW)}\r\n\r\n".encode() + REVIEW)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    return json.loads(await reader.readexactly(length))["response"]


@asynccontextmanager
async def serving(certificates: Certificates) -> AsyncIterator[Replica]:
    """Run a replica until the block ends, and have it end in order."""
    async with asyncio.timeout(DEADLINE_S), store() as cluster:
        replica = Replica(certificates, cluster)
        try:
            yield replica
        finally:
            replica.task.cancel()
            await asyncio.wait({replica.task})
            assert replica.task.cancelled()


async def test_exchange_without_a_restart() -> None:
    """A renewed certificate is shown to new connections, and a connection that is open goes on."""
    first, second = a_certificate(), a_certificate()
    certificates = Certificates(first)
    async with serving(certificates) as replica:
        await replica.server.ready.wait()
        context = ssl.create_default_context(cadata=first.authorities.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", replica.port, ssl=context)
        certificates.answer = second
        assert await replica.server.refresh()
        assert (await replica.ask(second.authorities))["allowed"]
        with pytest.raises(ssl.SSLCertVerificationError):
            await replica.ask(first.authorities)
        assert (await exchange(reader, writer))["allowed"]
        writer.close()
        await writer.wait_closed()


async def test_answers_are_not_held_back() -> None:
    """No part of an answer waits in the kernel for the one before to be acknowledged, which costs 40 ms."""
    async with serving(Certificates(a_certificate())) as replica:
        await replica.server.ready.wait()
        assert replica.listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


UNUSABLE = {
    "nothing": CertificateUnavailable("cannot read the certificate"),
    "no PEM": Certificate(b"x", b"y"),
    "a key that does not fit": Certificate(a_certificate().chain, a_certificate().key),
}


@pytest.mark.parametrize("answer", UNUSABLE.values(), ids=UNUSABLE)
async def test_what_is_served_stays(answer: Certificate | CertificateUnavailable) -> None:
    """A certificate that cannot be had or used changes nothing of what is served."""
    good = a_certificate()
    certificates = Certificates(good)
    async with serving(certificates) as replica:
        await replica.server.ready.wait()
        certificates.answer = answer
        assert not await replica.server.refresh()
        assert (await replica.ask(good.authorities))["allowed"]


async def test_nothing_is_served_that_nobody_trusts() -> None:
    """While API servers cannot be told whom to trust, the certificate that they trust is served on."""
    trusted = a_certificate()
    certificates = Certificates(trusted)
    async with serving(certificates) as replica:
        await replica.server.ready.wait()
        await replica.cluster.close()
        certificates.answer = a_certificate()
        assert not await replica.server.refresh()
        assert (await replica.ask(trusted.authorities))["allowed"]


class Told(Registration):
    """A registration that notes whom API servers are told to trust; while it is told, somebody renews the certificate."""

    def __init__(self, cluster: SqliteCluster, certificates: Certificates, renewed: Certificate) -> None:
        super().__init__(cluster, "arena")
        self.trusted: list[bytes] = []
        self._certificates = certificates
        self._renewed = renewed

    async def trust(self, authorities: bytes) -> bool:
        """Note the authorities."""
        self.trusted.append(authorities)
        self._certificates.answer = self._renewed
        return True


async def test_a_renewal_while_trust_is_written() -> None:
    """A replica that was slow to say whom to trust does not leave API servers with the authorities of yesterday."""
    old, new = a_certificate(), a_certificate()
    certificates = Certificates(old)
    async with store() as cluster:
        told = Told(cluster, certificates, new)
        assert await AdmissionServer(certificates, told, FakeClock(), BoundedProtocol).refresh()
    assert told.trusted == [old.authorities, new.authorities]


async def test_waits_for_its_first_certificate() -> None:
    """Without a certificate the webhook is not ready; it looks again every few seconds."""
    certificates = Certificates(CertificateUnavailable("cannot read the certificate"))
    async with serving(certificates) as replica:
        assert not await replica.server.refresh()
        assert not replica.server.ready.is_set()
        certificates.answer = a_certificate()
        while not replica.server.ready.is_set():
            await replica.clock.advance(RETRY_S)
            await asyncio.sleep(0)
        assert (await replica.ask(certificates.answer.authorities))["uid"] == "u"


async def test_ended_before_it_served() -> None:
    """A webhook that is told to end while it waits for its first certificate lets go of its port."""
    async with serving(Certificates(CertificateUnavailable("cannot read the certificate"))) as replica:
        await replica.clock.advance(RETRY_S)
    assert replica.listener.fileno() == -1


async def test_looks_every_minute() -> None:
    """What the source has renewed is served at the next look, by itself."""
    first, second = a_certificate(), a_certificate()
    certificates = Certificates(first)
    async with serving(certificates) as replica:
        await replica.server.ready.wait()
        certificates.answer = second
        while True:
            await replica.clock.advance(60)
            try:
                assert (await replica.ask(second.authorities))["allowed"]
            except ssl.SSLCertVerificationError:
                continue
            break


def configuration(**metadata: Any) -> Object:
    """Return a registration as it is stored."""
    found = webhook_configuration("arena", {"service": {"namespace": "arena-system", "name": "arena-webhook", "path": PATH}})
    return {**found, "metadata": {**found["metadata"], **metadata}}


def test_trust_is_written_once() -> None:
    """The caBundle is set, nothing else of the registration changes, and one that is right is left alone."""
    stored = configuration()
    patch = trusting(stored, b"authority")
    assert patch == {"webhooks": [{**stored["webhooks"][0], "clientConfig": {**stored["webhooks"][0]["clientConfig"], "caBundle": "YXV0aG9yaXR5"}}]}
    assert trusting({**stored, **patch}, b"authority") is None
    assert trusting({**stored, **patch}, b"another") is not None


def test_trust_that_cert_manager_sees_to() -> None:
    """A registration into which cert-manager injects its authority is left alone."""
    assert trusting(configuration(annotations={"cert-manager.io/inject-ca-from": "arena-system/arena-webhook"}), b"authority") is None


async def test_without_a_registration() -> None:
    """Without a registration nobody asks, and nobody has to be told whom to trust."""
    async with store() as cluster:
        await Registration(cluster, "arena").trust(b"authority")
        assert (await cluster.list(WEBHOOK_CONFIGURATION)).items == []
