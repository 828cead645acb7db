"""Compositions: a graph of steps answers the user in a model's place (promptkit-format.md 5.6).

Owns the step from a bundle's composition to one that can be run. How its steps are run is `composition_run.py`'s. Must not know how a conversation
comes to a composition.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.bundle.compositions import Composition, Step
from engine.bundle.model import Location
from engine.checks.evidence import CompositionTrace
from engine.conversation.brief import Setting, answering_tool, compile_brief
from engine.conversation.composition_run import CompiledStep, CompositionRun
from engine.conversation.composition_values import parse_output
from engine.conversation.faculties import Enable, Faculty, Performer
from engine.conversation.session import Session
from engine.conversation.transcript import Transcript
from engine.errors import BundleInvalid, CompositionFailed
from engine.providers.messages import Message
from engine.providers.port import ToolSpec
from engine.tools.schema import Schema
from engine.tools.toolbox import Toolbox
from foundation.clock import Clock


def compile_composition(setting: Setting, name: str, place: Location) -> Performer:
    """Compile a composition of the arena; `place` is who names it.

    Raises:
        BundleInvalid: it is not there, or a prompt or a tool of a step is not, or cannot be used.
    """
    composition = setting.bundle.arena.compositions.get(name)
    if composition is None:
        raise BundleInvalid(f"{place}: cannot hold scenario '{setting.scenario.id}': the arena has no composition '{name}'")
    steps = tuple(_compile(setting, step) for step in composition.steps)
    return Composer(composition, steps, _schema(composition.input_schema), _schema(composition.output_schema))


def enable_composition(setting: Setting, name: str) -> Enable:
    """Compile the composition that a scenario without a workflow runs; returns what lets it answer every turn.

    Raises:
        BundleInvalid: as `compile_composition`.
    """
    composer = compile_composition(setting, name, setting.scenario.location)

    def enable(transcript: Transcript, clock: Clock) -> Faculty:
        del transcript, clock
        return CompositionFaculty(composer)

    return enable


class CompositionFaculty(Faculty):
    """Lets a composition answer."""

    def __init__(self, composer: Performer) -> None:
        self._composer = composer

    def performer(self) -> Performer:
        """Return the composition."""
        return self._composer


@dataclass(frozen=True, slots=True)
class Composer:
    """A compiled composition, shared by conversations."""

    composition: Composition
    steps: tuple[CompiledStep, ...]
    input_schema: Schema | None = None
    output_schema: Schema | None = None

    async def perform(self, session: Session, content: str, *, streaming: bool) -> None:
        """Run the steps over `content` and append the output as the assistant's reply.

        Raises:
            CompositionFailed: the input or the output does not fit its schema, or a step did not do its part.
            ProviderError: a model did not answer.
        """
        self._judge("input", self.input_schema, content)
        run = CompositionRun(session, content, streaming=streaming)
        transcript, used = session.transcript, run.used
        try:
            for step in self.steps:
                if step.step.id not in run.skipped or step.step.id == self.composition.output:
                    await run.take(step)
        finally:
            transcript.ledger.merge(used.ledger)
        output = run.texts.get(self.composition.output, "")
        self._judge("output", self.output_schema, output)
        transcript.composition = CompositionTrace(run.texts, run.branches, run.completed, output)
        if transcript.ttft_ms is None:
            transcript.ttft_ms = used.ttft_ms
        steps = [{"step": ident, "output": text} for ident, text in run.texts.items()]
        reply = Message("assistant", output, latency_ms=used.provider_latency_ms, usage=used.usage, cost_usd=used.cost_usd)
        reply.meta = {"composition": {"name": self.composition.name, "steps": steps, "branches": run.branches}, **transcript.ledger.tell()}
        reply.validations = [fired for message in used.messages for fired in message.validations]
        transcript.add_reply(reply)

    def _judge(self, what: str, schema: Schema | None, text: str) -> None:
        if schema is not None and (fault := schema.fault(parse_output(text))):
            raise CompositionFailed(f"the {what} of composition '{self.composition.name}' does not fit its {what}_schema: {fault}")


def _compile(setting: Setting, step: Step) -> CompiledStep:
    tools = setting.bundle.tools
    wanted = (step.tool,) if step.kind == "tool" else step.tools or ()
    named = [tools[name] for name in wanted if name in tools]
    brief = compile_brief(setting, step.prompt_task, step.location) if step.prompt_task else None
    if brief is not None and step.kind == "agent" and step.tools is not None:
        offered = tuple(ToolSpec(tool.name, tool.description, tool.input_schema) for tool in named)
        brief = replace(brief, offered=offered, toolbox=Toolbox([answering_tool(tool) for tool in named]))
    return CompiledStep(
        step,
        brief=brief,
        toolbox=Toolbox([answering_tool(tool) for tool in named]) if step.kind == "tool" else None,
        schema=_schema(step.output_schema),
        inner=tuple(_compile(setting, inner) for inner in step.branches),
    )


def _schema(definition: Mapping[str, Any] | None) -> Schema | None:
    return Schema(definition) if definition else None
