"""Structural schemas as an API server applies them: nulls, defaults, unknown keys, validation."""

from typing import Any

import pytest

from reconcile.kinds.schema import PRESERVE, Schema
from reconcile.kinds.structural import UnknownKey, defaulted, explicit, nearest, pruned, unknown_keys
from reconcile.kinds.validation import schema_errors

SCHEMA: Schema = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]+$"},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        "rate": {"type": "number"},
        "size": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+$"},
        "pool": {"type": "object", "default": {}, "properties": {"replicas": {"type": "integer", "default": 3}}},
        "plain": {"type": "object", "properties": {"replicas": {"type": "integer", "default": 3}}},
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}, "on": {"type": "boolean", "default": False}}},
        },
        "labels": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}},
        "open": {"type": "object", PRESERVE: True, "properties": {"inner": {"type": "object", "properties": {"known": {"type": "string"}}}}},
        "time": {"type": "string", "format": "date-time"},
    },
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({}, {"count": 1, "pool": {"replicas": 3}}, id="a default below a defaulted object is applied"),
        pytest.param({"plain": {}}, {"plain": {"replicas": 3}, "count": 1, "pool": {"replicas": 3}}, id="below an absent object it is not"),
        pytest.param({"count": None}, {"count": 1, "pool": {"replicas": 3}}, id="a null becomes the default"),
        pytest.param({"kind": None}, {"count": 1, "pool": {"replicas": 3}}, id="a null without default is dropped"),
        pytest.param({"count": 7, "pool": {"replicas": 1}}, {"count": 7, "pool": {"replicas": 1}}, id="what is given stays"),
        pytest.param(
            {"items": [{"key": "x"}]},
            {"items": [{"key": "x", "on": False}], "count": 1, "pool": {"replicas": 3}},
            id="items are defaulted one by one",
        ),
        pytest.param(
            {"open": {"other": None}}, {"open": {"other": None}, "count": 1, "pool": {"replicas": 3}}, id="a null that is kept is kept as it is"
        ),
    ],
)
def test_defaults(value: dict[str, Any], expected: dict[str, Any]) -> None:
    """Defaults fill in what is absent or null, outer values first."""
    before = repr(value)
    assert defaulted(SCHEMA, value) == expected
    assert repr(value) == before


@pytest.mark.parametrize(
    ("value", "unknown", "kept"),
    [
        pytest.param({"nmae": 1}, [UnknownKey("nmae", "name")], {}, id="a misspelt key, with what was meant"),
        pytest.param({"zzz": 1}, [UnknownKey("zzz", "")], {}, id="a key like no other"),
        pytest.param(
            {"items": [{"key": "x", "On": True}]}, [UnknownKey("items[0].On", "on")], {"items": [{"key": "x"}]}, id="below a list, by another case"
        ),
        pytest.param({"labels": {"any": "thing"}}, [], {"labels": {"any": "thing"}}, id="any key of a map"),
        pytest.param(
            {"open": {"other": {"deep": 1}, "inner": {"known": "x", "knwon": "x"}}},
            [UnknownKey("open.inner.knwon", "known")],
            {"open": {"other": {"deep": 1}, "inner": {"known": "x"}}},
            id="what is kept is kept whole, and what is declared below it is checked again",
        ),
    ],
)
def test_unknown_keys(value: dict[str, Any], unknown: list[UnknownKey], kept: dict[str, Any]) -> None:
    """A key that is neither declared nor kept is found with its path, and pruning drops exactly those."""
    assert [*unknown_keys(SCHEMA, value)] == unknown
    assert pruned(SCHEMA, value) == kept


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        pytest.param({"name": "abc"}, [], id="valid"),
        pytest.param({}, ["name: Required value"], id="a required key"),
        pytest.param({"name": 1}, ['name: Invalid value: "integer": name in body must be of type string: "integer"'], id="a number for a string"),
        pytest.param({"name": True}, ['name: Invalid value: "boolean": name in body must be of type string: "boolean"'], id="a boolean for a string"),
        pytest.param({"name": ""}, ['name: Invalid value: "": name in body should be at least 1 chars long'], id="too short"),
        pytest.param({"name": "abcdef"}, ["name: Too long: may not be more than 5 bytes"], id="too long"),
        pytest.param({"name": "A"}, ["name: Invalid value: \"A\": name in body should match '^[a-z]+$'"], id="a pattern"),
        pytest.param({"name": "a\n"}, ["name: Invalid value: \"a\\n\": name in body should match '^[a-z]+$'"], id="a trailing newline is no match"),
        pytest.param({"name": "a", "kind": "c"}, ['kind: Unsupported value: "c": supported values: "a", "b"'], id="an enum"),
        pytest.param(
            {"name": "a", "count": 0}, ["count: Invalid value: 0: count in body should be greater than or equal to 1"], id="below the minimum"
        ),
        pytest.param(
            {"name": "a", "count": 10}, ["count: Invalid value: 10: count in body should be less than or equal to 9"], id="above the maximum"
        ),
        pytest.param({"name": "a", "count": 2.0}, [], id="a whole number may be written with a point"),
        pytest.param(
            {"name": "a", "count": 1.5}, ['count: Invalid value: "number": count in body must be of type integer: "number"'], id="a fraction"
        ),
        pytest.param(
            {"name": "a", "count": True}, ['count: Invalid value: "boolean": count in body must be of type integer: "boolean"'], id="a boolean"
        ),
        pytest.param({"name": "a", "rate": 1}, [], id="an integer is a number"),
        pytest.param({"name": "a", "size": 5}, [], id="int or string: an integer"),
        pytest.param({"name": "a", "size": "5"}, [], id="int or string: a string"),
        pytest.param(
            {"name": "a", "size": "5x"}, ["size: Invalid value: \"5x\": size in body should match '^[0-9]+$'"], id="int or string: a bad string"
        ),
        pytest.param(
            {"name": "a", "size": []},
            ['size: Invalid value: "array": size in body must be of type integer,string: "array"'],
            id="int or string: a list",
        ),
        pytest.param({"name": "a", "items": []}, ["items: Invalid value: 0: items in body should have at least 1 items"], id="too few items"),
        pytest.param(
            {"name": "a", "items": [{"key": "x"}, {"key": "x"}, {"on": True}]},
            ["items: Too many: 3: must have at most 2 items", 'items[1]: Duplicate value: {"key":"x"}', "items[2].key: Required value"],
            id="too many items, two of one key, and one without",
        ),
        pytest.param({"name": "a", "labels": {"x": "y", "z": "w"}}, ["labels: Too many: 2: must have at most 1 items"], id="too many keys"),
        pytest.param(
            {"name": "a", "labels": {"x": 1}},
            ['labels.x: Invalid value: "integer": labels.x in body must be of type string: "integer"'],
            id="a value of a map",
        ),
        pytest.param({"name": "a", "time": "2026-01-01T00:00:00Z"}, [], id="a moment"),
        pytest.param(
            {"name": "a", "time": "yesterday"},
            ['time: Invalid value: "yesterday": time in body must be of type date-time: "yesterday"'],
            id="no moment",
        ),
        pytest.param(
            {"name": "", "kind": "c", "count": 0},
            [
                'name: Invalid value: "": name in body should be at least 1 chars long',
                'kind: Unsupported value: "c": supported values: "a", "b"',
                "count: Invalid value: 0: count in body should be greater than or equal to 1",
            ],
            id="everything wrong is said, in the schema's order",
        ),
    ],
)
def test_schema_errors(value: dict[str, Any], errors: list[str]) -> None:
    """A value is checked in the API server's words (compared with kube-apiserver 1.34's own validation)."""
    assert [f"{error.path}: {error.message}" for error in schema_errors(SCHEMA, value)] == errors


@pytest.mark.parametrize(
    ("value", "decided"),
    [
        pytest.param({"count": 1, "pool": {"replicas": 3}}, None, id="defaults alone"),
        pytest.param({"count": 1, "pool": {"replicas": 4}}, {"pool": {"replicas": 4}}, id="one decision"),
        pytest.param({"labels": {}, "items": [], "kind": "", "name": None}, None, id="what is empty"),
        pytest.param({"items": [{"key": "x", "on": False}]}, {"items": [{"key": "x", "on": False}]}, id="a list stays whole, so that places stay"),
        pytest.param({"open": {"other": False}}, {"open": {"other": False}}, id="a false that is no default"),
    ],
)
def test_explicit(value: dict[str, Any], decided: dict[str, Any] | None) -> None:
    """What is left of a value when defaults and empty values are taken away is what a person decided."""
    assert explicit(SCHEMA, value) == decided


@pytest.mark.parametrize(
    ("word", "meant"),
    [("trails", "trials"), ("TRIALS", "trials"), ("sourceref", "sourceRef"), ("elephant", "")],
)
def test_nearest(word: str, meant: str) -> None:
    """A suggestion is made for a word that is near, whatever its case, and none for another."""
    assert nearest(word, ["trials", "sourceRef", "type"]) == meant
