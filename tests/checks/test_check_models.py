"""The pydantic models of checks' parameters say what loading a bundle says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.checks.models import params_model, params_schema
from engine.checks.params import read_params
from engine.checks.registry import ALIASES, check_types
from engine.tools.schema import Schema, check_schema

VALUES: list[Any] = [None, True, False, 0, 1, -1, 2.5, "", "a", "median", "turn", "(", [], ["a"], ["a", 1], [1.5], {}, {"a": "b"}, {"a": 1}, [{}]]
TYPES = sorted(check_types())
BANNED = Schema(params_schema("banned_words"))


def accepted(check: str, params: dict[str, Any]) -> bool:
    """Say whether the model takes parameters."""
    try:
        params_model(check).model_validate(params)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("check", TYPES)
def test_each_value_of_each_parameter(check: str) -> None:
    """A model takes a value of a parameter, under each of its names, exactly when the bundle's reader does."""
    for param in check_types()[check].declared:
        for name in param.names:
            for value in VALUES:
                read, problems = read_params([param], {name: value})
                del read
                others = [place for place in _errors(check, {name: value}) if place[0] in (param.key, name)]
                assert bool(others) is bool(problems), (name, value)


def _errors(check: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
    try:
        params_model(check).model_validate(params)
    except ValidationError as error:
        return [found["loc"] for found in error.errors()]
    return []


@pytest.mark.parametrize("check", TYPES)
def test_models_are_closed_and_wanting(check: str) -> None:
    """An unknown key is refused, and so is a check without a parameter that it needs."""
    assert not accepted(check, {"pattrns": ["a"]})
    needs = any(param.required for param in check_types()[check].declared)
    assert accepted(check, {"min_score": 0.5, "max_score": 1, "message": "why"}) is not needs


@pytest.mark.parametrize("check", [*TYPES, *ALIASES])
def test_schemas_are_schemas(check: str) -> None:
    """Each check's parameters, under each of its names, have a JSON Schema that is one, is closed, and knows every spelling."""
    schema = params_schema(check)
    found = check_types()[ALIASES.get(check, check)]
    assert check_schema(schema) == ""
    assert schema["additionalProperties"] is False
    assert {name for param in found.declared for name in param.names} <= set(schema["properties"])


@given(st.lists(st.text()), st.sampled_from(["patterns", "words"]))
def test_a_schema_takes_what_a_check_takes(words: list[str], name: str) -> None:
    """What the reader takes fits the schema too."""
    assert BANNED.fault({name: words, "match_mode": "substring"}) == ""
