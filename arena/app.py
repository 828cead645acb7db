"""The HTTP face of a local installation: git, webhooks, the Kubernetes-shaped API and health, behind one address.

Owns which path goes where. Bodies stream through; nothing here buffers or compresses.
"""

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from arena.access import LocalAccess
from arena.front_door import ASGIApp, FrontDoor, Receive, Scope, Send, not_found
from arena.local.kube_api import status_response


class ArenaApp:
    """Sends each request to its part of the house."""

    def __init__(self, *, git: ASGIApp, hooks: ASGIApp, kube: ASGIApp, access: LocalAccess) -> None:
        self._door = FrontDoor(git=git, hooks=hooks, others=self._others)
        self._kube = kube
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._door(scope, receive, send)

    async def _others(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope["path"])
        if path.startswith(("/api/", "/apis/")):
            await self._guarded(scope, receive, send)
        elif path in {"/healthz", "/readyz"}:
            await PlainTextResponse("ok\n")(scope, receive, send)
        else:
            await not_found(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._access.admits(Headers(scope=scope)):
            await status_response(401, "Unauthorized", "the request carries no token of this installation")(scope, receive, send)
            return
        await self._kube(scope, receive, send)
