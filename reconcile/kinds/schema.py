"""From the models to structural schemas: the one description that both the API server and local mode check objects against.

A structural schema (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/) has a type at every
node, no `$ref`, no null and no `additionalProperties: false`: unknown keys are errors or pruned because they are not in `properties`.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from reconcile.kinds.catalog import CATALOG, KindInfo
from reconcile.kinds.rule import Rule
from reconcile.kinds.rules import rules_of

Schema = dict[str, Any]
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
VALIDATIONS: Final = "x-kubernetes-validations"

_COPIED: Final = (
    "description",
    "type",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "enum",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)


@cache
def schema_of(kind: str) -> Schema:
    """Return the structural schema of a kind, rules included. Shared: callers must not change it.

    Raises:
        KeyError: the kind is none of the seven.
    """
    info = CATALOG[kind]
    root = _root(info)
    for rule in rules_of(kind):
        _attach(root, rule)
    return root


@cache
def job_spec_schema() -> Schema:
    """Return the schema of an ArenaJob's spec, which is also that of a run's template."""
    spec: Schema = schema_of("ArenaJob")["properties"]["spec"]
    return spec


def _root(info: KindInfo) -> Schema:
    generated = info.model.model_json_schema(by_alias=True)
    parts = {part: _structural(generated["properties"][part], generated.get("$defs", {})) for part in ("spec", "status")}
    _drop_defaults(parts["status"])
    return {
        "description": (info.model.__doc__ or "").strip(),
        "type": "object",
        "required": ["spec"],
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}, **parts},
    }


def _structural(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    node = _flattened(node, definitions)
    schema: Schema = {key: node[key] for key in _COPIED if key in node}
    if node.get(INT_OR_STRING):
        schema.pop("type", None)
        return {**schema, INT_OR_STRING: True} | _default(node)
    if "const" in node:
        schema["enum"] = [node["const"]]
    if "items" in node:
        schema["items"] = _structural(node["items"], definitions)
    if "properties" in node:
        schema["properties"] = {name: _structural(value, definitions) for name, value in node["properties"].items()}
    if node.get("type") == "object":
        schema |= _other_keys(node, definitions)
    return schema | _default(node)


def _drop_defaults(node: Schema) -> None:
    """Take defaults out of a status: they are for its readers, and the server must not write what no controller said."""
    node.pop("default", None)
    for below in (*node.get("properties", {}).values(), *(node[key] for key in ("items", "additionalProperties") if key in node)):
        _drop_defaults(below)


def _other_keys(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """Say what keys beside the declared ones an object may have."""
    others = node.get("additionalProperties", False)
    if others is True or others == {}:
        return {PRESERVE: True}
    return {} if others is False else {"additionalProperties": _structural(others, definitions)}


def _default(node: Mapping[str, Any]) -> Schema:
    """Keep a default that the server should fill in: not null, and no empty list or status, which pydantic adds for reading only."""
    default = node.get("default")
    return {} if default is None or default == [] else {"default": default}


def _flattened(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Follow references and take the one branch that is not null; what is said beside them wins."""
    flat = dict(node)
    while "$ref" in flat or "anyOf" in flat:
        if "$ref" in flat:
            inner: Mapping[str, Any] = definitions[flat.pop("$ref").removeprefix("#/$defs/")]
        else:
            branches = [branch for branch in flat.pop("anyOf") if branch.get("type") != "null"]
            inner = branches[0] if len(branches) == 1 else {}
        flat = {**inner, **flat}
    return flat


def _attach(root: Schema, rule: Rule) -> None:
    node = root
    for step in rule.scope.split(".") if rule.scope else ():
        node = node["properties"][step.removesuffix("[*]")]
        node = node["items"] if step.endswith("[*]") else node
    node.setdefault(VALIDATIONS, []).append(rule.to_validation())
