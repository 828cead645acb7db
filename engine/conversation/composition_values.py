"""What steps of a composition read: references into earlier outputs, and predicates over them (promptkit-format.md 5.6). Pure."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from engine.bundle.composition_reader import REFERENCE
from engine.bundle.compositions import Predicate
from engine.providers.messages import json_text

Outputs = Mapping[str, Any]
"""Step id to its output: a JSON value where its text is one, else the text; `input` is what the composition was given. A step that was skipped has none."""


def parse_output(text: str) -> Any:
    """Return the JSON value that a text is, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def look_up(path: str, outputs: Outputs) -> Any:
    """Return what `input` or `step.output.key.0` names; None when it is not there."""
    step, *keys = path.strip().split(".")
    value = outputs.get(step)
    if step == "input" and keys and isinstance(value, str):
        value = parse_output(value)
    for key in keys[1:] if keys[:1] == ["output"] else keys:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def fill(template: Any, outputs: Outputs) -> Any:
    """Return a JSON value with its references replaced; a string that is one reference alone becomes what it names."""
    if isinstance(template, dict):
        return {key: fill(value, outputs) for key, value in template.items()}
    if isinstance(template, list):
        return [fill(value, outputs) for value in template]
    if not isinstance(template, str):
        return template
    whole = REFERENCE.fullmatch(template.strip())
    if whole:
        return look_up(whole[1], outputs)
    return REFERENCE.sub(lambda match: as_text(look_up(match[1], outputs)), template)


def as_text(value: Any) -> str:
    """Return a value as a model reads it: text as it is, nothing as nothing, anything else as JSON."""
    return "" if value is None else value if isinstance(value, str) else json_text(value)


def holds(predicate: Predicate, outputs: Outputs) -> bool:
    """Say whether a predicate holds. Values of different types are neither equal nor in an order."""
    if predicate.every:
        return all(holds(inner, outputs) for inner in predicate.every)
    if predicate.some:
        return any(holds(inner, outputs) for inner in predicate.some)
    if predicate.none is not None:
        return not holds(predicate.none, outputs)
    path = predicate.path
    found = fill(path, outputs) if "${" in path else look_up(path, outputs)
    return _OPERATORS[predicate.op](found, predicate.value)


def _equal(found: Any, value: Any) -> bool:
    return isinstance(found, bool) == isinstance(value, bool) and bool(found == value)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def apply(found: Any, value: Any) -> bool:
        numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (found, value))
        texts = isinstance(found, str) and isinstance(value, str)
        return (numbers or texts) and compare(found, value)

    return apply


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "equals": _equal,
    "not_equals": lambda found, value: not _equal(found, value),
    "in": lambda found, value: isinstance(value, list) and any(_equal(found, entry) for entry in value),
    "not_in": lambda found, value: not (isinstance(value, list) and any(_equal(found, entry) for entry in value)),
    "exists": lambda found, value: (found is not None) == (value is not False),
    "greater_than": _ordered(lambda found, value: bool(found > value)),
    "greater_than_or_equals": _ordered(lambda found, value: bool(found >= value)),
    "less_than": _ordered(lambda found, value: bool(found < value)),
    "less_than_or_equals": _ordered(lambda found, value: bool(found <= value)),
}
