"""The HTTP face of admission: `POST /admission/validate`, which API servers call before they store an object of ours.

Owns path, limits and status codes. Answering has no effect and needs no secret: nobody learns or changes anything but by an object of his own.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final

import anyio
import structlog
from starlette.datastructures import Headers
from starlette.responses import Response

from hooks.admission_review import answer, parse
from hooks.errors import Refused, ReviewUnreadable, SenderGone
from hooks.intake import JSON, BodyLimits, Incoming, Intake

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PATH: Final = "/admission/validate"
LIMITS: Final = BodyLimits(max_bytes=7 * 1024 * 1024)
"""An API server takes objects of 3 MiB and has stored ones of 1.5 MiB; with both and who asks, 7 MiB is what other webhooks take too."""
_AT_ONCE: Final = 2

log = structlog.get_logger(__name__)


class AdmissionWebhook:
    """The ASGI application for admission reviews.

    A review that can be read is answered 200, whatever it is about. A large one is checked beside the event loop, two at a time, so that it keeps
    no other waiting.
    """

    def __init__(self, limits: BodyLimits = LIMITS) -> None:
        self._intake = Intake(limits)
        self._limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        incoming = Incoming(receive)
        try:
            response = await self._respond(scope, incoming)
            if not incoming.complete:
                await self._intake.skip(incoming, Headers(scope=scope))
        except SenderGone:
            return
        if not incoming.complete:
            response.headers["connection"] = "close"
        await response(scope, receive, send)

    async def _respond(self, scope: Scope, incoming: Incoming) -> Response:
        if scope["path"] != PATH:
            return _refusal(HTTPStatus.NOT_FOUND, f"cannot find this path: reviews are at {PATH}")
        if scope["method"] != "POST":
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, "cannot answer this method: reviews are POST", allow="POST")
        try:
            async with self._intake.read(incoming, Headers(scope=scope), self._intake.limits.max_bytes) as body:
                content = await self._answer(body)
        except ReviewUnreadable as error:
            return _refusal(HTTPStatus.BAD_REQUEST, error.message)
        except Refused as error:
            return _refusal(error.status, "cannot read the admission review: it is too large, too slow, or one of too many", **error.headers)
        return Response(content, media_type=JSON)

    async def _answer(self, body: bytes) -> bytes:
        if len(body) <= self._intake.limits.free_bytes:
            return _answered(body)
        return await anyio.to_thread.run_sync(_answered, body, limiter=self._limiter)


def _answered(body: bytes) -> bytes:
    return json.dumps(answer(parse(body))).encode()


def _refusal(status: HTTPStatus, message: str, **headers: str) -> Response:
    log.warning("admission.refused", status=status.value, error=message)
    return Response(f"{message}\n", status_code=status.value, headers=headers, media_type="text/plain")
