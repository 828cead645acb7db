"""From an API server's answer to the errors of the Cluster port.

Pure. The shapes are those of metav1.Status (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconcile.cluster.port import ResourceKind
from reconcile.errors import (
    AlreadyExists,
    ClusterError,
    Conflict,
    FieldError,
    Forbidden,
    Gone,
    Invalid,
    KindNotServed,
    NotFound,
    ObjectTooLarge,
    StoreUnavailable,
    Unauthorized,
)

_MAX_MESSAGE = 1024
_STRANGER = re.compile(r'((?:unknown|duplicate) field "([^"]+)")')
_TOO_LARGE = ("request is too large", "trying to send message larger than max")
_TOO_LARGE_CODE = 413
_PLAIN: Mapping[int, tuple[type[ClusterError], str]] = {
    401: (Unauthorized, "check the credentials, and that they are those of this cluster"),
    403: (Forbidden, ""),
    410: (Gone, "list again, and watch from there"),
    _TOO_LARGE_CODE: (ObjectTooLarge, "keep large content in the repository, not in the object"),
}
"""By HTTP code, what needs no reading of the answer: the error and what to do."""


@dataclass(frozen=True, slots=True)
class About:
    """What a request is about, for its errors. `name` is "" for a list or a watch."""

    verb: str
    kind: ResourceKind
    namespace: str | None
    name: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace and self.name else self.name or self.namespace or ""
        return f"{self.verb} {self.kind} '{place}'" if place else f"{self.verb} {self.kind}"


def error_of(about: About, code: int, body: bytes) -> ClusterError:
    """Return the error that an answer with this HTTP code and body means."""
    status = _status(body)
    message = str(status.get("message") or body[:_MAX_MESSAGE].decode("utf-8", "replace").strip() or f"HTTP {code}")[:_MAX_MESSAGE]
    if any(words in message for words in _TOO_LARGE):
        code = _TOO_LARGE_CODE
    match code:
        case 400 | 422:
            return Invalid(_field_errors(status) or [FieldError("", message)], kind=about.kind.kind, name=about.name)
        case 404:
            return _not_found(about, status, message)
        case 409:
            return _conflict(about, status, message)
    error, hint = _PLAIN.get(code, (StoreUnavailable, ""))
    return error(f"cannot {about}: {message}", kind=about.kind.kind, name=about.name, hint=hint)


def _not_found(about: About, status: Mapping[str, Any], message: str) -> ClusterError:
    details = _details(status)
    if details.get("kind") == "namespaces" and about.kind.plural != "namespaces":
        return NotFound("Namespace", None, str(details.get("name", about.namespace)))
    if details.get("name"):
        return NotFound(about.kind.kind, about.namespace, about.name)
    return KindNotServed(
        f"cannot {about}: the API server does not serve {about.kind.plural} of {about.kind.api_version} ({message})",
        kind=about.kind.kind,
        name=about.name,
        hint="install the CustomResourceDefinitions: kubectl apply -k manifests/crds/arena, and manifests/crds/neighbours for the other kinds",
    )


def _conflict(about: About, status: Mapping[str, Any], message: str) -> ClusterError:
    if status.get("reason") == "AlreadyExists":
        return AlreadyExists(about.kind.kind, about.namespace, about.name)
    cause = message.partition(": ")[2] or message
    return Conflict(about.kind.kind, about.namespace, about.name, cause)


def _field_errors(status: Mapping[str, Any]) -> list[FieldError]:
    """Return what is wrong with which field, as far as the server tells it: strange fields of a strict decoding, or the causes of a refusal."""
    _, is_strict, said = str(status.get("message", "")).rpartition("strict decoding error: ")  # a patch repeats the whole object before it
    if is_strict:
        return [FieldError(path, words) for words, path in _STRANGER.findall(said)]
    causes = [cause for cause in _details(status).get("causes") or () if cause.get("field") != "<nil>"]
    errors = [
        FieldError(str(cause.get("field", "")), str(cause.get("message", ""))[:_MAX_MESSAGE], str(cause.get("reason", "FieldValueInvalid")))
        for cause in causes
    ]
    return [*dict.fromkeys(errors)]


def _status(body: bytes) -> Mapping[str, Any]:
    try:
        status = json.loads(body)
    except ValueError:
        return {}
    return status if isinstance(status, dict) and status.get("kind") == "Status" else {}


def _details(status: Mapping[str, Any]) -> Mapping[str, Any]:
    details = status.get("details")
    return details if isinstance(details, dict) else {}
