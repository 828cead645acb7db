"""An API server that says what a test tells it to, for what a real one does only when it is ill."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from foundation.clock import FakeClock
from reconcile.cluster.kube_access import Credentials, Way


@dataclass
class Reply:
    """One answer. With `lines` it is a stream of events: each is sent as a line (bytes as they are), then it ends, breaks or stays silent."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    lines: list[Any] | None = None
    then: str = "end"


@dataclass
class ScriptedServer:
    """Answers requests in the order of the script, and notes them; a request beyond the script stays without an answer."""

    script: list[Reply | Callable[[web.Request], Reply]]
    requests: list[web.Request] = field(default_factory=list)
    url: str = ""
    loads: int = 0

    async def access(self) -> Credentials:
        """Lead to this server, with a token that tells how often it was asked for."""
        self.loads += 1
        token = f"Bearer token-{self.loads}"

        async def authorization() -> str:
            return token

        return Credentials(Way(self.url), authorization)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Give the next answer."""
        self.requests.append(request)
        await request.read()
        if not self.script:
            await asyncio.sleep(60)
        said = self.script.pop(0)
        reply = said if isinstance(said, Reply) else said(request)
        if reply.lines is None:
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            return web.Response(status=reply.status, body=body, headers={"Content-Type": "application/json", **reply.headers})
        response = web.StreamResponse(status=reply.status)
        await response.prepare(request)
        for line in reply.lines:
            await response.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        if reply.then == "silence":
            await asyncio.sleep(60)
        if reply.then == "break" and request.transport is not None:
            request.transport.abort()
        return response


@asynccontextmanager
async def scripted(*script: Reply | Callable[[web.Request], Reply]) -> AsyncIterator[ScriptedServer]:
    """Run a server with a script."""
    server = ScriptedServer([*script])
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


class HastyClock(FakeClock):
    """A clock on which every wait is over at once; `slept` tells how long each would have been."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Move on by `seconds`."""
        self.slept.append(seconds)
        await self.advance(seconds)
