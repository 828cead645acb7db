"""Reads checks, guardrails and session evals, and asks the checks themselves whether their parameters make sense.

Must not know what any check does: `engine.checks` says what is wrong with a type or its parameters, and this adds file and line.
"""

from collections.abc import Callable, Mapping
from typing import Any

from yaml.nodes import MappingNode, Node

from engine.bundle.evaluations import EvalDef
from engine.bundle.fields import (
    INVALID,
    Schema,
    Table,
    Values,
    between,
    boolean,
    checked,
    integer,
    json_object,
    list_of,
    name,
    number,
    one_of,
    read_object,
    reads,
    record,
    string,
    strings,
    table_schema,
)
from engine.bundle.ignored import ASSERTION, SESSION_EVAL, VALIDATOR
from engine.bundle.model import NOTHING, Assertion, Validator, When
from engine.bundle.problems import did_you_mean
from engine.bundle.yamltree import Document, entries

WRAPPER = "assertion"
PROGRAM_CHECK = "exec"
"""The check that a program of the arena's `runtime.evals` decides; the program's name is another name of it."""

DIRECTIONS = ("input", "output", "both")

_WHEN = Table(
    "`when`",
    {"tool_called": string, "tool_called_pattern": string, "any_tool_called": boolean, "min_tool_calls": integer(0)},
)
_IN_PARAMS = "write it inside `params`"
_CHECK = Table(
    ASSERTION,
    {"type": name, "params": json_object, "message": string, "when": record(_WHEN, When, located=False), "pass_threshold": between(0, 1)},
    required=("type",),
    hints={"min_score": _IN_PARAMS, "max_score": _IN_PARAMS},
)
_VALIDATOR = Table(
    VALIDATOR,
    {"type": name, "params": json_object, "enabled": boolean, "message": string, "fail_on_violation": boolean},
    required=("type",),
    hints={"min_score": _IN_PARAMS, "max_score": _IN_PARAMS, "direction": _IN_PARAMS},
)
_BOUNDS = {"min_score", "max_score"}
_WRAPPER_KEYS = ("eval_type", "eval_params", "min_score", "max_score", "message")
_when = record(_WHEN, When, located=False)
_METRIC = Table(
    "a metric",
    {"name": name, "type": one_of("gauge", "counter", "histogram", "boolean"), "range": json_object, "labels": json_object},
    required=("name",),
)
_THRESHOLD = Table("`threshold`", {"passed": boolean, "min_score": number, "max_score": number})
_EVAL = Table(
    SESSION_EVAL,
    {
        "id": name,
        "type": name,
        "trigger": one_of("every_turn", "on_session_complete", "sample_turns", "sample_sessions", "on_conversation_complete", "on_workflow_step"),
        "params": json_object,
        "description": string,
        "enabled": boolean,
        "sample_percentage": between(0, 100),
        "metric": checked(_METRIC),
        "threshold": record(_THRESHOLD, dict, located=False),
        "message": string,
        "when": _when,
        "groups": strings,
    },
    required=("type",),
)


def definitions() -> dict[str, Schema]:
    """Return what the schemas of checks, guardrails and session evals refer to, by name: they themselves, and the parameters of each type of check."""
    from engine.checks import ALIASES, known_types  # noqa: PLC0415 - only who asks for schemas needs them
    from engine.checks.models import params_schema  # noqa: PLC0415 - same

    kinds = sorted(known_types() - ALIASES.keys() - {WRAPPER})
    rules = []
    for kind in kinds:
        spellings = [kind, *sorted(alias for alias, meant in ALIASES.items() if meant == kind)]
        rules.append({"if": {"properties": {"type": {"enum": spellings}}}, "then": {"properties": {"params": {"$ref": f"#/$defs/{kind}"}}}})
    found = {kind: _with_direction(params_schema(kind)) for kind in kinds}
    for name_, table in (("check", _CHECK), ("guardrail", _VALIDATOR), ("sessionEval", _EVAL)):
        schema = table_schema(table)
        found[name_] = schema | {"properties": schema["properties"] | {"type": {"enum": sorted(known_types())}}, "allOf": rules}
    return found


def _with_direction(params: Schema) -> Schema:
    """Return a check's parameters with those of a guardrail's, each definition written where it is used: a part of a schema has no `$defs` of its own."""
    definitions = params.pop("$defs", {})

    def inlined(value: Any) -> Any:
        if isinstance(value, dict):
            name_ = str(value.get("$ref", "")).removeprefix("#/$defs/")
            return inlined(definitions[name_]) if name_ in definitions else {key: inlined(entry) for key, entry in value.items()}
        return [inlined(entry) for entry in value] if isinstance(value, list) else value

    return dict(inlined(params | {"properties": params["properties"] | {"direction": {"enum": list(DIRECTIONS)}}}))


@reads({"$ref": "#/$defs/check"})
def check(document: Document, node: Node, key: str) -> Any:
    """Read one check, its wrapper taken off and its parameters validated."""
    del key
    values = read_object(document, node, _CHECK)
    if values is None or "type" not in values:
        return INVALID
    params = dict(values.get("params", NOTHING))
    lifted = _lift(document, node, params, {"min_score": _score, "max_score": _score, "message": _text})
    kind = values["type"]
    if kind == WRAPPER:
        kind, params = _unwrap(document, node, params)
    if kind in document.programs:
        kind, params = PROGRAM_CHECK, {"eval": kind, "params": params}
    if kind:
        _validate(document, node, kind, params, bounded=bool(lifted.keys() & _BOUNDS))
    message = values.get("message") or lifted.get("message", "")
    return Assertion(
        type=values["type"],
        check=kind,
        params=params,
        message=message,
        when=values.get("when"),
        min_score=lifted.get("min_score"),
        max_score=lifted.get("max_score"),
        pass_threshold=values.get("pass_threshold"),
        location=document.at(node),
    )


@reads({"$ref": "#/$defs/guardrail"})
def validator(document: Document, node: Node, key: str) -> Any:
    """Read one guardrail, its parameters validated."""
    del key
    values = read_object(document, node, _VALIDATOR)
    if values is None or "type" not in values:
        return INVALID
    params = dict(values.pop("params", NOTHING))
    lifted = _lift(document, node, params, {"min_score": _score, "max_score": _score, "direction": _direction})
    _validate(document, node, values["type"], params, bounded=bool(lifted.keys() & _BOUNDS))
    return Validator(**values, **lifted, params=params, location=document.at(node))


@reads({"$ref": "#/$defs/sessionEval"})
def session_eval(document: Document, node: Node, key: str) -> Any:
    """Read one session eval, its parameters validated."""
    del key
    values = read_object(document, node, _EVAL)
    if values is None or "type" not in values:
        return INVALID
    params = dict(values.get("params", NOTHING))
    lifted = _lift(document, node, params, {"min_score": _score, "max_score": _score, "message": _text})
    kind = values["type"]
    if kind == WRAPPER:
        kind, params = _unwrap(document, node, params)
    if kind in document.programs:
        kind, params = PROGRAM_CHECK, {"eval": kind, "params": params}
    if kind:
        _validate(document, node, kind, params, bounded=True)
    threshold = {**lifted, **values.get("threshold", NOTHING)}
    return EvalDef(
        id=values.get("id") or values["type"],
        type=values["type"],
        check=kind,
        params=params,
        trigger=values.get("trigger", "on_session_complete"),
        enabled=values.get("enabled", True),
        percentage=values.get("sample_percentage", 5.0),
        when=values.get("when"),
        message=values.get("message") or lifted.get("message", ""),
        thresholded=threshold.get("passed", False) or "min_score" in threshold or "max_score" in threshold,
        min_score=threshold.get("min_score"),
        max_score=threshold.get("max_score"),
        metric=values.get("metric", NOTHING),
        groups=values.get("groups", ()),
        location=document.at(node),
    )


checks = list_of(check)
validators = list_of(validator)
session_evals = list_of(session_eval)


def _score(value: Any) -> str:
    return "" if isinstance(value, int | float) and not isinstance(value, bool) else "it must be a number"


def _text(value: Any) -> str:
    return "" if isinstance(value, str) else "it must be text"


def _direction(value: Any) -> str:
    return "" if value in DIRECTIONS else f"it must be one of {', '.join(DIRECTIONS)}"


def _lift(document: Document, node: Node, params: Values, wanted: Mapping[str, Callable[[Any], str]]) -> Values:
    lifted: Values = {}
    for key, complaint in wanted.items():
        if key not in params:
            continue
        value = params.pop(key)
        if problem := complaint(value):
            document.error(_param_node(node, document, key), f"cannot read '{key}': {problem}")
        else:
            lifted[key] = value
    least, most = lifted.get("min_score"), lifted.get("max_score")
    if least is not None and most is not None and least > most:
        document.error(_param_node(node, document, "min_score"), f"cannot read 'min_score': {least:g} is above the max_score of {most:g}")
    return lifted


def _unwrap(document: Document, node: Node, params: Values) -> tuple[str, Values]:
    for key in params:
        if key not in _WRAPPER_KEYS:
            document.error(
                _param_node(node, document, key),
                f"unknown key '{key}' in params of an assertion",
                did_you_mean(key, _WRAPPER_KEYS, otherwise="its keys are"),
            )
    kind, inner = params.get("eval_type"), params.get("eval_params", {})
    if not isinstance(kind, str) or not kind:
        document.error(node, "missing key 'eval_type' in params of an assertion", "name the check to evaluate")
        return "", {}
    if not isinstance(inner, dict):
        document.error(_param_node(node, document, "eval_params"), "cannot read 'eval_params': it must be an object")
        return kind, {}
    return kind, dict(inner)


def _validate(document: Document, node: Node, kind: str, params: Values, *, bounded: bool) -> None:
    from engine.checks import idle_check, short_check, validate_check  # noqa: PLC0415 - only bundles that have checks need them

    problems = validate_check(kind, params)
    if not problems and (reason := idle_check(kind, params)):
        document.problems.warning(document.at(node), f"check '{kind}' can only pass: {reason}")
    if not problems and not bounded and (reason := short_check(kind, params)):
        document.problems.warning(document.at(node), f"check '{kind}' hardly ever passes: {reason}", "add min_score to its params")
    for problem in problems:
        place = _param_node(node, document, problem.key) if problem.key else _key_node(node, document, "type")
        message = problem.message if not problem.key else f"{problem.message} of check '{kind}'"
        document.error(place, message, problem.suggestion)


def _key_node(node: Node, document: Document, key: str) -> Node:
    if isinstance(node, MappingNode):
        pair = entries(document, node).get(key)
        if pair is not None:
            return pair[0]
    return node


def _param_node(node: Node, document: Document, key: str) -> Node:
    first = key.partition(".")[0].partition("[")[0]
    if isinstance(node, MappingNode) and (params := entries(document, node).get("params")) is not None:
        outer = _key_node(params[1], document, first)
        if outer is params[1] and isinstance(params[1], MappingNode) and (inner := entries(document, params[1]).get("eval_params")) is not None:
            outer = _key_node(inner[1], document, first)
            return params[0] if outer is inner[1] else outer
        return params[0] if outer is params[1] else outer
    return node
