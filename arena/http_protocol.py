"""The limits that uvicorn leaves open: how long and how large the head of a request may be, and how many connections there may be.

Whoever can reach the port can use these up without a token. Bodies have their own limits, where they are read. Must not know what is served.
"""

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_HEAD_S: Final = 20.0
MAX_CONNECTIONS: Final = 500
"""Half of the 1024 open files that most systems allow a process; the rest is for git, the store and the workers."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection: closed when the head of a request is too large or too slow, or when there are too many connections."""

    _head_bytes = 0
    _in_head = True
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, if there is room."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.close()
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the connection."""
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, and refuse a head that grows too large."""
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """Note that a request begins; it is the first of its connection, or comes after another."""
        super().on_message_begin()
        if self._deadline is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        """Note that the head is there: what follows is its body's reader's to judge."""
        self._expect_nothing()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that what comes next is another head."""
        self._head_bytes, self._in_head = 0, True
        super().on_message_complete()

    def _expect_head(self) -> None:
        self._in_head = True
        self._deadline = self.loop.call_later(MAX_HEAD_S, self._give_up)

    def _expect_nothing(self) -> None:
        self._in_head = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.close()
