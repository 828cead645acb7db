"""Reaching an agent: a WebSocket to its address, with the headers of the protocol.

Owns the address, the handshake and what becomes of one that fails. A redirect is a refusal, never followed: a token goes to the host it was meant for or
nowhere. Must not know what is said over a connection.
"""

import asyncio
import secrets as randomness
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from urllib.parse import urlencode, urlsplit

import aiohttp
from yarl import URL

from engine.agents.failures import AgentFailures
from engine.agents.frames import MAX_FRAME_BYTES
from engine.errors import ProviderError
from engine.providers.refusals import refused, wishing
from engine.providers.retry_after import retry_after_s
from engine.providers.sessions import OWN_ADDRESSES, AddressRefused, cause_of, open_session
from foundation.addresses import AddressPolicy

PATH: Final = "/ws"
CLOSE_S: Final = 2.0
_MAX_WORDS_BYTES: Final = 2048
_SWITCHING: Final = 101

Socket = aiohttp.ClientWebSocketResponse[Literal[True]]


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """Where an agent is: `endpoint` as host:port, and under which name it answers there."""

    endpoint: str
    agent: str
    namespace: str

    def url(self) -> URL:
        """Return the address of its WebSocket.

        Raises:
            ValueError: the endpoint is no host:port.
        """
        parts = urlsplit(f"//{self.endpoint}")
        if not parts.hostname or not parts.port or parts.netloc != self.endpoint or parts.username is not None:
            raise ValueError(f"'{self.endpoint}' is no host:port")
        query = urlencode({"agent": self.agent, "namespace": self.namespace})
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return URL(f"ws://{host}:{parts.port}{PATH}?{query}", encoded=True)


@dataclass(frozen=True, slots=True)
class Trace:
    """The headers of a trace of our own, as W3C Trace Context has them: an agent that records traces joins its own to it."""

    ident: str
    headers: Mapping[str, str]


def new_trace() -> Trace:
    """Return a trace that nobody has yet."""
    ident = randomness.token_hex(16)
    return Trace(ident, {"traceparent": f"00-{ident}-{randomness.token_hex(8)}-01"})


class Dialler:
    """Opens connections to agents, at most one a conversation. `now` is the wall clock, for dates in answers."""

    def __init__(self, now: Callable[[], datetime], policy: AddressPolicy = OWN_ADDRESSES) -> None:
        self._now = now
        self._policy = policy
        self._session: aiohttp.ClientSession | None = None

    async def dial(self, url: URL, headers: Mapping[str, str], failures: AgentFailures, within_s: float) -> Socket:
        """Return a connection whose handshake is done; who dials closes it.

        Raises:
            ProviderError: there is none.
        """
        if refusal := self._policy.refused_host(url.host or ""):
            raise failures.of("invalid_request", f"its address may not be reached: {refusal.cause}", transient=False)
        try:
            async with asyncio.timeout(within_s):
                return await self._opened().ws_connect(
                    url, headers=headers, max_msg_size=MAX_FRAME_BYTES, timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S)
                )
        except TimeoutError:
            raise failures.of("timeout", f"no connection to {url.host}:{url.port} within {within_s:g} s", transient=True) from None
        except _Refused as error:
            raise self._meant(error, failures) from None
        except aiohttp.WSServerHandshakeError as error:
            raise failures.of_fault(f"what answers there does not speak WebSocket: {error.message}") from None
        except aiohttp.ClientResponseError as error:
            raise failures.of_fault(f"what answers there does not speak HTTP: {error.message}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _unreachable(url, error, failures) from None

    async def close(self) -> None:
        """Free what is held. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = open_session(self._policy, middlewares=(_only_switching,))
        return self._session

    def _meant(self, error: "_Refused", failures: AgentFailures) -> ProviderError:
        meaning = wishing(refused(error.status, error.words), retry_after_s(error.headers, error.words.encode(), self._now()))
        cause = meaning.message.replace("the provider answered", "it answered", 1)
        return failures.of_refusal(meaning.kind, cause, transient=meaning.transient, retry_after_s=meaning.retry_after_s)


class _Refused(aiohttp.ClientError):
    """The handshake was answered with another status than 101."""

    def __init__(self, status: int, words: str, headers: Mapping[str, str]) -> None:
        super().__init__(str(status))
        self.status = status
        self.words = words
        self.headers = headers


async def _only_switching(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Let through an answer that switches protocols; any other is not looked into by aiohttp, which would follow a redirect."""
    response = await send(request)
    if response.status == _SWITCHING:
        return response
    try:
        words = (await response.content.read(_MAX_WORDS_BYTES)).decode("utf-8", "replace")
    finally:
        response.close()
    raise _Refused(response.status, words, response.headers)


def _unreachable(url: URL, error: Exception, failures: AgentFailures) -> ProviderError:
    cause = cause_of(error)
    if isinstance(cause, AddressRefused):
        return failures.of("invalid_request", f"its address may not be reached: {cause.cause}", transient=False)
    words = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return failures.of("unavailable", f"no connection to {url.host}:{url.port}: {words}", transient=True)
