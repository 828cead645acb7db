"""Compositions: steps in order, branches, parallels, agents and tools, and what ends them."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.bundle.compositions import Predicate
from engine.bundle.model import Bundle
from engine.conversation.composition_values import fill, holds, look_up
from engine.errors import BundleInvalid
from engine.items import ItemResult, Verdict

Write = Callable[..., Bundle]
Hold = Callable[..., Awaitable[ItemResult]]

SORT = {"id": "sort", "kind": "prompt", "prompt_task": "t"}
LONG = {"id": "long", "kind": "prompt", "prompt_task": "t", "input": "Say more on ${sort.output.topic}: ${input}"}
SHORT = {"id": "short", "kind": "prompt", "prompt_task": "t"}
ROUTE = {
    "id": "route",
    "kind": "branch",
    "predicate": {"path": "${sort.output.kind}", "op": "equals", "value": "long"},
    "then": "long",
    "else": "short",
}
A = {"id": "a", "kind": "prompt", "prompt_task": "t"}
B = {"id": "b", "kind": "prompt", "prompt_task": "t"}
BOTH = {"id": "both", "kind": "parallel", "branches": [A, B], "reduce": {"strategy": "barrier", "into": "m"}}


def arena(*steps: dict[str, Any], output: str = "") -> dict[str, Any]:
    """Return the arena's keys of one composition, that answers with its last step."""
    return {"compositions": {"c": {"version": 1, "output": output or steps[-1]["id"], "steps": list(steps)}}}


def says(**steps: Any) -> dict[str, Any]:
    """Return a response file's replies by step."""
    return {"scenarios": {"s": {"steps": steps}}}


def user(*checks: dict[str, Any]) -> dict[str, Any]:
    """Return a scripted turn."""
    return {"role": "user", "content": "Hello", "assertions": list(checks)}


async def composed(hold: Hold, *steps: dict[str, Any], replies: dict[str, Any], checks: tuple[dict[str, Any], ...] = (), **more: Any) -> ItemResult:
    """Hold one turn that a composition answers."""
    scenario = {"task_type": "", **more.pop("scenario", {})}
    return await hold([user(*checks)], {}, arena=arena(*steps, output=more.pop("output", "")), mock=says(**replies), scenario=scenario, **more)


async def test_a_branch_chooses_the_steps(hold: Hold) -> None:
    """The branch's predicate decides which step runs; the other is skipped, and the output answers the user."""
    checks = (
        {"type": "composition_branch_taken", "params": {"branch": "route", "expected": "long"}},
        {"type": "composition_step_output", "params": {"step": "sort", "contains": "tea"}},
        {"type": "composition_output", "params": {"contains": "much"}},
        {"type": "content_includes", "params": {"patterns": ["so much"]}},
    )
    replies = {"sort": '{"kind":"long","topic":"tea"}', "long": "so much", "short": "little"}
    result = await composed(hold, SORT, ROUTE, LONG, SHORT, replies=replies, checks=checks, output="long")
    assert result.verdict is Verdict.PASS
    assert [message["role"] for message in result.messages] == ["user", "assistant"]
    assert [step["step"] for step in result.messages[1]["meta"]["composition"]["steps"]] == ["sort", "long"]


async def test_the_other_way(hold: Hold) -> None:
    """Where the predicate does not hold the other step runs."""
    result = await composed(hold, SORT, ROUTE, LONG, SHORT, replies={"sort": "no JSON", "short": "little"}, output="short")
    assert result.messages[-1]["content"] == "little"


async def test_parallel_steps_are_gathered(hold: Hold) -> None:
    """The outputs of a parallel step are one object, by step, under the reduce's name; JSON outputs stay values."""
    last = {"id": "last", "kind": "agent", "prompt_task": "t", "input": "${both.output.m.a.x}", "termination": {"max_steps": 3}}
    check = {"type": "composition_parallel_complete", "params": {"parallel": "both"}}
    result = await composed(hold, BOTH, last, replies={"a": '{"x":1}', "b": "two", "last": "done"}, checks=(check,))
    assert result.messages[1]["meta"]["composition"]["steps"][2]["output"] == '{"m":{"a":{"x":1},"b":"two"}}'
    assert result.verdict is Verdict.PASS


async def test_all_steps_are_paid(hold: Hold) -> None:
    """What the steps used together is the item's; the reference counts nothing."""
    result = await composed(hold, SORT, SHORT | {"input": "${sort.output}"}, replies={"sort": "x" * 40, "short": "y" * 8})
    assert (result.usage.input_tokens, result.usage.output_tokens) == (1 + 10, 10 + 2)


async def test_an_agent_that_never_ends_is_stopped(hold: Hold) -> None:
    """An agent's step may call tools in at most `max_steps` rounds; one that goes on is an error."""
    agent = {"id": "go", "kind": "agent", "prompt_task": "t", "termination": {"max_steps": 2}}
    call = {"tool_calls": [{"name": "search", "arguments": {}}]}
    result = await composed(hold, agent, replies={"go": call}, tools={"search": {"mock_result": "found"}})
    assert result.error is not None
    assert (result.error.kind, result.verdict) == ("composition", Verdict.ERROR)
    assert "still calls tools after 2 rounds" in result.error.message


@pytest.mark.parametrize(
    ("strategy", "value"),
    [
        pytest.param("barrier", '{"m":{"a":["x"],"b":"y"}}', id="barrier: by step"),
        pytest.param("append", '{"m":["x","y"]}', id="append: one list"),
        pytest.param("replace", '{"m":"y"}', id="replace: the last one"),
    ],
)
async def test_reducers(hold: Hold, strategy: str, value: str) -> None:
    """The outputs of a parallel step are reduced as its strategy says."""
    step = BOTH | {"reduce": {"strategy": strategy, "into": "m"}}
    assert (await composed(hold, step, replies={"a": '["x"]', "b": "y"})).messages[-1]["content"] == value


async def test_an_agent_ends_with_its_tool(hold: Hold) -> None:
    """An agent is offered the tools that its step names, and is done once it calls the one that ends it."""
    agent = {"id": "go", "kind": "agent", "prompt_task": "t", "tools": ["done"], "termination": {"tool_called": "done"}}
    call = {"response": "so be it", "tool_calls": [{"name": "done", "arguments": {}}]}
    more = {"tools": {"done": {"mock_result": "ok"}, "other": {}}, "prompt": {"allowed_tools": ["other"]}}
    result = await composed(hold, agent, replies={"go": call}, checks=({"type": "tools_called", "params": {"tool_names": ["done"]}},), **more)
    assert (result.messages[-1]["content"], result.verdict) == ("so be it", Verdict.PASS)


async def test_a_step_is_tried_again(hold: Hold) -> None:
    """A step with a retry is tried as often as it says before it fails, and every try is paid."""
    step = SORT | {"output_schema": {"type": "object"}, "modifiers": {"retry": {"max_attempts": 3}}}
    result = await composed(hold, step, replies={"sort": "no object"})
    assert (result.verdict, result.error and result.error.kind) == (Verdict.ERROR, "composition")


async def test_an_output_is_never_skipped(hold: Hold) -> None:
    """A branch may choose between a detour and the output itself: after the detour the output still answers."""
    route = ROUTE | {"then": "long", "else": "short"}
    result = await composed(
        hold, SORT, route, LONG, SHORT | {"input": "${long.output}"}, replies={"sort": '{"kind":"long"}', "long": "detour", "short": "end"}
    )
    assert [step["step"] for step in result.messages[-1]["meta"]["composition"]["steps"]] == ["sort", "long", "short"]


async def test_inputs_and_outputs_fit_their_schemas(hold: Hold) -> None:
    """A composition's own schemas are judged too; structured input is read from the user's JSON."""
    more = arena(SHORT)
    more["compositions"]["c"]["input_schema"] = {"type": "object"}
    result = await hold([user()], {}, arena=more, mock=says(short="x"), scenario={"task_type": ""})
    assert result.error is not None
    assert "the input of composition 'c' does not fit its input_schema" in result.error.message


async def test_a_tool_step_calls_its_tool(hold: Hold) -> None:
    """A tool's step fills its arguments from outputs, and its result is its output."""
    step = {"id": "look", "kind": "tool", "tool": "search", "args": {"q": "${sort.output.n}", "text": "about ${input}"}}
    tools = {"search": {"mock_template": "{{.q}} {{.text}}", "input_schema": {"type": "object", "properties": {"q": {"type": "integer"}}}}}
    result = await composed(
        hold, SORT, step, replies={"sort": '{"n":3}'}, tools=tools, checks=({"type": "tools_called", "params": {"tool_names": ["search"]}},)
    )
    assert (result.messages[-1]["content"], result.verdict) == ('{"result":"3 about Hello"}', Verdict.PASS)


@pytest.mark.parametrize(
    ("step", "reply", "words"),
    [
        pytest.param(
            SORT | {"output_schema": {"type": "object", "required": ["kind"]}},
            '{"x":1}',
            "the output of step 'sort' does not fit its output_schema",
            id="an output that does not fit",
        ),
        pytest.param({"id": "sort", "kind": "tool", "tool": "search"}, "", "the tool of step 'sort' failed", id="a tool that fails"),
        pytest.param(
            BOTH | {"branches": [SORT | {"output_schema": {"type": "integer"}}, A]},
            "x",
            "the output of step 'sort'",
            id="a step inside a parallel one",
        ),
    ],
)
async def test_a_step_that_fails_ends_it(hold: Hold, step: dict[str, Any], reply: str, words: str) -> None:
    """A step that does not do its part is an error of the item, never an answer."""
    tools = {"search": {"input_schema": {"type": "object", "required": ["q"]}}}
    result = await composed(hold, step, replies={"sort": reply}, tools=tools)
    assert result.error is not None
    assert (result.error.kind, words in result.error.message) == ("composition", True)


async def test_guardrails_of_steps_hold(hold: Hold) -> None:
    """A step's prompt keeps its guardrails, and what fired is on the reply."""
    prompt = {"validators": [{"type": "banned_words", "params": {"words": ["damn"]}, "message": "blocked"}]}
    result = await composed(hold, SHORT, replies={"short": "damn it"}, prompt=prompt)
    assert (result.messages[-1]["content"], result.messages[-1]["validations"][0]["type"]) == ("blocked", "banned_words")


async def test_a_state_runs_a_composition(hold: Hold) -> None:
    """A workflow may hand over to a composition within a turn; it answers in its state."""
    states = {
        "front": {"prompt_task": "t", "on_event": {"Go": "work"}},
        "work": {"orchestration": "composition", "composition": "c", "terminal": True},
    }
    go = {"response": "Wait.", "tool_calls": [{"name": "workflow__transition", "arguments": {"event": "Go"}}]}
    mock = {"scenarios": {"s": {"turns": {1: go}, "steps": {"short": "composed"}}}}
    result = await hold([user()], {}, arena=arena(SHORT) | {"workflow": {"entry": "front", "states": states}}, mock=mock)
    said = [(message["meta"]["workflowState"]["state"], message["content"]) for message in result.messages if message["role"] == "assistant"]
    assert said == [("front", "Wait."), ("work", "composed")]


@pytest.mark.parametrize(
    ("steps", "output", "words"),
    [
        pytest.param([SHORT | {"input": "${sort.output}"}], "", r"reads '\$\{sort.output\}', and 'sort' is no step", id="an unknown step"),
        pytest.param([SHORT | {"input": "${sort.output}"}, SORT], "", "has no output yet", id="a later step"),
        pytest.param([SHORT, SHORT], "", "duplicate step 'short'", id="an id twice"),
        pytest.param([SORT, ROUTE, SHORT], "", "chooses 'long', which is no step", id="a branch to nowhere"),
        pytest.param([SORT, LONG, SHORT, ROUTE], "short", "stands before it", id="a branch back"),
        pytest.param([SHORT], "lst", "the output 'lst' of composition 'c' is no step", id="an unknown output"),
        pytest.param([{"id": "x", "kind": "tool"}], "", "has no 'tool'", id="a tool without a name"),
        pytest.param(
            [{"id": "x", "kind": "tool", "tool": "nope"}], "", "calls the tool 'nope', which the bundle does not have", id="an unknown tool"
        ),
        pytest.param([SHORT | {"prompt_task": "nope"}], "", "no prompt has the task_type 'nope'", id="an unknown prompt"),
        pytest.param([SORT, ROUTE | {"predicate": {"path": "x", "op": "is"}}, LONG, SHORT], "", "unknown value 'is'", id="an unknown operator"),
        pytest.param(
            [SORT, ROUTE | {"predicate": {"path": "x"}}, LONG, SHORT],
            "",
            "a path needs op and value, or exists",
            id="a predicate without an operator",
        ),
        pytest.param([{"id": "x", "kind": "agent", "prompt_task": "t"}], "", "of kind agent has no 'termination'", id="an agent without an end"),
        pytest.param([BOTH | {"branches": [A]}], "", "runs fewer than 2 steps at once", id="a parallel step of one"),
        pytest.param([SHORT | {"id": "a-b"}], "", "cannot use 'a-b' as the id of a step", id="an id that no reference could name"),
        pytest.param(
            [SHORT | {"depends_on": ["sort"]}, SORT], "", "depends on 'sort', which is no step before it", id="a dependency on what comes later"
        ),
        pytest.param([SHORT | {"output_schema": "nowhere.json"}], "", "cannot find 'nowhere.json'", id="a schema that is not there"),
    ],
)
def test_a_broken_composition_is_refused(write: Write, steps: list[dict[str, Any]], output: str, words: str) -> None:
    """What a composition names must be there, and before it is read."""
    with pytest.raises(BundleInvalid, match=words):
        write([user()], {}, arena=arena(*steps, output=output), scenario={"task_type": ""})


OUTPUTS = {"input": "hi", "a": {"n": 3, "list": ["x", {"y": None}], "flag": True}, "b": "text"}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param("input", "hi", id="the input"),
        pytest.param("input.x", None, id="a key of an input that is no object"),
        pytest.param("a.output.n", 3, id="a key"),
        pytest.param("a.n", 3, id="a key, shortly"),
        pytest.param("a.output.list.0", "x", id="an entry"),
        pytest.param("a.output.list.7", None, id="beyond a list"),
        pytest.param("b.output.x", None, id="inside a text"),
        pytest.param("c.output", None, id="a step that did not run"),
    ],
)
def test_references(path: str, found: Any) -> None:
    """A reference names a value, or nothing."""
    assert look_up(path, OUTPUTS) == found


def test_filled_values_keep_their_types() -> None:
    """A string that is one reference becomes the value; inside a longer text it is printed."""
    assert fill({"n": "${a.output.n}", "t": "n=${a.output.n} ${c.output}!", "l": ["${b}"]}, OUTPUTS) == {"n": 3, "t": "n=3 !", "l": ["text"]}


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        pytest.param(Predicate("a.n", "equals", 3.0), True, id="equal numbers"),
        pytest.param(Predicate("a.flag", "equals", 1), False, id="true is not 1"),
        pytest.param(Predicate("b", "not_equals", "x"), True, id="not equal"),
        pytest.param(Predicate("b", "in", ["text"]), True, id="one of"),
        pytest.param(Predicate("b", "not_in", ["text"]), False, id="none of"),
        pytest.param(Predicate("c", "exists", True), False, id="not there"),  # noqa: FBT003 - the format's value
        pytest.param(Predicate("c", "exists", False), True, id="wanted not there"),  # noqa: FBT003 - as above
        pytest.param(Predicate("a.n", "greater_than", 2), True, id="greater"),
        pytest.param(Predicate("a.n", "greater_than", "2"), False, id="no order between types"),
        pytest.param(Predicate("a.n", "less_than_or_equals", 3), True, id="at most"),
        pytest.param(Predicate(every=(Predicate("a.n", "equals", 3), Predicate("b", "equals", "x"))), False, id="all of"),
        pytest.param(Predicate(some=(Predicate("a.n", "equals", 3), Predicate("b", "equals", "x"))), True, id="any of"),
        pytest.param(Predicate(none=Predicate("a.n", "equals", 3)), False, id="not"),
    ],
)
def test_predicates(predicate: Predicate, *, expected: bool) -> None:
    """A predicate compares values of one type."""
    assert holds(predicate, OUTPUTS) is expected
