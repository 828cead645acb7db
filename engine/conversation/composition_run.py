"""One run of a composition: steps in the order they are written, those of a parallel step at once; what a branch does not choose is skipped.

A step that does not do its part ends the conversation as an error. Must not know what becomes of the output.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.bundle.compositions import Step
from engine.conversation.asking import ask
from engine.conversation.brief import Brief
from engine.conversation.composition_values import as_text, fill, holds, parse_output
from engine.conversation.session import Session
from engine.conversation.transcript import Transcript
from engine.errors import CompositionFailed, ProviderError
from engine.providers.messages import Message, ToolCall
from engine.providers.port import Request
from engine.providers.port import Script as Place
from engine.tools.schema import Schema
from engine.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """A step with what it needs: the brief of a prompt or an agent, the tool of a tool step, the schema of its output, the steps inside."""

    step: Step
    brief: Brief | None = None
    toolbox: Toolbox | None = None
    schema: Schema | None = None
    inner: tuple["CompiledStep", ...] = ()


class CompositionRun:
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
        """Take one step, as often as it may be tried.

        Raises:
            CompositionFailed: it did not do its part.
            ProviderError: a model did not answer.
        """
        for attempt in range(1, compiled.step.attempts + 1):
            try:
                return await self._take(compiled)
            except CompositionFailed:
                if attempt == compiled.step.attempts:
                    raise
            except ProviderError as error:
                if attempt == compiled.step.attempts or not error.transient:
                    raise
                self.used.ledger.fail_and_retry(error)
        return None

    async def _take(self, compiled: CompiledStep) -> None:
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
        outputs = {inner.step.id: self._outputs[inner.step.id] for inner in compiled.inner}
        value = {step.reduce_into: _REDUCERS[step.reduce](outputs)}
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
        """Have a prompt answered once, or an agent until it calls no more tools, or the one that ends it."""
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
            ended = next((message for message in messages[-len(reply.tool_calls) :] if _ends(step, message)), None)
            if ended is not None:
                return reply.content or ended.content
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


def _ends(step: Step, message: Message) -> bool:
    result = message.tool_result
    return bool(step.ends_with) and result is not None and result.name == step.ends_with and not result.error


def _appended(outputs: Mapping[str, Any]) -> list[Any]:
    """Return the entries of all outputs that are lists, and the others themselves, in the order of the steps."""
    return [entry for output in outputs.values() for entry in (output if isinstance(output, list) else [output])]


_REDUCERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "barrier": dict,
    "append": _appended,
    "replace": lambda outputs: [*outputs.values()][-1],
}
