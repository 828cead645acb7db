"""Reaching an agent: what is shown to it, and what each way of not reaching it means."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from engine.agents.provider import AgentProvider
from engine.agents.session import Patience
from engine.errors import ProviderError
from engine.providers.port import Reply
from engine.tools.episode import begin_episode
from foundation.clock import SystemClock
from tests.agents.asking import ONCE, Nowhere, asking, spec_of, turn
from tests.agents.scripted_agent import ScriptedAgent, answering, chunk, done, serving
from tests.providers.simulated_time import Waiting, nothing


async def test_the_handshake_names_the_agent_and_shows_the_token() -> None:
    """The address is ws://endpoint/ws with agent and namespace; the token and a trace of W3C's form are headers."""
    agent = ScriptedAgent([chunk("ok"), done()])
    async with asking(agent, token="t0ken") as provider:
        reply = await provider.complete(turn("Hi"))
        request = agent.requests[0]
        assert (request.path, dict(request.query)) == ("/ws", {"agent": "clerk", "namespace": "shop"})
        assert request.headers["Authorization"] == "Bearer t0ken"
        version, trace, parent, flags = request.headers["traceparent"].split("-")
        assert (version, len(trace), len(parent), flags) == ("00", 32, 16, "01")
        assert reply.meta["traceId"] == trace


async def test_without_a_token_nothing_is_shown() -> None:
    """There is no empty Authorization."""
    agent = ScriptedAgent([chunk("ok"), done()])
    async with asking(agent) as provider:
        await provider.complete(turn("Hi"))
        assert "Authorization" not in agent.requests[0].headers


REFUSALS: dict[str, tuple[int, dict[str, str], str, bool, str, float | None]] = {
    "a bad token": (401, {}, "authentication", False, "answered 401", None),
    "forbidden": (403, {}, "authentication", False, "answered 403", None),
    "an agent that is not there": (404, {}, "invalid_request", False, "no clerk here", None),
    "too many": (429, {"Retry-After": "3"}, "rate_limit", True, "answered 429", 3.0),
    "overloaded": (503, {"Retry-After": "2"}, "unavailable", True, "answered 503", 2.0),
    "an exhausted quota": (429, {"Retry-After": "7200"}, "rate_limit", False, "it asks to be left alone for 120 min", None),
    "a redirect": (307, {"Location": "/ws2"}, "protocol", False, "a redirect, which is not followed", None),
    "a page": (200, {}, "protocol", False, "answered 200", None),
}


@pytest.mark.parametrize(("status", "headers", "kind", "transient", "cause", "wish"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_handshake_that_is_refused_says_why(
    status: int,
    headers: dict[str, str],
    kind: str,
    transient: bool,  # noqa: FBT001
    cause: str,
    wish: float | None,
) -> None:
    """A status is an error of its kind, with its words and its wish when to come again; a redirect is not followed."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return await answering(status, "no clerk here", headers)(request)

    async with serving(answer) as endpoint:
        provider = AgentProvider("clerk", spec_of(endpoint), SystemClock(), "t0ken", ONCE)
        with pytest.raises(ProviderError, match=cause) as failed:
            await provider.complete(turn("Hi", thread=""))
        await provider.close()
    assert (failed.value.kind, failed.value.transient, failed.value.retry_after_s, asked) == (kind, transient, wish, ["/ws"])


async def test_a_token_is_never_part_of_an_error() -> None:
    """An agent that repeats what it was shown does not spread it."""

    async def echo(request: web.Request) -> web.StreamResponse:
        return web.Response(status=400, text=f"bad header {request.headers['Authorization']}")

    async with serving(echo) as endpoint:
        provider = AgentProvider("clerk", spec_of(endpoint), SystemClock(), "t0ken-of-mine", ONCE)
        with pytest.raises(ProviderError) as failed:
            await provider.complete(turn("Hi", thread=""))
        await provider.close()
    assert "bad header Bearer ***" in failed.value.message
    assert "t0ken-of-mine" not in repr(failed.value.__dict__)


UNREACHED: dict[str, tuple[dict[str, Any], str, bool, str]] = {
    "nobody listens": ({"endpoint": "127.0.0.1:1"}, "unavailable", True, "no connection to 127.0.0.1:1"),
    "a metadata service": ({"endpoint": "169.254.169.254:80"}, "invalid_request", False, "may not be reached"),
    "no host": ({"endpoint": "http://x"}, "invalid_request", False, "no host:port"),
    "no port": ({"endpoint": "x"}, "invalid_request", False, "no host:port"),
    "a path": ({"endpoint": "x:80/y"}, "invalid_request", False, "no host:port"),
    "a port that is none": ({"endpoint": "x:eighty"}, "invalid_request", False, "cannot ask agent"),
    "no endpoint": ({"endpoint": ""}, "unavailable", False, "it has no endpoint"),
    "an agent in trouble": ({"endpoint": "", "trouble": "AgentRuntime 'clerk' is Pending"}, "unavailable", False, "AgentRuntime 'clerk' is Pending"),
}


@pytest.mark.parametrize(("spec", "kind", "transient", "cause"), UNREACHED.values(), ids=UNREACHED.keys())
async def test_an_agent_that_cannot_be_reached_is_an_error(spec: dict[str, Any], kind: str, transient: bool, cause: str) -> None:  # noqa: FBT001 - a row
    """Why nobody was asked is said; what an agent's own status says is not tried again."""
    provider = AgentProvider("clerk", spec_of(**spec), SystemClock(), patience=ONCE)
    with pytest.raises(ProviderError, match=cause) as failed:
        await provider.complete(turn("Hi", thread=""))
    await provider.close()
    assert (failed.value.kind, failed.value.transient) == (kind, transient)


async def test_a_server_that_does_not_answer_the_handshake_is_given_up() -> None:
    """Connecting has its own limit."""
    silent = asyncio.Event()

    async def wait(_: web.Request) -> web.StreamResponse:
        await silent.wait()
        return web.Response()

    async with serving(wait) as endpoint:
        provider = AgentProvider("clerk", spec_of(endpoint), SystemClock(), patience=Patience(retry_s=0, connect_s=0.05))
        with pytest.raises(ProviderError, match=r"within 0\.05 s") as failed:
            await provider.complete(turn("Hi", thread=""))
        silent.set()
        await provider.close()
    assert (failed.value.kind, failed.value.transient) == ("timeout", True)


async def test_a_session_that_does_not_begin_is_tried_again() -> None:
    """An agent that is full, or away for a moment, costs no item: nothing was said yet. The attempts stand with the first reply."""
    clock, agent = Waiting(nothing), ScriptedAgent([chunk("Hello."), done()], [chunk("Bye."), done()])
    asked: list[float] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(clock.monotonic())
        refusals = [answering(429, "full", {"Retry-After": "3"}), answering(503, "restarting")]
        return await (refusals[len(asked) - 1](request) if len(asked) <= len(refusals) else agent.serve(request))

    async def item() -> tuple[Reply, Reply]:
        async with begin_episode(Nowhere()):
            return await provider.complete(turn("Hi")), await provider.complete(turn("Hi", "Hello.", "Bye"))

    async with serving(answer) as endpoint:
        provider = AgentProvider("clerk", spec_of(endpoint), clock)
        first, second = await item()
        await provider.close()
    assert [attempt.kind for attempt in first.attempts] == ["rate_limit", "unavailable"]
    assert asked[1] - asked[0] >= 3
    assert (first.text, second.text, second.attempts) == ("Hello.", "Bye.", ())


async def test_patience_with_an_agent_ends() -> None:
    """One that stays away is an error in the end, which names it."""
    clock = Waiting(nothing)
    provider = AgentProvider("clerk", spec_of("127.0.0.1:1"), clock, patience=Patience(retry_s=20))
    with pytest.raises(ProviderError, match="no connection to 127"):
        await provider.complete(turn("Hi", thread=""))
    await provider.close()
    assert 5 < sum(clock.waited_s) <= 20
