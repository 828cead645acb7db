"""Reads the compositions of an arena, strictly, and checks that their steps can follow one another.

Owns the tables of compositions. The prompts and tools that steps name are `crosschecks.py`'s. Must not know how a step is run.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from yaml.nodes import MappingNode, Node

from engine.bundle.compositions import Composition, Predicate, Step
from engine.bundle.fields import (
    INVALID,
    Table,
    boolean,
    integer,
    json_object,
    json_value,
    list_of,
    map_of,
    name,
    one_of,
    read_object,
    reads,
    record,
    schema_of,
    string,
    strings,
    table_schema,
)
from engine.bundle.paths import resolve_inside
from engine.bundle.problems import did_you_mean
from engine.bundle.resources import find_resource
from engine.bundle.yamltree import Document, to_json

OPERATORS = (
    *("equals", "not_equals", "in", "not_in"),
    *("less_than", "less_than_or_equals", "greater_than", "greater_than_or_equals"),
)
KINDS = ("prompt", "agent", "tool", "branch", "parallel")
REFERENCE = re.compile(r"\$\{([^{}]*)\}")
MAX_SCHEMA_BYTES = 1024 * 1024
MAX_STEPS = 50
"""Model calls of an agent that names the tool that ends it, and no number."""

MIN_BRANCHES = 2

_ID = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
_NEEDS = {
    "prompt": ("prompt_task",),
    "agent": ("prompt_task", "termination"),
    "tool": ("tool",),
    "branch": ("predicate", "then"),
    "parallel": ("branches", "reduce"),
}
_COMMON = ("id", "kind", "description", "depends_on", "modifiers")
_TAKES = {
    "prompt": ("prompt_task", "input", "output_schema"),
    "agent": ("prompt_task", "input", "output_schema", "termination", "tools"),
    "tool": ("tool", "args", "output_schema"),
    "branch": ("predicate", "then", "else"),
    "parallel": ("branches", "reduce"),
}


@reads({"type": ["object", "string"]})
def _schema(document: Document, node: Node, key: str) -> Any:
    schema = to_json(document, node) if isinstance(node, MappingNode) else _schema_of_file(document, node, key)
    if schema is INVALID:
        return INVALID
    from engine.tools.schema import check_schema  # noqa: PLC0415 - only compositions that have schemas need it

    if fault := check_schema(schema):
        document.error(node, f"cannot read '{key}': it is not a JSON Schema: {fault}")
        return INVALID
    return schema


def _schema_of_file(document: Document, node: Node, key: str) -> Any:
    reference = name(document, node, key)
    found = INVALID if reference is INVALID else find_resource(document, node, reference)
    if found is INVALID:
        return INVALID
    content = resolve_inside(document.root, found).read_bytes()
    try:
        schema = json.loads(content) if len(content) <= MAX_SCHEMA_BYTES else None
    except (ValueError, RecursionError):
        schema = None
    if not isinstance(schema, dict):
        document.error(node, f"cannot read '{key}': '{reference}' holds no JSON object")
        return INVALID
    return schema


@reads(lambda: table_schema(_PREDICATE))
def _predicate(document: Document, node: Node, key: str) -> Any:
    values = read_object(document, node, _PREDICATE)
    if values is None:
        return INVALID
    if len([kind for kind in ("path", "all_of", "any_of", "not") if kind in values]) != 1:
        document.error(node, f"cannot read '{key}': it needs exactly one of path, all_of, any_of and not")
        return INVALID
    if "exists" in values and "path" in values and "op" not in values:
        return Predicate(values["path"], "exists", values["exists"])
    if "path" in values and ("op" not in values or "value" not in values):
        document.error(node, f"cannot read '{key}': a path needs op and value, or exists")
        return INVALID
    return Predicate(
        values.get("path", ""), values.get("op", ""), values.get("value"), values.get("all_of", ()), values.get("any_of", ()), values.get("not")
    )


_PREDICATE: Table = Table(
    "a predicate",
    {
        "path": name,
        "op": one_of(*OPERATORS),
        "value": json_value,
        "exists": boolean,
        "all_of": list_of(_predicate),
        "any_of": list_of(_predicate),
        "not": _predicate,
    },
)
_REDUCE = record(Table("`reduce`", {"strategy": one_of("append", "replace", "barrier"), "into": name}, required=("into",)), dict, located=False)
_TERMINATION = record(Table("`termination`", {"max_steps": integer(1), "tool_called": name}), dict, located=False)
_RETRY = record(Table("`retry`", {"max_attempts": integer(1)}), dict, located=False)
_MODIFIERS = record(Table("`modifiers`", {"retry": _RETRY, "eval": strings}), dict, located=False)


@reads(lambda: table_schema(_STEP))
def _step(document: Document, node: Node, key: str) -> Any:
    del key
    values = read_object(document, node, _STEP)
    if values is None or "id" not in values or "kind" not in values:
        return INVALID
    kind, sound = values["kind"], bool(_ID.match(values["id"]))
    if not sound:
        document.error(node, f"cannot use '{values['id']}' as the id of a step", "letters, digits and '_', no digit first")
    if kind == "parallel" and "branches" in values and len(values["branches"]) < MIN_BRANCHES:
        document.error(node, f"step '{values['id']}' runs fewer than {MIN_BRANCHES} steps at once")
        sound = False
    for needed in _NEEDS[kind]:
        if needed not in values:
            document.error(node, f"step '{values['id']}' of kind {kind} has no '{needed}'")
            sound = False
    for given in values:
        if given not in _COMMON and given not in _TAKES[kind]:
            document.problems.warning(document.at(node), f"'{given}' of step '{values['id']}' has no effect: its kind is {kind}")
    modifiers = values.get("modifiers", {})
    if modifiers.get("eval"):
        document.problems.warning(document.at(node), f"'eval' of step '{values['id']}' has no effect: session evals see the whole conversation")
    return _built(values, document, node) if sound else INVALID


def _built(values: dict[str, Any], document: Document, node: Node) -> Step:
    return Step(
        id=values["id"],
        kind=values["kind"],
        prompt_task=values.get("prompt_task", ""),
        input=values.get("input", "${input}"),
        output_schema=values.get("output_schema"),
        tools=values.get("tools"),
        max_steps=values.get("termination", {}).get("max_steps", MAX_STEPS),
        ends_with=values.get("termination", {}).get("tool_called", ""),
        tool=values.get("tool", ""),
        args=values.get("args", {}),
        predicate=values.get("predicate", Predicate()),
        then=values.get("then", ""),
        otherwise=values.get("else", ""),
        branches=values.get("branches", ()),
        reduce=values.get("reduce", {}).get("strategy", "barrier"),
        reduce_into=values.get("reduce", {}).get("into", ""),
        depends_on=values.get("depends_on", ()),
        attempts=values.get("modifiers", {}).get("retry", {}).get("max_attempts", 1),
        location=document.at(node),
    )


_STEP: Table = Table(
    "a step",
    {
        "id": name,
        "kind": one_of(*KINDS),
        "description": string,
        "prompt_task": name,
        "input": json_value,
        "output_schema": _schema,
        "termination": _TERMINATION,
        "tools": strings,
        "tool": name,
        "args": json_object,
        "predicate": _predicate,
        "then": name,
        "else": name,
        "branches": list_of(_step),
        "reduce": _REDUCE,
        "depends_on": strings,
        "modifiers": _MODIFIERS,
    },
    required=("id", "kind"),
)
_COMPOSITION = Table(
    "a composition",
    {
        "version": json_value,
        "description": string,
        "input_schema": _schema,
        "output_schema": _schema,
        "output": name,
        "steps": list_of(_step),
        "engine": json_value,
    },
    required=("steps",),
)


@reads(lambda: table_schema(_COMPOSITION))
def _composition(document: Document, node: Node, key: str) -> Any:
    values = read_object(document, node, _COMPOSITION)
    if values is None or not values.get("steps"):
        return INVALID
    if "engine" in values:
        document.problems.note(document.at(node), "'engine' of a composition has no effect: it is for other runtimes")
    output, schemas = values.get("output", values["steps"][-1].id), (values.get("input_schema"), values.get("output_schema"))
    composition = Composition(key.partition(".")[2], values["steps"], output, *schemas, document.at(node))
    faults = list(_faults(composition))
    for step, fault, hint in faults:
        document.problems.error(step.location if step else composition.location, fault, hint)
    return INVALID if faults else composition


_COMPOSITIONS = map_of(_composition)


@reads(lambda: schema_of(_COMPOSITIONS))
def read_compositions(document: Document, node: Node, key: str) -> Any:
    """Read all compositions, by name."""
    return _COMPOSITIONS(document, node, key)


def _faults(composition: Composition) -> Iterator[tuple[Step | None, str, str]]:
    places: dict[str, int] = {}
    for place, step in enumerate(composition.steps):
        for inner in (step, *step.branches):
            if inner.id in places or inner.id == "input":
                yield inner, f"duplicate step '{inner.id}'", "ids are unique in a composition; 'input' is what it is given"
            places[inner.id] = place
            if inner is not step and inner.kind in ("branch", "parallel"):
                yield inner, f"a step of kind {inner.kind} cannot stand in a parallel step", ""
    if composition.output not in places:
        hint = did_you_mean(composition.output, places, otherwise="steps are")
        yield None, f"the output '{composition.output}' of composition '{composition.name}' is no step", hint
    for place, step in enumerate(composition.steps):
        yield from _unordered(step, place, places)


def _unordered(step: Step, place: int, places: dict[str, int]) -> Iterator[tuple[Step | None, str, str]]:
    for earlier in (earlier for inner in (step, *step.branches) for earlier in inner.depends_on):
        if places.get(earlier, place) >= place:
            yield step, f"step '{step.id}' depends on '{earlier}', which is no step before it", did_you_mean(earlier, places, otherwise="steps are")
    for target in (step.then, step.otherwise):
        if target and target not in places:
            yield step, f"branch '{step.id}' chooses '{target}', which is no step", did_you_mean(target, places, otherwise="steps are")
        elif target and places[target] <= place:
            yield step, f"branch '{step.id}' chooses '{target}', which stands before it", "steps run in the order they are written"
    for reference in (ref for inner in (step, *step.branches) for ref in references(inner)):
        source = reference.partition(".")[0].strip()
        if source == "input":
            continue
        if source not in places:
            yield step, f"step '{step.id}' reads '${{{reference}}}', and '{source}' is no step", did_you_mean(source, places, otherwise="steps are")
        elif places[source] >= place:
            yield step, f"step '{step.id}' reads '${{{reference}}}', which has no output yet", "steps run in the order they are written"


def references(step: Step) -> list[str]:
    """Return what a step reads: the insides of its `${…}`, its predicate's included."""
    texts = _strings(step.input) if step.kind in ("prompt", "agent") else ()
    return [found for text in (*texts, *_strings(step.args), *_paths(step.predicate)) for found in REFERENCE.findall(text)]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _strings(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _strings(entry)


def _paths(predicate: Predicate) -> Iterator[str]:
    if predicate.path:
        yield predicate.path if "${" in predicate.path else f"${{{predicate.path}}}"
    for inner in (*predicate.every, *predicate.some, *((predicate.none,) if predicate.none else ())):
        yield from _paths(inner)
