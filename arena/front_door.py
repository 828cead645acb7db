"""Which path is git's, which is the git hosts', and which is anybody else's: the part of the HTTP face that both modes share.

Bodies stream through; nothing here buffers or compresses.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.responses import PlainTextResponse

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_NOT_FOUND = "not found: repositories are at /git/NAMESPACE/PROJECT.git, webhooks at /hooks/HOST/NAMESPACE/PROJECT\n"


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request for a path that is nobody's."""
    await PlainTextResponse(_NOT_FOUND, status_code=404)(scope, receive, send)


class FrontDoor:
    """Sends git clients to `git`, git hosts to `hooks`, and every other request to `others`."""

    def __init__(self, *, git: ASGIApp, hooks: ASGIApp, others: ASGIApp = not_found) -> None:
        self._git = git
        self._hooks = hooks
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        path = str(scope["path"])
        app = self._git if path.startswith("/git/") else self._hooks if path.startswith("/hooks/") else self._others
        await app(scope, receive, send)
