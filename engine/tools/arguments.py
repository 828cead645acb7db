"""Arguments as a model sends them, made to fit a tool's schema where the intent is plain (promptkit-format.md 6.3).

Models send numbers as strings, lists as JSON text, enum words in the wrong case, and null for what they leave out. What cannot be mended is
left as it is, for the schema to refuse.
"""

import json
from collections.abc import Mapping
from typing import Any


def coerce_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments made to fit the `properties` of `schema`; the given ones are not changed.

    Null and empty values of properties that are not required are removed; strings become the number, boolean, list or object that the schema
    asks for when they spell one; strings that differ from an enum's entry by case only become the entry.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return dict(arguments)
    required = schema.get("required")
    required = required if isinstance(required, list | tuple) else ()
    result = {}
    for name, value in arguments.items():
        definition = properties.get(name)
        if isinstance(definition, Mapping):
            if value in (None, "") and name not in required and not _allows(definition, value):
                continue
            value = _coerce(value, definition)  # noqa: PLW2901 - the same argument, mended
        result[name] = value
    return result


def _allows(definition: Mapping[str, Any], value: Any) -> bool:
    listed = definition.get("enum")
    return (isinstance(listed, list) and value in listed) or (value is None and "null" in _types(definition))


def _coerce(value: Any, definition: Mapping[str, Any]) -> Any:
    if isinstance(value, dict) and "properties" in definition:
        return coerce_arguments(value, definition)
    if not isinstance(value, str):
        return value
    types = _types(definition)
    if types and "string" not in types:
        return next((mended for kind in types if (mended := _from_text(value, kind)) is not None), value)
    listed = definition.get("enum")
    if isinstance(listed, list) and value not in listed:
        return next((entry for entry in listed if isinstance(entry, str) and entry.lower() == value.lower()), value)
    return value


def _types(definition: Mapping[str, Any]) -> list[str]:
    given = definition.get("type")
    return [given] if isinstance(given, str) else list(given or ())


def _from_text(text: str, kind: str) -> Any:
    """Return what `text` spells as a value of JSON type `kind`, or None."""
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.strip().lower())
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    fits = {
        "integer": isinstance(value, int) or (isinstance(value, float) and value.is_integer()),
        "number": isinstance(value, int | float),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }.get(kind, False)
    if isinstance(value, bool) or not fits:
        return None
    return int(value) if kind == "integer" else value
