"""The adapter of the Cluster port to a Kubernetes API server, over raw JSON.

Owns what each verb of the port asks of the server. Only the modules named kube* know the client library; none of them knows a controller.
"""

import asyncio
import builtins
import random
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from foundation.clock import Clock
from reconcile.cluster.kube_access import Access
from reconcile.cluster.kube_errors import About
from reconcile.cluster.kube_pages import Page, read_page
from reconcile.cluster.kube_session import SILENCE_S, Request, Session
from reconcile.cluster.kube_urls import collection_path, object_path, selection
from reconcile.cluster.kube_watch import Watch, without_managers
from reconcile.cluster.port import PAGE, Fields, Labels, Listing, Object, ObjectKey, ResourceKind, WatchEvent, kind_of
from reconcile.cluster.writes import as_json, shape_problems
from reconcile.errors import Conflict, FieldError, Gone, Invalid, StoreUnavailable

MANAGER: Final = "arena"
MERGE_PATCH: Final = "application/merge-patch+json"
_CONFLICT_TRIES: Final = 5
_CONFLICT_WAIT_S: Final = 0.05
_SERVER: Final = ResourceKind("", "v1", "APIServer", "version", namespaced=False)
_NUMBER: Final = re.compile(r"\d+")
_WRITE: Final = {"fieldManager": MANAGER, "fieldValidation": "Strict"}


class KubeCluster:
    """A `Cluster` on a Kubernetes API server. Connects at the first call; use it from one event loop, and close it.

    Objects come without metadata.managedFields, and a write that lacks them leaves them alone. A field that the server's schema does not know is
    an error, never dropped in silence. A namespace must exist: creating in one that does not is NotFound.
    """

    def __init__(self, access: Access, clock: Clock, *, dice: random.Random | None = None, silence_s: float = SILENCE_S) -> None:
        self._clock = clock
        self._dice = dice or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._session = Session(access, clock, dice=self._dice, silence_s=silence_s)

    async def close(self) -> None:
        """End all watches and connections. Closing twice is fine; every other call then raises StoreUnavailable."""
        await self._session.close()

    async def version(self) -> tuple[int, int]:
        """Return the server's version, such as (1, 34). Anyone may ask, so this also tells whether the server answers at all.

        Raises:
            ClusterError: it does not.
        """
        said = await self._session.json(Request("GET", "/version", About("ask the version of", _SERVER, None)))
        numbers = [_NUMBER.match(str(said.get(part, ""))) for part in ("major", "minor")]  # a managed server's minor is "33+"
        if not all(numbers):
            raise StoreUnavailable(f"cannot ask the version of the API server: it answers {str(said)[:200]}")
        major, minor = (int(number[0]) for number in numbers if number)
        return major, minor

    async def get(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        """Return one object (see `Cluster.get`)."""
        about = About("get", kind, namespace, name)
        return without_managers(await self._session.json(Request("GET", object_path(about), about)))

    async def list(self, kind: ResourceKind, namespace: str | None = None, labels: Labels | None = None, *, fields: Fields | None = None) -> Listing:
        """Return the selected objects as they are now, read in pages of 500 that are of one moment (see `Cluster.list`)."""
        request = Request("GET", collection_path(kind, namespace), About("list", kind, namespace), selection(labels, fields))
        try:
            return _joined([page async for page in self._pages(request)])
        except Gone:  # the moment of the first page is forgotten already: as client-go does, read all at once
            return _joined([*(await self._page(request)).listings()])

    def pages(self, kind: ResourceKind, namespace: str | None = None) -> AsyncGenerator[Listing, None]:
        """Yield all objects, page by page (see `Cluster.pages`)."""
        return self._pages(Request("GET", collection_path(kind, namespace), About("list", kind, namespace)))

    async def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Store a new object (see `Cluster.create`)."""
        about = _about("create", obj)
        if obj["metadata"].get("resourceVersion"):  # which the server answers with an internal error
            raise Invalid([FieldError("metadata.resourceVersion", "Forbidden: should not be set on objects to be created", "FieldValueForbidden")])
        return await self._write(Request("POST", collection_path(about.kind, about.namespace), about, body=_json(about, obj)), dry_run=dry_run)

    async def update(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Replace an object (see `Cluster.update`)."""
        about = _about("update", obj)
        return await self._write(Request("PUT", object_path(about), about, body=_json(about, obj)), dry_run=dry_run)

    async def patch(
        self, kind: ResourceKind, namespace: str | None, name: str, merge_patch: Object, *, resource_version: str | None = None, dry_run: bool = False
    ) -> Object:
        """Apply a merge patch (see `Cluster.patch`)."""
        if not isinstance(merge_patch, dict):
            raise Invalid([FieldError("metadata", "Required value", "FieldValueRequired")], kind=kind.kind, name=name)
        about = About("patch", kind, namespace, name)
        return await self._patch(about, object_path(about), _versioned(merge_patch, resource_version), dry_run=dry_run)

    async def patch_status(
        self, kind: ResourceKind, namespace: str | None, name: str, status: Object, *, resource_version: str | None = None
    ) -> Object:
        """Apply a merge patch to the status (see `Cluster.patch_status`)."""
        if not kind.has_status:
            raise Invalid([FieldError("status", f"{kind} has no status", "FieldValueForbidden")], kind=kind.kind, name=name)
        about = About("patch the status of", kind, namespace, name)
        return await self._patch(about, f"{object_path(about)}/status", _versioned({"status": status}, resource_version))

    async def delete(
        self, kind: ResourceKind, namespace: str | None, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> Object | None:
        """Delete an object (see `Cluster.delete`)."""
        about = About("delete", kind, namespace, name)
        preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": preconditions}
        answer = await self._session.json(Request("DELETE", object_path(about), about, body=_json(about, options)))
        return without_managers(answer) if _is_held(answer) else None

    async def watch(
        self, kind: ResourceKind, namespace: str | None, resource_version: str, *, labels: Labels | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield changes (see `Cluster.watch`). An interrupted watch resumes by itself where it was, with backoff."""
        if resource_version and not resource_version.isdecimal():  # which the server answers with an internal error
            raise Invalid([FieldError("resourceVersion", f"Invalid value: {resource_version!r}: must be one that the server gave")], kind=kind.kind)
        if resource_version in ("", "0"):
            listing = await self.list(kind, namespace, labels)
            for obj in listing.items:
                yield WatchEvent("ADDED", obj)
            resource_version = listing.resource_version
        request = Request("GET", collection_path(kind, namespace), About("watch", kind, namespace), selection(labels))
        async with aclosing(Watch(self._session, request, self._clock, self._dice).events(resource_version)) as events:
            async for event in events:
                yield event

    async def _pages(self, request: Request) -> AsyncGenerator[Listing, None]:
        """Yield a listing piece by piece. The server prepares a page while the one before is decoded: each takes about half of the time."""
        query = {**(request.query or {}), "limit": str(PAGE)}
        ahead: asyncio.Task[Page] | None = asyncio.create_task(self._page(replace(request, query=query)))
        try:
            while ahead is not None:
                page = await ahead
                following = replace(request, query={**query, "continue": page.following})
                ahead = asyncio.create_task(self._page(following)) if page.following else None
                for listing in _decoded(page, request.about):
                    yield listing
                    await asyncio.sleep(0)  # so that the next page is asked for, and read, meanwhile
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)

    async def _page(self, request: Request) -> Page:
        try:
            return read_page(request.about.kind, await self._session.chunks(request))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreUnavailable(f"cannot {request.about}: the answer is no list: {error}") from error

    async def _write(self, request: Request, *, dry_run: bool = False) -> Object:
        query = {**_WRITE, "dryRun": "All"} if dry_run else _WRITE
        return without_managers(await self._session.json(replace(request, query=query)))

    async def _patch(self, about: About, path: str, patch: Object, *, dry_run: bool = False) -> Object:
        """Patch; without a version to hold to, one that lost a race is repeated: the server itself gives up after five rounds."""
        request = Request("PATCH", path, about, body=_json(about, patch), content_type=MERGE_PATCH)
        tries = 1 if (patch.get("metadata") or {}).get("resourceVersion") else _CONFLICT_TRIES
        for number in range(1, tries):
            try:
                return await self._write(request, dry_run=dry_run)
            except Conflict:
                await self._clock.sleep(_CONFLICT_WAIT_S * number * (1 + self._dice.random()))
        return await self._write(request, dry_run=dry_run)


def _decoded(page: Page, about: About) -> Iterator[Listing]:
    try:
        yield from page.listings()
    except ValueError as error:
        raise StoreUnavailable(f"cannot {about}: the answer is no JSON: {error}") from error


def _about(verb: str, obj: Object) -> About:
    kind = kind_of(obj)
    problems = shape_problems(obj)
    metadata = {} if problems else obj["metadata"]
    if not problems and kind.namespaced and not metadata.get("namespace"):
        problems = [FieldError("metadata.namespace", f"Required value: {kind} is namespaced", "FieldValueRequired")]
    if problems:
        raise Invalid(problems, kind=kind.kind, name=str(metadata.get("name", "")))
    return About(verb, kind, metadata.get("namespace") or None, metadata.get("name") or metadata.get("generateName") or "")


def _json(about: About, value: Object) -> bytes:
    return as_json(about.kind, about.name, value).encode()


def _versioned(patch: Object, resource_version: str | None) -> Object:
    if not resource_version:
        return patch
    return {**patch, "metadata": {**(patch.get("metadata") or {}), "resourceVersion": resource_version}}


def _joined(pages: builtins.list[Listing]) -> Listing:
    items = [item for page in pages for item in page.items]
    items.sort(key=ObjectKey.of)  # the server sorts by "namespace/name"
    return Listing(items, pages[0].resource_version)


def _is_held(answer: Object) -> bool:
    """Say whether what a delete answered is an object that still exists: held by finalizers, or with time to end."""
    metadata = answer.get("metadata") or {}
    return answer.get("kind") != "Status" and bool(metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"))
