"""The HTTP face of a local installation: git, webhooks, the Kubernetes-shaped API and health, behind one address.

Owns which path goes where. Bodies stream through; nothing here buffers or compresses.
"""

from starlette.responses import PlainTextResponse, Response

from arena.authorization.api_access import ApiAccess
from arena.authorization.errors import AuthorizationError, DecisionUnavailable, NotAllowed, TooManyFailures
from arena.front_door import ASGIApp, FrontDoor, Receive, Scope, Send, not_found
from arena.local.kube_api import status_response

_REFUSALS: tuple[tuple[type[AuthorizationError], int, str], ...] = (
    (NotAllowed, 403, "Forbidden"),
    (TooManyFailures, 429, "TooManyRequests"),
    (DecisionUnavailable, 503, "ServiceUnavailable"),
    (AuthorizationError, 401, "Unauthorized"),
)


class ArenaApp:
    """Sends each request to its part of the house."""

    def __init__(self, *, git: ASGIApp, hooks: ASGIApp, kube: ASGIApp, access: ApiAccess) -> None:
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
        try:
            await self._access.admit(scope)
        except AuthorizationError as error:
            await _refusal(error)(scope, receive, send)
            return
        await self._kube(scope, receive, send)


def _refusal(error: AuthorizationError) -> Response:
    code, reason = next((code, reason) for kind, code, reason in _REFUSALS if isinstance(error, kind))
    response = status_response(code, reason, error.message)
    if isinstance(error, TooManyFailures):
        response.headers["retry-after"] = str(error.retry_after_s)
    return response
