"""Structural schemas as an API server applies them: nulls, defaults, unknown keys, validation.

Source: apiextensions-apiserver's defaulting, pruning and validation. Knows schemas and values, no kind. Values are JSON; nothing here changes its arguments.
"""

import difflib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple

from reconcile.kinds.schema import PRESERVE, Schema


class UnknownKey(NamedTuple):
    """A key that the schema does not declare: where, and the declared key nearest to it ("" when none is near)."""

    path: str
    suggestion: str


_EMPTY: Final[Mapping[str, Any]] = {}


def child(path: str, key: str) -> str:
    """Return the path of a key below `path`, as the API server writes it."""
    return f"{path}.{key}" if path else key


def nearest(word: str, words: list[str]) -> str:
    """Return the one of `words` that was probably meant, or ""."""
    folded = {known.lower(): known for known in words}
    close = difflib.get_close_matches(word.lower(), list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else ""


def unknown_keys(schema: Mapping[str, Any], value: object, path: str = "") -> Iterator[UnknownKey]:
    """Yield every key that the schema neither declares nor keeps, in the value's order."""
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from unknown_keys(_items(schema), item, f"{path}[{place}]")
    if not isinstance(value, Mapping):
        return
    properties = schema.get("properties", _EMPTY)
    for key, inner in value.items():
        below = _below(schema, key)
        if below is not None:
            yield from unknown_keys(below, inner, child(path, key))
        elif not schema.get(PRESERVE):
            yield UnknownKey(child(path, str(key)), nearest(str(key), list(properties)))


def pruned(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a copy of the value without unknown keys."""
    if isinstance(value, list):
        return [pruned(_items(schema), item) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept = {}
    for key, inner in value.items():
        below = _below(schema, key)
        if below is not None:
            kept[key] = pruned(below, inner)
        elif schema.get(PRESERVE):
            kept[key] = deepcopy(inner)
    return kept


def defaulted(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a copy of the value with defaults for what is absent or null; a null without a default counts as absent."""
    if isinstance(value, list):
        return [defaulted(schema.get("items", _EMPTY), item) for item in value]
    if not isinstance(value, Mapping):
        return value
    filled = {}
    for key, inner in value.items():
        below = _below(schema, key)
        if below is None:
            filled[key] = deepcopy(inner)
        elif inner is not None:
            filled[key] = defaulted(below, inner)
    for key, below in schema.get("properties", _EMPTY).items():
        if key not in filled and "default" in below:
            filled[key] = defaulted(below, deepcopy(below["default"]))
    return filled


def explicit(schema: Mapping[str, Any], value: Any) -> Any:
    """Return what a person decided: the value without defaults, nulls and what is empty; None when nothing is left."""
    if isinstance(value, Mapping):
        decided = {key: left for key, inner in value.items() if (left := explicit(_below(schema, key) or _EMPTY, inner)) is not None}
        return decided or None
    if isinstance(value, list):
        return [item for item in value if item is not None] or None
    return None if value in (None, "") or ("default" in schema and value == schema["default"]) else value


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a list's items; a list that is kept is kept whole."""
    below: Mapping[str, Any] = schema.get("items", {PRESERVE: True} if schema.get(PRESERVE) else _EMPTY)
    return below


def _below(schema: Mapping[str, Any], key: str) -> Schema | None:
    """Return the schema of a key, or None when it is not declared."""
    properties = schema.get("properties", _EMPTY)
    below: Schema | None = properties[key] if key in properties else schema.get("additionalProperties")
    return below
