"""An agent that does what a test says, frame by frame, right or wrong."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Step = dict[str, Any] | str | bytes | int | Callable[[], Awaitable[object]]
"""What happens next: a frame as an object, as text or as bytes, a close code, or something to wait for; None hangs up without a word."""

SESSION = "s-1"
CONNECTED: dict[str, Any] = {"type": "connected", "session_id": SESSION}
HANG_UP = 1006


class ScriptedAgent:
    """Says `greeting` to whoever connects, and for each message the next entry of `turns`; then it is silent, and listens.

    `heard` are the messages as they came, `requests` the handshakes, `connections` how many are open.
    """

    def __init__(self, *turns: list[Step], greeting: tuple[Step, ...] = (CONNECTED,)) -> None:
        self.turns = turns
        self.greeting = greeting
        self.heard: list[dict[str, Any]] = []
        self.requests: list[web.BaseRequest] = []
        self.connections = 0
        self.endings: list[int | None] = []

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Hold a connection."""
        self.requests.append(request)
        connection = web.WebSocketResponse()
        await connection.prepare(request)
        self.connections += 1
        try:
            await self._play(connection, request, self.greeting)
            for turn in (*self.turns, []):
                message = await connection.receive()
                if not isinstance(message.data, str):
                    break
                self.heard.append(json.loads(message.data))
                await self._play(connection, request, turn)
            while not connection.closed:
                await connection.receive()
        finally:
            self.connections -= 1
            self.endings.append(connection.close_code)
        return connection

    async def _play(self, connection: web.WebSocketResponse, request: web.Request, steps: "tuple[Step, ...] | list[Step]") -> None:
        for step in steps:
            match step:
                case dict():
                    await connection.send_str(json.dumps(step))
                case str():
                    await connection.send_str(step)
                case bytes():
                    await connection.send_bytes(step)
                case 1006:
                    assert request.transport is not None
                    request.transport.abort()
                case int():
                    await connection.close(code=step, message=b"because")
                case _:
                    await step()


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """Serve a handler of WebSockets; the block gets its `host:port`."""
    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


def answering(status: int, text: str = "", headers: Mapping[str, str] | None = None) -> Handler:
    """Return a handler that answers with a status instead of a WebSocket."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers=headers)

    return answer


def chunk(text: str, **more: Any) -> dict[str, Any]:
    """Return a chunk."""
    return {"type": "chunk", "session_id": SESSION, "content": text, **more}


def done(**more: Any) -> dict[str, Any]:
    """Return the end of a reply."""
    return {"type": "done", "session_id": SESSION, **more}


def called(ident: str, name: str, arguments: Any = None) -> dict[str, Any]:
    """Return a tool call."""
    return {"type": "tool_call", "session_id": SESSION, "tool_call": {"id": ident, "name": name, "arguments": arguments or {}}}


def answered(ident: str, result: Any = None, error: str = "") -> dict[str, Any]:
    """Return the result of a tool call."""
    return {"type": "tool_result", "session_id": SESSION, "tool_result": {"id": ident, "result": result, "error": error}}


async def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something holds, at most `seconds`."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for is in another task, or another process
            await asyncio.sleep(0.005)


async def let_sockets_deliver() -> None:
    """Let the loop look at its sockets, so that what one end has sent the other end has."""
    for _ in range(20):
        await asyncio.sleep(0)
