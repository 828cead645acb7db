"""Exec tools: a program of the bundle answers calls (promptkit-format.md 6.2), one process a call, or one for a whole conversation.

One process a call reads `{"args": …}` and writes `{"result": …}` or `{"error": "…"}`, or its result alone. A server reads JSON-RPC requests of method
`execute` with the same object as params, a line each, and answers each with a line. Must not know how a process is confined.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from engine.bundle.model import Tool
from engine.bundle.services import Command
from engine.errors import EngineError
from engine.providers.messages import json_text
from engine.providers.port import ToolSpec
from engine.tools.arguments import coerce_arguments
from engine.tools.environment import Environment
from engine.tools.episode import current_episode
from engine.tools.fitting import check_arguments, check_result, shortest_s
from engine.tools.port import CallFailed, ToolAnswer
from engine.tools.processes import Confinement, ProcessFailed, Program, Running
from engine.tools.schema import Schema
from engine.tools.toolbox import shortened

DEFAULT_TIMEOUT_S: Final = 30.0


def program_of(command: Command, environment: Environment, purpose: str) -> Program:
    """Return what to run for a command; `purpose` says in messages what it is for.

    Raises:
        VariableRefused: it names a variable that is not set.
    """
    variables = {name: environment.value(name, purpose) if value is None else value for name, value in command.env.items()}
    return Program((command.command, *command.args), command.directory, variables)


async def run_once(confinement: Confinement, program: Program, question: Any, timeout_s: float) -> Any:
    """Run a program over one JSON value and return the JSON value that it writes.

    Raises:
        CodeRefused: it may not run.
        ProcessFailed: it did not answer in time, or not with JSON.
    """
    async with confinement.start(program) as running:
        try:
            async with asyncio.timeout(timeout_s):
                output = await running.converse(json_text(question).encode())
        except TimeoutError:
            raise running.failed(f"it did not answer within {timeout_s:g} s") from None
        try:
            return json.loads(output)
        except (ValueError, RecursionError):
            raise running.failed("its output is not JSON") from None


class ExecTool:
    """A tool that a program answers."""

    waits = True

    def __init__(self, tool: Tool, command: Command, confinement: Confinement, environment: Environment) -> None:
        self.spec = ToolSpec(tool.name, tool.description, tool.input_schema)
        self._command = command
        self._confinement = confinement
        self._environment = environment
        self._input = Schema(tool.input_schema) if tool.input_schema else None
        self._output = Schema(tool.output_schema) if tool.output_schema else None
        self._timeout_s = shortest_s(command.timeout_ms, tool.timeout_ms, default_s=DEFAULT_TIMEOUT_S)

    async def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call, as the port says."""
        coerced = coerce_arguments(arguments, self.spec.input_schema)
        check_arguments(coerced, self._input)
        try:
            value = await (self._ask_server(coerced) if self._command.server else self._ask_once(coerced))
        except EngineError as error:
            raise CallFailed("execution", f"tool '{self.spec.name}' cannot be called: {error.message}") from None
        check_result(value, self._output)
        return ToolAnswer(shortened(value if isinstance(value, str) else json_text(value)))

    def _program(self) -> Program:
        return program_of(self._command, self._environment, f"tool '{self.spec.name}'")

    async def _ask_once(self, arguments: Mapping[str, Any]) -> Any:
        answer = await run_once(self._confinement, self._program(), {"args": arguments}, self._timeout_s)
        if isinstance(answer, dict) and answer.get("error"):
            raise CallFailed("execution", str(answer["error"]))
        return answer["result"] if isinstance(answer, dict) and "result" in answer else answer

    async def _ask_server(self, arguments: Mapping[str, Any]) -> Any:
        server = await current_episode().connect(f"exec {self.spec.name}", self._serve)
        return await server.ask({"args": arguments}, self._timeout_s)

    @asynccontextmanager
    async def _serve(self) -> AsyncIterator["_Server"]:
        async with self._confinement.start(self._program()) as running:
            yield _Server(running)


class _Server:
    """A process that answers one request after the other. One that did not answer in time answers nothing more: its late line would be taken for another's."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._turn = asyncio.Lock()
        self._ids = itertools.count(1)
        self._lost: ProcessFailed | None = None

    async def ask(self, params: Mapping[str, Any], timeout_s: float) -> Any:
        async with self._turn:
            if self._lost is not None:
                raise self._lost
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._exchange(params)
            except TimeoutError:
                self._lost = self._running.failed(f"it did not answer within {timeout_s:g} s")
                raise self._lost from None

    async def _exchange(self, params: Mapping[str, Any]) -> Any:
        ident = next(self._ids)
        await self._running.send(json_text({"jsonrpc": "2.0", "id": ident, "method": "execute", "params": params}).encode())
        line = await self._running.receive()
        if not line:
            raise self._running.failed("it closed its output")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or answer.get("id") != ident:
            raise self._running.failed("its answer is not the JSON-RPC answer to the request")
        if answer.get("error"):
            error = answer["error"]
            raise CallFailed("execution", str(error.get("message") if isinstance(error, dict) else error))
        return answer.get("result")
