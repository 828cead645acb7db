"""AdmissionReview v1 of an API server, answered by the kinds' own checks.

Owns the translation and its limits; what is wrong with an object, `reconcile.kinds.admission` says. Pure; must not know HTTP.
Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from hooks.errors import ReviewUnreadable
from hooks.payload import printable
from reconcile.cluster.port import Object
from reconcile.errors import FieldError, Invalid
from reconcile.kinds.admission import admit, admit_status
from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.names import API_VERSION, GROUP, VERSION

REVIEW_VERSION: Final = "admission.k8s.io/v1"
REVIEW_KIND: Final = "AdmissionReview"
MAX_WARNING: Final = 256
"""Characters of a warning. The API server cuts all of them to this length when there are more than `MAX_WARNINGS` characters together."""
MAX_WARNINGS: Final = 4096
MAX_CAUSES: Final = 20
_MAX_CAUSE = 1024
_WRITES = ("CREATE", "UPDATE")


@dataclass(frozen=True, slots=True)
class Review:
    """What an API server asks. `kind` is "" where nothing is to be checked: no kind of ours, no write, or a subresource other than status.

    `new` is the object as it would be stored; `old` is what is stored, None on create.
    """

    uid: str
    kind: str = ""
    is_status: bool = False
    new: Object = field(default_factory=dict)
    old: Object | None = None


def parse(document: bytes) -> Review:
    """Read an AdmissionReview. Who asks, with which options and whether it is a dry run does not matter: answering has no effect.

    Raises:
        ReviewUnreadable: it is none of v1, or it lacks what cannot be done without.
    """
    request = _request(document)
    uid = request.get("uid")
    if not isinstance(uid, str) or not uid:
        raise ReviewUnreadable("cannot read the admission review: request.uid is no text")
    kind, subresource = _kind(request.get("kind")), request.get("subResource") or ""
    if request.get("operation") not in _WRITES or kind not in CATALOG or subresource not in ("", "status"):
        return Review(uid)
    new, old = request.get("object"), request.get("oldObject")
    if not isinstance(new, dict) or not isinstance(old, dict | None):
        raise ReviewUnreadable("cannot read the admission review: request.object or request.oldObject is no object")
    if request["operation"] == "UPDATE" and old is None:
        raise ReviewUnreadable("cannot read the admission review: an update comes without request.oldObject")
    return Review(uid, kind, subresource == "status", _placed(new, request.get("namespace")), old)


def answer(review: Review) -> Object:
    """Return the AdmissionReview that answers: allowed with warnings, or denied with a Status of code 422 that names each field."""
    try:
        warnings = _check(review)
    except Invalid as refusal:
        return _answer(review, {"allowed": False, "status": _status(review, refusal.errors)})
    except RecursionError:
        problem = FieldError("", "Invalid value: the object is nested too deeply to be checked")
        return _answer(review, {"allowed": False, "status": _status(review, [problem])})
    return _answer(review, {"allowed": True, **({"warnings": fitted(warnings)} if warnings else {})})


def fitted(warnings: Sequence[str]) -> list[str]:
    """Cut warnings to what an API server passes on; what is left out is counted in the last one."""
    kept: list[str] = []
    left = MAX_WARNINGS
    for place, warning in enumerate(warnings):
        line, more = _line(warning, MAX_WARNING), f"and {len(warnings) - place} more warnings"
        if len(line) + len(more) > left:
            return [*kept, more]
        kept.append(line)
        left -= len(line)
    return kept


def warm_up() -> None:
    """Do once what the first check of each kind would do before it answers: schemas, rules and patterns, 0.7 s together."""
    for kind in CATALOG:
        answer(Review("", kind, new={"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "x", "namespace": "x"}, "spec": {}}))


def _request(document: bytes) -> Mapping[str, Any]:
    try:
        review = json.loads(document)
    except RecursionError as error:
        raise ReviewUnreadable("cannot read the admission review: it is nested too deeply") from error
    except ValueError as error:
        raise ReviewUnreadable(f"cannot read the admission review: it is not JSON: {error}") from error
    if not isinstance(review, dict) or (review.get("apiVersion"), review.get("kind")) != (REVIEW_VERSION, REVIEW_KIND):
        raise ReviewUnreadable(f"cannot read the admission review: it is no {REVIEW_KIND} of {REVIEW_VERSION}")
    request = review.get("request")
    if not isinstance(request, dict):
        raise ReviewUnreadable("cannot read the admission review: it has no request")
    return request


def _kind(named: Any) -> str:
    """Return the name of a kind of our group and version, otherwise ""."""
    is_ours = isinstance(named, dict) and (named.get("group"), named.get("version")) == (GROUP, VERSION)
    return str(named.get("kind", "")) if is_ours else ""


def _placed(obj: Object, namespace: Any) -> Object:
    """Return the object with the namespace that it is written to, if it names none itself."""
    metadata = obj.get("metadata")
    if not isinstance(namespace, str) or not namespace or not isinstance(metadata, dict) or metadata.get("namespace"):
        return obj
    return {**obj, "metadata": {**metadata, "namespace": namespace}}


def _check(review: Review) -> Sequence[str]:
    if not review.kind:
        return ()
    if review.is_status:
        admit_status(review.kind, review.new, review.old or {})
        return ()
    # Which fields there are is the CRD's to say: one that is newer than this program has fields that it cannot know.
    return admit(review.kind, review.new, review.old, unknown="prune", in_cluster=True).warnings


def _answer(review: Review, response: Mapping[str, Any]) -> Object:
    return {"apiVersion": REVIEW_VERSION, "kind": REVIEW_KIND, "response": {"uid": review.uid, **response}}


def _status(review: Review, errors: Sequence[FieldError]) -> Object:
    """Return a metav1.Status as the API server itself would refuse an object with, of a bounded length."""
    metadata = review.new.get("metadata")
    name = str(metadata.get("name") or metadata.get("generateName") or "") if isinstance(metadata, dict) else ""
    told = [(_line(error.path, MAX_WARNING), _line(error.message, _MAX_CAUSE), error.reason) for error in errors[:MAX_CAUSES]]
    words = "; ".join(f"{path}: {message}" if path else message for path, message, _ in told)
    more = f"; and {len(errors) - len(told)} more" if len(errors) > len(told) else ""
    return {
        "status": "Failure",
        "code": HTTPStatus.UNPROCESSABLE_ENTITY.value,
        "reason": "Invalid",
        "message": f'{review.kind}.{GROUP} "{printable(name)}" is invalid: {words}{more}',
        "details": {
            "group": GROUP,
            "kind": review.kind,
            "name": name,
            "causes": [{"field": path, "message": message, "reason": reason} for path, message, reason in told],
        },
    }


def _line(text: str, limit: int) -> str:
    """Return a text as one printable line: a warning with a control character would be dropped by the API server."""
    line = printable(text, limit)
    return line if len(text) <= limit else f"{line[:-1]}…"
