"""Every request that had to be made again stands in the item's result, whoever made it and whatever came of it; what has no price is said."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.conversation import ItemRunner
from engine.items import ItemResult, Verdict
from engine.permissions import Permissions
from engine.plan import PlanRequest, WorkerOptions, make_plan
from engine.providers.connections import Connections
from engine.results.lines import item_json, item_line
from engine.results.recovery import result_from_json
from foundation.clock import SystemClock
from tests.conversation.conftest import Write
from tests.providers.vendor_server import Step, VendorServer, answer, sse, vendor_server

KEY = "sk-secret-key-123456"
USAGE = {"prompt_tokens": 10, "completion_tokens": 5}
VERDICT = json.dumps({"score": 1, "passed": True, "reasoning": "kind"})
BUSY = answer({"error": {"message": f"busy, you sent {KEY}"}}, 503, {"Retry-After": "0"})
REFUSED = answer({"error": {"message": "no"}}, 400)
PRICING = {"input_cost_per_1k": 0.001, "output_cost_per_1k": 0.002}
WORDS = "one two three four five six seven eight nine ten"


def says(text: str, usage: dict[str, int] | None = USAGE) -> Step:
    """Return a whole answer."""
    return answer({"choices": [{"message": {"content": text}, "finish_reason": "stop"}], **({"usage": usage} if usage else {})})


@pytest.fixture
async def vendor() -> AsyncIterator[VendorServer]:
    """Run a server, which everybody asks in turn."""
    async with vendor_server() as running:
        yield running


async def held(write: Write, vendor: VendorServer, *, turns: list[dict[str, Any]] | None = None, **more: Any) -> ItemResult:
    """Hold a conversation; subject, judge and simulated user are models of one server."""
    spec = {
        "type": "openai",
        "model": "m",
        "base_url": f"{vendor.url}/v1",
        "credential": {"credential_env": "KEY"},
        "pricing": PRICING,
        "additional_config": {},
    }
    provider = spec | more.pop("provider", {})
    arena = {"judges": [{"name": "j", "provider": "judge"}], "provider_specs": {"judge": spec | more.pop("judge", {})}, **more.pop("arena", {})}
    turns = turns or [{"role": "user", "content": "Hi"}]
    bundle = write(turns, {}, provider=provider, arena=arena, scenario={"providers": ["m"], **more.pop("scenario", {})}, **more)
    plan = make_plan(bundle, PlanRequest(), WorkerOptions(permissions=Permissions(networks=("127.0.0.0/8",))))
    runner = ItemRunner(bundle, plan, SystemClock(), Connections({"KEY": KEY}))
    try:
        result = await runner.run(plan.items[0])
    finally:
        await runner.close()
    assert KEY not in item_line(result, "").decode()
    assert item_json(result_from_json(item_json(result, "r"), result.item), "r") == item_json(result, "r")
    return result


def kinds(attempts: Any) -> list[str]:
    """Return what went wrong with each attempt."""
    return [attempt["kind"] for attempt in attempts]


JUDGED = [{"role": "user", "content": "Hi", "assertions": [{"type": "llm_judge", "params": {"criteria": "kindness", "min_score": 0.5}}]}]


@pytest.mark.parametrize(
    ("then", "verdict"), [pytest.param(says(VERDICT), Verdict.PASS, id="then a verdict"), pytest.param(REFUSED, Verdict.ERROR, id="then for good")]
)
async def test_attempts_of_a_judge_are_recorded(write: Write, vendor: VendorServer, then: Step, verdict: Verdict) -> None:
    """A judge that had to be asked again leaves that in the result, whether it answered in the end or not; what a key was is hidden."""
    for step in (says("hello"), BUSY, then):
        vendor.then(step)
    result = await held(write, vendor, turns=JUDGED)
    assert (result.verdict, kinds(result.judges.attempts)) == (verdict, ["unavailable"])
    assert kinds(item_json(result, "")["judges"]["attempts"]) == ["unavailable"]
    assert "attempts" not in (item_json(result, "")["error"] or {})


async def test_attempts_of_a_guardrails_judge_are_recorded_once(write: Write, vendor: VendorServer) -> None:
    """A guardrail's judge that fails ends the conversation; its attempts stand with those of judges, not a second time in the error."""
    for step in (says("hello"), BUSY, REFUSED):
        vendor.then(step)
    result = await held(write, vendor, prompt={"validators": [{"type": "toxicity"}]})
    assert result.error is not None
    assert (result.error.kind, result.error.attempts, kinds(result.judges.attempts)) == ("provider.invalid_request", (), ["unavailable"])


async def test_attempts_of_a_request_that_failed_are_recorded(write: Write, vendor: VendorServer) -> None:
    """The error of an item has the attempts before the last one."""
    vendor.then(BUSY)
    vendor.then(REFUSED)
    result = await held(write, vendor)
    assert result.error is not None
    assert (result.error.kind, kinds(result.error.attempts)) == ("provider.invalid_request", ["unavailable"])


async def test_attempts_of_a_summary_stand_with_the_reply(write: Write, vendor: VendorServer) -> None:
    """A summary is no message; what was tried for it stands with the reply that it was made for."""
    for step in (says(WORDS), BUSY, says("a summary"), says("bye")):
        vendor.then(step)
    policy = {"token_budget": 40, "reserve_for_output": 1, "strategy": "summarize"}
    turns = [{"role": "user", "content": WORDS}, {"role": "user", "content": WORDS}]
    result = await held(write, vendor, turns=turns, scenario={"context_policy": policy})
    assert (result.verdict, len(vendor.requests)) == (Verdict.PASS, 4)
    assert kinds(result.messages[-1]["meta"]["attempts"]) == ["unavailable"]


async def test_attempts_before_a_stream_that_is_cut_are_recorded(write: Write, vendor: VendorServer) -> None:
    """A guardrail that cuts a reply loses neither what was tried before it, nor that its cost is not known."""
    vendor.then(BUSY)
    vendor.then(*sse({"choices": [{"index": 0, "delta": {"content": "a bad word"}}]}, {"choices": [], "usage": USAGE}, "[DONE]"))
    guard = {"type": "banned_words", "params": {"words": ["bad"]}}
    result = await held(write, vendor, prompt={"validators": [guard]}, scenario={"streaming": True})
    assert kinds(result.messages[-1]["meta"]["attempts"]) == ["unavailable"]
    assert (result.cost_usd, result.cost_is_partial) == (None, True)


@pytest.mark.parametrize(
    ("usage", "judge", "partial"),
    [
        pytest.param(USAGE, {}, False, id="all is known"),
        pytest.param(None, {}, True, id="a reply without usage"),
        pytest.param(USAGE, {"pricing": None, "model": "own"}, True, id="a judge without a price"),
    ],
)
async def test_a_cost_that_lacks_something_says_so(
    write: Write, vendor: VendorServer, usage: dict[str, int] | None, judge: dict[str, Any], *, partial: bool
) -> None:
    """The sum of what is known is the least that was spent, and the item says that it is not all."""
    for step in (says("hello"), says("hello", usage), says(VERDICT)):
        vendor.then(step)
    result = await held(write, vendor, turns=[{"role": "user", "content": "Hi"}, *JUDGED], judge=judge)
    line = item_json(result, "")
    assert (result.verdict, line["costUsd"] > 0, line.get("costIsPartial", False)) == (Verdict.PASS, True, partial)


async def test_what_nobody_was_asked_for_costs_nothing_unknown(write: Write, vendor: VendorServer) -> None:
    """An input guardrail that answers in the model's place makes no cost partial."""
    guard = {"type": "banned_words", "params": {"words": ["Hi"], "direction": "input"}}
    result = await held(write, vendor, prompt={"validators": [guard]})
    assert (vendor.requests, result.cost_usd, result.cost_is_partial) == ([], None, False)


@pytest.mark.parametrize("fails", [False, True], ids=["and answered", "and failed"])
async def test_attempts_and_costs_of_steps_are_recorded(write: Write, vendor: VendorServer, *, fails: bool) -> None:
    """What the steps of a composition tried and spent is the item's, also when a later step fails."""
    for step in (BUSY, says("one"), REFUSED if fails else says("two")):
        vendor.then(step)
    steps = [{"id": name, "kind": "prompt", "prompt_task": "t"} for name in ("first", "second")]
    result = await held(write, vendor, arena={"compositions": {"c": {"version": 1, "steps": steps, "output": "second"}}}, scenario={"task_type": ""})
    told = result.error.attempts if result.error is not None else result.messages[-1]["meta"]["attempts"]
    assert (result.verdict, kinds(told)) == (Verdict.ERROR if fails else Verdict.PASS, ["unavailable"])
    assert result.cost_usd == pytest.approx(0.02 / 1000 * (1 if fails else 2))


async def test_an_item_that_is_tried_again_lacks_what_it_cost_before(write: Write) -> None:
    """Only the last attempt of an item has a result, so its cost is the least that the item took."""
    bundle = write([{"role": "user", "content": "Hi"}], {1: "hello"})
    plan = make_plan(bundle, PlanRequest())
    runner = ItemRunner(bundle, plan, SystemClock())
    assert [(await runner.run(plan.items[0], attempt=attempt)).cost_is_partial for attempt in (1, 2)] == [False, True]


async def test_a_reply_that_breaks_off_may_have_cost(write: Write, vendor: VendorServer) -> None:
    """A stream that ends in its middle brought no reply, and whoever gave it may charge for it all the same."""
    vendor.then(*sse({"choices": [{"index": 0, "delta": {"content": "hel"}}]}))
    result = await held(write, vendor, scenario={"streaming": True})
    assert (result.verdict, result.cost_usd, result.cost_is_partial) == (Verdict.ERROR, None, True)
