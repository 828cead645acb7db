"""The few rules that Kubernetes has for Secrets, ConfigMaps and Namespaces, which no schema of ours states.

Pure: an object in, an object or problems out.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconcile.cluster.merge import is_same
from reconcile.cluster.port import CONFIG_MAP, NAMESPACE, SECRET, Object, ResourceKind
from reconcile.errors import FieldError

_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_MAX_DATA_KEY = 253
_MAX_DATA_BYTES = 1024 * 1024
_FIELDS = {
    SECRET.kind: {"apiVersion", "kind", "metadata", "data", "type", "immutable"},
    CONFIG_MAP.kind: {"apiVersion", "kind", "metadata", "data", "binaryData", "immutable"},
}
_BINARY_FIELDS = {SECRET.kind: ("data",), CONFIG_MAP.kind: ("binaryData",)}
_TEXT_FIELDS = {CONFIG_MAP.kind: ("data",)}


def complete(kind: ResourceKind, obj: Object) -> None:
    """Fill in, in place, what the API server fills in: a Secret's data from stringData and its type, a Namespace's phase and label.

    A null among data is an empty value, as for the server's own types.
    """
    for field in ("data", "binaryData") if kind in (SECRET, CONFIG_MAP) else ():
        if isinstance(obj.get(field), dict):
            obj[field] = {key: "" if value is None else value for key, value in obj[field].items()}
    if kind is SECRET:
        text = obj.get("stringData")
        if text is None or (isinstance(text, dict) and all(isinstance(value, str | None) for value in text.values())):
            obj.pop("stringData", None)
            encoded = {key: base64.b64encode((value or "").encode()).decode() for key, value in (text or {}).items()}
            if encoded:
                obj["data"] = {**(obj.get("data") or {}), **encoded}
        obj.setdefault("type", "Opaque")
    elif kind is NAMESPACE:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
        obj.setdefault("status", {"phase": "Active"})


def value_in(secret: Object, key: str) -> str:
    """Return one text of a Secret, "" when nothing that can be read is there."""
    try:
        return base64.b64decode((secret.get("data") or {}).get(key) or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def core_problems(kind: ResourceKind, new: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[FieldError]:
    """Return what is wrong with an object of a core kind; [] for every other kind."""
    if kind not in (SECRET, CONFIG_MAP):
        return []
    return [*_shape_problems(kind, new), *_data_problems(kind, new), *(_immutable_problems(kind, new, old) if old is not None else ())]


def _shape_problems(kind: ResourceKind, obj: Mapping[str, Any]) -> Iterator[FieldError]:
    if "stringData" in obj:
        yield FieldError("stringData", "Invalid value: must be a map of strings")
    for key in obj.keys() - _FIELDS[kind.kind] - {"stringData"}:
        yield FieldError(key, f'unknown field "{key}"')
    if not isinstance(obj.get("immutable"), bool | None):
        yield FieldError("immutable", "Invalid value: must be of type boolean")
    data, binary = obj.get("data"), obj.get("binaryData")
    for key in data.keys() & binary.keys() if isinstance(data, dict) and isinstance(binary, dict) else ():
        yield FieldError(f"data[{key}]", f"Invalid value: {key!r}: duplicate of key present in binaryData")


def _data_problems(kind: ResourceKind, obj: Mapping[str, Any]) -> Iterator[FieldError]:
    binary, text = _BINARY_FIELDS.get(kind.kind, ()), _TEXT_FIELDS.get(kind.kind, ())
    size = 0
    for field in (*binary, *text):
        data = obj.get(field)
        if data is None:
            continue
        if not isinstance(data, dict):
            yield FieldError(field, "Invalid value: must be of type object")
            continue
        for key, value in data.items():
            if len(key) > _MAX_DATA_KEY or not _DATA_KEY.fullmatch(key) or key == "." or key.startswith(".."):
                yield FieldError(f"{field}[{key}]", "Invalid value: a valid key consists of alphanumeric characters, '-', '_' or '.'")
            if not isinstance(value, str) or (field in binary and not _is_base64(value)):
                yield FieldError(
                    f"{field}[{key}]", "Invalid value: must be a base64 string" if field in binary else "Invalid value: must be a string"
                )
            else:
                size += len(base64.b64decode(value)) if field in binary else len(value.encode())
    if size > _MAX_DATA_BYTES:
        yield FieldError("", f"Too long: may not be more than {_MAX_DATA_BYTES} bytes", "FieldValueTooLong")


def _is_base64(value: str) -> bool:
    try:
        base64.b64decode(value.replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _immutable_problems(kind: ResourceKind, new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[FieldError]:
    if kind is SECRET and new.get("type") != old.get("type"):
        yield FieldError("type", f"Invalid value: {new.get('type')!r}: field is immutable")
    if old.get("immutable") is not True:
        return
    for field in ("immutable", "data", "binaryData"):
        if not is_same(new.get(field), old.get(field)):
            yield FieldError(field, "Forbidden: field is immutable when `immutable` is set", "FieldValueForbidden")
