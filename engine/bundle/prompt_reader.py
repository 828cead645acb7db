"""Reads prompts, tools and personas.

Owns the tables of these three kinds.
"""

from typing import Any

from yaml.nodes import MappingNode, Node

from engine.bundle.check_reader import session_evals, validators
from engine.bundle.fields import (
    Table,
    boolean,
    checked,
    integer,
    json_object,
    json_value,
    list_of,
    map_of,
    name,
    number,
    one_of,
    read_object,
    reads,
    record,
    schema_in,
    string,
    string_map,
    strings,
    word,
)
from engine.bundle.ignored import CLIENT, CONSENT, PERSONA, PROMPT, STYLE, VARIABLE
from engine.bundle.model import Variable
from engine.bundle.problems import nearest
from engine.bundle.prompt_parts import Fragment, ModelOverride
from engine.bundle.resources import file_reference
from engine.bundle.scenario_reader import part, tool_policy
from engine.bundle.yamltree import Document, entries

_VARIABLE = Table(
    VARIABLE,
    {
        "name": name,
        "type": string,
        "required": boolean,
        "default": json_value,
        "description": string,
        "example": json_value,
        "validation": json_object,
        "binding": json_object,
    },
    required=("name",),
)


def _variable(*, validation: Any = None, binding: Any = None, **values: Any) -> Variable:
    del validation, binding
    return Variable(**values)


_FRAGMENT = Table("a fragment", {"name": name, "path": file_reference, "required": boolean}, required=("name",))
_OVERRIDE = Table("a model's override", {"system_template": name, "system_template_suffix": name})
_PROMPT_MEDIA = Table(
    "a prompt's media",
    {
        "enabled": boolean,
        "supported_types": strings,
        "image": json_object,
        "audio": json_object,
        "video": json_object,
        "document": json_object,
        "examples": json_value,
    },
)
PROMPT_TABLE = Table(
    PROMPT,
    {
        "task_type": name,
        "version": string,
        "description": string,
        "template_engine": json_object,
        "system_template": name,
        "fragments": list_of(record(_FRAGMENT, Fragment)),
        "variables": list_of(record(_VARIABLE, _variable)),
        "model_overrides": map_of(record(_OVERRIDE, ModelOverride, located=False)),
        "allowed_tools": strings,
        "tool_policy": tool_policy,
        "parameters": json_object,
        "media": checked(_PROMPT_MEDIA),
        "validators": validators,
        "evals": session_evals,
        "tested_models": json_value,
        "metadata": json_value,
        "compilation": json_value,
    },
    required=("task_type", "system_template"),
)
_NOT_KEPT = ("template_engine", "tested_models", "metadata", "compilation")


def read_prompt(document: Document, node: Node) -> dict[str, Any] | None:
    """Read a prompt's spec into the fields of `PromptConfig`, without `id`, `name`, `file` and `location`."""
    values = read_object(document, node, PROMPT_TABLE)
    if values is None or "task_type" not in values or "system_template" not in values:
        return None
    return {key: value for key, value in values.items() if key not in _NOT_KEPT}


@reads(lambda: schema_in("service_reader", "http_call"))
def _http(document: Document, node: Node, key: str) -> Any:
    from engine.bundle.service_reader import http_call  # noqa: PLC0415 - only bundles that call services need it

    return http_call(document, node, key)


@reads(lambda: schema_in("service_reader", "command"))
def _exec(document: Document, node: Node, key: str) -> Any:
    from engine.bundle.service_reader import command  # noqa: PLC0415 - only bundles with programs need it

    return command(document, node, key)


_CONSENT = Table(CONSENT, {"required": boolean, "message": string, "decline_strategy": one_of("fallback", "error", "retry")})
_CLIENT = Table(CLIENT, {"consent": checked(_CONSENT), "timeout_ms": integer(0), "categories": strings, "validate_output": boolean})
TOOL_TABLE = Table(
    "a tool's spec",
    {
        "name": string,
        "description": string,
        "input_schema": json_object,
        "output_schema": json_object,
        "mode": one_of("mock", "live", "mcp", "exec", "client", "local"),
        "timeout_ms": integer(0),
        "mock_result": json_value,
        "mock_template": string,
        "mock_parts": list_of(part),
        "http": _http,
        "exec": _exec,
        "client": checked(_CLIENT),
    },
    required=("description", "input_schema"),
)


def read_tool(document: Document, node: Node) -> dict[str, Any] | None:
    """Read a tool's spec into the fields of `Tool`, without `name`, `file` and `location`."""
    values = read_object(document, node, TOOL_TABLE)
    if values is not None:
        values.pop("name", None)
    return values


_STYLE = Table(
    STYLE,
    {
        "verbosity": one_of("short", "medium", "long"),
        "challenge_level": one_of("low", "medium", "high"),
        "friction_tags": strings,
        "expressive": json_value,
        "characterization_rubric": json_value,
    },
)


def _style(document: Document, node: Node, key: str) -> Any:
    """Read a style. Traits that the format does not know are told to the model like those it knows, unless one is a known one mistyped."""
    present = entries(document, node) if isinstance(node, MappingNode) else {}
    traits = {trait: word for trait in present if trait not in _STYLE.keys and not nearest(trait, _STYLE.keys)}
    return checked(Table(_STYLE.name, {**_STYLE.keys, **traits}))(document, node, key)


PERSONA_TABLE = Table(
    PERSONA,
    {
        "id": string,
        "description": string,
        "system_template": string,
        "system_prompt": string,
        "required_vars": strings,
        "optional_vars": string_map,
        "goals": strings,
        "constraints": strings,
        "style": _style,
        "voice": string,
        "defaults": checked(Table("a persona's defaults", {"temperature": number, "seed": integer()})),
    },
    hints={
        "prompt_activity": "it was removed from the format: write system_template",
        "fragments": "personas cannot have fragments: write system_template",
    },
)


def read_persona(document: Document, node: Node) -> dict[str, Any] | None:
    """Read a persona's spec into the fields of `Persona`, without `id`, `file` and `location`."""
    values = read_object(document, node, PERSONA_TABLE)
    if values is None:
        return None
    if not values.get("system_template") and not values.get("system_prompt"):
        document.error(node, "missing key 'system_template' in a persona's spec", "system_prompt is its other name")
    values.pop("id", None)
    return values
