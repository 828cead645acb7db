"""The HTTP face of a local installation: git, webhooks, the Kubernetes-shaped API and health, behind one address.

Owns which path goes where. Bodies stream through; nothing here buffers or compresses.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response

from arena.access import LocalAccess
from arena.local.kube_api import status_response

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class ArenaApp:
    """Sends each request to its part of the house."""

    def __init__(self, *, git: ASGIApp, hooks: ASGIApp, kube: ASGIApp, access: LocalAccess) -> None:
        self._git = git
        self._hooks = hooks
        self._kube = kube
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path = str(scope["path"])
        if path.startswith("/git/"):
            await self._git(scope, receive, send)
        elif path.startswith("/hooks/"):
            await self._hooks(scope, receive, send)
        elif path.startswith(("/api/", "/apis/")):
            await self._guarded(scope, receive, send)
        elif path in {"/healthz", "/readyz"}:
            await PlainTextResponse("ok\n")(scope, receive, send)
        else:
            await _not_found()(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._access.admits(Headers(scope=scope)):
            await status_response(401, "Unauthorized", "the request carries no token of this installation")(scope, receive, send)
            return
        await self._kube(scope, receive, send)


def _not_found() -> Response:
    return PlainTextResponse(
        "not found: repositories are at /git/NAMESPACE/PROJECT.git, webhooks at /hooks/HOST/NAMESPACE/PROJECT\n", status_code=404
    )
