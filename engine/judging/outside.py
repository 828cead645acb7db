"""The answers of those outside: a service, an agent, a program, a tool. What each says becomes a score, or an error that says who failed and why.

Owns how their answers are read. An answer without a score is no score. Must not know which score passes.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from engine.bundle.model import Bundle
from engine.bundle.services import A2aAgent
from engine.checks.evidence import Outcome
from engine.checks.questions import AgentQuestion, OutsideQuestion, ProgramQuestion, ServiceQuestion, ToolQuestion
from engine.errors import EngineError, JudgeFailed, ProviderError, ToolsUnavailable
from engine.providers.messages import json_text
from engine.tools.environment import named_in
from engine.tools.outside import Outside
from engine.tools.port import CallableTool, CallFailed
from engine.tools.toolbox import MockTool
from engine.tools.web import WebError, WebRequest, shown
from foundation.clock import Clock

SHOWN_CHARACTERS = 300
_PROGRAM_TIMEOUT_S = 30.0
_TASK = 'You are an evaluation judge. Evaluate the content below, and answer with one JSON object of "passed" (true or false), "score" (0 to 1) and "reasoning".'


async def ask_outside(question: OutsideQuestion, bundle: Bundle, outside: Outside, clock: Clock) -> Outcome:
    """Return what came of `question`.

    Raises:
        ProviderError: who was asked did not answer.
        JudgeFailed: the answer has no score.
        ValueError: there is nobody of that name.
    """
    match question:
        case ServiceQuestion():
            return await _service(question, outside)
        case AgentQuestion():
            return await _agent(question, outside, clock)
        case ProgramQuestion():
            return await _program(question, bundle, outside)
        case ToolQuestion():
            return await _tool(question, bundle, outside)


async def _service(question: ServiceQuestion, outside: Outside) -> Outcome:
    from engine.tools.http_tool import without  # noqa: PLC0415 - only checks that ask a service need it

    who = f"service {shown(question.url)}"
    headers = {name: outside.environment.expand(value, f"header '{name}' of {who}") for name, value in question.headers.items()}
    hidden = [headers[name] for name, value in question.headers.items() if named_in(value)]
    body = json_text(question.shown).encode()
    try:
        answer = await outside.web.fetch(
            WebRequest(question.method, question.url, {"Content-Type": "application/json", **headers}, body, question.timeout_s)
        )
    except WebError as error:
        raise _lost(f"cannot ask {who}: {error.message}", transient=True) from error
    if not answer.is_good:
        said = without(answer.text().strip()[:SHOWN_CHARACTERS], hidden)
        transient = answer.status in (408, 429) or answer.status >= 500  # noqa: PLR2004 - as HTTP has it
        raise _lost(f"cannot ask {who}: it answered {answer.status} {answer.reason}{f': {said}' if said else ''}", transient=transient)
    return read_verdict(without(answer.text(), hidden), who)


async def _agent(question: AgentQuestion, outside: Outside, clock: Clock) -> Outcome:
    from engine.tools.a2a import RemoteAgent  # noqa: PLC0415 - only checks that ask an agent need it

    who = f"agent {shown(question.url)}"
    token = outside.environment.expand(question.token, f"auth_token of {who}")
    agent = A2aAgent(who, url=question.url, token=token, timeout_ms=round(question.timeout_s * 1000))
    criteria = question.shown.get("criteria")
    said = "\n\n".join([_TASK, *([f"Criteria: {criteria}"] if criteria else []), f"Context:\n{json_text(question.shown)}"])
    remote = RemoteAgent(agent, outside.web, outside.environment, clock)
    try:
        _, endpoint = await remote.discover()
        answer = await remote.send(endpoint, {"query": said}, "")
    except (CallFailed, EngineError) as error:
        raise _lost(f"cannot ask {who}: {error.message}", transient=True) from error
    return read_verdict(answer.text, who)


async def _program(question: ProgramQuestion, bundle: Bundle, outside: Outside) -> Outcome:
    from engine.tools.exec_tool import program_of, run_once  # noqa: PLC0415 - only checks that ask a program need it

    command = bundle.arena.programs.get(question.name)
    if command is None:
        raise ValueError(f"the arena's runtime.evals has no '{question.name}'; it has: {', '.join(bundle.arena.programs) or 'none'}")
    program = program_of(command, outside.environment, f"eval '{question.name}'")
    answer = await run_once(outside.confinement, program, question.shown, command.timeout_ms / 1000 or _PROGRAM_TIMEOUT_S)
    return verdict_of(answer, f"eval '{question.name}'")


async def _tool(question: ToolQuestion, bundle: Bundle, outside: Outside) -> Outcome:
    tool: CallableTool | None = outside.tool(question.name)
    if tool is None and question.name in bundle.tools and bundle.tools[question.name].is_mocked:
        tool = MockTool(bundle.tools[question.name])
    if tool is None:
        raise ValueError(f"the bundle has no tool '{question.name}'")
    try:
        async with asyncio.timeout(question.timeout_s):
            output = (await tool.call(question.arguments)).text
    except CallFailed as error:
        return Outcome(0.0, f"the tool failed: {error.message}")
    except ToolsUnavailable as error:
        raise _lost(error.message, transient=error.transient) from error
    except TimeoutError:
        if _is_of_job(question.name, bundle):
            raise _lost(f"tool '{question.name}' did not answer within {question.timeout_s:g} s", transient=True) from None
        return Outcome(0.0, f"the tool did not answer within {question.timeout_s:g} s")
    excerpt = output[:SHOWN_CHARACTERS]
    if question.failure is not None and question.failure.search(output) is not None:
        return Outcome(0.0, f"its output matches the failure_pattern: {excerpt}")
    if question.success is not None and question.success.search(output) is None:
        return Outcome(0.0, f"its output does not match the success_pattern: {excerpt}")
    return Outcome(1.0, f"the tool answered: {excerpt}")


def _is_of_job(name: str, bundle: Bundle) -> bool:
    """Say whether a tool is one of a job's registries, of which an outage is no score."""
    tool = bundle.tools.get(name)
    return tool is not None and tool.http is not None and tool.http.of_job


def read_verdict(text: str, who: str) -> Outcome:
    """Return the score in an answer: its JSON object, which other words may surround.

    Raises:
        JudgeFailed: there is none.
    """
    start, end = text.find("{"), text.rfind("}")
    try:
        answer = json.loads(text[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        answer = None
    return verdict_of(answer, who)


def verdict_of(answer: Any, who: str) -> Outcome:
    """Return the score of an answer: `score`, else 1 or 0 as `passed` says; `passed: false` is never a score that passes.

    Raises:
        JudgeFailed: it has neither, or a score beyond 0 to 1.
    """
    if not isinstance(answer, Mapping):
        raise JudgeFailed(f"the answer of {who} is not a JSON object")
    score, passed = answer.get("score"), answer.get("passed")
    if score is None and isinstance(passed, bool):
        score = 1.0 if passed else 0.0
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise JudgeFailed(f"the answer of {who} has no score from 0 to 1")
    words = next((answer[key] for key in ("reasoning", "detail", "explanation") if isinstance(answer.get(key), str)), "")
    return Outcome(float(score), words or f"{who} gave {score:g}", answer.get("data"))


def _lost(message: str, *, transient: bool) -> ProviderError:
    return ProviderError(message, kind="unavailable", transient=transient)
