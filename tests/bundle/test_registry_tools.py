"""Tools of a bundle that a tool registry carries out."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.bundle.model import ArenaSpec, Bundle, Provider, Scenario, Tool
from engine.bundle.registry_tools import RegistryTool, with_registry_tools
from engine.bundle.services import Command, HttpCall
from engine.errors import ToolsUnavailable
from engine.permissions import NO_PERMISSIONS
from engine.plan import Plan, PlanRequest, make_plan
from engine.tools.environment import Environment
from engine.tools.http_tool import HttpTool
from engine.tools.outside import Outside, Surroundings
from engine.tools.port import CallFailed
from engine.tools.toolbox import tool_problem
from engine.tools.web import Web
from foundation.clock import FakeClock

THERE = "http://10.1.2.3:8080/find"
FOUND = {"find": RegistryTool(THERE, "Find an order, as the registry says.")}


def bundle_with(*tools: Tool) -> Bundle:
    """Return a bundle of one scenario and these tools."""
    scenarios = {"s": Scenario("s", "s.yaml")}
    return Bundle(Path("/b"), "config.arena.yaml", ArenaSpec("small"), scenarios, {}, {}, {}, {t.name: t for t in tools}, {}, {})


@pytest.mark.parametrize(
    ("tool", "method"),
    [
        pytest.param(Tool("find", "t.yaml", "of the file", mock_result={"a": 1}), "POST", id="a mock"),
        pytest.param(Tool("find", "t.yaml", "of the file", mode="live", http=HttpCall("https://file.example/x", "PUT")), "PUT", id="a live one"),
        pytest.param(Tool("find", "t.yaml", "of the file", mode="live", http=HttpCall("https://file.example/x")), "POST", id="one without a method"),
        pytest.param(Tool("find", "t.yaml", "of the file", mode="exec", exec=Command("rm")), "POST", id="a program"),
        pytest.param(Tool("find", "t.yaml", "of the file", mode="mcp"), "POST", id="a server's"),
    ],
)
def test_a_tool_that_matches_is_called_at_the_endpoint(tool: Tool, method: str) -> None:
    """It becomes an HTTP call: the registry's endpoint and description, the file's method if it sets one, the file's schema."""
    (changed,) = with_registry_tools(bundle_with(tool), FOUND).tools.values()
    assert (changed.mode, changed.description) == ("live", "Find an order, as the registry says.")
    assert changed.http is not None
    assert (changed.http.url, changed.http.method, changed.http.of_job) == (THERE, method, True)


def test_a_tool_without_a_match_is_used_as_written() -> None:
    """Names are compared exactly, and what the bundle does not have is not added."""
    bundle = bundle_with(Tool("Find", "t.yaml"), Tool("other", "o.yaml"))
    assert with_registry_tools(bundle, FOUND) is bundle


def test_a_registry_without_a_description_leaves_the_file_s() -> None:
    """What a tool is stays said."""
    (changed,) = with_registry_tools(bundle_with(Tool("find", "t.yaml", "of the file")), {"find": RegistryTool(THERE)}).tools.values()
    assert changed.description == "of the file"


def test_the_plan_has_those_that_match() -> None:
    """A plan carries the tools that its bundle has, and gives them back from its bytes."""
    bundle = replace(bundle_with(Tool("find", "t.yaml")), providers={"m": Provider("m", "m.yaml", "mock")})
    plan = make_plan(bundle, PlanRequest(tools={**FOUND, "other": RegistryTool("http://x")}))
    assert plan.tools == FOUND
    assert Plan.from_bytes(plan.to_bytes()).tools == FOUND


async def said(outside: Outside, name: str) -> str:
    """Return what the model reads when a tool that nobody answers is called."""
    tool = outside.tool(name)
    assert tool is not None
    with pytest.raises((CallFailed, ToolsUnavailable)) as caught:
        await tool.call({})
    return str(caught.value)


@pytest.mark.parametrize(
    ("of_job", "refused"), [pytest.param(False, True, id="an address of the bundle"), pytest.param(True, False, id="an address of the job")]
)
async def test_only_a_registry_may_lead_to_private_addresses(*, of_job: bool, refused: bool) -> None:
    """A registry's endpoint comes from whoever runs the job, so it may be a service of the cluster; never a cloud's metadata."""
    tool = Tool("find", "t.yaml", mode="live", http=HttpCall("http://127.0.0.1:1/x", of_job=of_job))
    metadata = Tool("meta", "t.yaml", mode="live", http=HttpCall("http://169.254.169.254/x", of_job=of_job))
    outside = Outside(bundle_with(tool, metadata), Surroundings(NO_PERMISSIONS, Environment({})), FakeClock())
    try:
        assert ("may not be reached" in await said(outside, "find")) is refused
        assert "may not be reached" in await said(outside, "meta")
    finally:
        await outside.close()


@pytest.mark.parametrize("endpoint", ["https://a.example/{{.id}}/x", "https://a.example/{{.absent", "https://a.example/?q={{ template }}"])
def test_an_endpoint_is_no_template(endpoint: str) -> None:
    """What a model says never becomes part of a registry's address, whatever that looks like; its arguments go into the body."""
    (tool,) = with_registry_tools(bundle_with(Tool("find", "t.yaml")), {"find": RegistryTool(endpoint)}).tools.values()
    assert tool.http is not None
    assert tool_problem(tool) == ""
    request = HttpTool(tool, tool.http, Web(NO_PERMISSIONS.addresses).fetch, Environment({})).request({"id": "1"}, {})
    assert (request.url, request.body) == (endpoint, b'{"id":"1"}')
