"""HTTP to models: one pool of connections for a process, which sends a body and gives back an answer, whole or as it comes.

Owns timeouts of the connection and of an answer, the limit of its size, and which addresses may be reached. A redirect is an answer, never followed: a
key goes to the host it was meant for or nowhere. Must not know protocols, keys or retries.
"""

import asyncio
import errno
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Final, Self, cast

import aiohttp
from aiohttp import payload
from yarl import URL

from engine.errors import ProviderError
from engine.providers.addresses import allowing
from engine.providers.deadline import Deadline
from engine.providers.sessions import KEEP_ALIVE_S, AddressRefused, Find, cause_of, open_session
from engine.providers.timed import TimedResponse
from foundation.addresses import AddressPolicy, resolve

MAX_BODY_BYTES: Final = 64 << 20
REQUEST_TIMEOUT_S: Final = 60.0
IDLE_TIMEOUT_S: Final = 30.0
DRAIN_S: Final = 0.1
GATHER_S: Final = 0.02
"""How long pieces of a stream that follow closely are left to come together; the end of the stream is seen at once."""

_MAX_WORDS: Final = 200
_PUBLIC: Final = AddressPolicy()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait, in seconds.

    `request_s` is from the request to the end of an answer that is read whole, or to the first event of a stream; `idle_s` is from one event of a
    stream to the next. Reaching a host has its own limit within `request_s`.
    """

    request_s: float = REQUEST_TIMEOUT_S
    idle_s: float = IDLE_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Reach:
    """Which addresses connections may go to, and how many of them there may be to a host (0: any number); idle ones are kept for `keep_alive_s`."""

    policy: AddressPolicy = _PUBLIC
    most_to_a_host: int = 0
    keep_alive_s: float = KEEP_ALIVE_S


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read whole, whose last bytes came `took_s` seconds after its request went out. Names of headers have no case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    took_s: float


class Transport:
    """The connections of a process, opened at first use. `find` resolves names, blocking; `max_body_bytes` bounds an answer."""

    def __init__(self, find: Find = resolve, *, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._find = find
        self._max_body_bytes = max_body_bytes
        self._pools: dict[Reach, Pool] = {}

    def pool(self, reach: Reach) -> "Pool":
        """Return the connections that everyone of the same reach shares."""
        found = self._pools.get(reach)
        if found is None:
            found = self._pools[reach] = Pool(reach, self._find, self._max_body_bytes)
        return found

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            await pool.close()


class Pool:
    """Connections of one reach."""

    def __init__(self, reach: Reach, find: Find, max_body_bytes: int) -> None:
        self._reach = reach
        self._max_body_bytes = max_body_bytes
        self._find = find
        self._session: aiohttp.ClientSession | None = None
        self._checked: set[str | None] = set()

    async def post(self, url: URL, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> Answer:
        """Send `body` and return the answer, whatever its status.

        Raises:
            ProviderError: there is none (`unavailable`, `timeout`), or it cannot be read (`protocol`).
        """
        deadline = self._begin(url, timeouts)
        try:
            with deadline:
                response = await self._post(url, headers, body)
                try:
                    content = await _body(response, self._max_body_bytes)
                finally:
                    response.close()  # the connection is the pool's again already if the body was read to its end
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _failure(url, error) from None
        finally:
            deadline.end()
        return Answer(response.status, response.headers, content, response.times.took_s)

    async def open(self, url: URL, headers: Mapping[str, str], body: bytes, timeouts: Timeouts) -> "Stream":
        """Send `body` and return the answer as soon as its headers are there, whatever its status; who asked must close it.

        Raises:
            As `post`.
        """
        deadline = self._begin(url, timeouts)
        try:
            with deadline:
                response = await self._post(url, headers, body)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            deadline.end()
            raise _failure(url, error) from None
        except BaseException:
            deadline.end()
            raise
        return Stream(response, deadline, timeouts.idle_s, self._max_body_bytes)

    async def _post(self, url: URL, headers: Mapping[str, str], body: bytes) -> TimedResponse:
        return cast("TimedResponse", await self._opened().post(url, headers=headers, data=_payload(body), allow_redirects=False))

    def _begin(self, url: URL, timeouts: Timeouts) -> Deadline:
        if url.host not in self._checked:
            self.check(url)
        return Deadline(timeouts.request_s)

    def check(self, url: URL) -> None:
        """Refuse a URL that must not be reached whatever its name resolves to.

        Raises:
            ProviderError: its host is an address that the policy refuses (`invalid_request`).
        """
        if refusal := self._reach.policy.refused_host(url.host or ""):
            raise _refused(url, refusal.cause, refusal.network)
        self._checked.add(url.host)

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            reach = self._reach
            self._session = open_session(reach.policy, find=self._find, most_to_a_host=reach.most_to_a_host, keep_alive_s=reach.keep_alive_s)
        return self._session


class Stream:
    """An answer whose body is still to come. Use as a context manager: what is left unread closes the connection."""

    __slots__ = ("_deadline", "_gathered", "_idle_s", "_left_bytes", "_response", "failure", "headers", "status")

    def __init__(self, response: TimedResponse, deadline: Deadline, idle_s: float, max_body_bytes: int) -> None:
        self._response = response
        self._deadline = deadline
        self._idle_s = idle_s
        self._left_bytes = max_body_bytes
        self._gathered: asyncio.Future[None] | None = None
        self.status = response.status
        self.failure: ProviderError | None = None
        self.headers: Mapping[str, str] = response.headers

    @property
    def took_s(self) -> float:
        """Return the seconds from the request to the last bytes that have come."""
        return self._response.times.took_s

    async def answer(self) -> Answer:
        """Read the body whole, within the request's time.

        Raises:
            ProviderError: it broke off, took too long, or is too long.
        """
        try:
            with self._deadline:
                content = await _body(self._response, self._left_bytes)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _failure(self._response.url, error) from None
        return Answer(self.status, self.headers, content, self.took_s)

    async def read(self) -> bytes:
        """Return the next bytes of the body, b"" at its end, or where it broke off or the deadline passed that `alive` moves: `failure` says which."""
        try:
            with self._deadline:
                return self._counted(await self._response.content.readany())
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self.failure = _failure(self._response.url, error)
            return self._counted(self._left_over())

    async def gather(self, seconds: float = GATHER_S) -> None:
        """Let what comes in the next moment come together, so that small pieces do not each wake their reader; returns at once at the body's end."""
        loop = asyncio.get_running_loop()
        if self._gathered is None:
            self._response.content.on_eof(self._end_gathering)
        self._gathered = loop.create_future()
        timer = loop.call_later(seconds, self._end_gathering)
        try:
            if not self._response.content.is_eof():
                await self._gathered
        finally:
            timer.cancel()

    def _end_gathering(self) -> None:
        if self._gathered is not None and not self._gathered.done():
            self._gathered.set_result(None)

    async def drain(self) -> None:
        """Wait a moment for the end of a body that says nothing more, so that its connection can be used again."""
        self._deadline.move(DRAIN_S)
        while await self.read():
            pass

    def alive(self) -> None:
        """Say that an event came: from now on the next one has the idle time to come."""
        self._deadline.move(self._idle_s)

    def _counted(self, piece: bytes) -> bytes:
        self._left_bytes -= len(piece)
        if self._left_bytes >= 0:
            return piece
        self.failure = _too_long(self._response.url)
        return b""

    def _left_over(self) -> bytes:
        """Take what came before the answer broke off: aiohttp keeps it to itself, and the protocol's last word may be in it."""
        buffer = self._response.content._buffer  # noqa: SLF001 - there is no other way to it
        pieces = list(buffer)
        buffer.clear()
        return b"".join(pieces)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._deadline.end()
        self._response.close()  # the connection is the pool's again already if the body was read to its end


def _payload(body: bytes) -> payload.Payload:
    """Return a body as aiohttp sends it; one of many bytes goes out in pieces, so that others are not held up meanwhile."""
    return payload.BytesPayload(body) if len(body) <= payload.TOO_LARGE_BYTES_BODY else payload.BytesIOPayload(BytesIO(body))


async def _body(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """Read a body to its end."""
    piece = await response.content.readany()
    if response.content.at_eof() and len(piece) <= most_bytes:
        return piece
    pieces = []
    while piece:
        pieces.append(piece)
        most_bytes -= len(piece)
        if most_bytes < 0:
            raise _too_long(response.url)
        piece = await response.content.readany()
    return b"".join(pieces)


def _too_long(url: URL) -> ProviderError:
    return ProviderError(f"cannot read the answer of '{shown(url)}': it is too long", kind="protocol", transient=False)


def shown(url: URL) -> str:
    """Return a URL as a message may show it: without query and credential, where secrets stand."""
    return str(url.origin().with_path(url.path))


def _failure(url: URL, error: Exception) -> ProviderError:
    cause = cause_of(error)
    if isinstance(cause, AddressRefused):
        return _refused(url, cause.cause, cause.network)
    kind, transient, words = _judged(error, _words(cause))
    return ProviderError(f"cannot ask '{shown(url)}': {words}", kind=kind, transient=transient)


def _judged(error: Exception, words: str) -> tuple[str, bool, str]:
    """Return the kind of a failure, whether asking again may help, and what to say of it."""
    if isinstance(error, TimeoutError):
        return "timeout", True, words
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "unavailable", False, words
    if isinstance(error, aiohttp.ClientPayloadError):
        return "unavailable", True, "its answer broke off"
    if isinstance(error, aiohttp.ClientResponseError):
        return "protocol", True, f"its answer is no HTTP: {words.partition(': ')[0]}"
    if isinstance(error, ValueError):
        return "invalid_request", False, words
    return "unavailable", True, words


def _words(error: BaseException) -> str:
    if getattr(error, "errno", None) == errno.ECONNREFUSED:
        return "nobody listens there"
    said = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
    return " ".join(str(said).split())[:_MAX_WORDS] or type(error).__name__


def _refused(url: URL, cause: str, network: str) -> ProviderError:
    return ProviderError(f"cannot ask '{shown(url)}': it may not be reached: {cause} ({allowing(network)})", kind="invalid_request", transient=False)
