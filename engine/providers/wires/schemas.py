"""JSON Schemas as Anthropic's structured output takes them: closed objects, and no limits on values.

Owns that dialect. What it cannot say is left out where the looser schema still asks for the same shape; where it does not, there is no schema.
"""

from collections.abc import Mapping
from typing import Any, Final

_KEPT: Final = frozenset(("type", "enum", "const", "format", "description", "title", "default", "required", "$ref"))
_LEFT_OUT: Final = frozenset(
    (
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern"),
        *("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "examples", "$schema", "$id", "$comment"),
    )
)
"""Limits on values, and remarks: whoever reads the reply checks the first, nobody the second."""


def closed_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return `schema` in that dialect, every object closed; None when it cannot be said in it."""
    closed: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _KEPT:
            closed[key] = value
        elif key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            closed[key] = {name: _closed(entry) for name, entry in value.items()}
        elif key == "items":
            closed[key] = _closed(value)
        elif key in ("anyOf", "allOf") and isinstance(value, list):
            closed[key] = [_closed(entry) for entry in value]
        elif key not in _LEFT_OUT and (key, value) != ("additionalProperties", False):
            return None
    if not _is_whole(closed):
        return None
    return closed | {"additionalProperties": False} if _is_object(closed) else closed


def _closed(schema: Any) -> dict[str, Any] | None:
    return closed_schema(schema) if isinstance(schema, Mapping) else None


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return "properties" in schema or kind == "object" or (isinstance(kind, list) and "object" in kind)


def _is_whole(schema: Mapping[str, Any]) -> bool:
    """Say whether every part could be said: an object without properties is an open map, which has no closed form."""
    inner = [*(schema.get("anyOf") or ()), *(schema.get("allOf") or ())]
    for key in ("properties", "$defs", "definitions"):
        inner.extend((schema.get(key) or {}).values())
    if "items" in schema:
        inner.append(schema["items"])
    return None not in inner and not (_is_object(schema) and not schema.get("properties"))
