"""Which JSON Schemas OpenAI's structured output can promise to keep.

Owns that rule (its "strict" mode); what it cannot promise is asked for without.
"""

from collections.abc import Iterator
from typing import Any, Final

_KNOWN: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "description", "title", "$ref", "$defs")
)


def is_strict(schema: Any) -> bool:
    """Say whether every object of `schema` is closed and needs all of its properties, and nothing in it is beyond the strict mode."""
    if not isinstance(schema, dict) or not schema.keys() <= _KNOWN:
        return False
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties") or {}
        if schema.get("additionalProperties") is not False or set(schema.get("required") or ()) != set(properties):
            return False
    return all(is_strict(inner) for inner in _inner(schema))


def _inner(schema: dict[str, Any]) -> Iterator[Any]:
    yield from (schema.get("properties") or {}).values()
    yield from (schema.get("$defs") or {}).values()
    yield from schema.get("anyOf") or ()
    if "items" in schema:
        yield schema["items"]
