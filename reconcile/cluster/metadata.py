"""metadata: what any object's may be, and which of it the system owns.

Pure. The limits are Kubernetes' (https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ and …/labels/).
"""

import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from reconcile.cluster.port import NAMESPACE, ResourceKind
from reconcile.errors import FieldError

MAX_NAME = 253
MAX_LABEL = 63
MAX_GENERATED_BASE = 58
MAX_ANNOTATIONS_BYTES = 262_144
SYSTEM_FIELDS = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink")
"""What a writer cannot set: the stored value always wins."""

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})*")
_QUALIFIED = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_RANDOM = "bcdfghjklmnpqrstvwxz2456789"


_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid")
_OWNER_FLAGS = ("controller", "blockOwnerDeletion")


def generated_name(base: str) -> str:
    """Return `base`, cut to 58 characters, with five random ones that spell no word."""
    return base[:MAX_GENERATED_BASE] + "".join(secrets.choice(_RANDOM) for _ in range(5))


def metadata_problems(kind: ResourceKind, metadata: Mapping[str, Any]) -> list[FieldError]:
    """Return what is wrong with an object's metadata, [] when nothing is."""
    return [
        *_name_problems(kind, metadata),
        *_namespace_problems(kind, metadata),
        *_label_problems(metadata.get("labels")),
        *_annotation_problems(metadata.get("annotations")),
        *_finalizer_problems(metadata.get("finalizers")),
        *_owner_problems(metadata.get("ownerReferences")),
    ]


def _name_problems(kind: ResourceKind, metadata: Mapping[str, Any]) -> Iterator[FieldError]:
    name = metadata.get("name")
    pattern, limit = (_LABEL, MAX_LABEL) if kind is NAMESPACE else (_SUBDOMAIN, MAX_NAME)
    if not isinstance(name, str) or not name:
        yield FieldError("metadata.name", "Required value: name or generateName is required", "FieldValueRequired")
    elif len(name) > limit:
        yield FieldError("metadata.name", f"Invalid value: {name!r}: must be no more than {limit} characters")
    elif not pattern.fullmatch(name):
        yield FieldError("metadata.name", f"Invalid value: {name!r}: must consist of lower case alphanumeric characters and '-', '.'")


def _namespace_problems(kind: ResourceKind, metadata: Mapping[str, Any]) -> Iterator[FieldError]:
    namespace = metadata.get("namespace")
    if not kind.namespaced:
        return
    if not namespace:
        yield FieldError("metadata.namespace", f"Required value: {kind} is namespaced", "FieldValueRequired")
    elif not isinstance(namespace, str) or len(namespace) > MAX_LABEL or not _LABEL.fullmatch(namespace):
        yield FieldError("metadata.namespace", f"Invalid value: {namespace!r}: must be a lower case DNS label of at most {MAX_LABEL} characters")


def _label_problems(labels: Any) -> Iterator[FieldError]:
    for key, value in _strings("metadata.labels", labels):
        if isinstance(value, FieldError):
            yield value
            continue
        yield from _key_problems("metadata.labels", key)
        if value and (len(value) > MAX_LABEL or not _QUALIFIED.fullmatch(value)):
            yield FieldError(
                f"metadata.labels[{key}]", f"Invalid value: {value!r}: must be at most {MAX_LABEL} alphanumeric characters, '-', '_' or '.'"
            )


def _annotation_problems(annotations: Any) -> Iterator[FieldError]:
    size = 0
    for key, value in _strings("metadata.annotations", annotations):
        if isinstance(value, FieldError):
            yield value
            continue
        yield from _key_problems("metadata.annotations", key)
        size += len(key.encode()) + len(value.encode("utf-8", "replace"))
    if size > MAX_ANNOTATIONS_BYTES:
        yield FieldError("metadata.annotations", f"Too long: may not be more than {MAX_ANNOTATIONS_BYTES} bytes", "FieldValueTooLong")


def _strings(path: str, mapping: Any) -> Iterator[tuple[str, str | FieldError]]:
    if mapping is None:
        return
    if not isinstance(mapping, dict):
        yield "", FieldError(path, "Invalid value: must be of type object")
        return
    for key, value in mapping.items():
        yield key, value if isinstance(value, str) else FieldError(f"{path}[{key}]", "Invalid value: must be of type string")


def _key_problems(path: str, key: str) -> Iterator[FieldError]:
    prefix, slash, name = key.rpartition("/")
    if len(name) > MAX_LABEL or not _QUALIFIED.fullmatch(name) or (slash and (len(prefix) > MAX_NAME or not _SUBDOMAIN.fullmatch(prefix.lower()))):
        yield FieldError(path, f"Invalid value: {key!r}: must be a qualified name such as 'example.com/part'")


def _finalizer_problems(finalizers: Any) -> Iterator[FieldError]:
    if finalizers is None:
        return
    if not (isinstance(finalizers, list) and all(isinstance(name, str) and name for name in finalizers)):
        yield FieldError("metadata.finalizers", "Invalid value: must be a list of names")
        return
    for name in finalizers:
        yield from _key_problems("metadata.finalizers", name)


def _owner_problems(owners: Any) -> Iterator[FieldError]:
    if owners is None:
        return
    if not isinstance(owners, list):
        yield FieldError("metadata.ownerReferences", "Invalid value: must be of type array")
        return
    for place, owner in enumerate(owners):
        for field in _OWNER_FIELDS:
            if not isinstance(owner, dict) or not isinstance(owner.get(field), str) or not owner[field]:
                yield FieldError(f"metadata.ownerReferences[{place}].{field}", "Required value: must not be empty", "FieldValueRequired")
        for key in owner.keys() - {*_OWNER_FIELDS, *_OWNER_FLAGS} if isinstance(owner, dict) else ():
            yield FieldError(f"metadata.ownerReferences[{place}].{key}", f'unknown field "metadata.ownerReferences[{place}].{key}"')
    controllers = [owner["name"] for owner in owners if isinstance(owner, dict) and owner.get("controller") is True and "name" in owner]
    if len(controllers) > 1:
        yield FieldError(
            "metadata.ownerReferences", f"Invalid value: only one reference can be the controller, not {', '.join(map(str, controllers))}"
        )
