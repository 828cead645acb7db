"""Guardrails: what they catch, on which side, whole or streaming, and what takes its place."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.checks.compiled import Bounds
from engine.checks.evidence import Evidence, Outcome
from engine.checks.questions import Answers
from engine.conversation.guardrails import BLOCKED_REPLY, Guardrail
from engine.items import ItemResult, Verdict
from engine.results.collected import CollectedResults
from engine.results.summary import RunIdentity
from tests.results.conftest import FakePlan

Hold = Callable[..., Awaitable[ItemResult]]

TURN = [{"role": "user", "content": "Hi, my e-mail is a@b.example"}]
WORDS = {"type": "banned_words", "params": {"words": ["guarantee", "100%"]}}


async def said(hold: Hold, reply: str, *validators: dict[str, Any], tools: bool = False) -> dict[str, Any]:
    """Return the assistant's message to a reply that these validators judge; with tools it is streamed in chunks."""
    held = await hold(TURN, {1: reply}, prompt={"validators": list(validators)}, tools={"search": {}} if tools else {})
    assert held.verdict is Verdict.PASS
    return held.messages[-1]


@pytest.mark.parametrize("tools", [False, True], ids=["whole", "in chunks"])
@pytest.mark.parametrize(
    ("reply", "validator", "content"),
    [
        pytest.param("I guarantee it", WORDS, BLOCKED_REPLY, id="a banned word is replaced"),
        pytest.param("a guarantee", WORDS, BLOCKED_REPLY, id="at the very end"),
        pytest.param("guaranteed, guarantees", WORDS, None, id="parts of words are not banned"),
        pytest.param("it is 100% so", WORDS | {"message": "No."}, "No.", id="by the validator's own message"),
        pytest.param("x" * 19 + " guarantee " + "y" * 50, WORDS, BLOCKED_REPLY, id="across chunks"),
        pytest.param("x" * 30, {"type": "length", "params": {"max_characters": 10}}, "x" * 10, id="a long reply is cut"),
        pytest.param("é" * 30, {"type": "max_length", "params": {"max": 25}}, "é" * 25, id="between characters"),
        pytest.param("x" * 30, {"type": "max_length", "params": {"max_tokens": 2}}, "x" * 11, id="at a number of tokens"),
        pytest.param("Write to a@b.example", {"type": "pii_leakage"}, BLOCKED_REPLY, id="personal data"),
        pytest.param("error 5", {"type": "content_excludes", "params": {"patterns": ["err"]}}, BLOCKED_REPLY, id="parts of words where asked"),
        pytest.param("abc", {"type": "regex", "params": {"pattern": "^x"}}, BLOCKED_REPLY, id="what does not match"),
        pytest.param("a. b. c.", {"type": "max_sentences", "params": {"max_sentences": 2}}, BLOCKED_REPLY, id="too many sentences"),
        pytest.param("abc", {"type": "regex", "params": {"pattern": "^x", "min_score": 0}}, None, id="a bound of its own"),
        pytest.param("I guarantee", WORDS | {"enabled": False}, None, id="one that is off"),
        pytest.param("no JSON", {"type": "is_valid_json"}, BLOCKED_REPLY, id="any check serves"),
    ],
)
async def test_what_a_guardrail_does(hold: Hold, reply: str, validator: dict[str, Any], content: str | None, *, tools: bool) -> None:
    """A reply that is caught is cut or replaced and the firing recorded; the result is the same whether it streams or not."""
    message = await said(hold, reply, validator, tools=tools)
    assert message["content"] == (reply if content is None else content)
    assert [fired["type"] for fired in message.get("validations", ())] == ([] if content is None else [validator["type"]])


async def test_6_a_guardrail_that_fired_has_one_verdict(hold: Hold) -> None:
    """A guardrail that fired fails nothing by itself, in no report; a check that looks at it does, and then in all of them."""
    looked_at = {"type": "guardrail_triggered", "params": {"validator_type": "banned_words", "should_trigger": False}}
    for checks, verdict in (([], Verdict.PASS), ([looked_at], Verdict.FAIL)):
        held = await hold(TURN, {1: "I guarantee it"}, prompt={"validators": [WORDS]}, scenario={"conversation_assertions": checks})
        assert (held.verdict, [fired["passed"] for fired in held.messages[-1]["validations"]]) == (verdict, [False])
        with CollectedResults(RunIdentity(), FakePlan((held.item,))) as results:
            record = results.add(held)
            assert (record.verdict, results.summary().verdict.value) == (verdict, verdict.value)


async def test_the_first_that_fires_wins(hold: Hold) -> None:
    """Guardrails are asked in the prompt's order, and one firing is enough."""
    message = await said(hold, "I guarantee " + "x" * 50, {"type": "length", "params": {"max": 20}}, WORDS)
    assert (len(message["content"]), [fired["type"] for fired in message["validations"]]) == (20, ["length"])


async def test_tokens_are_those_of_the_reply_before_it_is_cut(hold: Hold) -> None:
    """A whole reply keeps its usage; one that is stopped while it streams has none, nor a cost: what it had cost is not nothing, but unknown."""
    cut = {"type": "length", "params": {"max": 10}}
    assert (await said(hold, "x" * 400, cut))["usage"]["outputTokens"] == 100
    stopped = await said(hold, "x" * 400, cut, tools=True)
    assert "usage" not in stopped
    assert stopped.get("costUsd") is None


@pytest.mark.parametrize(("direction", "content"), [("input", BLOCKED_REPLY), ("both", BLOCKED_REPLY), ("output", "fine")])
async def test_an_input_guardrail_answers_instead_of_the_model(hold: Hold, direction: str, content: str) -> None:
    """What the user says is judged before the model is asked; a firing is answered without it, at no cost."""
    held = await hold(TURN, {1: "fine"}, prompt={"validators": [{"type": "pii_leakage", "params": {"direction": direction}}]})
    assert held.messages[-1]["content"] == content
    assert (held.cost_usd is None) is (content == BLOCKED_REPLY)
    assert [fired["direction"] for fired in held.messages[-1].get("validations", ())] == (["input"] if content == BLOCKED_REPLY else [])


async def test_a_cost_guardrail_sees_the_reply_it_judges(hold: Hold) -> None:
    """A budget as guardrail counts the conversation and the reply in question."""
    held = await hold(TURN, {1: "x" * 400}, prompt={"validators": [{"type": "cost_budget", "params": {"max_output_tokens": 99}}]})
    assert held.messages[-1]["content"] == BLOCKED_REPLY


async def test_a_guardrail_that_breaks_fires(nobody: Answers) -> None:
    """A guardrail fails closed: when its check raises or has no score, the message is replaced."""

    def broken(_: Evidence) -> Outcome:
        raise RuntimeError("no")

    for evaluate in (broken, lambda _: Outcome(None)):
        fired = await Guardrail("x", evaluate, "output", "replaced", Bounds()).judge(Evidence(reply="text"), nobody, incoming=False)
        assert fired is not None
        assert fired.text == "replaced"


async def test_a_long_stream_is_judged_in_linear_time(hold: Hold) -> None:
    """Judging each chunk does not read the whole reply again: a megabyte takes no longer than its length asks."""
    started = time.process_time()
    message = await said(hold, "x" * 1_000_000, WORDS, tools=True)
    assert (len(message["content"]), time.process_time() - started < 10) == (1_000_000, True)
