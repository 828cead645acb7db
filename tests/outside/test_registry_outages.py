"""Tools of a job's registries: an endpoint that is out is waited for, and never becomes a tool's answer, a failed check or a score."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from engine.bundle.registry_tools import RegistryTool
from engine.conversation import ItemRunner
from engine.errors import ToolsUnavailable
from engine.items import ItemResult, Verdict
from engine.permissions import NO_PERMISSIONS
from engine.plan import PlanRequest, make_plan
from engine.providers.connections import Connections
from engine.tools.environment import Environment
from engine.tools.outside import Outside, Surroundings
from engine.tools.patient_web import PatientWeb
from engine.tools.port import CallFailed
from engine.tools.web import Web, WebRequest
from foundation.addresses import AddressPolicy
from foundation.clock import Clock, SystemClock
from tests.outside.reaching import Handler, Serve, call, results_of, write_bundle
from tests.providers.simulated_time import Waiting, nothing


async def held(root: Path, url: str, calls: list[Any], *, clock: Clock | None = None, timeout_s: float = 60.0, **more: Any) -> ItemResult:
    """Hold a conversation whose model makes `calls`, and whose tool `find` a registry has at `url`."""
    tools = {"find": {"mode": "mock", "mock_result": {"never": "said"}} | more.pop("tool", {})}
    environment = more.pop("environment", {})
    bundle = write_bundle(root, tools, calls, **more)
    plan = replace(make_plan(bundle, PlanRequest(tools={"find": RegistryTool(url)})), item_timeout_s=timeout_s)
    runner = ItemRunner(bundle, plan, clock or SystemClock(), Connections(environment))
    try:
        return await runner.run(plan.items[0])
    finally:
        await runner.close()


def answers(*statuses: int) -> Handler:
    """Return a handler that answers with these statuses, one after the other, the last again and again; 0 breaks the connection off."""
    left = list(statuses)

    async def answer(request: web.Request) -> web.Response:
        status = left.pop(0) if len(left) > 1 else left[0]
        if status == 0:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"said": status}, status=status or 200)

    return answer


@pytest.fixture
def silence(serve: Serve) -> Iterator[Handler]:
    """Return a handler that says nothing until the test ends."""
    del serve  # its server ends after this does
    ended = asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        del request
        await ended.wait()
        return web.Response()

    yield wait
    ended.set()


@pytest.mark.parametrize("statuses", [(500, 200), (503, 502, 504, 200), (408, 425, 429, 200), (0, 200)], ids=str)
async def test_what_comes_back_in_time_costs_nothing(tmp_path: Path, serve: Serve, statuses: tuple[int, ...]) -> None:
    """After outages, "too many requests" and broken connections the call is made again, and the model reads only the answer that comes."""
    result = await held(tmp_path, await serve(find=answers(*statuses)) + "/find", [call("find", q=1)], clock=Waiting(nothing))
    assert (result.verdict, results_of(result)) == (Verdict.PASS, ['{"said":200}'])


@asynccontextmanager
async def closed_port() -> AsyncIterator[tuple[str, Callable[[], Awaitable[None]]]]:
    """Yield an address at which nobody listens, and what opens it."""
    app = web.Application()
    app.router.add_route("*", "/find", answers(200))
    runner = web.AppRunner(app)
    await runner.setup()
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))

        async def open_it() -> None:
            if not runner.sites:
                await web.SockSite(runner, bound).start()

        yield f"http://127.0.0.1:{bound.getsockname()[1]}/find", open_it
        await runner.cleanup()


async def test_a_server_that_is_down_then_up(tmp_path: Path) -> None:
    """Nobody listens at first; once somebody does, the conversation goes on as if nothing had been."""
    async with closed_port() as (url, open_it):
        result = await held(tmp_path, url, [call("find")], clock=Waiting(open_it))
    assert (result.verdict, results_of(result)) == (Verdict.PASS, ['{"said":200}'])


async def test_whoever_waits_for_an_endpoint_says_so(tmp_path: Path) -> None:
    """While an endpoint is out the engine names it, with the cause; once it answers it is no trouble any more."""
    seen = []

    async def look() -> None:
        seen.append(dict(runner.troubles))
        await open_it()

    async with closed_port() as (url, open_it):
        bundle = write_bundle(tmp_path, {"find": {"mode": "mock", "mock_result": {}}}, [call("find")])
        plan = make_plan(bundle, PlanRequest(tools={"find": RegistryTool(url)}))
        runner = ItemRunner(bundle, plan, Waiting(look), Connections({}))
        await runner.run(plan.items[0])
        assert runner.troubles == {}
        await runner.close()
    assert [list(troubles) for troubles in seen] == [[url.removesuffix("/find")]]
    assert f"{url} cannot be reached" in seen[0][url.removesuffix("/find")]


CHECK = {"type": "tools_called", "params": {"tool_names": ["other"]}}


async def test_a_server_that_stays_down_is_an_error(tmp_path: Path) -> None:
    """After a third of the item's time it ends with the error `tools`, and may be tried again: no tool answered, no check failed."""
    clock = Waiting(nothing)
    async with closed_port() as (url, _):
        result = await held(tmp_path, url, [call("find")], clock=clock, checks=[CHECK])
    assert result.error is not None
    assert (result.verdict, result.error.kind, result.retryable) == (Verdict.ERROR, "tools", True)
    assert result.error.message.startswith(f"cannot call a tool of the job's registries: {url} cannot be reached")
    assert (results_of(result), result.checks) == ([], [])
    assert len(clock.waited_s) > 3
    assert sum(clock.waited_s) <= 20


async def test_several_calls_of_one_reply(tmp_path: Path, serve: Serve) -> None:
    """Calls that are made at once end the item as one does."""
    url = await serve(find=answers(503)) + "/find"
    result = await held(tmp_path, url, [[call("find", a=1), call("find", a=2)]], clock=Waiting(nothing))
    assert result.error is not None
    assert (result.error.kind, result.retryable) == ("tools", True)


async def test_an_answer_that_does_not_come(tmp_path: Path, serve: Serve, silence: Handler) -> None:
    """Silence beyond the tool's own time limit is an outage, too."""
    http = {"url": "https://file.example/x", "timeout_ms": 50}
    url = await serve(find=silence) + "/find"
    result = await held(tmp_path, url, [call("find")], clock=Waiting(nothing), tool={"mode": "live", "http": http})
    assert result.error is not None
    assert (result.error.kind, "did not answer within 0.05 s" in result.error.message) == ("tools", True)


@asynccontextmanager
async def stranger() -> AsyncIterator[str]:
    """Yield an address whose certificate nobody trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    runner = web.AppRunner(web.Application())
    await runner.setup()
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        await web.SockSite(runner, bound, ssl_context=context).start()
        yield f"https://127.0.0.1:{bound.getsockname()[1]}/find"
        await runner.cleanup()


async def lost(root: Path, url: str) -> str:
    """Return why an item ended whose tool is at `url`; nobody waited for it, nor will."""
    clock = Waiting(nothing)
    result = await held(root, url, [call("find")], clock=clock, checks=[CHECK])
    assert result.error is not None
    assert (result.verdict, result.error.kind, result.retryable) == (Verdict.ERROR, "tools", False)
    assert (results_of(result), clock.waited_s) == ([], [])
    return result.error.message


async def test_an_endpoint_that_asks_for_an_hour(tmp_path: Path, serve: Serve) -> None:
    """A run does not stand still for so long: the item is an error at once."""

    async def away(_request: web.Request) -> web.Response:
        return web.Response(status=503, headers={"Retry-After": "3600"})

    assert "a run waits 10 min at most" in await lost(tmp_path, await serve(find=away) + "/find")


async def test_an_address_that_nobody_trusts(tmp_path: Path) -> None:
    """A certificate that does not hold is an error at once, and nothing that a model reads."""
    async with stranger() as url:
        assert "certificate" in (await lost(tmp_path, url)).lower()


async def test_an_address_that_may_not_be_reached(tmp_path: Path, serve: Serve) -> None:
    """Neither a registry's own nor one that its endpoint leads to is something that a model reads."""

    async def onward(request: web.Request) -> web.Response:
        del request
        raise web.HTTPTemporaryRedirect("http://169.254.7.7/")

    assert "link-local" in await lost(tmp_path, "http://169.254.7.7/find")
    assert "link-local" in await lost(tmp_path, await serve(find=onward) + "/find")


async def test_a_name_of_an_address_that_may_not_be_reached() -> None:
    """It is not waited for: no patience makes the address another one."""
    clock, private = Waiting(nothing), Web(AddressPolicy(), lambda *_: [ip_address("10.1.2.3")])
    with pytest.raises(ToolsUnavailable, match="is private") as lost:
        await PatientWeb(private, clock, 60.0).fetch(WebRequest("POST", "http://tools.example/find"))
    await private.close()
    assert (lost.value.transient, clock.waited_s) == (False, [])


async def test_an_outage_names_no_secret(tmp_path: Path, serve: Serve) -> None:
    """A value of `headers_from_env` that the endpoint says back is unreadable in the error."""

    async def echo(request: web.Request) -> web.Response:
        return web.Response(status=503, reason=f"not {request.headers['X-Key']}")

    http = {"url": "https://file.example/x", "headers_from_env": ["X-Key=SERVICE_KEY"]}
    url = await serve(find=echo) + "/find"
    secret = {"SERVICE_KEY": "opensesame"}
    result = await held(tmp_path, url, [call("find")], clock=Waiting(nothing), tool={"mode": "live", "http": http}, environment=secret)
    assert result.error is not None
    assert result.error.message.endswith("answered 503 not [REDACTED]")


@pytest.mark.parametrize("status", [401, 405, 407])
async def test_an_endpoint_that_lets_nobody_call(tmp_path: Path, serve: Serve, status: int) -> None:
    """An endpoint that refuses whoever calls says nothing of the model: the item ends at once, and no other attempt would end better."""
    url = await serve(find=answers(status, 200)) + "/find"
    result = await held(tmp_path, url, [call("find")])
    assert (result.verdict, result.retryable) == (Verdict.ERROR, False)
    assert result.error is not None
    assert (result.error.kind, f"{url} answered {status}" in result.error.message) == ("tools", True)
    assert result.error.message.endswith("check the endpoint of its ToolRegistry, and the method and headers of its file")


@pytest.mark.parametrize("status", [400, 403, 404, 409])
async def test_what_a_tool_refuses_is_the_models_to_read(tmp_path: Path, serve: Serve, status: int) -> None:
    """A 4xx is the tool's word on the call: the model reads it, once."""
    url = await serve(find=answers(status, 200)) + "/find"
    result = await held(tmp_path, url, [call("find")])
    assert result.verdict is Verdict.PASS
    (said,) = results_of(result)
    assert said.startswith(f"Error: tool 'find' cannot be called: POST {url} answered {status}")


@pytest.mark.parametrize(
    ("seconds", "cause"),
    [pytest.param(60, "answered 503", id="out"), pytest.param(0.05, "did not answer within 0.05 s", id="too late for the check")],
)
async def test_a_check_that_runs_such_a_tool(tmp_path: Path, serve: Serve, silence: Handler, seconds: float, cause: str) -> None:
    """`tool_exec` of a registry's tool that is out is no failed check but an error, which another attempt may mend."""
    handler = answers(503) if seconds > 1 else silence
    checks = [{"type": "tool_exec", "params": {"tool": "find", "timeout_seconds": seconds}}]
    result = await held(tmp_path, await serve(find=handler) + "/find", [], clock=Waiting(nothing), checks=checks)
    assert (result.verdict, result.retryable) == (Verdict.ERROR, True)
    assert cause in (result.checks[0].error or "")


async def test_a_tool_of_the_bundle_keeps_the_formats_rule(tmp_path: Path) -> None:
    """What a bundle's own live tool cannot reach, its model reads at once, as the format has it."""
    bundle = write_bundle(tmp_path, {"own": {"mode": "live", "http": {"url": "http://127.0.0.1:1/x"}}}, [call("own")])
    outside = Outside(bundle, Surroundings(NO_PERMISSIONS, Environment({}), patience_s=60.0), SystemClock())
    tool = outside.tool("own")
    assert tool is not None
    try:
        with pytest.raises(CallFailed, match="may not be reached"):
            await tool.call({})
    finally:
        await outside.close()
