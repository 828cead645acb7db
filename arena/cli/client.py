"""The command line's way to a running server: Kubernetes resource paths over HTTP, one request at a time.

Uses the standard library, since most commands make one request and end. Knows no kind: callers say what they want by name.
"""

import http.client
import json
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from arena.cli.options import of_namespace
from arena.cli.screen import print_warning
from arena.errors import ServerUnreachable, UsageError
from arena.local.state import StateDirectory
from reconcile.cluster.port import ResourceKind

TIMEOUT_S = 30.0


class ServerRefused(UsageError):
    """The server answered, and the answer is no. `code` is the HTTP status, `reason` the Status reason."""

    def __init__(self, message: str, *, code: int, reason: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Client:
    """Requests to one server, authorised by its token. `warn` is told what the server finds odd about a change that it took."""

    url: str
    token: str
    warn: Callable[[str], None] = print_warning

    @classmethod
    def of(cls, state: StateDirectory) -> "Client":
        """Return a client of the server that runs on a state directory.

        Raises:
            ServerUnreachable: none runs there.
        """
        return cls(state.address().url, state.read_token())

    def get(self, kind: ResourceKind, namespace: str, name: str) -> dict[str, Any]:
        """Return one object; the refusal of one that is not there says how to see the others."""
        try:
            return self._json("GET", path_of(kind, namespace, name))
        except ServerRefused as error:
            if error.reason == "NotFound" and not error.hint:
                error.hint = f"`arena get {kind.plural}{of_namespace(namespace) if kind.namespaced else ''}` lists those there are"
            raise

    def find(self, kind: ResourceKind, namespace: str, name: str) -> dict[str, Any] | None:
        """Return one object, or None when there is none of the name."""
        try:
            return self.get(kind, namespace, name)
        except ServerRefused as error:
            if error.reason == "NotFound":
                return None
            raise

    def list(self, kind: ResourceKind, namespace: str, selector: str = "") -> dict[str, Any]:
        """Return the list object; `namespace` "" lists all, `selector` is a label selector as kubectl takes it."""
        query = f"?{urllib.parse.urlencode({'labelSelector': selector})}" if selector else ""
        return self._json("GET", path_of(kind, namespace, "") + query)

    def create(self, kind: ResourceKind, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object."""
        return self._json("POST", path_of(kind, namespace, ""), body)

    def patch(self, kind: ResourceKind, namespace: str, name: str, patch: dict[str, Any]) -> dict[str, Any]:
        """Apply a merge patch to an object."""
        return self._json("PATCH", path_of(kind, namespace, name), patch)

    def delete(self, kind: ResourceKind, namespace: str, name: str) -> None:
        """Ask for an object's deletion; its finalizers may hold it for a while."""
        self._json("DELETE", path_of(kind, namespace, name))

    def watch(self, kind: ResourceKind, namespace: str, resource_version: str, selector: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (type, object) for every change after `resource_version`, until the server ends the stream.

        Raises:
            ServerRefused: reason Expired when the version is too old: list again.
        """
        wanted = {"labelSelector": selector} if selector else {}
        query = urllib.parse.urlencode({"watch": "true", "resourceVersion": resource_version, **wanted})
        response = self._request("GET", f"{path_of(kind, namespace, '')}?{query}", None, timeout_s=None)
        try:
            with response:
                for line in response:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise _refusal(event["object"])
                    yield event["type"], event["object"]
        except (OSError, http.client.HTTPException) as error:
            raise ServerUnreachable(f"lost the server at {self.url} while watching {kind.plural}", hint="start it again with `arena up`") from error

    def _json(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        with self._request(method, path, body, timeout_s=TIMEOUT_S) as response:
            try:
                answer: dict[str, Any] = json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError) as error:  # a body that breaks off: with no length said, it just ends
                raise ServerUnreachable(f"lost the server at {self.url} while it answered", hint="start it again with `arena up`") from error
            return answer

    def _request(self, method: str, path: str, body: dict[str, Any] | None, *, timeout_s: float | None) -> http.client.HTTPResponse:
        address = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout_s)
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            cause = (error.strerror if isinstance(error, OSError) else "") or str(error)
            raise ServerUnreachable(f"cannot reach the server at {self.url}: {cause.lower()}", hint="start it with `arena up`") from error
        for value in response.headers.get_all("Warning", []):
            self.warn(warning_text(value))
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise _refusal(_status_body(response))
        return response


def path_of(kind: ResourceKind, namespace: str, name: str) -> str:
    """Return the resource path of a collection (name "") or an object."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scope = f"/namespaces/{urllib.parse.quote(namespace, safe='')}" if kind.namespaced and namespace else ""
    return f"{root}{scope}/{kind.plural}" + (f"/{urllib.parse.quote(name, safe='')}" if name else "")


def warning_text(value: str) -> str:
    """Return the text of a Warning header: `299 - "…"`, in UTF-8 although HTTP libraries read headers as Latin-1."""
    quoted = value.partition('"')[2].rpartition('"')[0].encode("latin-1", "replace").decode("utf-8", "replace")
    return quoted.replace('\\"', '"').replace("\\\\", "\\")


def _status_body(response: http.client.HTTPResponse) -> dict[str, Any]:
    with response:
        try:
            body = json.loads(response.read())
        except ValueError:
            body = None
    return (
        body
        if isinstance(body, dict)
        else {"code": response.status, "reason": response.reason, "message": f"the server answered {response.status} {response.reason}"}
    )


def _refusal(status: dict[str, Any]) -> ServerRefused:
    details = status.get("details") or {}
    return ServerRefused(
        str(status.get("message", "")), code=int(status.get("code", 500)), reason=str(status.get("reason", "")), hint=str(details.get("hint", ""))
    )
