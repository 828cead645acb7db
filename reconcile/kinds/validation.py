"""Validation of a value against a structural schema, in the API server's words.

Source: k8s.io/kube-openapi/pkg/validation and apiextensions-apiserver/pkg/apiserver/validation. Patterns are RE2, as on the server.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import re2

from reconcile.errors import FieldError
from reconcile.kinds.schema import INT_OR_STRING
from reconcile.kinds.structural import child


def schema_errors(schema: Mapping[str, Any], value: Any, path: str = "") -> Iterator[FieldError]:
    """Yield what is wrong with a defaulted value, in the schema's order; unknown keys are not looked at."""
    found = _json_type(value)
    is_fit = _is_of_type(schema, found)
    if not is_fit:
        wanted = "integer,string" if schema.get(INT_OR_STRING) else schema["type"]
        yield FieldError(path, f'Invalid value: "{found}": {_body(path)} must be of type {wanted}: "{found}"', "FieldValueTypeInvalid")
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(_shown(choice) for choice in schema["enum"])
        yield FieldError(path, f"Unsupported value: {_shown(value)}: supported values: {supported}", "FieldValueNotSupported")
    if not is_fit:
        return
    if isinstance(value, str):
        yield from _string_errors(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_errors(schema, value, path)
    elif isinstance(value, list):
        yield from _list_errors(schema, value, path)
    elif isinstance(value, Mapping):
        yield from _object_errors(schema, value, path)


def _body(path: str) -> str:
    return f"{path} in body"


def _shown(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value, ensure_ascii=False, separators=(",", ":"))


def _json_type(value: object) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", type(None): "null"}
    return "integer" if isinstance(value, float) and value.is_integer() else names.get(type(value), "object")


def _is_of_type(schema: Mapping[str, Any], found: str) -> bool:
    if schema.get(INT_OR_STRING):
        return found in ("integer", "string")
    wanted = schema.get("type")
    return wanted in (None, found) or (wanted == "number" and found == "integer")


def _string_errors(schema: Mapping[str, Any], value: str, path: str) -> Iterator[FieldError]:
    """Yield the first thing wrong with a string: the server says no more than one."""
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        yield FieldError(path, f"Too long: may not be more than {schema['maxLength']} bytes", "FieldValueTooLong")
    elif "minLength" in schema and len(value) < schema["minLength"]:
        yield FieldError(path, f"Invalid value: {_shown(value)}: {_body(path)} should be at least {schema['minLength']} chars long")
    elif "pattern" in schema and re2.search(schema["pattern"], value) is None:
        yield FieldError(path, f"Invalid value: {_shown(value)}: {_body(path)} should match '{schema['pattern']}'")
    elif schema.get("format") == "date-time" and not _is_moment(value):
        yield FieldError(path, f"Invalid value: {_shown(value)}: {_body(path)} must be of type date-time: {_shown(value)}", "FieldValueTypeInvalid")


def _is_moment(value: str) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _number_errors(schema: Mapping[str, Any], value: float, path: str) -> Iterator[FieldError]:
    if "minimum" in schema and value < schema["minimum"]:
        yield FieldError(path, f"Invalid value: {_shown(value)}: {_body(path)} should be greater than or equal to {schema['minimum']}")
    if "maximum" in schema and value > schema["maximum"]:
        yield FieldError(path, f"Invalid value: {_shown(value)}: {_body(path)} should be less than or equal to {schema['maximum']}")


def _list_errors(schema: Mapping[str, Any], value: Sequence[Any], path: str) -> Iterator[FieldError]:
    size = len(value)
    if size > schema.get("maxItems", size):
        yield FieldError(path, f"Too many: {size}: must have at most {schema['maxItems']} items", "FieldValueTooMany")
    if size < schema.get("minItems", 0):
        yield FieldError(path, f"Invalid value: {size}: {_body(path)} should have at least {schema['minItems']} items")
    seen: list[dict[str, Any]] = []
    for place, item in enumerate(value):
        yield from schema_errors(schema.get("items", {}), item, f"{path}[{place}]")
        if schema.get("x-kubernetes-list-type") == "map" and isinstance(item, Mapping):
            keys = {key: item.get(key) for key in schema["x-kubernetes-list-map-keys"]}
            if keys in seen:
                yield FieldError(f"{path}[{place}]", f"Duplicate value: {_shown(keys)}", "FieldValueDuplicate")
            seen.append(keys)


def _object_errors(schema: Mapping[str, Any], value: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    size = len(value)
    if size > schema.get("maxProperties", size):
        yield FieldError(path, f"Too many: {size}: must have at most {schema['maxProperties']} items", "FieldValueTooMany")
    for key in schema.get("required", ()):
        if key not in value:
            yield FieldError(child(path, key), "Required value", "FieldValueRequired")
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    for key, below in properties.items():
        if key in value:
            yield from schema_errors(below, value[key], child(path, key))
    if others is not None:
        for key, inner in value.items():
            if key not in properties:
                yield from schema_errors(others, inner, child(path, key))
