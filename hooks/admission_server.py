"""Admission over TLS: uvicorn, and a certificate that is exchanged while it serves.

Owns the listener's TLS and the loop that keeps certificate and trust fresh. Must not know what is asked or answered.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Any, Final

import anyio
import structlog
import uvicorn

from foundation.clock import Clock
from foundation.errors import ArenaError
from hooks.admission import AdmissionWebhook
from hooks.admission_registration import Registration
from hooks.admission_review import warm_up
from hooks.certificate_sources import CertificateSource
from hooks.certificates import Certificate, expiry
from hooks.errors import CertificateUnavailable
from hooks.web_server import WebServer, server_config

REFRESH_S: Final = 60.0
RETRY_S: Final = 5.0
_KEEP_ALIVE_S: Final = 120
"""Longer than the 90 s after which an API server itself lets go of an idle connection: the other way round, a review could meet its end."""
_SHUTDOWN_S: Final = 5

log = structlog.get_logger(__name__)


class AdmissionServer:
    """One replica's webhook. `ready` is set as soon as it answers.

    The order of a look is: the certificate to serve, the trust in its authorities, then the exchange, so that nothing is served that API servers do
    not trust yet. Connections that are open keep what they began with. `protocol` speaks HTTP, and bounds heads and connections.
    """

    def __init__(self, source: CertificateSource, registration: Registration, clock: Clock, protocol: type[asyncio.Protocol]) -> None:
        self.ready = asyncio.Event()
        self._source = source
        self._registration = registration
        self._clock = clock
        self._protocol = protocol
        self._context = _server_context()
        self._served: Certificate | None = None

    async def run(self, listener: socket.socket) -> None:
        """Serve on a bound socket, which is closed at the end, until cancelled; reviews that have begun are answered first."""
        # asyncio leaves this out where a socket does not name its protocol; head and body of an answer are then 40 ms apart.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with listener:
            await anyio.to_thread.run_sync(warm_up)
            while self._served is None:
                await self._clock.sleep(0 if await self.refresh() else RETRY_S)
            await self._serve(listener)

    async def _serve(self, listener: socket.socket) -> None:
        server = WebServer(self._config(), self.ready)
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve(sockets=[listener]))
            try:
                await self._keep_fresh()
            finally:
                server.should_exit = True
                await serving

    async def refresh(self) -> bool:
        """Look once; say whether all is as it should be. A failure is logged, and what is served stays."""
        try:
            certificate = await self._trusted()
            if certificate != self._served:
                self._exchange(certificate)
        except ArenaError as error:
            log.warning("admission.certificate_failed", error=error.message, hint=error.hint)
            return False
        return True

    async def _trusted(self) -> Certificate:
        """Return the certificate to serve, which API servers now trust.

        Where that had to be written, another replica may have renewed the certificate, and told so, in between: then it is written once more.
        """
        certificate = await self._source.current()
        if certificate.authorities and await self._registration.trust(certificate.authorities):
            latest = await self._source.current()
            if latest.authorities != certificate.authorities:
                await self._registration.trust(latest.authorities)
            return latest
        return certificate

    async def _keep_fresh(self) -> None:
        is_fresh = True
        while True:
            await self._clock.sleep(REFRESH_S if is_fresh else RETRY_S)
            is_fresh = await self.refresh()

    def _exchange(self, certificate: Certificate) -> None:
        _load(_server_context(), certificate)  # a pair that does not fit would leave the context without any
        _load(self._context, certificate)
        self._served = certificate
        log.info("admission.certificate_loaded", expires=expiry(certificate.chain).isoformat())

    def _config(self) -> uvicorn.Config:
        return server_config(
            AdmissionWebhook(),
            self._protocol,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_SHUTDOWN_S,
            ssl_context_factory=lambda *_: self._context,
        )


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Load a certificate through memory: OpenSSL wants a file, and a key belongs on no disk."""
    with _memory_file(certificate.chain + b"\n" + certificate.key) as path:
        try:
            context.load_cert_chain(path, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise CertificateUnavailable(f"cannot serve with the certificate: {error}", hint="certificate and key must be PEM and a pair") from error


def _no_password(*_: Any) -> str:
    """Have OpenSSL refuse a key that wants a password, rather than ask for it on the terminal."""
    return ""


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
