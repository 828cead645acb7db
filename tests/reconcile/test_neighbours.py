"""What local mode says of Providers, AgentRuntimes and ToolRegistries, whose status nobody else writes there."""

from typing import Any

import pytest

from reconcile.cluster.port import AGENT_RUNTIME, PROVIDER, SECRET, TOOL_REGISTRY, Object, ObjectKey, ResourceKind
from reconcile.neighbours import neighbour_reconcilers
from reconcile.runtime.controller import Controller, ControllerOptions
from tests.reconcile.conftest import NAMESPACE, World, condition

OPENAI = {"type": "openai", "model": "gpt-5"}


async def seen(world: World, kind: ResourceKind, spec: dict[str, Any]) -> Object:
    """Return an object of this spec after two passes over it; the second writes nothing."""
    name = "one"
    await world.apply(kind, name, spec)
    reconciler = next(each for each in neighbour_reconcilers() if each.kind is kind)
    controller = Controller(world.cluster, reconciler, clock=world.clock, options=ControllerOptions(debug=True))
    await controller.pass_over(ObjectKey(NAMESPACE, name))
    before = await world.get(kind, name)
    await controller.pass_over(ObjectKey(NAMESPACE, name))
    after = await world.get(kind, name)
    assert before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
    return after


@pytest.mark.parametrize(
    ("spec", "data", "phase", "reason"),
    [
        pytest.param({"secretRef": {"name": "s"}}, {"OPENAI_TOKEN": "x"}, "Ready", "CredentialFound", id="the vendor's second key"),
        pytest.param({"secretRef": {"name": "s", "key": "k"}}, {"k": "x"}, "Ready", "CredentialFound", id="a key that is named"),
        pytest.param({"secretRef": {"name": "s"}}, None, "Error", "SecretNotFound", id="no Secret"),
        pytest.param({"secretRef": {"name": "s"}}, {"other": "x"}, "Error", "SecretKeyNotFound", id="no key"),
        pytest.param({"envVar": "TEAM_KEY"}, None, "Ready", "CredentialOfWorkers", id="a variable"),
        pytest.param({}, None, "Ready", "CredentialOfWorkers", id="nothing"),
    ],
)
async def test_whether_a_provider_has_its_key(world: World, spec: dict[str, Any], data: dict[str, str] | None, phase: str, reason: str) -> None:
    """A Provider's status says whether the Secret that it names has the key that a run would take."""
    if data is not None:
        await world.cluster.create({"apiVersion": "v1", "kind": SECRET.kind, "metadata": {"name": "s", "namespace": NAMESPACE}, "stringData": data})
    provider = await seen(world, PROVIDER, {**OPENAI, **({"credential": spec} if spec else {})})
    assert (provider["status"]["phase"], condition(provider, "CredentialConfigured")["reason"]) == (phase, reason)
    assert condition(provider, "EndpointReachable")["status"] == "Unknown"
    assert provider["status"]["observedGeneration"] == provider["metadata"]["generation"]
    kinds = {each["type"] for each in provider["status"]["conditions"]}
    assert ("SecretFound" in kinds) is ("secretRef" in spec)


async def test_a_mock_needs_no_key(world: World) -> None:
    """Nor does a model that somebody serves for themselves."""
    provider = await seen(world, PROVIDER, {"type": "mock"})
    assert condition(provider, "CredentialConfigured")["reason"] == "CredentialNotRequired"


async def test_an_agent_is_where_its_spec_says(world: World) -> None:
    """The endpoint is copied to the status with its port, and the agent is Running."""
    runtime = await seen(world, AGENT_RUNTIME, {"endpoint": "127.0.0.1"})
    assert (runtime["status"]["phase"], runtime["status"]["serviceEndpoint"]) == ("Running", "127.0.0.1:8080")
    assert condition(runtime)["reason"] == "EndpointGiven"


async def test_an_agent_that_nobody_deploys(world: World) -> None:
    """Without an endpoint it is Pending, and says what to set."""
    runtime = await seen(world, AGENT_RUNTIME, {})
    assert (runtime["status"]["phase"], "serviceEndpoint" in runtime["status"]) == ("Pending", False)
    assert (condition(runtime)["reason"], condition(runtime, "Stalled")["status"]) == ("EndpointMissing", "True")


async def test_handlers_are_discovered_as_written(world: World) -> None:
    """Each handler is a tool, with the address that its calls go to."""
    tool = {"name": "find", "description": "Find an order.", "inputSchema": {"type": "object"}}
    handler = {"name": "finder", "type": "http", "tool": tool, "httpConfig": {"endpoint": "http://127.0.0.1:9/find"}}
    registry = await seen(world, TOOL_REGISTRY, {"handlers": [handler]})
    assert registry["status"]["discoveredTools"] == [{**tool, "handlerName": "finder", "endpoint": "http://127.0.0.1:9/find", "status": "Available"}]
    assert (registry["status"]["discoveredToolsCount"], registry["status"]["phase"]) == (1, "Ready")


async def test_what_a_run_does_not_see_of_a_handler_is_said(world: World) -> None:
    """Runs read the status, which has no method and no headers: who writes them is told."""
    tool = {"name": "find", "description": "Find an order.", "inputSchema": {"type": "object"}}
    handler = {"name": "finder", "type": "http", "tool": tool, "httpConfig": {"endpoint": "http://127.0.0.1:9/find", "method": "GET"}}
    registry = await seen(world, TOOL_REGISTRY, {"handlers": [handler]})
    [ready] = [found for found in registry["status"]["conditions"] if found["type"] == "Ready"]
    assert "method and headers of finder are not used" in ready["message"]
