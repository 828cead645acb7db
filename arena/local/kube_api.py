"""The embedded store as a Kubernetes-shaped REST API: the resource paths, verbs and Status errors that the CLI needs.

A later issue widens it until kubectl works unchanged (discovery, tables, server-side apply); what is not there yet answers with a
Status that says so. Knows the `Cluster` port only. Whoever mounts it checks who is calling.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from arena.local.json_body import read_object
from foundation.errors import ArenaError
from reconcile.cluster.port import KINDS, Cluster, ResourceKind, WatchEvent
from reconcile.cluster.selectors import Selector
from reconcile.errors import AlreadyExists, Conflict, FieldError, Gone, Invalid, NotFound, ObjectTooLarge, StoreUnavailable

MERGE_PATCH = "application/merge-patch+json"
_READ_QUERY = {"watch", "resourceVersion", "labelSelector"}
_WRITE_QUERY = {"dryRun"}

_STATUS_CODES: tuple[tuple[type[ArenaError], int, str], ...] = (
    (NotFound, 404, "NotFound"),
    (AlreadyExists, 409, "AlreadyExists"),
    (Conflict, 409, "Conflict"),
    (Invalid, 422, "Invalid"),
    (Gone, 410, "Expired"),
    (ObjectTooLarge, 413, "RequestEntityTooLarge"),
    (StoreUnavailable, 503, "ServiceUnavailable"),
)

Warnings = Callable[[], AbstractContextManager[list[str]]]
"""Opens a block in which the store's admission warnings are collected."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a collection (`name` is ""), an object, or an object's subresource."""

    kind: ResourceKind
    namespace: str
    name: str
    subresource: str


def kube_api(cluster: Cluster, *, warnings: Warnings, stopping: asyncio.Event) -> Starlette:
    """Return the ASGI application for `/api` and `/apis`. Watches end when `stopping` is set, so that a server with watchers can stop."""
    endpoint = _Endpoint(cluster, warnings, stopping)
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    return Starlette(
        routes=[
            Route("/api/v1/{path:path}", endpoint.core, methods=methods),
            Route("/apis/{group}/{version}/{path:path}", endpoint.grouped, methods=methods),
        ],
    )


class _Endpoint:
    """Answers requests on resource paths."""

    def __init__(self, cluster: Cluster, warnings: Warnings, stopping: asyncio.Event) -> None:
        self._cluster = cluster
        self._warnings = warnings
        self._stopping = stopping

    async def core(self, request: Request) -> Response:
        """Answer for the core group."""
        return await self._answer(request, "", "v1")

    async def grouped(self, request: Request) -> Response:
        """Answer for a named group."""
        return await self._answer(request, request.path_params["group"], request.path_params["version"])

    async def _answer(self, request: Request, group: str, version: str) -> Response:
        target = _target(group, version, request.path_params["path"])
        if target is None:
            return status_response(404, "NotFound", "the server could not find the requested resource")
        unknown = sorted(request.query_params.keys() - (_READ_QUERY if request.method == "GET" else _WRITE_QUERY))
        if unknown:
            return status_response(400, "BadRequest", f"query parameter '{unknown[0]}' is not supported here yet")
        try:
            if request.method == "GET":
                return await self._read(request, target)
            with self._warnings() as warnings:
                response = await self._write(request, target)
            response.raw_headers.extend((b"warning", warning_header(text)) for text in warnings)
        except ArenaError as error:
            return error_response(error)
        return response

    async def _read(self, request: Request, target: Target) -> Response:
        if not target.name:
            return await self._collection(request, target)
        if target.subresource not in {"", "status"}:
            return status_response(404, "NotFound", f"{target.kind.plural} have no {target.subresource} here")
        return JSONResponse(await self._cluster.get(target.kind, target.namespace, target.name))

    async def _write(self, request: Request, target: Target) -> Response:
        dry_run = "dryRun" in request.query_params
        match request.method, bool(target.name), target.subresource:
            case "POST", False, "":
                return JSONResponse(await self._cluster.create(await _object(request, target), dry_run=dry_run), status_code=201)
            case "PUT", True, "":
                return JSONResponse(await self._cluster.update(await _object(request, target), dry_run=dry_run))
            case "PATCH", True, "":
                return await self._patch(request, target, dry_run=dry_run)
            case "DELETE", True, "" if not dry_run:
                return await self._delete(request, target)
            case _:
                return status_response(405, "MethodNotAllowed", f"the server does not allow {request.method} on {target.kind.plural} here yet")

    async def _collection(self, request: Request, target: Target) -> Response:
        query, namespace = request.query_params, target.namespace or None
        labels = Selector.parse(query.get("labelSelector", ""))
        if query.get("watch") in {"true", "1"}:
            events = self._cluster.watch(target.kind, namespace, query.get("resourceVersion", "0"), labels=labels)
            return StreamingResponse(_lines(events, self._stopping), media_type="application/json")
        listing = await self._cluster.list(target.kind, namespace, labels)
        return JSONResponse(
            {
                "apiVersion": target.kind.api_version,
                "kind": f"{target.kind.kind}List",
                "metadata": {"resourceVersion": listing.resource_version},
                "items": list(listing.items),
            },
        )

    async def _delete(self, request: Request, target: Target) -> Response:
        """Delete an object. Of the options a body may hold only preconditions are known; the cascade is always in the background."""
        options = await read_object(request, empty={})
        preconditions = options.get("preconditions") or {}
        if not isinstance(preconditions, dict):
            raise Invalid([FieldError("preconditions", "must be an object")], kind=target.kind.kind)
        policy = options.get("propagationPolicy") or "Background"
        if policy != "Background":
            return status_response(400, "BadRequest", f"propagationPolicy {policy} is not supported here yet")
        await self._cluster.delete(
            target.kind, target.namespace, target.name, uid=preconditions.get("uid"), resource_version=preconditions.get("resourceVersion")
        )
        return status_response(200, "", "", status="Success")

    async def _patch(self, request: Request, target: Target, *, dry_run: bool) -> Response:
        if request.headers.get("content-type", "").partition(";")[0] != MERGE_PATCH:
            return status_response(415, "UnsupportedMediaType", f"only {MERGE_PATCH} is supported yet")
        patch = await read_object(request)
        return JSONResponse(await self._cluster.patch(target.kind, target.namespace, target.name, patch, dry_run=dry_run))


async def _object(request: Request, target: Target) -> dict[str, Any]:
    """Return the object of a body. What it leaves out the path says; what it says must agree with the path."""
    body = await read_object(request)
    metadata = body.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise Invalid([FieldError("metadata", "must be an object")], kind=target.kind.kind)
    facts = [(body, "apiVersion", target.kind.api_version), (body, "kind", target.kind.kind)]
    facts += [(metadata, "namespace", target.namespace)] if target.kind.namespaced else []
    facts += [(metadata, "name", target.name)] if target.name else []
    for place, key, said in facts:
        if place.setdefault(key, said) != said:
            path = key if place is body else f"metadata.{key}"
            raise Invalid([FieldError(path, f"is '{place[key]}', but the request's path says '{said}'")], kind=target.kind.kind)
    return body


def _target(group: str, version: str, path: str) -> Target | None:
    parts = [part for part in path.split("/") if part]
    namespace = ""
    if len(parts) >= 3 and parts[0] == "namespaces":  # noqa: PLR2004 - namespaces/{namespace}/{plural}
        namespace, parts = parts[1], parts[2:]
    if not 1 <= len(parts) <= 3:  # noqa: PLR2004 - plural[/name[/subresource]]
        return None
    kind = next((k for k in KINDS.values() if (k.group, k.version, k.plural) == (group, version, parts[0])), None)
    if kind is None or (len(parts) > 1 and kind.namespaced and not namespace):
        return None
    name, subresource = (*parts[1:], "", "")[:2]
    return Target(kind, namespace, name, subresource)


async def _lines(events: AsyncGenerator[WatchEvent, None], stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield a line an event, until the server stops."""
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        async with aclosing(events):
            while (event := await _next_unless(stopped, events)) is not None:
                yield json.dumps({"type": event.type, "object": event.object}, separators=(",", ":")).encode() + b"\n"
    except ArenaError as error:
        yield json.dumps({"type": "ERROR", "object": _status_of(error)}).encode() + b"\n"
    finally:
        stopped.cancel()


async def _next_unless(stopped: asyncio.Future[Any], events: AsyncGenerator[WatchEvent, None]) -> WatchEvent | None:
    """Return the next event; None when there is none any more or `stopped` is done first."""
    coming = asyncio.ensure_future(anext(events, None))
    try:
        await asyncio.wait({coming, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return await coming if coming.done() else None
    finally:
        if not coming.done():
            coming.cancel()
            await asyncio.wait({coming})


def warning_header(text: str) -> bytes:
    """Return the value of a Warning header as Kubernetes sends it: `299 - "…"`, in UTF-8."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode()


def _status_of(error: ArenaError) -> dict[str, Any]:
    code, reason = next(((code, reason) for kind, code, reason in _STATUS_CODES if isinstance(error, kind)), (500, "InternalError"))
    return _status(code, reason, error.message, details={"hint": error.hint} if error.hint else None)


def _status(code: int, reason: str, message: str, *, status: str = "Failure", details: dict[str, Any] | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": status,
        "message": message,
        "reason": reason,
        "code": code,
    }
    return {**body, "details": details} if details else body


def error_response(error: ArenaError) -> Response:
    """Return a store's refusal as a Kubernetes Status."""
    body = _status_of(error)
    return JSONResponse(body, status_code=body["code"])


def status_response(code: int, reason: str, message: str, *, status: str = "Failure") -> Response:
    """Return a Kubernetes Status with the HTTP code it carries."""
    return JSONResponse(_status(code, reason, message, status=status), status_code=code)
