"""The server's side of the agent protocol: sessions over WebSockets, each a conversation with whoever is served (docs/agents.md).

Owns who is let in, the limits of a session, and how everything ends. Must not know what answers.
"""

import asyncio
import hmac
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, Protocol
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from engine.agents.dialling import PATH
from engine.agents.door import HEAD_S, SPARE_CONNECTIONS, Door
from engine.agents.hosting import LIMITS, HostedSession, SessionLimits
from engine.agents.served import Emit

HEALTH_PATH: Final = "/healthz"
RETRY_S: Final = 1
HEARTBEAT_S: Final = 30.0
CLOSE_S: Final = 5.0
_MAX_HEADER_BYTES: Final = 16_384

_log = structlog.get_logger(__name__)


class Conversation(Protocol):
    """One conversation of an agent (engine.agents.served.ServedConversation)."""

    async def answer(self, content: str) -> None:
        """Answer what the user says; every frame of the reply is emitted, `Done` at last.

        Raises:
            EngineError: it cannot; there is no `Done`, and the conversation may go on.
        """
        ...


class Agent(Protocol):
    """Who is served (engine.agents.served.ServedBundle)."""

    def begin(self, emit: Emit) -> AbstractAsyncContextManager[Conversation]:
        """Begin a conversation; it ends with the block.

        Raises (when entered):
            EngineError: it cannot be begun.
        """
        ...


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How an agent is served.

    `token` is what clients must show, "" lets everyone in; the head of a request may take `head_s`; a stop gives turns that are under way `grace_s` to end.
    """

    token: str = field(default="", repr=False)
    max_sessions: int = 200
    limits: SessionLimits = LIMITS
    head_s: float = HEAD_S
    grace_s: float = 10.0


class AgentServer:
    """Serves one agent on sockets of the caller's, in the caller's loop."""

    def __init__(self, agent: Agent, options: ServerOptions = ServerOptions()) -> None:
        self._agent = agent
        self._options = options
        self._door = Door(options.max_sessions + SPARE_CONNECTIONS, options.head_s)
        self._handlers: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    @property
    def sessions(self) -> int:
        """Return how many sessions there are now."""
        return len(self._handlers)

    @asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve on `listener`, which is closed in the end, until the block ends: then turns that are under way may end, and every session is closed."""
        server = web.Server(self._answer, access_log=None, keepalive_timeout=CLOSE_S, max_field_size=_MAX_HEADER_BYTES)
        runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=CLOSE_S)
        await runner.setup()
        try:
            async with self._door.opened(server, listener):
                yield
        finally:
            await self._end_sessions()
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._door.note(request)
        if request.method == "GET" and request.path == PATH:
            return await self._session(request)
        if request.method == "GET" and request.path == HEALTH_PATH:
            return web.Response(text="ok\n")
        return _refused(404, "NOT_FOUND", f"agents are at {PATH}", {})

    async def _end_sessions(self) -> None:
        self._stopping.set()
        if self._handlers:
            _, late = await asyncio.wait(self._handlers, timeout=self._options.grace_s)
            for handler in late:
                handler.cancel()
            if late:
                await asyncio.wait(late)

    async def _session(self, request: web.BaseRequest) -> web.StreamResponse:
        if refusal := self._refusal(request):
            return refusal
        connection = web.WebSocketResponse(
            timeout=CLOSE_S, heartbeat=HEARTBEAT_S, compress=False, max_msg_size=self._options.limits.max_message_bytes
        )
        await connection.prepare(request)
        handler = asyncio.create_task(self._hold(connection))
        self._handlers.add(handler)
        handler.add_done_callback(self._handlers.discard)
        await asyncio.wait([handler])
        return connection

    async def _hold(self, connection: web.WebSocketResponse) -> None:
        session = HostedSession(connection, self._options.limits, self._stopping)
        _log.info("agent_session_began", session=session.ident, sessions=self.sessions)
        try:
            await session.hold(self._agent)
        finally:
            _log.info("agent_session_ended", session=session.ident, turns=session.turns)

    def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        if not self._is_known(request):
            return _refused(401, "UNAUTHORIZED", "the bearer token is missing or wrong", {"WWW-Authenticate": "Bearer"})
        if not _is_trusted(request.headers.get("Origin"), request.host):
            return _refused(403, "FORBIDDEN", "web pages are not let in", {})
        if self._stopping.is_set():
            return _refused(503, "STOPPING", "the server stops", {"Retry-After": str(RETRY_S)})
        if len(self._handlers) >= self._options.max_sessions:
            return _refused(429, "TOO_MANY_SESSIONS", f"there are {self._options.max_sessions} sessions already", {"Retry-After": str(RETRY_S)})
        return None

    def _is_known(self, request: web.BaseRequest) -> bool:
        if not self._options.token:
            return True
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        shown, wanted = token.strip().encode("utf-8", "surrogateescape"), self._options.token.encode()
        return hmac.compare_digest(shown, wanted) and scheme.lower() == "bearer"


def _is_trusted(origin: str | None, host: str) -> bool:
    """Say whether a client is no page of another site: a browser would let any page talk to an agent on this machine, by whatever name it calls us."""
    if origin is None:
        return True
    parts = urlsplit(origin)
    return parts.netloc == host and (parts.hostname == "localhost" or _is_address(parts.hostname or ""))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _refused(status: int, code: str, message: str, headers: dict[str, str]) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status, headers=headers)
