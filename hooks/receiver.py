"""The HTTP face of webhooks: `POST /hooks/{host}/{namespace}/{project}` and `POST /hooks/{host}`.

Owns the paths, the answers, and how much a stranger may try. What a delivery means belongs to `dispatch`.
"""

import json
import math
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog
from starlette.datastructures import Headers
from starlette.responses import Response

from foundation.clock import Clock
from hooks.delivery import GitHost
from hooks.dispatch import Dispatch, Finding, Taken
from hooks.errors import Refused, SenderGone
from hooks.hosts import HOSTS
from hooks.intake import JSON, BodyLimits, Incoming, Intake
from hooks.payload import printable
from hooks.rate_limit import Rate, RateLimit
from hooks.sources import site
from reconcile.cluster.port import Cluster, ObjectKey
from reconcile.errors import ClusterError, StoreUnavailable
from reconcile.kinds.reasons import EventReason
from reconcile.runtime.events import record

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_NAME = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_ROUTE = re.compile(rf"/hooks/(?P<host>[a-z-]{{1,40}})(?:/(?P<namespace>{_NAME})/(?P<project>{_NAME}))?/?")
_BODY, _FAILURES, _PER_PROJECT, _EVENTS = BodyLimits(), Rate(burst=20, every_s=2.0), Rate(burst=60, every_s=1.0), Rate(burst=1, every_s=600.0)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class HookLimits:
    """What strangers and senders may do.

    `failures` of one address: beyond it a delivery that fails is answered 429, and one that is proven still passes, because behind a proxy all senders
    share an address. `per_project`: deliveries that are proven. `events`: findings of one topic about one project.
    """

    body: BodyLimits = _BODY
    failures: Rate = _FAILURES
    per_project: Rate = _PER_PROJECT
    events: Rate = _EVENTS
    unavailable_s: int = 10


class Receiver:
    """The ASGI application for `/hooks`."""

    def __init__(self, cluster: Cluster, clock: Clock, limits: HookLimits | None = None) -> None:
        self._cluster = cluster
        self._clock = clock
        self._limits = limits or HookLimits()
        self._intake = Intake(self._limits.body)
        self._dispatch = Dispatch(cluster, clock, self._intake, self._limits.per_project)
        self._failures = RateLimit(self._limits.failures, clock)
        self._events = RateLimit(self._limits.events, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        incoming, findings = Incoming(receive), list[Finding]()
        try:
            response = await self._answer(scope, incoming, findings)
            if not incoming.complete:
                await self._intake.skip(incoming, Headers(scope=scope))
        except SenderGone:
            return
        if not incoming.complete:
            response.headers["connection"] = "close"
        await response(scope, receive, send)
        await self._tell(findings)

    async def _answer(self, scope: Scope, incoming: Incoming, findings: list[Finding]) -> Response:
        source = site((scope.get("client") or ("",))[0])
        try:
            taken = await self._take(scope, incoming, findings, suspect=self._failures.wait_s(source) > 0)
        except Refused as error:
            return _refusal(self._limited(error, source, str(scope["path"])))
        except StoreUnavailable as error:
            log.warning("webhook not taken", path=printable(scope["path"]), error=error.message)
            retry = {"retry-after": str(self._limits.unavailable_s)}
            return _refusal(Refused(HTTPStatus.SERVICE_UNAVAILABLE, "cannot take the delivery: the store does not answer", headers=retry))
        except ClusterError as error:  # the store refuses the stamp
            return _refusal(Refused(HTTPStatus.CONFLICT, f"cannot request a fetch: {error.message}", hint=error.hint, proven=True))
        return _acceptance(taken)

    async def _take(self, scope: Scope, incoming: Incoming, findings: list[Finding], *, suspect: bool) -> Taken:
        host, key = _target(scope)
        headers = Headers(scope=scope)
        if key is None:
            taken = await self._dispatch.to_host(host, headers, incoming, findings, suspect=suspect)
        else:
            taken = await self._dispatch.to_project(host, key, headers, incoming, findings)
        for requested in taken.requested:
            log.info("webhook taken", host=host.name, event_name=printable(taken.notice.event), project=str(requested.project), sync=requested.sync)
        return taken

    def _limited(self, error: Refused, source: str, path: str) -> Refused:
        """Count a failure of a stranger; return what it is answered."""
        if error.proven or error.status is HTTPStatus.TOO_MANY_REQUESTS:
            return error
        wait = self._failures.take(source)
        if wait:
            return Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                "cannot take the delivery: too many from this address were refused",
                hint="correct the webhook's address and secret first; deliveries that are proven still pass",
                headers={"retry-after": str(math.ceil(wait))},
            )
        log.info("webhook refused", status=error.status.value, path=printable(path), source=source)
        return error

    async def _tell(self, findings: list[Finding]) -> None:
        """Record what owners should know, after the answer, so that its time says nothing about the project."""
        for finding in findings:
            if not self._events.take((finding.project["metadata"]["uid"], finding.topic)):
                await record(self._cluster, finding.project, "Warning", EventReason.WEBHOOK_REFUSED, finding.message, clock=self._clock)


def _target(scope: Scope) -> tuple[GitHost, ObjectKey | None]:
    route = _ROUTE.fullmatch(scope["path"])
    host = HOSTS.get(route["host"]) if route else None
    if route is None or host is None:
        raise Refused(
            HTTPStatus.NOT_FOUND, "cannot find this path: webhooks are at /hooks/HOST/NAMESPACE/PROJECT", hint=f"HOST is {', '.join(HOSTS)}"
        )
    if scope["method"] != "POST":
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"cannot answer {printable(scope['method'])}: deliveries are POST", headers={"allow": "POST"})
    return host, ObjectKey(route["namespace"], route["project"]) if route["project"] else None


def _acceptance(taken: Taken) -> Response:
    requested = [
        {"namespace": each.project.namespace, "project": each.project.name, "sync": each.sync, "suspended": each.suspended}
        for each in taken.requested
    ]
    body: dict[str, Any] = {"event": printable(taken.notice.event), "ref": printable(taken.notice.ref), "requested": requested}
    if not taken.notice.asks:
        body["message"] = "this event changes no ref: no fetch was requested"
    elif not requested:
        body["message"] = "no project mirrors this repository with this secret: no fetch was requested"
    elif all(each.suspended for each in taken.requested):
        body["message"] = "suspended: the fetch waits until spec.suspend is false"
    return _json(HTTPStatus.ACCEPTED if requested else HTTPStatus.OK, body, {})


def _refusal(error: Refused) -> Response:
    return _json(error.status, {"error": error.message} | ({"hint": error.hint} if error.hint else {}), error.headers)


def _json(status: HTTPStatus, body: dict[str, Any], headers: dict[str, str]) -> Response:
    return Response(json.dumps(body) + "\n", status_code=status.value, headers=headers, media_type=JSON)
