"""A workflow as a conversation has it: a brief for each state, the tools that move it, and the hand-off within a turn.

Owns what a model is offered and told of its workflow. How a workflow moves is `workflow.py`'s.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.bundle.workflows import Artifact, State, Workflow
from engine.checks.workflow import TRANSITION
from engine.conversation.brief import NO_BRIEF, Brief, Setting, compile_brief
from engine.conversation.faculties import Enable, Faculty, OwnTool, Performer, object_schema
from engine.conversation.transcript import Transcript
from engine.conversation.workflow import Course, MoveRefused
from engine.providers.port import ToolSpec
from engine.tools.port import CallableTool, CallFailed
from engine.tools.schema import Schema
from foundation.clock import Clock

SET_ARTIFACT = "workflow__set_artifact"
PREFIX = "artifacts."
MAX_INDENTED_CHARACTERS = 16 * 1024
"""Deeper nesting than any answer needs would indent a longer one into hundreds of megabytes."""

_TRANSITION_SCHEMA = Schema(object_schema({"event": {"type": "string"}, "context": {"type": "string"}}, "event"))
_ARTIFACT_SCHEMA = Schema(object_schema({"name": {"type": "string"}, "value": {"type": "string"}}, "name", "value"))


@dataclass(frozen=True, slots=True)
class Stage:
    """A state, compiled: its brief, the tools that it offers beside the brief's, and who answers in the model's place."""

    state: State
    brief: Brief
    offers: tuple[ToolSpec, ...]
    performer: Performer | None = None


def enable_workflow(setting: Setting, workflow: Workflow, start: State) -> tuple[Enable, Brief]:
    """Compile a workflow for a scenario that starts in `start`; returns what builds a conversation's own, and the brief that it starts with.

    Raises:
        BundleInvalid: the prompt of a state that can be reached cannot be assembled.
    """
    stages = {state.name: _stage(setting, workflow, state) for state in workflow.reachable(start.name)}

    def enable(transcript: Transcript, clock: Clock) -> Faculty:
        began = clock.monotonic()
        course = Course(workflow, start, elapsed_s=lambda: clock.monotonic() - began, calls=lambda: len(transcript.calls))
        transcript.course = course
        return WorkflowFaculty(course, stages)

    return enable, stages[start.name].brief


class WorkflowFaculty(Faculty):
    """A conversation's workflow."""

    def __init__(self, course: Course, stages: Mapping[str, Stage]) -> None:
        self._course = course
        self._stages = stages
        self._tools: dict[str, CallableTool] = {}

    def brief(self) -> Brief:
        """Return the brief of the state."""
        return self._stages[self._course.state.name].brief

    def fill(self, system: str, brief: Brief) -> str:
        """Return the system prompt with the artifacts as they are now; one that was not set yet is empty."""
        for name in brief.open:
            if name.startswith(PREFIX):
                system = system.replace(f"{{{{{name}}}}}", self._course.artifacts.get(name.removeprefix(PREFIX), ""))
        return system

    def offers(self) -> Sequence[ToolSpec]:
        """Return the tools of the state: to move on where events lead away, and to set artifacts where it has any."""
        return self._stages[self._course.state.name].offers

    def find(self, name: str) -> CallableTool | None:
        """Return one of the two tools."""
        if not self._tools:
            self._tools = {
                TRANSITION: OwnTool(ToolSpec(TRANSITION, "", {}), _TRANSITION_SCHEMA, self._move),
                SET_ARTIFACT: OwnTool(ToolSpec(SET_ARTIFACT, "", {}), _ARTIFACT_SCHEMA, self._keep),
            }
        return self._tools.get(name)

    def refusal(self, calls: int) -> str:
        """Return which budget is used up."""
        return self._course.spent(calls)

    def present(self, answer: str) -> str:
        """Return an answer in JSON indented: so the format's reference engine shows it once a workflow takes part, and token counts follow from it."""
        if len(answer) > MAX_INDENTED_CHARACTERS:
            return answer
        try:
            value = json.loads(answer)
        except (ValueError, RecursionError):
            return answer
        return json.dumps(value, indent=2, ensure_ascii=False) if isinstance(value, dict | list) else answer

    def performer(self) -> Performer | None:
        """Return the composition of the state."""
        return self._stages[self._course.state.name].performer

    def settle(self) -> bool:
        """Hand over: what follows is said in the new state."""
        return self._course.settle()

    def _move(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        try:
            move = self._course.schedule(arguments["event"])
        except MoveRefused as refused:
            raise CallFailed("execution", str(refused)) from None
        answer = {"event": move.event, "status": "transition_scheduled", "target_state": move.target}
        if move.target != move.requested:
            answer |= {"requested_state": move.requested, "reason": f"'{move.requested}' may not be visited again"}
        return answer

    def _keep(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        try:
            self._course.keep(arguments["name"], arguments["value"])
        except MoveRefused as refused:
            raise CallFailed("execution", str(refused)) from None
        return {"artifact": arguments["name"], "status": "set"}


def _stage(setting: Setting, workflow: Workflow, state: State) -> Stage:
    brief = compile_brief(setting, state.prompt_task, state.location) if state.prompt_task else NO_BRIEF
    offers = [_transition(workflow, state)] if state.on_event and not state.terminal and state.orchestration in ("internal", "hybrid") else []
    if state.artifacts:
        offers.append(_set_artifact(state.artifacts))
    return Stage(state, brief, tuple(offers), _performer(setting, state))


def _performer(setting: Setting, state: State) -> Performer | None:
    if not state.composition:
        return None
    from engine.conversation.composition import compile_composition  # noqa: PLC0415 - only states that have one pay for it

    return compile_composition(setting, state.composition, state.location)


def _transition(workflow: Workflow, state: State) -> ToolSpec:
    events = [f"{event}: to '{target}'{_dash(workflow.states[target].description)}" for event, target in state.on_event.items()]
    described = "Move the conversation to another state; who takes over answers next. Events:\n" + "\n".join(f"- {line}" for line in events)
    properties = {
        "event": {"type": "string", "enum": list(state.on_event), "description": "The event that happened."},
        "context": {"type": "string", "description": "What the next state must know, in short."},
    }
    return ToolSpec(TRANSITION, described, object_schema(properties, "event"))


def _set_artifact(artifacts: Sequence[Artifact]) -> ToolSpec:
    lines = [f"{artifact.name}{_dash(artifact.description)}{' (added to what is there)' if artifact.append else ''}" for artifact in artifacts]
    described = "Keep a result for later states. Artifacts:\n" + "\n".join(f"- {line}" for line in lines)
    properties = {"name": {"type": "string", "enum": [artifact.name for artifact in artifacts]}, "value": {"type": "string"}}
    return ToolSpec(SET_ARTIFACT, described, object_schema(properties, "name", "value"))


def _dash(text: str) -> str:
    return f" - {text}" if text else ""
