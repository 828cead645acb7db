"""A proxy before the API server that notes what a client asks it for, and can be as busy as a test wants.

It speaks TLS with the server's own certificate, so a client needs to trust nothing else. Knows no kind.
"""

import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from tests.apiserver.control_plane import ControlPlane

_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length", "host"}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass
class ApiProxy:
    """Passes requests on. `asked` counts them by verb and resource, as in `patch arenaruns/status`.

    `busy`: so many of the requests that come next are turned away, as priority and fairness does, for `retry_after_s`.
    """

    plane: ControlPlane
    upstream: aiohttp.ClientSession
    url: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    busy: int = 0
    retry_after_s: int = 1

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on, and its answer back as it comes."""
        self.asked[_described(request)] += 1
        if self.busy > 0:
            self.busy -= 1
            return web.json_response({"kind": "Status", "code": 429}, status=429, headers={"Retry-After": str(self.retry_after_s)})
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP}
        sent = await request.read()
        async with self.upstream.request(request.method, f"{self.plane.url}{request.raw_path}", headers=headers, data=sent or None) as answer:
            kept = {key: value for key, value in answer.headers.items() if key.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            with suppress(ConnectionError):
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            return response


@asynccontextmanager
async def proxied(plane: ControlPlane) -> AsyncIterator[ApiProxy]:
    """Run a proxy before a control plane for a while."""
    trust = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=plane.ca_file), limit=0)
    endless = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=trust, timeout=endless, auto_decompress=False) as upstream:
        proxy = ApiProxy(plane, upstream)
        app = web.Application(client_max_size=8 * 1024 * 1024)
        app.router.add_route("*", "/{tail:.*}", proxy.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True, access_log=None)
        await runner.setup()
        try:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(plane.folder / "server.pem", plane.folder / "server.key")
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
            proxy.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
            yield proxy
        finally:
            await runner.cleanup()


def _described(request: web.Request) -> str:
    """Return verb and resource as RBAC names them."""
    words = request.path.strip("/").split("/")
    words = words[3:] if words[0] == "apis" else words[2:]
    if words[:1] == ["namespaces"] and len(words) > 2:
        words = words[2:]
    resource = "/".join([*words[:1], *words[2:]])
    reading = "watch" if "watch" in request.query else "get" if len(words) > 1 else "list"
    return f"{_VERBS.get(request.method, reading)} {resource}"
