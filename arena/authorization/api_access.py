"""Who may do what over the Kubernetes-shaped API: a request's path is its action, as an API server reads it.

So whoever reads a run's logs in local mode is asked for `get` on that ArenaRun before anything else, and a path that is added later is guarded already.
"""

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers, QueryParams

from arena.authorization.credentials import BEARER
from arena.authorization.entrance import Entrance
from arena.authorization.port import Action, Caller

_ON_ALL: Mapping[str, str] = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_ON_ONE: Mapping[str, str] = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_WATCHES = ("1", "true")


class ApiAccess:
    """Admits requests to `/api` and `/apis`, by bearer token alone."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance = entrance

    async def admit(self, scope: Mapping[str, Any]) -> Caller:
        """Return the caller, who may do what the request asks for.

        Raises:
            AuthorizationError: see `Entrance.admit`.
        """
        source = (scope.get("client") or ("",))[0]
        return await self._entrance.admit(Headers(scope=dict(scope)), source, requested(scope), schemes=BEARER)


def requested(scope: Mapping[str, Any]) -> Action:
    """Return what a request for an API path does (Kubernetes: "Request verbs and authorization"); a path that names no resource is one of its own."""
    root, *parts = [part for part in str(scope["path"]).split("/") if part]
    group = parts.pop(0) if root == "apis" and parts else ""
    parts = parts[1:]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":  # noqa: PLR2004 - namespaces/{namespace}/{plural}
        namespace, parts = parts[1], parts[2:]
    resource, name, subresource = (*parts, "", "", "")[:3]
    verb = (_ON_ONE if name else _ON_ALL).get(scope["method"], str(scope["method"]).lower())
    if verb == "list" and QueryParams(scope.get("query_string", b"")).get("watch") in _WATCHES:
        verb = "watch"
    return Action(verb, resource or "*", namespace, name, subresource, group)
