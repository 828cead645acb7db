"""JSON Schema: is a value what a schema says, in one sentence when it is not.

The keywords that tools and checks nearly always use are compiled here to closures, which start in no time and cost microseconds; a schema with
any other keyword goes to the `jsonschema` library whole. Patterns are RE2 either way; nothing is ever fetched for a `$ref`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from engine.tools.formats import FORMATS
from foundation.patterns import compile_pattern

Test = Callable[[Any, str], str]
"""Takes a value and the path to it; returns what is wrong, "" when nothing is."""


class UnknownKeyword(Exception):
    """The schema uses a keyword that is not compiled here."""


class Schema:
    """A JSON Schema, compiled at its first use."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self._definition = definition
        self._test: Test | None = None

    def fault(self, value: Any) -> str:
        """Return what is wrong with `value`, and where, in one sentence; "" when it fits.

        Raises:
            ValueError: the schema itself is not one; `check_schema` says so beforehand.
        """
        if self._test is None:
            self._test = _compile_whole(self._definition)
        return self._test(value, "")


def check_schema(definition: Mapping[str, Any]) -> str:
    """Return why `definition` is no JSON Schema, "" when it is one."""
    try:
        _compile_whole(definition)
    except ValueError as error:
        return str(error)
    return ""


def _compile_whole(definition: Any) -> Test:
    try:
        return _compile(definition)
    except UnknownKeyword:
        from engine.tools.schema_library import compile_with_library  # noqa: PLC0415 - 150 ms that few schemas need

        return compile_with_library(definition)


def _compile(definition: Any) -> Test:
    if isinstance(definition, bool):
        return lambda _value, path: "" if definition else f"{path or 'the value'} is not allowed"
    if not isinstance(definition, Mapping):
        raise ValueError("a schema must be an object")  # noqa: TRY004 - all faults of a schema are ValueErrors
    tests = []
    for keyword, argument in definition.items():
        if keyword in _ANNOTATIONS:
            continue
        build = _KEYWORDS.get(keyword)
        if build is None:
            raise UnknownKeyword(keyword)
        tests.append(build(argument, definition))
    if len(tests) == 1:
        return tests[0]

    def test(value: Any, path: str) -> str:
        for entry in tests:
            fault = entry(value, path)
            if fault:
                return fault
        return ""

    return test


_ANNOTATIONS = frozenset(("title", "description", "default", "examples", "example", "$schema", "$comment", "readOnly", "writeOnly", "deprecated"))

_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer())),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}

_ARTICLES = {"integer": "an integer", "object": "an object", "array": "an array", "null": "null"}


def _type(argument: Any, _: Mapping[str, Any]) -> Test:
    wanted = argument if isinstance(argument, list) else [argument]
    if not wanted or any(not isinstance(name, str) or name not in _TYPES for name in wanted):
        raise ValueError(f"unknown type {argument!r}")
    phrase = " or ".join(_ARTICLES.get(name, f"a {name}") for name in wanted)
    tests = [_TYPES[name] for name in wanted]
    return lambda value, path: "" if any(test(value) for test in tests) else f"{path or 'the value'} must be {phrase}"


def _properties(argument: Any, _: Mapping[str, Any]) -> Test:
    if not isinstance(argument, Mapping):
        raise ValueError("'properties' must be an object")  # noqa: TRY004
    compiled = {name: _compile(entry) for name, entry in argument.items()}

    def test(value: Any, path: str) -> str:
        if isinstance(value, dict):
            for name, entry in compiled.items():
                if name in value:
                    fault = entry(value[name], f"{path}.{name}" if path else name)
                    if fault:
                        return fault
        return ""

    return test


def _additional(argument: Any, definition: Mapping[str, Any]) -> Test:
    if "patternProperties" in definition:
        raise UnknownKeyword("patternProperties")
    known = frozenset(definition.get("properties") or ())
    entry = _compile(argument)

    def test(value: Any, path: str) -> str:
        if isinstance(value, dict):
            for name in value:
                if name not in known:
                    fault = entry(value[name], f"{path}.{name}" if path else name)
                    if fault:
                        return fault
        return ""

    return test


def _required(argument: Any, _: Mapping[str, Any]) -> Test:
    if not isinstance(argument, list) or any(not isinstance(name, str) for name in argument):
        raise ValueError("'required' must be a list of strings")

    def test(value: Any, path: str) -> str:
        missing = [name for name in argument if name not in value] if isinstance(value, dict) else []
        return f"{path or 'the value'} lacks '{missing[0]}'" if missing else ""

    return test


def _items(argument: Any, _: Mapping[str, Any]) -> Test:
    if isinstance(argument, list):
        raise UnknownKeyword("items")
    entry = _compile(argument)

    def test(value: Any, path: str) -> str:
        if isinstance(value, list):
            for place, item in enumerate(value):
                fault = entry(item, f"{path}[{place}]")
                if fault:
                    return fault
        return ""

    return test


def _enum(argument: Any, _: Mapping[str, Any]) -> Test:
    if not isinstance(argument, list):
        raise ValueError("'enum' must be a list")  # noqa: TRY004
    phrase = ", ".join(str(entry) for entry in argument)

    def test(value: Any, path: str) -> str:
        fits = any(value == entry and isinstance(value, bool) == isinstance(entry, bool) for entry in argument)
        return "" if fits else f"{path or 'the value'} must be one of {phrase}"

    return test


def _const(argument: Any, definition: Mapping[str, Any]) -> Test:
    return _enum([argument], definition)


def _bound(phrase: str, fits: Callable[[Any, Any], bool]) -> Callable[[Any, Mapping[str, Any]], Test]:
    def build(argument: Any, _: Mapping[str, Any]) -> Test:
        if isinstance(argument, bool):
            raise UnknownKeyword(phrase)
        if not isinstance(argument, int | float):
            raise ValueError(f"a bound must be a number, not {argument!r}")  # noqa: TRY004

        def test(value: Any, path: str) -> str:
            ignored = isinstance(value, bool) or not isinstance(value, int | float)
            return "" if ignored or fits(value, argument) else f"{path or 'the value'} must be {phrase} {argument}"

        return test

    return build


def _size(kind: type, phrase: str, *, least: bool) -> Callable[[Any, Mapping[str, Any]], Test]:
    def build(argument: Any, _: Mapping[str, Any]) -> Test:
        if isinstance(argument, bool) or not isinstance(argument, int) or argument < 0:
            raise ValueError(f"a size must be a whole number of 0 or more, not {argument!r}")

        def test(value: Any, path: str) -> str:
            if not isinstance(value, kind):
                return ""
            size = len(value)  # type: ignore[arg-type]  # str, list or dict
            fits = size >= argument if least else size <= argument
            return "" if fits else f"{path or 'the value'} must have {'at least' if least else 'at most'} {argument} {phrase}"

        return test

    return build


def _pattern(argument: Any, _: Mapping[str, Any]) -> Test:
    if not isinstance(argument, str):
        raise ValueError("'pattern' must be a string")  # noqa: TRY004
    compiled = compile_pattern(argument)
    return lambda value, path: (
        "" if not isinstance(value, str) or compiled.search(value) is not None else f"{path or 'the value'} does not match '{argument}'"
    )


def _format(argument: Any, _: Mapping[str, Any]) -> Test:
    if not isinstance(argument, str):
        raise ValueError("'format' must be a string")  # noqa: TRY004
    fits = FORMATS.get(argument)
    if fits is None:
        return lambda _value, _path: ""
    return lambda value, path: "" if not isinstance(value, str) or fits(value) else f"{path or 'the value'} is not a valid {argument}"


def _branches(argument: Any) -> list[Test]:
    if not isinstance(argument, list) or not argument:
        raise ValueError("allOf, anyOf and oneOf must be lists of schemas")
    return [_compile(entry) for entry in argument]


def _all_of(argument: Any, _: Mapping[str, Any]) -> Test:
    branches = _branches(argument)
    return lambda value, path: next((fault for branch in branches if (fault := branch(value, path))), "")


def _any_of(argument: Any, _: Mapping[str, Any]) -> Test:
    branches = _branches(argument)
    return lambda value, path: "" if any(not branch(value, path) for branch in branches) else f"{path or 'the value'} fits none of the alternatives"


def _one_of(argument: Any, _: Mapping[str, Any]) -> Test:
    branches = _branches(argument)

    def test(value: Any, path: str) -> str:
        fitting = sum(1 for branch in branches if not branch(value, path))
        return "" if fitting == 1 else f"{path or 'the value'} fits {fitting or 'none'} of the alternatives, one wanted"

    return test


def _not(argument: Any, _: Mapping[str, Any]) -> Test:
    entry = _compile(argument)
    return lambda value, path: "" if entry(value, path) else f"{path or 'the value'} is what it must not be"


_KEYWORDS: dict[str, Callable[[Any, Mapping[str, Any]], Test]] = {
    "type": _type,
    "properties": _properties,
    "additionalProperties": _additional,
    "required": _required,
    "items": _items,
    "enum": _enum,
    "const": _const,
    "minimum": _bound("at least", lambda value, limit: value >= limit),
    "maximum": _bound("at most", lambda value, limit: value <= limit),
    "exclusiveMinimum": _bound("more than", lambda value, limit: value > limit),
    "exclusiveMaximum": _bound("less than", lambda value, limit: value < limit),
    "minLength": _size(str, "characters", least=True),
    "maxLength": _size(str, "characters", least=False),
    "minItems": _size(list, "entries", least=True),
    "maxItems": _size(list, "entries", least=False),
    "minProperties": _size(dict, "properties", least=True),
    "maxProperties": _size(dict, "properties", least=False),
    "pattern": _pattern,
    "format": _format,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
}
