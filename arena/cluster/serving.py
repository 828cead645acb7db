"""An HTTP application served until its task is cancelled."""

import asyncio
import socket

from arena.front_door import ASGIApp
from arena.http_protocol import BoundedProtocol
from hooks.web_server import WebServer, server_config


async def serve(app: ASGIApp, listener: socket.socket, *, drain_s: int) -> None:
    """Serve on a socket, which is closed at the end, until cancelled; requests that have begun then get `drain_s` seconds to end."""
    server = WebServer(server_config(app, BoundedProtocol, timeout_graceful_shutdown=drain_s), asyncio.Event())
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve(sockets=[listener]))
        try:
            await asyncio.Event().wait()
        finally:
            server.should_exit = True
            await serving
