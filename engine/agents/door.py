"""The connections of a server of aiohttp's, before and between requests: how many there may be, and how long the head of a request may take.

aiohttp leaves both open, and whoever can reach the port could use up its files without a token. Must not know what is served.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, cast

from aiohttp import web

HEAD_S: Final = 20.0
SPARE_CONNECTIONS: Final = 100
"""How many connections there may be beside sessions: for heads that are being read and clients that are being refused."""


class _Refusing(asyncio.Protocol):
    """Hangs up."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close the connection."""
        cast("asyncio.Transport", transport).abort()  # it is one on both loops, though uvloop's have no class of asyncio's


class Door:
    """Lets up to `most` connections in at a time; `head_s` is how long one may take for the head of its first request."""

    def __init__(self, most: int, head_s: float = HEAD_S) -> None:
        self._most = most
        self._head_s = head_s
        self._silent: set[web.RequestHandler] = set()

    def note(self, request: web.BaseRequest) -> None:
        """Take note that the head of a request is there."""
        self._silent.discard(request.protocol)

    @asynccontextmanager
    async def opened(self, server: web.Server, listener: socket.socket) -> AsyncIterator[None]:
        """Accept connections to `server` on `listener`, which is closed when the block ends; connections that there are then go on."""
        accepting = await asyncio.get_running_loop().create_server(lambda: self._admit(server), sock=listener)
        try:
            yield
        finally:
            accepting.close()

    def _admit(self, server: web.Server) -> asyncio.BaseProtocol:
        if len(server.connections) >= self._most:
            return _Refusing()
        connection = server()
        self._silent.add(connection)
        asyncio.get_running_loop().call_later(self._head_s, self._close_if_silent, connection)
        return connection

    def _close_if_silent(self, connection: web.RequestHandler) -> None:
        if connection in self._silent:
            self._silent.discard(connection)
            connection.force_close()
