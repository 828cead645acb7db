"""Turns that disturb tool calls: a declined consent, injected failures, and what is left to chance."""

import asyncio
from typing import Any

import pytest

from engine.bundle.model import ToolFailure
from engine.conversation.interference import SLOW_S, Interference
from engine.items import ItemResult, Verdict
from engine.providers.port import ToolSpec
from engine.tools.port import CallFailed, ToolAnswer
from foundation.clock import FakeClock
from tests.conversation.conftest import Hold

CALL = {"tool_calls": [{"name": "locate", "arguments": {}}]}
LOCATE = {"mode": "client", "mock_result": {"lat": 1}}


def results_of(result: ItemResult) -> list[dict[str, Any]]:
    """Return the tool results of a conversation."""
    return [message["toolResult"] for message in result.messages if message["role"] == "tool"]


def turn(**more: Any) -> dict[str, Any]:
    """Return a turn of a user."""
    return {"role": "user", "content": "Where am I?", **more}


@pytest.mark.parametrize("answer", [None, "grant"])
async def test_a_client_that_agrees_answers(hold: Hold, answer: str | None) -> None:
    """A client's tool answers what the bundle says, with or without a word of the user."""
    more = {"consent_overrides": {"locate": answer}} if answer else {}
    result = await hold([turn(**more)], {1: CALL, 2: "There."}, tools={"locate": LOCATE})
    assert [found.get("error") for found in results_of(result)] == [None]


@pytest.mark.parametrize(
    ("answer", "strategy", "words"),
    [
        ("deny", "", "tool 'locate' may not be called: the user declined it"),
        ("deny", "error", "tool 'locate' may not be called: the user declined it"),
        ("deny", "fallback", "the user declined it; go on without it"),
        ("deny", "retry", "the user declined it; say why it is needed, and ask again"),
        ("timeout", "fallback", "the user did not answer whether it may be used"),
    ],
)
async def test_a_declined_call_is_refused_in_the_tools_own_words(hold: Hold, answer: str, strategy: str, words: str) -> None:
    """The model reads why, and the conversation goes on (promptkit-format.md 6.4)."""
    tool = LOCATE | ({"client": {"consent": {"required": True, "decline_strategy": strategy}}} if strategy else {})
    result = await hold([turn(consent_overrides={"locate": answer})], {1: CALL, 2: "Sorry."}, tools={"locate": tool})
    (found,) = results_of(result)
    assert found["errorType"] == "approval"
    assert words in found["error"]
    assert (result.verdict, result.messages[-1]["content"]) == (Verdict.PASS, "Sorry.")


async def test_a_word_holds_for_its_turn(hold: Hold) -> None:
    """What was declined in one turn may be granted in the next."""
    turns = [turn(consent_overrides={"locate": "deny"}), turn()]
    result = await hold(turns, {1: CALL, 2: "No.", 3: CALL, 4: "Yes."}, tools={"locate": LOCATE})
    assert ["error" in found for found in results_of(result)] == [True, False]


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ({"mode": "error", "message": "the sensor is off"}, "the sensor is off"),
        ({"mode": "error"}, "tool 'locate' cannot be called: it failed"),
        ({"mode": "timeout"}, "tool 'locate' cannot be called: it timed out"),
        ({"mode": "error", "probability": 1}, "it failed"),
        ({"mode": "error", "probability": 0}, "it failed"),
    ],
    ids=["its message", "an error", "a timeout", "certain", "no probability is always"],
)
async def test_an_injected_failure(hold: Hold, failure: dict[str, Any], words: str) -> None:
    """The model reads the failure as one of the tool."""
    result = await hold([turn(chaos={"tool_failures": [{"tool": "locate", **failure}]})], {1: CALL, 2: "Hm."}, tools={"locate": LOCATE})
    (found,) = results_of(result)
    assert found["errorType"] == "execution"
    assert words in found["error"]


async def test_others_are_not_disturbed(hold: Hold) -> None:
    """Only the named tool fails, and a tool that is not offered is told so rather than that it failed."""
    replies = {1: {"tool_calls": [{"name": "locate", "arguments": {}}, {"name": "invented", "arguments": {}}]}, 2: "Hm."}
    failures = [{"tool": "other", "mode": "error"}, {"tool": "invented", "mode": "error"}]
    result = await hold([turn(chaos={"tool_failures": failures})], replies, tools={"locate": LOCATE})
    assert [found.get("errorType") for found in results_of(result)] == [None, "not_allowed"]


class Tool:
    """A tool that answers at once."""

    spec = ToolSpec("t", "", {})
    waits = False

    async def call(self, arguments: Any) -> ToolAnswer:
        """Answer."""
        del arguments
        return ToolAnswer("here")


async def answer(interference: Interference, chance: str, clock: FakeClock) -> str:
    """Return what comes of a call."""
    try:
        return (await interference.on(Tool(), clock, chance).call({})).text
    except CallFailed as failed:
        return failed.kind


async def test_chance_is_the_items() -> None:
    """Equal items meet equal failures, different ones each their own, about as often as the probability says."""
    clock, half = FakeClock(), Interference({}, (ToolFailure("t", "error", 0.5),))
    first = [await answer(half, f"s/p/{trial}/0", clock) for trial in range(1000)]
    assert first == [await answer(half, f"s/p/{trial}/0", clock) for trial in range(1000)]
    assert 430 < first.count("execution") < 570


async def test_a_slow_tool_answers_later() -> None:
    """By the conversation's clock, and other calls need not wait for it."""
    clock = FakeClock()
    slow = Interference({}, (ToolFailure("t", "slow"),)).on(Tool(), clock, "x")
    assert slow.waits

    task = asyncio.create_task(slow.call({}))
    await clock.advance(0)
    await clock.advance(SLOW_S - 0.1)
    assert not task.done()
    await clock.advance(0.2)
    assert (await task).text == "here"


@pytest.mark.parametrize(("answer", "verdict"), [("deny", Verdict.PASS), ("timeout", Verdict.PASS)])
async def test_a_declined_call_was_called(hold: Hold, answer: str, verdict: Verdict) -> None:
    """A model that asks for a tool has called it, whatever the user says to that (ADR 0003)."""
    check = {"type": "tools_called", "params": {"tool_names": ["locate"]}}
    result = await hold([turn(consent_overrides={"locate": answer}, assertions=[check])], {1: CALL, 2: "Sorry."}, tools={"locate": LOCATE})
    assert result.verdict is verdict
