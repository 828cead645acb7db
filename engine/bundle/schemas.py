"""JSON Schemas of the files of a bundle, made from the tables that read them: what an editor accepts is what a run accepts, but for rules between keys.

Owns which kinds there are and their envelope. Offline: no schema refers to another file.
"""

from collections.abc import Mapping

from engine.bundle.arena_reader import ARENA_TABLE
from engine.bundle.check_reader import definitions
from engine.bundle.eval_reader import EVAL_TABLE
from engine.bundle.fields import Schema, Table, table_schema
from engine.bundle.files import ENVELOPE
from engine.bundle.mock_reader import RESPONSES_TABLE
from engine.bundle.prompt_reader import PERSONA_TABLE, PROMPT_TABLE, TOOL_TABLE
from engine.bundle.provider_reader import PROVIDER_TABLE
from engine.bundle.scenario_reader import SCENARIO_TABLE

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_SPECS: Mapping[str, Table] = {
    "Arena": ARENA_TABLE,
    "Scenario": SCENARIO_TABLE,
    "Provider": PROVIDER_TABLE,
    "PromptConfig": PROMPT_TABLE,
    "Tool": TOOL_TABLE,
    "Persona": PERSONA_TABLE,
    "Eval": EVAL_TABLE,
}
_CHECKING = ("Arena", "Scenario", "PromptConfig", "Eval")
"""Kinds that hold checks, guardrails or session evals."""

MOCK_RESPONSES = "MockResponses"
"""The file of a mock's answers, which has no kind of its own."""

KINDS = (*_SPECS, MOCK_RESPONSES)


def kind_schema(kind: str) -> Schema:
    """Return the schema of a file of a kind, one of `KINDS`.

    Raises:
        KeyError: there is no such kind.
    """
    if kind == MOCK_RESPONSES:
        return {"$schema": DRAFT, "title": "mock responses", **table_schema(RESPONSES_TABLE)}
    envelope, spec = table_schema(ENVELOPE), table_schema(_SPECS[kind])
    properties = envelope["properties"] | {"kind": {"const": kind}, "spec": spec}
    defined = {"$defs": definitions()} if kind in _CHECKING else {}
    return {"$schema": DRAFT, "title": kind, **envelope, "properties": properties, **defined}
