"""JSON Schema, compiled here and by the library, judges alike."""

from typing import Any

import pytest

from engine.tools.schema import Schema, check_schema
from engine.tools.schema_library import compile_with_library

CASES = [
    pytest.param({"type": "string"}, "x", 1, id="type"),
    pytest.param({"type": ["string", "null"]}, None, 3, id="types"),
    pytest.param({"type": "integer"}, 3.0, 3.5, id="a whole float is an integer"),
    pytest.param({"type": "number"}, 1, True, id="true is no number"),
    pytest.param({"type": "object", "required": ["a"]}, {"a": 1}, {}, id="required"),
    pytest.param({"properties": {"a": {"type": "string"}}}, {"a": "x", "b": 1}, {"a": 1}, id="properties"),
    pytest.param({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"b": 1}, id="no others"),
    pytest.param({"additionalProperties": {"type": "number"}}, {"b": 1}, {"b": "x"}, id="others of a kind"),
    pytest.param({"items": {"type": "number"}}, [1, 2], [1, "x"], id="items"),
    pytest.param({"enum": ["a", 1]}, 1, True, id="enum"),
    pytest.param({"const": {"a": 1}}, {"a": 1}, {"a": 2}, id="const"),
    pytest.param({"minimum": 1, "maximum": 2}, 2, 3, id="bounds"),
    pytest.param({"exclusiveMinimum": 1}, 1.5, 1, id="exclusive bound"),
    pytest.param({"exclusiveMaximum": 1}, 0.5, 1, id="exclusive upper bound"),
    pytest.param({"minLength": 2, "maxLength": 3}, "éé", "é", id="lengths are characters"),
    pytest.param({"minItems": 1, "maxItems": 1}, [1], [], id="sizes"),
    pytest.param({"minProperties": 1, "maxProperties": 1}, {"a": 1}, {}, id="numbers of properties"),
    pytest.param({"pattern": "^a+$"}, "aa", "b", id="pattern"),
    pytest.param({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 2, 3, id="allOf"),
    pytest.param({"anyOf": [{"type": "string"}, {"type": "null"}]}, None, 1, id="anyOf"),
    pytest.param({"oneOf": [{"minimum": 2}, {"maximum": 2}]}, 3, 2, id="oneOf"),
    pytest.param({"not": {"type": "string"}}, 1, "x", id="not"),
    pytest.param({"properties": {"a": {"items": {"required": ["b"]}}}}, {"a": [{"b": 1}]}, {"a": [{}]}, id="nested"),
    pytest.param({"properties": {"a": True, "b": False}}, {"a": 1}, {"b": 1}, id="boolean schemas"),
    pytest.param({"if": {"type": "string"}, "then": {"minLength": 2}}, "ab", "a", id="a keyword of the library"),
    pytest.param({"definitions": {"d": {"type": "string"}}, "$ref": "#/definitions/d"}, "x", 1, id="a reference"),
    pytest.param({"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}, {"xa": "s"}, {"ya": "s"}, id="patternProperties"),
]


@pytest.mark.parametrize(("schema", "good", "bad"), CASES)
def test_schema(schema: dict[str, Any], good: Any, bad: Any) -> None:
    """A value that fits has no fault, one that does not has a sentence; the library agrees."""
    assert check_schema(schema) == ""
    assert Schema(schema).fault(good) == ""
    assert Schema(schema).fault(bad) != ""
    library = compile_with_library(schema)
    assert library(good, "") == ""
    assert library(bad, "") != ""


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        pytest.param({"type": "text"}, "unknown type", id="an unknown type"),
        pytest.param({"properties": []}, "must be an object", id="properties that are a list"),
        pytest.param({"required": "a"}, "list of strings", id="required that is a string"),
        pytest.param({"pattern": "(?=a)"}, "perl operator", id="a pattern that is not RE2"),
        pytest.param({"minimum": "1"}, "must be a number", id="a bound that is a string"),
        pytest.param({"minLength": -1}, "0 or more", id="a negative size"),
        pytest.param({"if": 3}, "", id="a fault that the library finds"),
        pytest.param({"if": {"pattern": "(?=a)"}}, "perl operator", id="a pattern in a schema that goes to the library"),
        pytest.param({"patternProperties": {"(?=a)": {}}}, "perl operator", id="a pattern of names"),
        pytest.param(
            {"unevaluatedProperties": False, "allOf": [{"patternProperties": {"a": {}}}]},
            "is not supported",
            id="two keywords that do not go together",
        ),
    ],
)
def test_a_schema_that_is_none_is_said(schema: dict[str, Any], words: str) -> None:
    """A faulty schema is described when the bundle is loaded."""
    fault = check_schema(schema)
    assert fault
    assert words in fault


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("date", "2025-10-25", "2025-13-01"),
        ("date-time", "2025-10-25T10:00:00Z", "2025-10-25 10:00:00"),
        ("time", "10:00:00Z", "25 o'clock"),
        ("email", "a@b.example", "a.example"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
        ("uri", "https://example.com/x", "example"),
        ("hostname", "a-b.example", "-a"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "::1", "::g"),
    ],
)
def test_formats_are_checked(kind: str, good: str, bad: str) -> None:
    """A format that is known is more than an annotation."""
    schema = Schema({"format": kind})
    assert schema.fault(good) == ""
    assert schema.fault(bad) != ""
    assert schema.fault(3) == ""


def test_an_unknown_format_is_an_annotation() -> None:
    """A format that nobody here knows refuses nothing."""
    assert Schema({"format": "colour"}).fault("x") == ""


def test_a_fault_names_the_place() -> None:
    """The sentence says where in the value the fault is."""
    schema = Schema({"properties": {"a": {"items": {"properties": {"b": {"type": "string"}}}}}})
    assert schema.fault({"a": [{"b": "x"}, {"b": 1}]}) == "a[1].b must be a string"


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        pytest.param({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"x1": 1}, {"y": 1}, id="no other names"),
        pytest.param(
            {"patternProperties": {"^x": {}}, "properties": {"p": {}}, "additionalProperties": {"type": "string"}},
            {"x1": 1, "p": 1, "y": "s"},
            {"y": 1},
            id="other names of one type",
        ),
    ],
)
def test_names_beside_patterns(schema: dict[str, Any], good: Any, bad: Any) -> None:
    """What neither `properties` nor a pattern names is additional."""
    assert Schema(schema).fault(good) == ""
    assert "y" in Schema(schema).fault(bad)


def test_names_are_matched_in_linear_time() -> None:
    """A pattern of names that would keep Python's engine busy for ever is matched by RE2."""
    fault = Schema({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}).fault({"a" * 60 + "!": 1})
    assert "is not allowed" in fault


def test_a_reference_is_never_fetched() -> None:
    """A `$ref` to an address is a fault of the schema, not a request."""
    assert "leads nowhere" in Schema({"$ref": "https://schemas.example/x.json"}).fault({})
