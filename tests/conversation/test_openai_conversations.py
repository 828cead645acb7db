"""Whole conversations with models of OpenAI's protocols on loopback: tools are called, and outages are no failures."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from engine.bundle.model import Bundle
from engine.conversation import ItemRunner
from engine.items import ItemResult, Usage, Verdict
from engine.permissions import Permissions
from engine.plan import PlanRequest, WorkerOptions, make_plan
from engine.providers.connections import Connections
from foundation.clock import SystemClock
from tests.providers.vendor_server import Cut, Step, VendorServer, answer, chunk, event, sse, stream_head, vendor_server

Write = Callable[..., Bundle]
USAGE = {"prompt_tokens": 10, "completion_tokens": 5}


@pytest.fixture
async def vendor() -> AsyncIterator[VendorServer]:
    """Run a server."""
    async with vendor_server() as running:
        yield running


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """Return a chunk of a stream."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


CALLS = sse(
    piece(reasoning_content="Hm"),
    piece(tool_calls=[{"id": "c1", "function": {"name": "look", "arguments": '{"a": 1}'}}]),
    piece(tool_calls=[{"id": "c2", "function": {"name": "now", "arguments": ""}}]),
    {**piece("tool_calls"), "usage": USAGE},
    "[DONE]",
)
SAYS = sse(piece(content="Found "), piece("stop", content="it"), {"choices": [], "usage": USAGE}, "[DONE]")


async def held(write: Write, vendor: VendorServer, *, streaming: bool, **provider: Any) -> ItemResult:
    """Hold one conversation of a turn, in which the model may call two tools; loopback is allowed, as an operator would."""
    spec = {
        "type": "openai",
        "model": "m",
        "base_url": f"{vendor.url}/v1",
        "credential": {"credential_env": "KEY"},
        "additional_config": {},
    } | provider
    turns = [{"role": "user", "content": "Where?", "assertions": [{"type": "contains", "params": {"patterns": ["Found it"]}}]}]
    tool = {"mock_result": {"found": True}}
    bundle = write(turns, {}, tools={"look": tool, "now": tool}, provider=spec, scenario={"streaming": streaming})
    plan = make_plan(bundle, PlanRequest(), WorkerOptions(permissions=Permissions(networks=("127.0.0.0/8",))))
    runner = ItemRunner(bundle, plan, SystemClock(), Connections({"KEY": "secret-key-1"}))
    try:
        return await runner.run(plan.items[0])
    finally:
        await runner.close()


async def test_tools_are_called_in_a_stream(write: Write, vendor: VendorServer) -> None:
    """The model's calls are made, their results go back beside them, and all that was used adds up."""
    vendor.then(*CALLS)
    vendor.then(*SAYS)
    result = await held(write, vendor, streaming=True)
    assert (result.verdict, result.error, result.usage) == (Verdict.PASS, None, Usage(20, 10))
    sent = vendor.requests[1].json["messages"]
    assert [(message["role"], message.get("tool_call_id")) for message in sent[-4:]] == [
        ("user", None),
        ("assistant", None),
        ("tool", "c1"),
        ("tool", "c2"),
    ]
    assert [call["function"] for call in sent[-3]["tool_calls"]] == [{"name": "look", "arguments": '{"a": 1}'}, {"name": "now", "arguments": "{}"}]
    assert result.ttft_ms is not None


BROKEN: list[Any] = [
    pytest.param((answer({"error": {"message": "busy"}}, 503, {"Retry-After": "600"}),), "provider.unavailable", True, id="503"),
    pytest.param((answer({"error": {"message": "no", "code": "insufficient_quota"}}, 429),), "provider.rate_limit", False, id="quota"),
    pytest.param((answer({"error": {"message": "no such model"}}, 404),), "provider.invalid_request", False, id="404"),
    pytest.param((stream_head(), chunk(event(piece(content="Found it"))), Cut()), "provider.unavailable", True, id="cut after the words that pass"),
    pytest.param((*sse(piece(content="Found it")),), "provider.protocol", True, id="ends without a word of it"),
]


@pytest.mark.parametrize(("steps", "kind", "retryable"), BROKEN)
async def test_what_breaks_is_never_scored(write: Write, vendor: VendorServer, steps: tuple[Step, ...], kind: str, *, retryable: bool) -> None:
    """A provider that fails gives an error and no check, even if what it had said would pass."""
    vendor.then(*steps)
    result = await held(write, vendor, streaming=True)
    assert (result.verdict, result.checks, result.retryable) == (Verdict.ERROR, [], retryable)
    assert result.error is not None
    assert result.error.kind == kind
    assert "secret-key-1" not in str(result)


async def test_what_was_tried_is_kept_with_the_message(write: Write, vendor: VendorServer) -> None:
    """An attempt that brought no reply is recorded beside the one that did."""
    vendor.then(answer({"error": {"message": "busy"}}, 503, {"Retry-After": "0"}))
    vendor.then(answer({"choices": [{"message": {"content": "Found it"}, "finish_reason": "length"}], "usage": USAGE}))
    result = await held(write, vendor, streaming=False)
    assert result.verdict is Verdict.PASS
    meta = result.messages[-1]["meta"]
    assert (meta["finishReason"], [attempt["kind"] for attempt in meta["attempts"]]) == ("length", ["unavailable"])
