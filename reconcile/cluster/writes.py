"""What a write makes of an object: Kubernetes' rules as functions over JSON.

Pure, and the same whatever keeps the objects: who owns which field, when generation grows, which preconditions hold, what is refused.
"""

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from reconcile.cluster import core_kinds
from reconcile.cluster.merge import apply_merge_patch, is_same
from reconcile.cluster.metadata import SYSTEM_FIELDS, metadata_problems
from reconcile.cluster.port import Admission, Object, ResourceKind, StatusAdmission
from reconcile.errors import Conflict, FieldError, Invalid, ObjectTooLarge

MAX_OBJECT_BYTES = 3 * 1024 * 1024 // 2


@dataclass(frozen=True, slots=True)
class Rules:
    """The hooks that know kinds; None where there is none."""

    admit: Admission | None = None
    admit_status: StatusAdmission | None = None


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the system puts on a new object."""

    name: str
    uid: str
    time: str


def encode(kind: ResourceKind, obj: Object) -> str:
    """Return an object as the JSON that is stored (`as_json`)."""
    return as_json(kind, str(obj["metadata"].get("name", "")), obj)


def as_json(kind: ResourceKind, name: str, value: Object) -> str:
    """Return an object, or a patch of one, as JSON without spaces.

    Raises:
        ObjectTooLarge: over 1.5 MiB.
        Invalid: it holds what JSON cannot say (NaN, a date, bytes).
    """
    try:
        body = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        size = len(body.encode())
    except (TypeError, ValueError) as error:
        raise Invalid([FieldError("", f"no JSON object: {error}")], kind=kind.kind, name=name) from error
    if size > MAX_OBJECT_BYTES:
        raise ObjectTooLarge(
            f"cannot store {kind} '{name}': {size} bytes are more than the limit of {MAX_OBJECT_BYTES}",
            kind=kind.kind,
            name=name,
            hint="keep large content in the repository, not in the object",
        )
    return body


def created(kind: ResourceKind, obj: Object, stamp: Stamp) -> Object:
    """Return a new object as the system stamps it, before admission."""
    problems = shape_problems(obj)
    if not problems and obj["metadata"].get("resourceVersion"):
        problems = [FieldError("metadata.resourceVersion", "Forbidden: should not be set on objects to be created", "FieldValueForbidden")]
    if problems:
        raise Invalid(problems, kind=kind.kind, name=stamp.name)
    metadata = _written_metadata(kind, obj)
    metadata |= {"name": stamp.name, "uid": stamp.uid, "creationTimestamp": stamp.time}
    if kind.has_generation:
        metadata["generation"] = 1
    rest = {key: copy.deepcopy(value) for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    if not kind.has_status and "status" in obj:
        rest["status"] = copy.deepcopy(obj["status"])
    new = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest}
    core_kinds.complete(kind, new)
    return new


def replaced(kind: ResourceKind, old: Object, obj: Object) -> Object:
    """Return `obj` as a replacement of `old`, before admission: its status and system fields are the old ones.

    Raises:
        Conflict: its resourceVersion or uid is not that of `old`.
        Invalid: it lacks a resourceVersion that its kind needs.
    """
    problems = shape_problems(obj) or _identity_problems(kind, old, obj)
    if problems:
        raise Invalid(problems, kind=kind.kind, name=old["metadata"]["name"])
    metadata = obj["metadata"]
    if not metadata.get("resourceVersion") and not kind.unconditional_update:
        message = "Invalid value: 0x0: must be specified for an update"
        raise Invalid([FieldError("metadata.resourceVersion", message)], kind=kind.kind, name=old["metadata"]["name"])
    check_preconditions(kind, old, uid=metadata.get("uid"), resource_version=metadata.get("resourceVersion"))
    kept = _written_metadata(kind, obj)
    kept |= {key: old["metadata"][key] for key in SYSTEM_FIELDS if key in old["metadata"]}
    rest = {key: copy.deepcopy(value) for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    new = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": kept, **rest}
    if kind.has_status:
        _put_status(new, old.get("status"))
    core_kinds.complete(kind, new)
    return new


def patched(kind: ResourceKind, old: Object, patch: Object) -> Object:
    """Return what `old` becomes by a merge patch, before admission; a resourceVersion in the patch is a precondition.

    Raises:
        Conflict, Invalid: as `replaced`; a uid in the patch cannot differ.
    """
    result = apply_merge_patch(old, patch)
    problems = shape_problems(result) or _immutable_problems(
        (("metadata.uid", old["metadata"]["uid"], result["metadata"].get("uid") or old["metadata"]["uid"]),)
    )
    if problems:
        raise Invalid(problems, kind=kind.kind, name=old["metadata"]["name"])
    return replaced(kind, old, result)


def status_patched(kind: ResourceKind, old: Object, status_patch: Object, rules: Rules) -> Object:
    """Return what `old` becomes by a merge patch of its status.

    Raises:
        Invalid: the kind has no status, or a rule refuses the new one.
    """
    name = old["metadata"]["name"]
    if not kind.has_status:
        raise Invalid([FieldError("status", f"{kind} has no status", "FieldValueForbidden")], kind=kind.kind, name=name)
    if not isinstance(status_patch, dict):
        raise Invalid([FieldError("status", "Invalid value: must be of type object")], kind=kind.kind, name=name)
    new = dict(old)
    _put_status(new, apply_merge_patch(old.get("status") or {}, status_patch))
    if rules.admit_status is not None and not is_same(new.get("status"), old.get("status")):
        try:
            rules.admit_status(kind.kind, copy.deepcopy(new), copy.deepcopy(old))
        except Invalid as refusal:
            raise refusal.about(kind.kind, name) from refusal
    return new


def admitted(kind: ResourceKind, new: Object, old: Object | None, rules: Rules) -> tuple[Object, list[str]]:
    """Return the object as the rules of its kind let it in, with their warnings; generation counts what changed.

    Raises:
        Invalid: refused, naming each field.
    """
    metadata, status, name = new["metadata"], new.get("status"), str(new["metadata"].get("name", ""))
    problems = [*metadata_problems(kind, metadata), *core_kinds.core_problems(kind, new, old), *_deletion_problems(metadata, old)]
    if problems:
        raise Invalid(problems, kind=kind.kind, name=name)
    warnings: list[str] = []
    if rules.admit is not None and not _is_farewell(kind, new, old):
        try:
            answer = rules.admit(kind.kind, copy.deepcopy(new), copy.deepcopy(old))
        except Invalid as refusal:
            raise refusal.about(kind.kind, name) from refusal
        warnings = list(answer.warnings)
        new = {**answer.object, "metadata": metadata}
        if kind.has_status:
            _put_status(new, status)
    if kind.has_generation and old is not None and not is_same(_content(kind, new), _content(kind, old)):
        metadata["generation"] = int(old["metadata"].get("generation", 0)) + 1
    return new, warnings


def check_preconditions(kind: ResourceKind, old: Object, *, uid: str | None = None, resource_version: str | None = None) -> None:
    """Raise Conflict unless the stored object is of that uid and version, where given."""
    metadata = old["metadata"]
    key = kind.kind, metadata.get("namespace"), metadata["name"]
    if uid and uid != metadata["uid"]:
        raise Conflict(*key, f"its uid is {metadata['uid']}, not {uid}")
    if resource_version and resource_version != metadata["resourceVersion"]:
        raise Conflict(*key)


def shape_problems(obj: Any) -> list[FieldError]:
    """Return what keeps a value from being an object at all."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        return [FieldError("metadata", "Required value", "FieldValueRequired")]
    words = ("name", "namespace", "generateName", "uid", "resourceVersion")
    wrong = [word for word in words if not isinstance(obj["metadata"].get(word, ""), str | None)]
    return [FieldError(f"metadata.{word}", "Invalid value: must be of type string") for word in wrong]


def _written_metadata(kind: ResourceKind, obj: Object) -> Object:
    """Return a copy of what a writer may set. An empty map or list is the same as none, a null label is "", and a cluster-scoped object has no namespace."""
    written = {key: copy.deepcopy(value) for key, value in obj["metadata"].items() if key not in SYSTEM_FIELDS and value not in (None, {}, [])}
    for field in ("labels", "annotations"):
        if isinstance(written.get(field), dict):
            written[field] = {key: "" if value is None else value for key, value in written[field].items()}
    if not kind.namespaced:
        written.pop("namespace", None)
    return written


def _identity_problems(kind: ResourceKind, old: Object, obj: Object) -> list[FieldError]:
    stored, given = old["metadata"], obj["metadata"]
    pairs = (
        ("kind", kind.kind, obj.get("kind") or kind.kind),
        ("apiVersion", kind.api_version, obj.get("apiVersion") or kind.api_version),
        ("metadata.name", stored["name"], given.get("name")),
        ("metadata.namespace", stored.get("namespace"), given.get("namespace") if kind.namespaced else None),
        ("metadata.deletionTimestamp", stored.get("deletionTimestamp"), given.get("deletionTimestamp") or stored.get("deletionTimestamp")),
    )
    return _immutable_problems(pairs)


def _immutable_problems(pairs: Iterable[tuple[str, Any, Any]]) -> list[FieldError]:
    return [FieldError(path, f"Invalid value: {new!r}: field is immutable") for path, before, new in pairs if new != before]


def _is_farewell(kind: ResourceKind, new: Object, old: Object | None) -> bool:
    """Say whether a write only lets go of an object that is being deleted.

    Rules that became stricter since it was stored must not hold it for ever.
    """
    return old is not None and "deletionTimestamp" in old["metadata"] and is_same(_content(kind, new), _content(kind, old))


def _deletion_problems(metadata: Object, old: Object | None) -> list[FieldError]:
    if old is None or "deletionTimestamp" not in old["metadata"]:
        return []
    added = set(metadata.get("finalizers") or ()) - set(old["metadata"].get("finalizers") or ())
    message = "Forbidden: no new finalizers can be added if the object is being deleted"
    return [FieldError("metadata.finalizers", message, "FieldValueForbidden")] if added else []


def _put_status(obj: Object, status: Any) -> None:
    obj.pop("status", None)
    if status is not None:
        obj["status"] = status


def _content(kind: ResourceKind, obj: Object) -> Object:
    outside = ("metadata", "status") if kind.has_status else ("metadata",)
    return {key: value for key, value in obj.items() if key not in outside}
