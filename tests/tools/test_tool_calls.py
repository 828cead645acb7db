"""A tool call: its arguments made to fit, its answer, and every way it can fail."""

import asyncio
from typing import Any

import pytest

from engine.bundle.model import Part, Tool
from engine.providers.messages import ToolCall, ToolResult
from engine.tools.arguments import coerce_arguments
from engine.tools.toolbox import MAX_RESULT_BYTES, MockTool, Toolbox, tool_problem

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "on": {"type": "boolean"},
        "list": {"type": "array"},
        "size": {"type": "string", "enum": ["Small", "Large"]},
        "note": {"type": "string"},
        "user": {"type": "object", "properties": {"age": {"type": "number"}}},
    },
    "required": ["n"],
}


def tool(**fields: Any) -> Tool:
    """Return a tool of the bundle."""
    return Tool(**{"name": "t", "file": "t.yaml", **fields})


def ask(box: Toolbox, call: ToolCall) -> ToolResult:
    """Make one call."""
    return asyncio.run(box.run(call))


def run(tool: Tool, arguments: dict[str, Any] | None = None, **call: Any) -> tuple[str, str]:
    """Call a tool; returns the text and the type of the error."""
    result = ask(Toolbox([MockTool(tool)]), ToolCall("c", call.get("name", tool.name), {} if arguments is None else arguments))
    return result.content, result.error_type


@pytest.mark.parametrize(
    ("given", "fitting"),
    [
        pytest.param({"n": "5"}, {"n": 5}, id="a number in a string"),
        pytest.param({"n": "5.0"}, {"n": 5}, id="a whole float in a string"),
        pytest.param({"n": "five"}, {"n": "five"}, id="no number at all stays, to be refused"),
        pytest.param({"n": 1, "on": "True"}, {"n": 1, "on": True}, id="a boolean in a string"),
        pytest.param({"n": 1, "list": "[1, 2]"}, {"n": 1, "list": [1, 2]}, id="a list in a string"),
        pytest.param({"n": 1, "list": "1"}, {"n": 1, "list": "1"}, id="no list in a string"),
        pytest.param({"n": 1, "user": '{"age": "3"}'}, {"n": 1, "user": {"age": "3"}}, id="an object in a string"),
        pytest.param({"n": 1, "user": {"age": "3"}}, {"n": 1, "user": {"age": 3}}, id="inside an object"),
        pytest.param({"n": 1, "size": "LARGE"}, {"n": 1, "size": "Large"}, id="an enum word in the wrong case"),
        pytest.param({"n": 1, "note": None, "size": ""}, {"n": 1}, id="null and empty optional values are removed"),
        pytest.param({"n": None}, {"n": None}, id="a required null stays, to be refused"),
        pytest.param({"n": 1, "other": "x"}, {"n": 1, "other": "x"}, id="unknown arguments stay"),
        pytest.param({"n": "[" * 100_000}, {"n": "[" * 100_000}, id="nesting without end stays"),
    ],
)
def test_arguments_are_made_to_fit(given: dict[str, Any], fitting: dict[str, Any]) -> None:
    """Arguments become what the schema asks for where the intent is plain; nothing else changes."""
    before = dict(given)
    assert coerce_arguments(given, SCHEMA) == fitting
    assert given == before


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        pytest.param({"mock_result": "It's 3 days"}, "It's 3 days", id="a text is said as it is"),
        pytest.param({"mock_result": {"b": 2.0, "a": ["é"]}}, '{"a":["é"],"b":2}', id="an object is compact JSON with sorted keys"),
        pytest.param({}, '{"result":"mock response"}', id="no result at all"),
        pytest.param({"mock_template": '{"id": "{{.id}}"}'}, '{"id": "A1"}', id="a template that gives JSON"),
        pytest.param({"mock_template": "for {{.id}}"}, '{"result":"for A1"}', id="a template that gives text"),
        pytest.param({"mock_template": '"{{.id}}"', "mock_result": "unused"}, "A1", id="a template wins over a result"),
    ],
)
def test_what_a_tool_answers(fields: dict[str, Any], content: str) -> None:
    """A mock answers with its result or its template, as text for the model."""
    assert run(tool(**fields), {"id": "A1"}) == (content, "")


@pytest.mark.parametrize(
    ("fields", "arguments", "kind", "words"),
    [
        pytest.param({"input_schema": SCHEMA}, {}, "validation", "lacks 'n'", id="a missing argument"),
        pytest.param(
            {"mock_result": 3, "output_schema": {"type": "string"}}, {}, "execution", "output schema", id="a result that is not as promised"
        ),
        pytest.param({"mock_template": "{{gt .id 1}}"}, {"id": "x"}, "execution", "template failed", id="a template that fails"),
        pytest.param({"mock_template": "3", "output_schema": {"type": "string"}}, {}, "execution", "must be a string", id="a rendered result"),
    ],
)
def test_a_failed_call_is_a_result(fields: dict[str, Any], arguments: dict[str, Any], kind: str, words: str) -> None:
    """What goes wrong with a call is said to the model and typed for the checks."""
    content, error_type = run(tool(**fields), arguments)
    assert error_type == kind
    assert words in content


def test_text_parts_are_the_result_when_there_is_no_other() -> None:
    """A tool's text parts stand in its result, and are its text when it has no `mock_result`."""
    parts = (Part("text", "one"), Part("text", "two"))
    result = ask(Toolbox([MockTool(tool(mock_parts=parts))]), ToolCall("c", "t", {}))
    assert (result.content, [part["text"] for part in result.parts]) == ("one\ntwo", ["one", "two"])
    assert ask(Toolbox([MockTool(tool(mock_parts=parts, mock_result="said"))]), ToolCall("c", "t", {})).content == "said"


def test_only_offered_and_unblocked_tools_run() -> None:
    """A tool that is not offered, is blocked, or gets no JSON object is an error for the model."""
    box = Toolbox([MockTool(tool(name="a")), MockTool(tool(name="b"))], blocked=["b"])
    assert ask(box, ToolCall("1", "a", {})).error == ""
    assert ask(box, ToolCall("2", "b", {})).error_type == "blocked"
    assert ask(box, ToolCall("3", "c", {})).error_type == "not_allowed"
    assert ask(box, ToolCall("4", "a", None, raw="{")).error_type == "validation"


def test_a_long_result_is_cut_between_characters() -> None:
    """A result is cut at 1 MiB and never inside a character."""
    content, _ = run(tool(mock_result="é" * MAX_RESULT_BYTES))
    assert content == "é" * (MAX_RESULT_BYTES // 2)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param({}, "", id="nothing is wrong"),
        pytest.param({"input_schema": {"type": "x"}}, "'input_schema' is not a JSON Schema", id="its input schema"),
        pytest.param({"output_schema": {"type": "x"}}, "'output_schema' is not a JSON Schema", id="its output schema"),
        pytest.param({"mock_template": "{{x}}"}, "'mock_template': function 'x'", id="its template"),
    ],
)
def test_a_faulty_tool_is_described(fields: dict[str, Any], words: str) -> None:
    """A tool's faults are known when the bundle is loaded."""
    problem = tool_problem(tool(**fields))
    assert bool(problem) is bool(words)
    assert words in problem
