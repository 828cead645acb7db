"""HTTP to one API server: requests and streams of JSON, with credentials that are renewed and a server that may ask us to wait.

Owns the connection. Knows no kind and no verb of the port beyond what an error has to name.
"""

import asyncio
import io
import json
import random
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
import structlog

from foundation.clock import Clock
from reconcile.cluster.kube_access import Access, Credentials, Way
from reconcile.cluster.kube_errors import About, error_of
from reconcile.errors import StoreUnavailable, Unauthorized

USER_AGENT = "arena"
MAX_TRIES = 10
"""client-go's number of tries where the server says when to come again."""
MAX_WAIT_S = 60.0
MAX_BODY_BYTES = 256 * 1024 * 1024
MAX_LINE_BYTES = 8 * 1024 * 1024
SILENCE_S = 75.0
"""A watch that says nothing for so long is dead: the server sends a bookmark every minute."""

SIGN_IN_S = 60.0
"""A plugin of a kubeconfig may ask somebody over the network, not a person."""
MAX_IN_FLIGHT = 16
"""Requests at once, watches apart: a burst of reconciles must not become a burst of TLS handshakes, or use up our share of the server."""

_REQUEST = aiohttp.ClientTimeout(total=60.0, sock_connect=20.0)
_TOO_MANY = 429
_UNAUTHORIZED = 401
_FAILURE = 400
_SERVER_ERROR = 500
_LARGE_BYTES = 1024 * 1024

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path` begins at the server's root and is quoted; `body` is JSON as text, None for none."""

    method: str
    path: str
    about: About
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class _Connection:
    credentials: Credentials
    http: aiohttp.ClientSession

    @classmethod
    def of(cls, credentials: Credentials) -> "_Connection":
        connector = aiohttp.TCPConnector(ssl=_tls(credentials.way), limit=0)
        return cls(credentials, aiohttp.ClientSession(connector=connector, trust_env=True))

    async def send(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json", "Content-Type": request.content_type}
        authorization = await self.credentials.authorization()
        if authorization:
            headers["Authorization"] = authorization
        way = self.credentials.way
        url = way.url + request.path + (f"?{urlencode(request.query)}" if request.query else "")
        body = request.body
        data = io.BytesIO(body) if body is not None and len(body) > _LARGE_BYTES else body
        return await self.http.request(
            request.method, url, headers=headers, data=data, timeout=limits, server_hostname=way.server_name, proxy=way.proxy
        )


class Session:
    """Requests to the API server that `access` leads to. Connects at the first request; use it from one event loop.

    Where the server asks us to come again later (429, or 5xx with Retry-After: it has not begun the request), the request is repeated then, up to
    ten times within a minute. Where it refuses our credentials, they are read again and the request is repeated once.
    """

    def __init__(self, access: Access, clock: Clock, *, dice: random.Random | None = None, silence_s: float = SILENCE_S) -> None:
        self._access = access
        self._stream = aiohttp.ClientTimeout(total=None, sock_connect=20.0, sock_read=silence_s)
        self._clock = clock
        self._dice = dice or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._in_flight = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._streams: set[aiohttp.ClientResponse] = set()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    async def close(self) -> None:
        """End all streams and connections. Closing twice is fine; every other call then raises StoreUnavailable."""
        self._closed = True
        connection, self._connection = self._connection, None
        for stream in self._streams:  # whoever reads one would otherwise not hear of it
            stream.content.set_exception(aiohttp.ClientConnectionError("the connection is closed"))
            _hang_up(stream)
        if connection is not None:
            await connection.http.close()
        await asyncio.sleep(0)  # the sockets close in the loop's next round

    async def json(self, request: Request) -> Any:
        """Return the answer to a request (see `chunks`)."""
        try:
            return json.loads(b"".join(await self.chunks(request)))
        except ValueError as error:
            raise StoreUnavailable(f"cannot {request.about}: the answer is no JSON: {error}") from error

    async def chunks(self, request: Request) -> list[bytes]:
        """Return the text of the answer to a request, as it came: an answer may be large, and whoever reads it in parts needs it only once.

        Raises:
            ClusterError: the server refused (`error_of`).
            StoreUnavailable: it did not answer within a minute, or asked us to wait for longer.
        """
        waited = 0.0
        for tries in range(1, MAX_TRIES + 1):
            async with self._in_flight, self._answer(request, _REQUEST) as answer:
                wait_s = _retry_after_s(answer)
                chunks = await _read(answer, request.about)
            if wait_s is None:
                _check(request.about, answer, chunks)
                return chunks
            waited += wait_s
            if waited > MAX_WAIT_S or tries == MAX_TRIES:
                break
            _log.info("kube.throttled", about=str(request.about), status=answer.status, wait_s=wait_s, tries=tries)
            await self._clock.sleep(wait_s * (1 + self._dice.random() / 10))
        raise StoreUnavailable(f"cannot {request.about}: the API server is busy and asks to wait (HTTP {answer.status})")

    @asynccontextmanager
    async def lines(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Give the lines of an answer as they come; they end when the server ends them.

        Raises:
            ClusterError: the server refused.
            StoreUnavailable: the connection broke, or was silent for `silence_s`; also while lines are read.
        """
        async with self._answer(request, self._stream) as answer:
            if answer.status >= _FAILURE:
                raise error_of(request.about, answer.status, b"".join(await _read(answer, request.about)))
            self._streams.add(answer)
            try:
                yield _split(answer, request.about)
            finally:
                self._streams.discard(answer)

    @asynccontextmanager
    async def _answer(self, request: Request, limits: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        connection = await self._connect()
        try:
            answer = await connection.send(request, limits)
            if answer.status == _UNAUTHORIZED:
                answer.release()
                connection = await self._connect(instead_of=connection)
                answer = await connection.send(request, limits)
            try:
                yield answer
            finally:
                _hang_up(answer) if limits is self._stream else answer.release()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            cause = str(error) or type(error).__name__
            raise StoreUnavailable(f"cannot {request.about}: the API server does not answer: {cause}") from error
        except (AssertionError, RuntimeError) as error:  # aiohttp's words for a session that was closed while it connected
            if not self._closed:
                raise
            raise StoreUnavailable(f"cannot {request.about}: the connection is closed") from error

    async def _connect(self, instead_of: _Connection | None = None) -> _Connection:
        """Return the connection; one that the caller found useless is replaced, once for all who found it so."""
        async with self._connecting:
            if self._closed:
                raise StoreUnavailable("cannot ask the API server: the connection is closed")
            if self._connection is None or self._connection is instead_of:
                self._connection = await self._renewed(await self._signed_in(), self._connection)
            return self._connection

    async def _signed_in(self) -> Credentials:
        try:
            async with asyncio.timeout(SIGN_IN_S):
                return await self._access()
        except TimeoutError as error:
            raise Unauthorized(f"cannot sign in to the API server: reading the credentials took more than {SIGN_IN_S:.0f} s") from error

    async def _renewed(self, credentials: Credentials, before: _Connection | None) -> _Connection:
        """Keep the open sockets unless the way to the server, or the certificate that we show, has changed."""
        if before is not None and before.credentials.way == credentials.way:
            return _Connection(credentials, before.http)
        if before is not None:
            await before.http.close()
        try:
            return _Connection.of(credentials)
        except OSError as error:  # ssl.SSLError is one
            raise Unauthorized(f"cannot use the credentials for {credentials.way.url}: {error}") from error


def _tls(way: Way) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=way.authorities_file, cadata=way.authorities)
    if way.certificate_file:
        context.load_cert_chain(way.certificate_file, keyfile=way.key_file)
    if not way.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _hang_up(stream: aiohttp.ClientResponse) -> None:
    """End a stream at once; a farewell over TLS would wait for an answer, and nobody waits for that."""
    connection = stream.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    stream.close()


def _check(about: About, answer: aiohttp.ClientResponse, chunks: list[bytes]) -> None:
    if answer.status >= _FAILURE:
        raise error_of(about, answer.status, b"".join(chunks))
    for warning in answer.headers.getall("Warning", ()):
        _log.warning("kube.warned", about=str(about), warning=warning)


async def _read(answer: aiohttp.ClientResponse, about: About) -> list[bytes]:
    chunks: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise StoreUnavailable(f"cannot {about}: the answer has more than {MAX_BODY_BYTES} bytes")
    return chunks


async def _split(answer: aiohttp.ClientResponse, about: About) -> AsyncIterator[bytes]:
    pending = bytearray()
    async for chunk in answer.content.iter_any():
        begin = len(pending)
        pending += chunk
        while (end := pending.find(b"\n", begin)) >= 0:
            line = bytes(pending[:end])
            del pending[: end + 1]
            begin = 0
            if line.strip():
                yield line
        if len(pending) > MAX_LINE_BYTES:
            raise StoreUnavailable(f"cannot {about}: a line has more than {MAX_LINE_BYTES} bytes")


def _retry_after_s(answer: aiohttp.ClientResponse) -> float | None:
    """Return for how long the server asks us to wait before the same request again; None when it does not."""
    said = answer.headers.get("Retry-After", "")
    if answer.status != _TOO_MANY and not (answer.status >= _SERVER_ERROR and said):
        return None
    return max(1.0, float(said)) if said.isdecimal() else 1.0
