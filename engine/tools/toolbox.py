"""The tools of one prompt, compiled: a call goes in, a result comes out, whatever the model sent (promptkit-format.md 6.3).

A tool that answers from the bundle (a fixed result or a template) is CPU only and needs no task, no timeout and no thread; others come as
`engine.tools.port.CallableTool`. A result is always returned: what goes wrong with a call is the model's to read and the checks' to judge, never
an exception.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from engine.bundle.model import Tool
from engine.bundle.parts import written_part
from engine.providers.messages import ToolCall, ToolResult, json_text
from engine.providers.port import ToolSpec
from engine.tools.arguments import coerce_arguments
from engine.tools.fitting import check_arguments, check_result, result_fault
from engine.tools.port import CallableTool, CallFailed, ToolAnswer
from engine.tools.schema import Schema, check_schema
from engine.tools.template import Template, TemplateRefused, parse_template

MAX_RESULT_BYTES = 1 << 20
"""A longer result is cut; the model reads that much at most."""

_NO_RESULT: Mapping[str, str] = {"result": "mock response"}


def tool_problem(tool: Tool) -> str:
    """Return what is wrong with a tool, "" when nothing is: its schemas, its templates.

    Whether its `mode` is built is not judged here.
    """
    for key, schema in (("input_schema", tool.input_schema), ("output_schema", tool.output_schema)):
        fault = check_schema(schema) if schema else ""
        if fault:
            return f"'{key}' is not a JSON Schema: {fault}"
    for key, source in _templates(tool):
        try:
            parse_template(source)
        except TemplateRefused as error:
            return f"'{key}': {error}"
    return ""


def _templates(tool: Tool) -> Iterator[tuple[str, str]]:
    if tool.mode != "live" or tool.http is None:
        yield "mock_template", tool.mock_template
        return
    if not tool.http.of_job:
        yield "http.url", tool.http.url
    yield from ((f"http.headers.{header}", value) for header, value in tool.http.headers.items())
    yield from ((f"http.request.header_params.{header}", value) for header, value in tool.http.header_params.items())


def result_problem(tool: Tool) -> str:
    """Return why the fixed result of a tool that `tool_problem` finds nothing wrong with does not fit its output schema, "" when it fits."""
    return "" if tool.mock_template else MockTool(tool).fixed_problem()


class MockTool:
    """A tool that answers from the bundle. `parts` are what its results carry beside their text."""

    waits = False

    def __init__(self, tool: Tool) -> None:
        self.spec = ToolSpec(tool.name, tool.description, tool.input_schema)
        self._definition = tool.input_schema
        self._input = Schema(tool.input_schema) if tool.input_schema else None
        self._output = Schema(tool.output_schema) if tool.output_schema else None
        self._template: Template | None = parse_template(tool.mock_template) if tool.mock_template else None
        self._static: Any = _NO_RESULT if tool.mock_result is None else tool.mock_result
        self._answer: str | None = None
        self.parts = [written_part(part) for part in tool.mock_parts]
        texts = [part["text"] for part in self.parts if part["type"] == "text"]
        if texts and tool.mock_result is None:
            self._static = "\n".join(texts)

    async def call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Answer a call, as the port says."""
        return ToolAnswer(self.answer(arguments), [dict(part) for part in self.parts])

    def answer(self, arguments: Mapping[str, Any]) -> str:
        """Return the text that the model reads.

        Raises:
            CallFailed: the arguments do not fit the schema (`validation`), or the tool's answer does not fit its own (`execution`).
        """
        coerced = coerce_arguments(arguments, self._definition)
        check_arguments(coerced, self._input)
        if self._template is not None:
            return self._rendered(self._template, coerced)
        if self._answer is None:
            if fault := self.fixed_problem():
                raise CallFailed("execution", fault)
            self._answer = shortened(_as_text(self._static))
        return self._answer

    def fixed_problem(self) -> str:
        """Return why the fixed result does not fit the output schema, "" when it does."""
        return result_fault(self._static, self._output)

    def _rendered(self, template: Template, arguments: Mapping[str, Any]) -> str:
        try:
            text = template.render(arguments)
        except ValueError as error:
            raise CallFailed("execution", f"the mock template failed: {error}") from None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = {"result": text}
            text = json_text(value)
        check_result(value, self._output)
        return shortened(value if isinstance(value, str) else text)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def shortened(text: str) -> str:
    """Return as much of a result as a model reads."""
    encoded = text.encode()
    if len(encoded) <= MAX_RESULT_BYTES:
        return text
    return encoded[:MAX_RESULT_BYTES].decode("utf-8", "ignore")


class Toolbox:
    """The tools that a prompt's calls may reach, and those that a policy blocks. Shared by conversations; nothing in it changes."""

    def __init__(self, tools: Iterable[CallableTool], blocked: Iterable[str] = ()) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._blocked = frozenset(blocked)

    def find(self, name: str) -> CallableTool | None:
        """Return the tool of this name, blocked or not; None without one."""
        return self._tools.get(name)

    async def run(self, call: ToolCall, own: CallableTool | None = None) -> ToolResult:
        """Answer a call; `own` is the tool to ask where it is not one of these. Never raises for what the model did: an error is a result that says so."""
        try:
            answer = await self._answer(call, own)
        except CallFailed as failed:
            return failure(call, failed.kind, failed.message)
        return ToolResult(call.id, call.name, answer.text, parts=answer.parts)

    async def _answer(self, call: ToolCall, own: CallableTool | None) -> ToolAnswer:
        if call.name in self._blocked:
            raise CallFailed("blocked", f"tool '{call.name}' is blocked by policy")
        tool = own or self._tools.get(call.name)
        if tool is None:
            raise CallFailed("not_allowed", f"tool '{call.name}' is not offered; offered: {', '.join(self._tools) or 'none'}")
        if call.arguments is None:
            raise CallFailed("validation", "the arguments are not a JSON object")
        return await tool.call(call.arguments)


def failure(call: ToolCall, kind: str, message: str) -> ToolResult:
    """Return the result of a call that failed; the model reads the message."""
    return ToolResult(call.id, call.name, f"Error: {message}", error=message, error_type=kind)
