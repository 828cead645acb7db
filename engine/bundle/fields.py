"""Readers of fields: a node in, a checked value out, or a problem that names the key.

A `Table` lists every key of one object of the format with its reader, so that what is not in the table is an error with the nearest key. A value
that is left empty counts as not given. Must not know which objects there are: the readers of each kind hold their own tables.
"""

import importlib
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from engine.bundle.ignored import IGNORED, NOTED
from engine.bundle.model import Json
from engine.bundle.problems import did_you_mean, shown
from engine.bundle.yamltree import Document, entries, is_null, kind_of, scalar, to_json

INVALID: Any = object()
"""What a reader returns after it has added a problem; the field then keeps its default."""

FieldReader = Callable[[Document, Node, str], Any]
"""Reads the node of the field that the last argument names (for messages)."""

Values = dict[str, Any]
Schema = dict[str, Any]
"""A JSON Schema, draft 2020-12."""

_SCHEMAS: WeakKeyDictionary[FieldReader, Callable[[], Schema]] = WeakKeyDictionary()

_WITHIN: ContextVar[tuple[str, ...]] = ContextVar("within", default=())
"""The names of the tables that are being described."""

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+\Z")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Table:
    """The keys of one object. `name` is what messages call it and what the tables of ignored keys are keyed by."""

    name: str
    keys: Mapping[str, FieldReader]
    required: tuple[str, ...] = ()
    hints: Mapping[str, str] | None = None


def reads(schema: Schema | Callable[[], Schema]) -> Callable[[FieldReader], FieldReader]:
    """Say of a reader which JSON Schema its values have (a callable is asked when somebody wants it): for editors, and never for reading."""

    def describe(reader: FieldReader) -> FieldReader:
        _SCHEMAS[reader] = schema if callable(schema) else lambda: dict(schema)
        return reader

    return describe


def schema_of(reader: FieldReader) -> Schema:
    """Return the JSON Schema of a reader's values; that of any value when nobody has said it."""
    known = _SCHEMAS.get(reader)
    return {} if known is None else known()


def schema_in(module: str, reader: str) -> Schema:
    """Return the schema of a reader of a module that is imported only where it is needed, by the module's name in this package."""
    return schema_of(getattr(importlib.import_module(f"engine.bundle.{module}"), reader))


def table_schema(table: Table) -> Schema:
    """Return the JSON Schema of an object: its keys and no others. A key that has no effect is marked as deprecated, with the reason.

    A table that stands in itself, such as a step of a step, is any object there.
    """
    if table.name in _WITHIN.get():
        return {"type": "object"}
    before = _WITHIN.set((*_WITHIN.get(), table.name))
    try:
        return _described(table)
    finally:
        _WITHIN.reset(before)


def _described(table: Table) -> Schema:
    properties = {}
    for key, reader in table.keys.items():
        why = IGNORED.get((table.name, key))
        properties[key] = schema_of(reader) | ({"deprecated": True, "description": f"has no effect: {why}"} if why else {})
    required = {"required": list(table.required)} if table.required else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def read_object(document: Document, node: Node, table: Table) -> Values | None:
    """Read an object's known keys; None when it is no object. Unknown, missing, wrong and ignored keys become problems."""
    if not isinstance(node, MappingNode):
        document.error(node, f"cannot read {table.name}: it must be an object, not {_kind(document, node)}")
        return None
    values: Values = {}
    present = entries(document, node)
    for key, (key_node, value) in present.items():
        reader = table.keys.get(key)
        if reader is None:
            _unknown_key(document, key_node, key, table)
            continue
        if is_null(value) and reader is not json_value:
            continue
        _say_when_ignored(document, key_node, table.name, key)
        read = reader(document, value, key)
        if read is not INVALID:
            values[key] = read
    for key in table.required:
        if key not in present or (key not in values and is_null(present[key][1])):
            document.error(node, f"missing key '{key}' in {table.name}")
    return values


def _unknown_key(document: Document, node: Node, key: str, table: Table) -> None:
    special = (table.hints or {}).get(key)
    hint = special or did_you_mean(key, table.keys, otherwise="its keys are")
    document.error(node, f"unknown key '{shown(key)}' in {table.name}", hint)


def _say_when_ignored(document: Document, node: Node, name: str, key: str) -> None:
    why = IGNORED.get((name, key))
    if why is not None:
        document.problems.warning(document.at(node), f"'{key}' of {name} has no effect: {why}")
    elif (name, key) in NOTED:
        document.problems.note(document.at(node), f"'{key}' of {name} has no effect: {NOTED[name, key]}")


def _kind(document: Document, node: Node) -> str:
    return kind_of(node, scalar(document, node) if isinstance(node, ScalarNode) else None)


def _mistyped(document: Document, node: Node, key: str, wanted: str, hint: str = "") -> Any:
    document.error(node, f"cannot read '{key}': it must be {wanted}, not {_kind(document, node)}", hint)
    return INVALID


@reads({"type": "string"})
def string(document: Document, node: Node, key: str) -> Any:
    """Read a string; a bare number or boolean is refused, as the format's schema does."""
    if isinstance(node, ScalarNode):
        value = scalar(document, node)
        if isinstance(value, str):
            document.spend(1)
            return value
        return _mistyped(document, node, key, "text", "put it into quotes")
    return _mistyped(document, node, key, "text")


@reads({"type": "string", "minLength": 1})
def name(document: Document, node: Node, key: str) -> Any:
    """Read a string that is not empty."""
    value = string(document, node, key)
    if value == "":
        document.error(node, f"cannot read '{key}': it must not be empty")
        return INVALID
    return value


@reads({"type": ["string", "number", "boolean"]})
def word(document: Document, node: Node, key: str) -> Any:
    """Read a string, number or boolean as the text that was written."""
    if isinstance(node, ScalarNode):
        document.spend(1)
        return str(node.value)
    return _mistyped(document, node, key, "text")


@reads({"type": "boolean"})
def boolean(document: Document, node: Node, key: str) -> Any:
    """Read true or false."""
    value = scalar(document, node) if isinstance(node, ScalarNode) else None
    return value if isinstance(value, bool) else _mistyped(document, node, key, "true or false")


def integer(minimum: int | None = None) -> FieldReader:
    """Return a reader of whole numbers from `minimum` on."""

    @reads({"type": "integer"} | ({} if minimum is None else {"minimum": minimum}))
    def read(document: Document, node: Node, key: str) -> Any:
        value = scalar(document, node) if isinstance(node, ScalarNode) else None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return _mistyped(document, node, key, "a whole number") if not isinstance(value, float) else _fraction(document, node, key)
        if minimum is not None and value < minimum:
            document.error(node, f"cannot read '{key}': it must be at least {minimum}, not {value}")
            return INVALID
        return value

    return read


def _fraction(document: Document, node: Node, key: str) -> Any:
    document.error(node, f"cannot read '{key}': it must be a whole number, not {shown(str(node.value))}")
    return INVALID


@reads({"type": "number"})
def number(document: Document, node: Node, key: str) -> Any:
    """Read a number."""
    value = scalar(document, node) if isinstance(node, ScalarNode) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _mistyped(document, node, key, "a number")
    return float(value)


def between(low: float, high: float | None) -> FieldReader:
    """Return a reader of numbers from `low` to `high`, both included."""
    words = f"at least {low:g}" if high is None else f"from {low:g} to {high:g}"

    @reads({"type": "number", "minimum": low} | ({} if high is None else {"maximum": high}))
    def read(document: Document, node: Node, key: str) -> Any:
        value = number(document, node, key)
        if value is not INVALID and (value < low or (high is not None and value > high)):
            document.error(node, f"cannot read '{key}': it must be {words}, not {value:g}")
            return INVALID
        return value

    return read


@reads({"type": "string", "pattern": f"^{_DURATION.pattern[:-2]}$", "examples": ["30s", "5m"]})
def duration(document: Document, node: Node, key: str) -> Any:
    """Read a duration in Go's spelling (`30s`, `5m`, `1h30m`, `500ms`); returns seconds."""
    text = string(document, node, key)
    if text is INVALID:
        return INVALID
    if not _DURATION.match(text):
        document.error(node, f"cannot read '{key}': '{shown(text)}' is not a duration", "write it as 30s, 5m or 500ms")
        return INVALID
    return sum(float(amount) * _SECONDS[unit] for amount, unit in _DURATION_PART.findall(text))


def one_of(*words: str) -> FieldReader:
    """Return a reader of a string that must be one of `words`."""

    @reads({"enum": list(words)})
    def read(document: Document, node: Node, key: str) -> Any:
        text = string(document, node, key)
        if text is INVALID or text in words:
            return text
        document.error(node, f"cannot read '{key}': unknown value '{shown(text)}'", did_you_mean(text, words, otherwise="it is one of"))
        return INVALID

    return read


def list_of(reader: FieldReader) -> FieldReader:
    """Return a reader of lists whose entries `reader` reads; returns a tuple without the invalid ones."""

    @reads(lambda: {"type": "array", "items": schema_of(reader)})
    def read(document: Document, node: Node, key: str) -> Any:
        if not isinstance(node, SequenceNode):
            return _mistyped(document, node, key, "a list")
        document.spend(len(node.value) + 1)
        values = (reader(document, item, f"{key}[{index}]") for index, item in enumerate(node.value))
        return tuple(value for value in values if value is not INVALID)

    return read


def map_of(reader: FieldReader) -> FieldReader:
    """Return a reader of objects with free keys whose values `reader` reads."""

    @reads(lambda: {"type": "object", "additionalProperties": schema_of(reader)})
    def read(document: Document, node: Node, key: str) -> Any:
        if not isinstance(node, MappingNode):
            return _mistyped(document, node, key, "an object")
        values = {name: reader(document, value, f"{key}.{name}") for name, (_, value) in entries(document, node).items()}
        return {name: value for name, value in values.items() if value is not INVALID}

    return read


def json_value(document: Document, node: Node, key: str) -> Json:
    """Read any JSON value."""
    del key
    return to_json(document, node)


@reads({"type": "object"})
def json_object(document: Document, node: Node, key: str) -> Any:
    """Read a JSON object with free keys."""
    return to_json(document, node) if isinstance(node, MappingNode) else _mistyped(document, node, key, "an object")


def record(table: Table, build: Callable[..., Any], *, located: bool = True) -> FieldReader:
    """Return a reader of objects that `build` makes a value of, from the read keys (and `location`)."""

    @reads(lambda: table_schema(table))
    def read(document: Document, node: Node, key: str) -> Any:
        del key
        values = read_object(document, node, table)
        if values is None or any(required not in values for required in table.required):
            return INVALID
        return build(**values, location=document.at(node)) if located else build(**values)

    return read


def checked(table: Table) -> FieldReader:
    """Return a reader that checks an object against a table and returns it as plain JSON."""

    @reads(lambda: table_schema(table))
    def read(document: Document, node: Node, key: str) -> Any:
        del key
        return to_json(document, node) if read_object(document, node, table) is not None else INVALID

    return read


strings = list_of(string)
string_map = map_of(string)
