"""Smart HTTP: git's own protocol over ASGI, before `git upload-pack` and `git receive-pack`.

Owns the routes, every status code and who waits for whom. Packs stream through: memory does not grow with them, so nothing around this application may buffer bodies
or compress answers. Must not know who a user is (an `Authorizer` does) nor what a change of main leads to (`on_change` does).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import structlog
from starlette.datastructures import Headers

from gitops.advertisements import Advertisements
from gitops.content import ProjectKey
from gitops.errors import (
    AuthorizerUnavailable,
    Forbidden,
    GitError,
    RepositoryBusy,
    TooManyFailures,
    Unauthenticated,
    UnknownProject,
    UnsafeName,
)
from gitops.exchange import ClientStalled, Exchange, Send
from gitops.fetches import upload_pack
from gitops.pushes import Pushes
from gitops.repositories import Repositories
from gitops.request_body import BodyLimits, BodyMalformed, BodyStalled, BodyTooLarge, ClientGone, Receive, RequestBody
from gitops.serving import Access, Authorizer, ServerLimits
from gitops.slots import NoSlot, Slots

__all__ = ["Access", "Authorizer", "ServerLimits", "SmartHTTP"]

UPLOAD: Final = "git-upload-pack"
RECEIVE: Final = "git-receive-pack"
CHALLENGE: Final = {"www-authenticate": 'Basic realm="arena", charset="UTF-8"'}

_NAME = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_ROUTE = re.compile(rf"(?:/git)?/(?P<namespace>{_NAME})/(?P<project>{_NAME})\.git/(?P<rest>[A-Za-z0-9/._-]{{1,200}})")
_DUMB = re.compile(r"HEAD|objects/.*|packed-refs|description|config|refs/.*")
_PROTOCOL = re.compile(r"[A-Za-z0-9=:_.-]{1,64}")

_STATUSES: Final[tuple[tuple[tuple[type[Exception], ...], HTTPStatus], ...]] = (
    ((Unauthenticated,), HTTPStatus.UNAUTHORIZED),
    ((Forbidden,), HTTPStatus.FORBIDDEN),
    ((UnknownProject, UnsafeName), HTTPStatus.NOT_FOUND),
    ((TooManyFailures,), HTTPStatus.TOO_MANY_REQUESTS),
    ((RepositoryBusy, NoSlot, AuthorizerUnavailable), HTTPStatus.SERVICE_UNAVAILABLE),
    ((BodyTooLarge,), HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    ((BodyMalformed,), HTTPStatus.BAD_REQUEST),
    ((BodyStalled, ClientStalled, TimeoutError), HTTPStatus.REQUEST_TIMEOUT),
)

Scope = MutableMapping[str, Any]

log = structlog.get_logger(__name__)


class _Refused(Exception):
    """The request itself is wrong. Carries its whole answer."""

    def __init__(self, status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class _Request:
    """What a path and its headers ask for."""

    namespace: str
    project: str
    service: str
    discovers: bool
    headers: Headers
    source: str

    @property
    def protocol(self) -> str:
        value = self.headers.get("git-protocol", "")
        return value if _PROTOCOL.fullmatch(value) else ""

    @property
    def gzipped(self) -> bool:
        return self.headers.get("content-encoding", "") in ("gzip", "x-gzip")


class SmartHTTP:
    """The ASGI application for `/git/{namespace}/{project}.git/...`; mount it at `/git` or at the root.

    `on_change` is awaited after each push that really moved main, before the client gets the end of its answer; it should be quick, is cut off after
    `limits.notify_s`, and what it raises is logged and fails nothing.
    """

    def __init__(
        self,
        repositories: Repositories,
        *,
        authorize: Authorizer,
        on_change: Callable[[ProjectKey], Awaitable[None]],
        limits: ServerLimits | None = None,
    ) -> None:
        self._limits = limits or ServerLimits()
        self._repositories = repositories
        self._authorize = authorize
        self._advertisements = Advertisements(repositories)
        self._pushes = Pushes(repositories, on_change, self._limits)
        shared = {"per_key": self._limits.per_repository, "waiting": self._limits.waiting}
        self._fetch_slots = Slots(total=self._limits.fetches, **shared)
        self._push_slots = Slots(total=self._limits.pushes, **shared)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        exchange = Exchange(send, idle_s=self._limits.idle_s)
        try:
            async with asyncio.timeout(self._limits.total_s):
                await self._serve(exchange, _parse(scope), receive)
        except ClientGone:
            pass
        except (_Refused, GitError, NoSlot, BodyTooLarge, BodyMalformed, BodyStalled, ClientStalled, TimeoutError) as error:
            refused = self._explain(error)
            if refused.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                log.warning(
                    "git request failed", path=scope["path"], status=refused.status.value, cause=refused.text, stderr=getattr(error, "stderr", "")
                )
            # An answer that has begun cannot be taken back: it stays unfinished, and the client sees the connection break.
            if not exchange.started:
                await exchange.answer(refused.status, refused.text, refused.headers)

    async def _serve(self, exchange: Exchange, request: _Request, receive: Receive) -> None:
        write = request.service == RECEIVE
        access = await self._authorize(request.headers, request.namespace, request.project, write=write, source=request.source)
        if not await self._repositories.exists(access.project):
            raise UnknownProject(f"cannot find repository '{access.project}': it does not exist")
        if request.discovers:
            await self._discover(exchange, request, access)
            return
        limit = self._limits.push_body_bytes if write else self._limits.negotiation_body_bytes
        _check_post(request, limit)
        body = RequestBody(receive, BodyLimits(limit, self._limits.inflate_ratio, self._limits.idle_s), gzipped=request.gzipped)
        exchange.expect(f"application/x-{request.service}-result")
        slots = self._push_slots if write else self._fetch_slots
        async with slots.hold(access.project, wait_s=self._limits.wait_s):
            if write:
                await self._pushes.receive_pack(exchange, body, access, request.protocol)
            else:
                await upload_pack(exchange, body, self._repositories.volume.repository(access.project), request.protocol)

    async def _discover(self, exchange: Exchange, request: _Request, access: Access) -> None:
        refs = await self._advertisements.recall(access, request.service, request.protocol)
        if refs is None:
            async with self._fetch_slots.hold(access.project, wait_s=self._limits.wait_s):
                refs = await self._advertisements.ask(access, request.service, request.protocol)
        exchange.expect(f"application/x-{request.service}-advertisement")
        await exchange.write(refs)
        await exchange.finish()

    def _explain(self, error: Exception) -> _Refused:
        """Turn any expected failure into its status and words."""
        if isinstance(error, _Refused):
            return error
        text = getattr(error, "message", None) or str(error) or f"the request took longer than {self._limits.total_s:g} s"
        hint = getattr(error, "hint", "")
        status = next((status for kinds, status in _STATUSES if isinstance(error, kinds)), HTTPStatus.INTERNAL_SERVER_ERROR)
        headers: dict[str, str] = {}
        if status is HTTPStatus.UNAUTHORIZED:
            headers = dict(CHALLENGE)
        elif status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
            headers = {"retry-after": str(getattr(error, "retry_after_s", self._limits.retry_after_s))}
        return _Refused(status, f"{text}; {hint}" if hint else text, headers)


def _parse(scope: Scope) -> _Request:
    path = scope["path"]
    root = scope.get("root_path", "")
    if root and path.startswith(f"{root}/"):
        path = path[len(root) :]
    route = _ROUTE.fullmatch(path)
    if route is None:
        raise _Refused(HTTPStatus.NOT_FOUND, "cannot find this path: repositories are at /git/NAMESPACE/PROJECT.git")
    rest = route["rest"]
    service = rest
    method = "POST"
    if rest == "info/refs":
        method = "GET"
        service = _service(scope.get("query_string", b""))
    elif _DUMB.fullmatch(rest):
        raise _dumb()
    elif rest not in (UPLOAD, RECEIVE):
        raise _Refused(HTTPStatus.NOT_FOUND, "cannot find this path in the repository")
    if scope["method"] != method:
        raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"cannot answer {scope['method']}: use {method}", {"allow": method})
    source = (scope.get("client") or ("",))[0]
    return _Request(route["namespace"], route["project"], service, rest == "info/refs", Headers(scope=scope), source)


def _service(query: bytes) -> str:
    for service in (UPLOAD, RECEIVE):
        if query == f"service={service}".encode():
            return service
    if query.startswith(b"service="):
        raise _Refused(HTTPStatus.FORBIDDEN, "cannot serve this git service: only git-upload-pack and git-receive-pack exist here")
    raise _dumb()


def _dumb() -> _Refused:
    return _Refused(HTTPStatus.FORBIDDEN, "cannot serve the dumb HTTP protocol: use git 1.6.6 or newer, without GIT_SMART_HTTP=0")


def _check_post(request: _Request, limit: int) -> None:
    expected = f"application/x-{request.service}-request"
    if request.headers.get("content-type", "") != expected:
        raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"cannot read the body: its content type must be {expected}")
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity" and not request.gzipped:
        raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "cannot read the body: the only content encoding is gzip")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise BodyTooLarge(f"the body is larger than {limit} bytes")
