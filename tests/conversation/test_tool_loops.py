"""Turns in which the model calls tools: what it reads, what is recorded, and where a loop ends."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.bundle.model import Bundle
from engine.conversation.script import compile_script
from engine.conversation.tool_loop import Limits, ToolLoopStopped, TurnLoop
from engine.errors import BundleInvalid
from engine.items import ItemResult, Verdict
from engine.providers.messages import ToolCall

Write = Callable[..., Bundle]
Hold = Callable[..., Awaitable[ItemResult]]

TOOLS = {"search": {"mock_result": "found"}, "fetch": {"mock_result": {"n": 1}}}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a reply of the mock that calls one tool."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def user(content: str, *checks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a scripted turn."""
    return {"role": "user", "content": content, "assertions": list(checks), **more}


def results(held: ItemResult) -> list[dict[str, Any]]:
    """Return the tool messages."""
    return [message for message in held.messages if message["role"] == "tool"]


async def test_a_tool_is_called_and_answered(hold: Hold) -> None:
    """The model's call, the tool's answer and the model's next words stand in the transcript, joined by id."""
    held = await hold([user("Hi", {"type": "tools_called", "params": {"tool_name": "search"}})], {1: call("search", q="x"), 2: "done"}, tools=TOOLS)
    assert held.verdict is Verdict.PASS
    assert [message["role"] for message in held.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert held.messages[2]["toolCalls"] == [{"id": "call_0_search", "name": "search", "args": {"q": "x"}}]
    assert (held.messages[3]["content"], held.messages[3]["toolResult"]["id"]) == ("found", "call_0_search")
    assert held.messages[0]["meta"] == {"availableTools": ["search", "fetch"]}


async def test_each_result_belongs_to_its_own_call(hold: Hold) -> None:
    """A failed call of one turn stays failed although a later call of the same tool, with the same id, went well."""
    schema = {"type": "object", "required": ["q"]}
    count = {"type": "no_tool_errors", "params": {}}
    replies = {1: call("search"), 2: "sorry", 3: call("search", q="x"), 4: "done"}
    held = await hold(
        [user("a"), user("b")],
        replies,
        tools={"search": {"input_schema": schema, "mock_result": "ok"}},
        scenario={"conversation_assertions": [count]},
    )
    assert [bool(message["toolResult"].get("error")) for message in results(held)] == [True, False]
    assert held.verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("reply", "more", "kind"),
    [
        pytest.param(call("other"), {}, "not_allowed", id="a tool that is not offered"),
        pytest.param(call("search"), {"scenario": {"tool_policy": {"tool_choice": "auto", "blocklist": ["search"]}}}, "blocked", id="a blocked tool"),
        pytest.param(call("search", n="x"), {}, "validation", id="arguments that do not fit"),
    ],
)
async def test_a_refused_call_goes_on(hold: Hold, reply: dict[str, Any], more: dict[str, Any], kind: str) -> None:
    """What is wrong with a call is told to the model, and the conversation goes on."""
    tools = {"search": {"input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}, "mock_result": "ok"}}
    held = await hold([user("Hi")], {1: reply, 2: "done"}, tools=tools, **more)
    assert held.verdict is Verdict.PASS
    assert results(held)[0]["toolResult"]["errorType"] == kind


async def test_streaming_turns_skip_and_repeat_numbers(hold: Hold) -> None:
    """In a streaming scenario the turn after a tool call takes the entry after the next: 1, 2, then 4."""
    replies = {1: call("search"), 2: "two", 3: "three", 4: "four", 5: "five"}
    held = await hold([user("a"), user("b"), user("c")], replies, tools=TOOLS, scenario={"streaming": True})
    assert [message["content"] for message in held.messages if message["role"] == "assistant"] == ["", "two", "four", "five"]


async def test_a_model_that_repeats_itself_is_nudged_once_then_stopped(hold: Hold) -> None:
    """The third equal call is answered by a nudge, the next one ends the turn as an error, and the transcript is kept."""
    held = await hold([user("Hi")], {number: call("search", q="x") for number in range(1, 9)}, tools=TOOLS)
    assert (held.verdict, held.error and held.error.kind) == (Verdict.ERROR, "tool_loop")
    assert [bool(message["toolResult"].get("error")) for message in results(held)] == [False, False, True]
    assert held.retryable is False


async def test_a_model_that_never_stops_is_stopped(hold: Hold) -> None:
    """After `max_rounds` model calls the turn is an error, and no check is evaluated."""
    policy = {"tool_policy": {"tool_choice": "auto", "max_rounds": 4}}
    replies = {number: call("search", q=str(number)) for number in range(1, 9)}
    held = await hold([user("Hi", {"type": "no_tool_errors", "params": {}})], replies, tools=TOOLS, scenario=policy)
    assert (held.verdict, held.checks, len(results(held))) == (Verdict.ERROR, [], 4)


@pytest.mark.parametrize(
    ("allowed", "offered"),
    [
        pytest.param(["search"], ["search"], id="by name"),
        pytest.param(["f*"], ["fetch"], id="by a wildcard"),
        pytest.param(["*"], ["search", "fetch"], id="all"),
        pytest.param([], [], id="none"),
    ],
)
async def test_allowed_tools(hold: Hold, allowed: list[str], offered: list[str]) -> None:
    """A tool is offered when its prompt allows it by name or by a trailing `*`."""
    held = await hold([user("Hi")], {1: "x"}, tools=TOOLS, prompt={"allowed_tools": allowed})
    assert held.messages[0].get("meta", {}).get("availableTools", []) == offered


def test_a_faulty_tool_is_said_before_anything_is_asked(write: Write) -> None:
    """A tool whose schema or template is none makes the scenario invalid, and is named with its file."""

    def compile_with(template: str) -> None:
        bundle = write([user("Hi")], {1: "x"}, tools={"search": {"mock_template": template}})
        compile_script(bundle, bundle.scenarios["s"])

    with pytest.raises(BundleInvalid, match=r"search\.tool\.yaml:\d+: .*'upper'"):
        compile_with("{{upper .q}}")


def test_a_turn_may_not_spend_more_than_its_limit() -> None:
    """What a turn spent is judged before its next model call."""
    loop = TurnLoop(Limits(max_cost_usd=0.5))
    loop.begin_round()
    loop.spend(0.5)
    loop.begin_round()
    loop.spend(0.01)
    with pytest.raises(ToolLoopStopped, match=r"0\.51 USD"):
        loop.begin_round()


def test_other_arguments_are_no_repetition() -> None:
    """Calls are equal by name and arguments, whatever the order of the keys."""
    loop = TurnLoop(Limits(max_identical_calls=2))
    assert not loop.repeats(ToolCall("1", "a", {"x": 1, "y": 2}))
    assert not loop.repeats(ToolCall("2", "b", {"x": 1, "y": 2}))
    assert not loop.repeats(ToolCall("3", "a", {"x": 1}))
    assert loop.repeats(ToolCall("4", "a", {"y": 2, "x": 1}))


async def test_a_budget_of_nothing_is_a_limit(hold: Hold) -> None:
    """A `max_cost_usd` of 0 allows no further model call once one has cost something; it is not the default."""
    held = await hold([user("Hi")], {1: call("search"), 2: "done"}, tools=TOOLS, scenario={"tool_policy": {"max_cost_usd": 0}})
    assert (held.verdict, held.error and held.error.kind) == (Verdict.ERROR, "tool_loop")
