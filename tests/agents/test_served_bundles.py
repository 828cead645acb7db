"""Bundles served as agents: what is chosen, and how their turns read in frames."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.agents.served import Choice, plan_agent
from engine.bundle import load_bundle
from engine.bundle.model import Bundle
from engine.errors import EngineError, FeatureNotSupported, NoScenarios, ProviderNotFound
from tests.agents.clients import connected, served, write_starter

Write = Callable[..., Bundle]
HELLO = {"role": "user", "content": "Hi"}


def kinds(frames: list[dict[str, Any]]) -> list[str]:
    """Return the types of frames."""
    return [frame["type"] for frame in frames]


def text(frames: list[dict[str, Any]]) -> str:
    """Return what frames say together."""
    return "".join(frame["content"] for frame in frames if frame["type"] == "chunk")


async def test_tool_calls_are_shown_with_their_results(tmp_path: Path) -> None:
    """The tools of the bundle answer here; the client sees each call, its result, the text and what it cost."""
    async with served(write_starter(tmp_path), Choice("order-status", provider="steady")) as (_, endpoint), connected(endpoint) as client:
        call, result, said, done = await client.ask("Where is it?")
    assert (call["tool_call"]["name"], call["tool_call"]["arguments"]) == ("lookup_order", {"order_id": "NW-1042"})
    assert result["tool_result"] == {"id": call["tool_call"]["id"], "result": '{"carrier":"Parcel Post","status":"shipped"}'}
    assert said["content"].startswith("I looked it up for you.")
    assert done["usage"]["output_tokens"] > 0
    assert done["cost_usd"] > 0


async def test_a_conversation_goes_on_where_it_was(write: Write) -> None:
    """Turns of a session count up, those of another begin anew."""
    bundle = write([HELLO], {1: "one", 2: "two"})
    async with served(bundle.root, Choice("s")) as (_, endpoint), connected(endpoint) as client, connected(endpoint) as other:
        assert [text(await client.ask("x")), text(await client.ask("x")), text(await other.ask("x"))] == ["one", "two", "one"]


async def test_text_comes_as_the_model_gives_it(write: Write) -> None:
    """A reply is streamed, and what is said before and after a tool call is set apart."""
    replies = {1: {"content": "Let me look that up for you.", "tool_calls": [{"name": "t", "arguments": {}}]}, 2: "It is there, as far as I can see."}
    bundle = write([HELLO], replies, tools={"t": {"mock_result": {"a": 1}}})
    async with served(bundle.root, Choice("s")) as (_, endpoint), connected(endpoint) as client:
        frames = await client.ask("x")
    assert kinds(frames) == ["chunk", "chunk", "tool_call", "tool_result", "chunk", "chunk", "done"]
    assert text(frames) == "Let me look that up for you.\n\nIt is there, as far as I can see."


async def test_a_guardrail_is_heard_before_the_text(write: Write) -> None:
    """What a guardrail replaces never leaves the agent, not even in pieces."""
    guard = {"type": "content_excludes", "params": {"patterns": ["secret"]}, "message": "I cannot say."}
    bundle = write([HELLO], {1: "It is a long story, and at its end there is a secret."}, tools={"t": {}}, prompt={"validators": [guard]})
    async with served(bundle.root, Choice("s")) as (_, endpoint), connected(endpoint) as client:
        frames = await client.ask("x")
    assert (kinds(frames), text(frames)) == (["chunk", "done"], "I cannot say.")


async def test_a_tool_that_fails_is_shown_to_fail(write: Write) -> None:
    """An error of a tool is one in its frame."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    bundle = write([HELLO], {1: {"tool_calls": [{"name": "t", "arguments": {}}]}, 2: "Sorry."}, tools={"t": {"input_schema": schema}})
    async with served(bundle.root, Choice("s")) as (_, endpoint), connected(endpoint) as client:
        frames = await client.ask("x")
    assert "n" in frames[1]["tool_result"]["error"]
    assert text(frames) == "Sorry."


async def test_without_a_scenario_the_only_prompt_is_served(write: Write) -> None:
    """The mock's answers to scenarios are nobody's then: its default answers."""
    bundle = write([HELLO], {1: "scripted"}, mock={"defaultResponse": "anything"})
    async with served(bundle.root, Choice()) as (_, endpoint), connected(endpoint) as client:
        assert text(await client.ask("x")) == "anything"


CHOICES: dict[str, tuple[Choice, type[EngineError], str, str]] = {
    "a scenario that is not there": (Choice("ordr-status"), NoScenarios, "cannot find scenario 'ordr-status'", "order-status"),
    "a prompt that is not there": (Choice(task_type="suport"), NoScenarios, "cannot find task type 'suport'", "support"),
    "two providers": (Choice("order-status"), ProviderNotFound, "2 providers can answer", "--provider brisk|steady"),
    "a provider that is not there": (Choice("order-status", provider="stead"), ProviderNotFound, "cannot find provider 'stead'", "steady"),
}


@pytest.mark.parametrize(("choice", "error", "cause", "hint"), CHOICES.values(), ids=CHOICES.keys())
def test_a_choice_that_cannot_be_made_is_refused_by_name(tmp_path: Path, choice: Choice, error: type[EngineError], cause: str, hint: str) -> None:
    """What is not there is said, with what is; what there are several of must be chosen."""
    with pytest.raises(error) as refused:
        plan_agent(load_bundle(write_starter(tmp_path)), choice)
    assert cause in refused.value.message
    assert hint in refused.value.message + refused.value.hint


def test_a_bundle_that_cannot_be_run_cannot_be_served(write: Write) -> None:
    """What a run would refuse is refused before anybody connects."""
    bundle = write([HELLO], {}, arena={"state_store": {"type": "redis", "redis": {"address": "localhost:6379"}}})
    with pytest.raises(FeatureNotSupported):
        plan_agent(bundle, Choice("s"))
