"""uvicorn as every server of ours runs it: told what to do by whoever started it, and by nobody else.

Owns which of its habits are off: loop, signals, access log, and headers that a client could set. Must not know what is served.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn


def server_config(app: Any, protocol: type[asyncio.Protocol], **options: Any) -> uvicorn.Config:
    """Return the configuration of a server of `app`, whose connections `protocol` speaks; `options` are more of uvicorn's own."""
    return uvicorn.Config(
        app,
        loop="none",
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        **options,
    )


class WebServer(uvicorn.Server):
    """uvicorn that sets `ready` when it serves. Its own signal handlers are off: they raise the signal again before what is behind it has ended."""

    def __init__(self, config: uvicorn.Config, ready: asyncio.Event) -> None:
        super().__init__(config)
        self.ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and say so in `ready`."""
        await super().startup(sockets=sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to whoever started us."""
        yield
