"""Whole conversations with models of Anthropic and Google on loopback: what of a reply comes back with the next request."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from engine.bundle.model import Bundle
from engine.conversation import ItemRunner
from engine.items import ItemResult, Usage, Verdict
from engine.permissions import Permissions
from engine.plan import PlanRequest, WorkerOptions, make_plan
from engine.providers.connections import Connections
from foundation.clock import SystemClock
from tests.providers.vendor_server import VendorServer, answer, sse, vendor_server
from tests.providers.vendor_streams import CLAUDE, CLAUDE_CALLING, GEMINI, GEMINI_CALLING

Write = Callable[..., Bundle]
TOOL = {"mock_result": {"found": True}}
NOT_ONE_MORE = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.fixture
async def vendor() -> AsyncIterator[VendorServer]:
    """Run a server."""
    async with vendor_server() as running:
        yield running


SECRETS = {"ARENA_CREDENTIAL_0": ("team", "anthropic")}


async def held(write: Write, vendor: VendorServer, *, job: Mapping[str, Any] | None = None, **provider: Any) -> ItemResult:
    """Hold one streaming conversation of a turn, in which the model may call two tools; loopback is allowed, as an operator would.

    `job` is what the spec of a job's provider has beside that of the bundle.
    """
    spec = {"base_url": f"{vendor.url}/v1", "credential": {"credential_env": "KEY"}, "additional_config": {}} | provider
    turns = [{"role": "user", "content": "Where?", "assertions": [{"type": "tools_called", "params": {"tools": ["look", "now"]}}]}]
    bundle = write(turns, {}, tools={"look": TOOL, "now": TOOL}, provider=spec, scenario={"streaming": True})
    plan = make_plan(bundle, PlanRequest(), WorkerOptions(permissions=Permissions(networks=("127.0.0.0/8",))))
    plan = replace(plan, providers={name: {**own, **(job or {})} for name, own in plan.providers.items()}, secrets=SECRETS)
    runner = ItemRunner(bundle, plan, SystemClock(), Connections({"KEY": "secret-key-1", "ARENA_CREDENTIAL_0": "secret-key-2"}))
    try:
        return await runner.run(plan.items[0])
    finally:
        await runner.close()


async def test_claudes_thinking_comes_back_with_its_tools(write: Write, vendor: VendorServer) -> None:
    """After a tool the model gets its signed thinking, its calls and their results, in that order; usage of both requests adds up."""
    vendor.then(*sse(*((event["type"], event) for event in CLAUDE_CALLING)))
    vendor.then(*sse(*((event["type"], event) for event in CLAUDE)))
    result = await held(write, vendor, type="claude", model="claude-sonnet-4-5-20250929")
    assert (result.verdict, result.error, len(vendor.requests)) == (Verdict.PASS, None, 2)
    _, called, results = vendor.requests[1].json["messages"]
    assert [block["type"] for block in called["content"]] == ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"]
    assert called["content"][0] == {"type": "thinking", "thinking": "Let me look", "signature": "EqQB"}
    assert [block["tool_use_id"] for block in results["content"]] == ["toolu_1", "toolu_2"]
    assert result.messages[-1]["content"] == "Grüße, world\n!"
    assert result.usage == Usage(74, 30, 16, 6)
    assert result.ttft_ms is not None


async def test_geminis_signatures_come_back_with_its_calls(write: Write, vendor: VendorServer) -> None:
    """After a tool the model gets its calls with what they were signed with, and their responses under their names."""
    vendor.then(*sse(*GEMINI_CALLING))
    vendor.then(*sse(*GEMINI))
    result = await held(write, vendor, type="gemini", model="gemini-2.5-flash")
    assert (result.verdict, result.error, len(vendor.requests)) == (Verdict.PASS, None, 2)
    _, called, responses = vendor.requests[1].json["contents"]
    assert [part.get("thoughtSignature") for part in called["parts"]] == ["dGV4dA==", "c2ln", None]
    assert [part["functionResponse"]["name"] for part in responses["parts"]] == ["look", "now"]
    assert result.usage == Usage(28, 24, 6, 14)


async def test_an_outage_is_an_error_that_may_pass(write: Write, vendor: VendorServer) -> None:
    """A vendor that is overloaded for longer than an item may take gives an error, never a failure; the key is in no word of it."""
    vendor.then(answer(NOT_ONE_MORE, 529, {"Retry-After": "600"}))
    result = await held(write, vendor, type="claude", model="claude-sonnet-4-5-20250929")
    assert (result.verdict, result.checks) == (Verdict.ERROR, [])
    assert result.error is not None
    assert (result.error.kind, "Overloaded" in result.error.message) == ("provider.unavailable", True)
    assert "secret-key-1" not in str(result)


async def test_a_wrong_key_names_its_secret(write: Write, vendor: VendorServer) -> None:
    """A job's key stands in a variable that nobody set by hand: the error names the Secret, and shows no key."""
    vendor.then(answer({"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}, 401))
    job = {"credential": {"credential_env": "ARENA_CREDENTIAL_0"}, "from_job": True}
    result = await held(write, vendor, job=job, type="claude", model="claude-sonnet-4-5-20250929")
    assert (result.verdict, result.error and result.error.kind) == (Verdict.ERROR, "provider.authentication")
    assert "invalid x-api-key; the key that was sent is that of Secret 'team' (key 'anthropic')" in str(result.error)
    assert "secret-key" not in str(result)
