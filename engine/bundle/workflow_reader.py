"""Reads the workflow of an arena, strictly: the format passes it on untyped, so a mistyped key would be a state that never comes.

Owns the tables of a workflow and what must hold inside it. Its prompts and compositions are `crosschecks.py`'s.
"""

from dataclasses import replace
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from engine.bundle.fields import (
    INVALID,
    Table,
    between,
    boolean,
    integer,
    json_value,
    map_of,
    name,
    one_of,
    read_object,
    reads,
    string,
    string_map,
    strings,
    table_schema,
)
from engine.bundle.problems import did_you_mean
from engine.bundle.workflows import Artifact, Budget, State, Workflow
from engine.bundle.yamltree import Document, entries

_ARTIFACT = Table("an artifact", {"type": string, "description": string, "mode": one_of("replace", "append")})


@reads({"type": ["array", "object"]})
def _artifacts(document: Document, node: Node, key: str) -> Any:
    if isinstance(node, SequenceNode):
        names = strings(document, node, key)
        return INVALID if names is INVALID else tuple(Artifact(entry) for entry in names)
    read = map_of(_artifact)(document, node, key)
    return INVALID if read is INVALID else tuple(replace(artifact, name=ident) for ident, artifact in read.items())


@reads({"type": ["string", "object"]})
def _artifact(document: Document, node: Node, key: str) -> Any:
    del key
    if isinstance(node, ScalarNode):
        return Artifact("", description=str(node.value))
    values = read_object(document, node, _ARTIFACT)
    if values is None:
        return INVALID
    return Artifact("", values.get("type", ""), values.get("description", ""), append=values.get("mode") == "append")


@reads({"type": ["string", "array"]})
def _skills(document: Document, node: Node, key: str) -> Any:
    if not isinstance(node, ScalarNode):
        return strings(document, node, key)
    text = string(document, node, key)
    if text is INVALID:
        return INVALID
    return () if text == "none" else (text,)


_STATE = Table(
    "a state",
    {
        "prompt_task": name,
        "description": string,
        "on_event": string_map,
        "persistence": one_of("transient", "persistent"),
        "orchestration": one_of("internal", "external", "hybrid", "composition"),
        "composition": name,
        "skills": _skills,
        "terminal": boolean,
        "max_visits": integer(1),
        "on_max_visits": name,
        "artifacts": _artifacts,
    },
)
_BUDGET = Table("`budget`", {"max_total_visits": integer(1), "max_tool_calls": integer(1), "max_wall_time_sec": between(0, None)})


@reads(lambda: table_schema(_BUDGET))
def _budget(document: Document, node: Node, key: str) -> Any:
    del key
    values = read_object(document, node, _BUDGET)
    if values is None:
        return INVALID
    return Budget(values.get("max_total_visits"), values.get("max_tool_calls"), values.get("max_wall_time_sec"))


@reads({"type": "object"})
def _engine(document: Document, node: Node, key: str) -> Any:
    """Read the budget; what else stands here is for other runtimes."""
    if not isinstance(node, MappingNode):
        document.error(node, f"cannot read '{key}': it must be an object")
        return INVALID
    present = entries(document, node)
    for setting, (place, _) in present.items():
        if setting != "budget":
            document.problems.warning(document.at(place), f"'{setting}' of a workflow's engine has no effect: only its budget has")
    return _budget(document, present["budget"][1], "budget") if "budget" in present else Budget()


@reads(lambda: table_schema(_STATE))
def _named_state(document: Document, node: Node, key: str) -> Any:
    del key
    return _state(document, node)


_WORKFLOW = Table(
    "`workflow`",
    {
        "version": json_value,
        "entry": name,
        "states": map_of(_named_state),
        "engine": _engine,
    },
    required=("entry", "states"),
)


def _state(document: Document, node: Node) -> Any:
    values = read_object(document, node, _STATE)
    if values is None:
        return INVALID
    if values.pop("persistence", None) == "persistent":
        document.problems.note(document.at(node), "'persistence' of a state has no effect: a conversation lives within one item")
    return State("", location=document.at(node), **values)


@reads(lambda: table_schema(_WORKFLOW))
def read_workflow(document: Document, node: Node, key: str) -> Any:
    """Read a workflow; what names no state is a problem at its line."""
    del key
    values = read_object(document, node, _WORKFLOW)
    if values is None or "entry" not in values or "states" not in values:
        return INVALID
    states = {ident: replace(state, name=ident) for ident, state in values["states"].items()}
    workflow = Workflow(values["entry"], states, values.get("engine", Budget()), document.at(node))
    return workflow if _check(document, workflow) else INVALID


def _check(document: Document, workflow: Workflow) -> bool:
    sound = True

    def error(state: State | None, message: str, target: str) -> None:
        nonlocal sound
        sound = False
        place = workflow.location if state is None else state.location
        document.problems.error(place, message, did_you_mean(target, workflow.states, otherwise="states are"))

    if workflow.entry not in workflow.states:
        error(None, f"the workflow's entry '{workflow.entry}' is no state", workflow.entry)
    for state in workflow.states.values():
        for event, target in state.on_event.items():
            if target not in workflow.states:
                error(state, f"event '{event}' of state '{state.name}' leads to '{target}', which is no state", target)
        if state.on_max_visits and state.on_max_visits not in workflow.states:
            error(state, f"on_max_visits of state '{state.name}' names '{state.on_max_visits}', which is no state", state.on_max_visits)
        sound &= _check_state(document, state)
    if sound:
        _say_unreachable(document, workflow)
    return sound


def _check_state(document: Document, state: State) -> bool:
    fault = ""
    if state.orchestration == "composition" and not state.composition:
        fault = f"state '{state.name}' is orchestrated by a composition and names none"
    elif state.orchestration != "composition" and state.composition:
        fault = f"state '{state.name}' names a composition that does not run: its orchestration is {state.orchestration}"
    elif state.orchestration != "composition" and not state.prompt_task:
        fault = f"state '{state.name}' has no prompt_task"
    elif state.on_max_visits == state.name:
        fault = f"on_max_visits of state '{state.name}' is the state itself"
    if fault:
        document.problems.error(state.location, fault)
    if state.on_max_visits and state.max_visits is None:
        document.problems.warning(state.location, f"'on_max_visits' of state '{state.name}' has no effect: it has no max_visits")
    if state.terminal and state.on_event:
        document.problems.warning(state.location, f"'on_event' of state '{state.name}' has no effect: the state is terminal")
    if state.orchestration in ("external", "composition") and state.on_event:
        document.problems.warning(state.location, f"nothing sends the events of state '{state.name}': its orchestration is {state.orchestration}")
    return not fault


def _say_unreachable(document: Document, workflow: Workflow) -> None:
    reached = {state.name for state in workflow.reachable(workflow.entry)}
    for state in workflow.states.values():
        if state.name not in reached:
            document.problems.note(state.location, f"no event leads to state '{state.name}' from the entry")
