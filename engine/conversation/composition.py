"""Compositions: a graph of steps answers the user in a model's place (promptkit-format.md 5.6).

Steps run in the order they are written, those of a parallel step at once; what a branch does not choose is skipped. A step that does not do its part
ends the conversation as an error. Must not know how a conversation comes to a composition.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from engine.bundle.compositions import Composition, Step
from engine.bundle.model import Location
from engine.checks.evidence import CompositionTrace
from engine.conversation.asking import ask
from engine.conversation.brief import Brief, Setting, answering_tool, compile_brief
from engine.conversation.composition_values import as_text, fill, holds, parse_output
from engine.conversation.faculties import Enable, Faculty, Performer
from engine.conversation.session import Session
from engine.conversation.transcript import Transcript
from engine.errors import BundleInvalid, CompositionFailed
from engine.providers.messages import Message, ToolCall
from engine.providers.port import Request
from engine.providers.port import Script as Place
from engine.tools.schema import Schema
from engine.tools.toolbox import Toolbox
from foundation.clock import Clock


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """A step with what it needs: the brief of a prompt or an agent, the tool of a tool step, the schema of its output, the steps inside."""

    step: Step
    brief: Brief | None = None
    toolbox: Toolbox | None = None
    schema: Schema | None = None
    inner: tuple["CompiledStep", ...] = ()


def compile_composition(setting: Setting, name: str, place: Location) -> Performer:
    """Compile a composition of the arena; `place` is who names it.

    Raises:
        BundleInvalid: it is not there, or a prompt or a tool of a step is not, or cannot be used.
    """
    composition = setting.bundle.arena.compositions.get(name)
    if composition is None:
        raise BundleInvalid(f"{place}: cannot hold scenario '{setting.scenario.id}': the arena has no composition '{name}'")
    return Composer(composition, tuple(_compile(setting, step) for step in composition.steps))


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

    async def perform(self, session: Session, content: str, *, streaming: bool) -> None:
        """Run the steps over `content` and append the output as the assistant's reply."""
        run = _Run(session, content, streaming=streaming)
        for step in self.steps:
            if step.step.id not in run.skipped:
                await run.take(step)
        transcript, used = session.transcript, run.used
        output = run.texts.get(self.composition.output, "")
        transcript.composition = CompositionTrace(run.texts, run.branches, run.completed, output)
        if transcript.ttft_ms is None:
            transcript.ttft_ms = used.ttft_ms
        steps = [{"step": ident, "output": text} for ident, text in run.texts.items()]
        reply = Message("assistant", output, latency_ms=used.provider_latency_ms, usage=used.usage, cost_usd=used.cost_usd)
        reply.meta["composition"] = {"name": self.composition.name, "steps": steps, "branches": run.branches}
        reply.validations = [fired for message in used.messages for fired in message.validations]
        transcript.add_reply(reply)


class _Run:
    """One run of a composition: what its steps gave so far, and what they used together."""

    def __init__(self, session: Session, content: str, *, streaming: bool) -> None:
        self.texts: dict[str, str] = {}
        self.branches: dict[str, str] = {}
        self.completed: set[str] = set()
        self.skipped: set[str] = set()
        self.used = Transcript()
        self._session = session
        self._streaming = streaming
        self._outputs: dict[str, Any] = {"input": content}

    async def take(self, compiled: CompiledStep) -> None:
        """Take one step.

        Raises:
            CompositionFailed: it did not do its part.
            ProviderError: a model did not answer.
        """
        step = compiled.step
        if step.kind == "branch":
            chosen, other = (step.then, step.otherwise) if holds(step.predicate, self._outputs) else (step.otherwise, step.then)
            self.branches[step.id] = chosen
            self.skipped |= {other} - {""}
            self.skipped.discard(chosen)
        elif step.kind == "parallel":
            await self._at_once(compiled)
        else:
            text = await (self._call(compiled) if step.kind == "tool" else self._converse(compiled))
            self._keep(step, text, compiled.schema)

    def _keep(self, step: Step, text: str, schema: Schema | None) -> None:
        value = parse_output(text)
        if schema is not None and (fault := schema.fault(value)):
            raise CompositionFailed(f"the output of step '{step.id}' does not fit its output_schema: {fault}")
        self.texts[step.id], self._outputs[step.id] = text, value

    async def _at_once(self, compiled: CompiledStep) -> None:
        step = compiled.step
        try:
            async with asyncio.TaskGroup() as group:
                for inner in compiled.inner:
                    group.create_task(self.take(inner))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        gathered = {inner.step.id: self._outputs[inner.step.id] for inner in compiled.inner}
        value = {step.reduce_into: gathered} if step.reduce_into else gathered
        self.texts[step.id], self._outputs[step.id] = as_text(value), value
        self.completed.add(step.id)

    async def _call(self, compiled: CompiledStep) -> str:
        step, toolbox = compiled.step, compiled.toolbox or Toolbox(())
        call = ToolCall(f"step_{step.id}", step.tool, fill(dict(step.args), self._outputs))
        result = await toolbox.run(call)
        self._session.transcript.add_call(call, result)
        if result.error:
            raise CompositionFailed(f"the tool of step '{step.id}' failed: {result.error}")
        return result.content

    async def _converse(self, compiled: CompiledStep) -> str:
        """Have a prompt answered once, or an agent until it calls no more tools."""
        step, brief = compiled.step, compiled.brief
        if brief is None:
            raise CompositionFailed(f"step '{step.id}' has no prompt")
        content = as_text(fill(step.input, self._outputs))
        answers = self._session.line.answers
        fired = await brief.guardrails.judge_input(self.used.evidence_for(content), answers) if brief.guardrails.judge_inputs else None
        if fired is not None:
            return fired.text
        messages = [Message("user", content)]
        for _ in range(step.max_steps if step.kind == "agent" else 1):
            reply = await self._ask(step, brief, messages)
            if step.kind == "prompt" or not reply.tool_calls:
                return reply.content
            messages.append(reply)
            for call in reply.tool_calls:
                result = await brief.toolbox.run(call)
                self._session.transcript.add_call(call, result)
                messages.append(Message("tool", result.content, tool_result=result))
        raise CompositionFailed(f"the agent of step '{step.id}' still calls tools after {step.max_steps} rounds", hint="raise termination.max_steps")

    async def _ask(self, step: Step, brief: Brief, messages: list[Message]) -> Message:
        session = self._session
        system = brief.system
        for faculty in session.faculties if brief.open else ():
            system = faculty.fill(system, brief)
        request = Request(
            messages,
            system=system,
            tools=brief.offered if step.kind == "agent" else (),
            tool_choice=brief.tool_choice,
            sampling=session.line.sampling,
            script=Place(session.script.scenario, session.transcript.user_messages, step=step.id),
            output_schema=step.output_schema,
        )
        reply = await ask(session.line, request, brief.guardrails, self.used, streaming=self._streaming)
        self.used.add_reply(reply)
        return reply


def _compile(setting: Setting, step: Step) -> CompiledStep:
    tools = [setting.bundle.tools[step.tool]] if step.tool in setting.bundle.tools else []
    return CompiledStep(
        step,
        brief=compile_brief(setting, step.prompt_task, step.location) if step.prompt_task else None,
        toolbox=Toolbox([answering_tool(tool) for tool in tools]) if step.kind == "tool" else None,
        schema=Schema(step.output_schema) if step.output_schema else None,
        inner=tuple(_compile(setting, inner) for inner in step.branches),
    )
