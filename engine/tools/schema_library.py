"""Schemas that the `jsonschema` library judges: references, conditions, dependencies and the rest of the standard.

The only module that imports it. Draft 7 unless the schema says otherwise; no reference is ever fetched.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema
from jsonschema.validators import Draft7Validator, extend, validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.exceptions import Unresolvable

from engine.tools.schema import Test
from foundation.patterns import compile_pattern


def compile_with_library(definition: Mapping[str, Any]) -> Test:
    """Compile a schema.

    Raises:
        ValueError: it is no JSON Schema, a pattern is not RE2, or it has `unevaluatedProperties` beside `patternProperties`, which the library
            would match with Python's own engine.
    """
    library = _with_re2(validator_for(definition, default=Draft7Validator))
    try:
        library.check_schema(definition)
    except jsonschema.SchemaError as error:
        raise ValueError(error.message) from None
    _check_patterns(definition)
    validator = library(definition, registry=REGISTRY)

    def test(value: Any, _path: str) -> str:
        try:
            error = next(validator.iter_errors(value), None)
        except Unresolvable as unresolvable:
            return f"the schema's reference '{unresolvable.ref}' leads nowhere"
        except RecursionError:
            return "the value is nested too deeply"
        return "" if error is None else f"{_place(error.absolute_path)}{error.message}"

    return test


@cache
def _with_re2(library: Any) -> Any:
    keywords = {"pattern": _pattern, "patternProperties": _pattern_properties, "additionalProperties": _additional_properties}
    return extend(library, keywords)  # type: ignore[no-untyped-call]


_VALUES = frozenset(("const", "enum", "default", "examples", "example"))
"""Keywords whose arguments are values, not schemas."""


def _check_patterns(definition: Mapping[str, Any]) -> None:
    keywords: set[str] = set()
    for schema in _objects(definition):
        keywords |= schema.keys()
        if isinstance(schema.get("pattern"), str):
            compile_pattern(schema["pattern"])
        if isinstance(patterns := schema.get("patternProperties"), Mapping):
            for pattern in patterns:
                compile_pattern(pattern)
    if {"unevaluatedProperties", "patternProperties"} <= keywords:
        raise ValueError("'unevaluatedProperties' beside 'patternProperties' is not supported")


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        for key, entry in value.items():
            if key not in _VALUES:
                yield from _objects(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _objects(entry)


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, str) and compile_pattern(pattern).search(instance) is None:
        yield jsonschema.ValidationError(f"does not match '{pattern}'")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, dict):
        for pattern, subschema in patterns.items():
            compiled = compile_pattern(pattern)
            for name, value in instance.items():
                if compiled.search(name) is not None:
                    yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, argument: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[jsonschema.ValidationError]:
    if not isinstance(instance, dict):
        return
    patterns = [compile_pattern(pattern) for pattern in schema.get("patternProperties", {})]
    for name in instance:
        if name in schema.get("properties", {}) or any(compiled.search(name) is not None for compiled in patterns):
            continue
        if argument is False:
            yield jsonschema.ValidationError(f"'{name}' is not allowed")
        else:
            yield from validator.descend(instance[name], argument, path=name)


def _place(path: Any) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return f"{steps}: " if steps else ""
