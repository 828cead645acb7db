"""HTTP that a bundle asks for: to public addresses, or those that an operator allows, within limits.

Owns how an address is checked: one that is written is refused before anybody is asked, a name by the resolver of its session; a redirect is a new address,
of which at most three are followed. Must not know tools or protocols.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urljoin, urlsplit

from engine.errors import EngineError
from engine.providers.addresses import allowing
from foundation.addresses import AddressPolicy, resolve

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

MAX_REDIRECTS: Final = 3
MAX_BODY_BYTES: Final = 10 << 20
DEFAULT_TIMEOUT_S: Final = 30.0
MAX_CONNECTIONS: Final = 64
"""Of one runner to one host."""
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_OF_ADDRESSES: Final = "%/:?#[]@!$&'()*+,;=~-._"


class WebError(EngineError):
    """No answer came: the address is refused, nobody listens there, it took too long, or the answer is too long. The message names the address.

    `is_outage`: another time there might be one.
    """

    def __init__(self, message: str, *, hint: str = "", is_outage: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_outage = is_outage


class AnswerTooLong(WebError):
    """An answer came, and is longer than its request takes."""


@dataclass(frozen=True, slots=True)
class WebRequest:
    """A request. Its headers go to the address's own origin only, never on to where that redirects."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    max_bytes: int = MAX_BODY_BYTES


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """An answer, read whole. `content_type` is without parameters, in small letters."""

    status: int
    reason: str
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        """Say whether the status is 200 to 299."""
        return 200 <= self.status < 300  # noqa: PLR2004 - as HTTP has it

    def text(self) -> str:
        """Return the body as text; what is not UTF-8 is replaced."""
        return self.body.decode("utf-8", "replace")


class Web:
    """The connections of one runner, opened at first use. `find` resolves names."""

    def __init__(self, policy: AddressPolicy, find: Callable[[str, int], Sequence[Any]] = resolve) -> None:
        self._policy = policy
        self._find = find
        self._session: ClientSession | None = None

    async def fetch(self, request: WebRequest) -> WebAnswer:
        """Return the answer, whatever its status.

        Raises:
            WebError: there is none.
        """
        import aiohttp  # noqa: PLC0415 - start-up: only bundles that call services need it

        from engine.providers.sessions import AddressRefused, cause_of  # noqa: PLC0415 - as above

        try:
            async with asyncio.timeout(request.timeout_s), self.open(request) as response:
                body = await self._read(response, request)
                kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                return WebAnswer(response.status, response.reason or "", kind, body, dict(response.headers))
        except TimeoutError:
            raise WebError(f"{shown(request.url)} did not answer within {request.timeout_s:g} s", is_outage=True) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            cause = cause_of(error)
            if isinstance(cause, AddressRefused):
                raise WebError(f"{shown(request.url)} cannot be reached: {cause.cause} ({allowing(cause.network)})") from error
            raise WebError(f"{shown(request.url)} cannot be reached: {_words(cause)}", is_outage=not isinstance(error, ValueError)) from error

    @asynccontextmanager
    async def open(self, request: WebRequest) -> AsyncIterator["ClientResponse"]:
        """Open an answer whose body the caller reads; redirects are followed.

        Raises:
            WebError: an address is refused.
            aiohttp.ClientError, OSError, ValueError: nobody answers there.
        """
        method, url, headers, body = request.method, request.url, request.headers, request.body
        for _ in range(MAX_REDIRECTS + 1):
            async with await self.send(WebRequest(method, url, headers, body)) as response:
                onward = response.headers.get("Location") if response.status in _REDIRECTS else None
                if onward is None:
                    yield response
                    return
                target = urljoin(url, onward)
            if response.status == 303 or (response.status in (301, 302) and method == "POST"):  # noqa: PLR2004 - as browsers and RFC 9110 have it
                method, body = "GET", None
            if origin(target) != origin(url):
                headers = {}
            url = target
        raise WebError(f"{shown(request.url)} cannot be reached: it redirects more than {MAX_REDIRECTS} times")

    async def send(self, request: WebRequest) -> "ClientResponse":
        """Send one request, follow nothing, and return the answer, whose body the caller reads and whom the caller closes. Without a time limit.

        Raises:
            As `open`.
        """
        if problem := self.problem(request.url):
            raise WebError(f"{shown(request.url)} may not be reached: {problem}", hint="an operator may allow a network: --allow-network CIDR")
        from yarl import URL  # noqa: PLC0415 - as above

        url = URL(quote(request.url, safe=_OF_ADDRESSES), encoded=True)  # as it was written: a slash that was quoted stays so
        return await self._connections().request(request.method, url, headers=dict(request.headers), data=request.body, allow_redirects=False)

    def problem(self, url: str) -> str:
        """Return what speaks against an address whatever its name resolves to, "" for nothing."""
        try:
            parts = urlsplit(url)
            is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_web = False
        if not is_web or not parts.hostname:
            return "it is not an address of http or https"
        if parts.username or parts.password:
            return "it holds a credential"
        refused = self._policy.refused_host(parts.hostname)
        return "" if refused is None else refused.cause

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _connections(self) -> "ClientSession":
        if self._session is None:
            from engine.providers.sessions import open_session  # noqa: PLC0415 - as above

            self._session = open_session(self._policy, find=self._find, most_to_a_host=MAX_CONNECTIONS, connect_timeout_s=None)
        return self._session

    @staticmethod
    async def _read(response: "ClientResponse", request: WebRequest) -> bytes:
        found = bytearray()
        async for chunk in response.content.iter_chunked(1 << 16):
            found += chunk
            if len(found) > request.max_bytes:
                raise AnswerTooLong(f"{shown(request.url)} answered with more than {request.max_bytes >> 10} KiB")
        return bytes(found)


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port of an address."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def shown(url: str) -> str:
    """Return an address as a message may show it: without query and credential, where secrets stand."""
    address, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{address}://{host.rpartition('@')[2].partition('?')[0]}{slash}{path.partition('?')[0].partition('#')[0]}"


def _words(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).strip() or type(error).__name__
