"""A2A agents: mocks that answer from the bundle, remote ones in both versions of the protocol, and what is never told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from engine.errors import ToolsUnavailable
from engine.items import Verdict
from engine.permissions import Permissions
from engine.tools.environment import Environment
from engine.tools.outside import ASK_AGAIN_S, Outside, Surroundings
from foundation.clock import FakeClock
from tests.outside.reaching import LOOPBACK, Handler, Hold, Serve, call, parts_of, results_of, write_bundle

CARD = {"name": "Weather Desk", "skills": [{"id": "fore-cast", "description": "Forecasts"}, {"id": "alerts", "name": "Alerts"}]}
FORECAST = "a2a__weather_desk__fore_cast"
CHECKS = [
    {"type": "agent_invoked", "params": {"agents": [FORECAST]}},
    {"type": "agent_response_contains", "params": {"agent": FORECAST, "contains": "Sunny"}},
]
ANSWERS = [
    {"skill": "fore-cast", "match": {"contains": "PARIS", "regex": "tod.y"}, "response": {"parts": [{"text": "Sunny"}, {"text": "and warm"}]}},
    {"skill": "fore-cast", "match": {"contains": "rome"}, "error": "out of range"},
    {"response": {"parts": [{"text": "no idea"}]}},
]


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        pytest.param("Paris, today?", '{"response":"Sunny\\nand warm"}', id="text and pattern fit"),
        pytest.param("Paris tomorrow", '{"response":"no idea"}', id="the next rule that fits"),
        pytest.param("Rome", "Error: agent 'weather' failed: out of range", id="an error"),
    ],
)
async def test_mocks_answer_by_the_first_rule(hold: Hold, query: str, answer: str) -> None:
    """A mock agent answers from the bundle, by the first rule whose skill, text and pattern fit, and needs no listing in the prompt."""
    agents = [{"name": "weather", "card": CARD, "responses": ANSWERS}]
    result = await hold({}, [call(FORECAST, query=query)], a2a_agents=agents, checks=CHECKS if "today" in query else [])
    assert results_of(result) == [answer]
    assert result.verdict is Verdict.PASS
    assert result.messages[0]["meta"]["availableTools"] == [FORECAST, "a2a__weather_desk__alerts"]


async def test_skill_filter_and_arguments(hold: Hold) -> None:
    """A filter takes skills away; a call without a query is refused before anybody is asked."""
    agents = [{"name": "weather", "card": CARD, "responses": ANSWERS, "skill_filter": {"blocklist": ["alerts"]}}]
    result = await hold({}, [call(FORECAST), call("a2a__weather_desk__alerts", query="x")], a2a_agents=agents)
    assert "the arguments do not fit the tool's schema" in results_of(result)[0]
    assert "is not offered" in results_of(result)[1]


def agent(card: Callable[[str], dict[str, Any]], answers: list[dict[str, Any]], seen: list[dict[str, Any]]) -> dict[str, Handler]:
    """Return the handlers of an agent that gives `answers` in turn and notes in `seen` what it is sent."""

    async def show(request: web.Request) -> web.Response:
        return web.json_response(card(f"http://{request.host}"))

    async def answer(request: web.Request) -> web.Response:
        seen.append(await request.json() | {"headers": dict(request.headers)})
        return web.json_response({"jsonrpc": "2.0", "id": seen[-1]["id"]} | answers[len(seen) - 1])

    return {".well-known__agent-card.json": show, "rpc": answer}


def current(base: str) -> dict[str, Any]:
    """Return a card of protocol 1.0."""
    return CARD | {"supportedInterfaces": [{"url": f"{base}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}


def old(base: str) -> dict[str, Any]:
    """Return a card of protocol 0.3."""
    return CARD | {"url": f"{base}/rpc", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}


async def test_remote_agents_of_version_1(hold: Hold, serve: Serve) -> None:
    """A 1.0 agent gets SendMessage with the skill and the credential; the parts of its task's artifacts are the answer, and the token is in no result."""
    seen: list[dict[str, Any]] = []
    parts = [{"text": "Sunny for tok-12345"}, {"data": {"t": 20}}, {"raw": "iVBO", "mediaType": "image/png"}]
    done = {"result": {"task": {"id": "1", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [{"parts": parts}]}}}
    url = await serve(**agent(current, [done], seen))
    agents = [{"name": "weather", "url": url, "auth": {"scheme": "Bearer", "token_env": "TOKEN"}, "headers_from_env": ["X-Team=TEAM"]}]
    result = await hold({}, [call(FORECAST, query="Paris")], a2a_agents=agents, environment={"TOKEN": "tok-12345", "TEAM": "blue"})
    request = seen[0]
    assert (request["method"], request["params"]["message"]["parts"], request["params"]["message"]["role"]) == (
        "SendMessage",
        [{"text": "Paris"}],
        "ROLE_USER",
    )
    assert request["params"]["message"]["metadata"] == {"skillId": "fore-cast"}
    assert (request["headers"]["Authorization"], request["headers"]["X-Team"], request["headers"]["A2A-Version"]) == (
        "Bearer tok-12345",
        "blue",
        "1.0",
    )
    assert json.loads(results_of(result)[0]) == {"response": 'Sunny for [REDACTED]\n{"t": 20}'}
    assert parts_of(result) == [{"type": "image", "media": {"mimeType": "image/png", "data": "iVBO"}}]


async def test_remote_agents_of_version_0_3(hold: Hold, serve: Serve) -> None:
    """A 0.3 agent gets message/send with kinds; one whose task still works is asked again until it is done."""
    seen: list[dict[str, Any]] = []
    working = {"result": {"kind": "task", "id": "7", "status": {"state": "working"}}}
    done = {"result": {"kind": "task", "id": "7", "status": {"state": "completed", "message": {"parts": [{"kind": "text", "text": "Rain"}]}}}}
    url = await serve(**agent(old, [working, done], seen))
    result = await hold({}, [call(FORECAST, query="Oslo")], a2a_agents=[{"name": "weather", "url": url}])
    assert results_of(result) == ['{"response":"Rain"}']
    assert [request["method"] for request in seen] == ["message/send", "tasks/get"]
    assert seen[0]["params"]["message"]["parts"] == [{"kind": "text", "text": "Oslo"}]
    assert seen[1]["params"] == {"id": "7"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param({"error": {"code": -32000, "message": "no quota"}}, "it refused: no quota", id="a refusal"),
        pytest.param(
            {"result": {"task": {"id": "1", "status": {"state": "TASK_STATE_FAILED", "message": {"parts": [{"text": "boom"}]}}}}},
            "its task is 'failed': boom",
            id="a failed task",
        ),
        pytest.param({"result": 3}, "its answer has no result", id="not the protocol"),
    ],
)
async def test_agents_that_fail(hold: Hold, serve: Serve, answer: dict[str, Any], why: str) -> None:
    """An agent that refuses, fails or does not speak the protocol is a tool error that names agent and address."""
    url = await serve(**agent(current, [answer], []))
    result = await hold({}, [call(FORECAST, query="x")], a2a_agents=[{"name": "weather", "url": url}])
    assert results_of(result) == [f"Error: agent 'weather' ({url}/rpc) failed: {why}"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        pytest.param({"url": "http://127.0.0.1:1"}, "cannot be reached", id="nobody there"),
        pytest.param({"url": "http://192.168.3.4"}, "may not be reached: its address is private", id="a private address"),
        pytest.param({"url": "http://127.0.0.1:1", "auth": {"token_env": "NOPE"}}, "variable NOPE of agent 'weather' is not set", id="no token"),
    ],
)
async def test_cards_that_cannot_be_read(hold: Hold, more: dict[str, Any], why: str) -> None:
    """An agent whose card cannot be read makes the item an error that names it, never a score."""
    result = await hold({}, [], a2a_agents=[{"name": "weather"} | more])
    assert result.verdict is Verdict.ERROR
    assert result.error is not None
    assert "cannot read the card of agent 'weather'" in result.error.message
    assert why in result.error.message


async def test_an_agent_that_is_out_is_not_asked_for_every_item(tmp_path: Path, serve: Serve) -> None:
    """An agent whose card could not be read is left alone for a while, and asked again after it."""
    asked: list[int] = []

    async def show(request: web.Request) -> web.Response:
        asked.append(len(asked))
        return web.Response(status=503) if len(asked) == 1 else web.json_response(current(f"http://{request.host}"))

    url = await serve(**{".well-known__agent-card.json": show})
    bundle = write_bundle(tmp_path, {}, [], a2a_agents=[{"name": "weather", "url": url}])
    clock = FakeClock()
    outside = Outside(bundle, Surroundings(Permissions(networks=LOOPBACK), Environment({})), clock)
    for _ in range(2):
        with pytest.raises(ToolsUnavailable, match="answered 503"):
            await outside.complete(bundle.scenarios["s"])
    assert len(asked) == 1
    await clock.advance(ASK_AGAIN_S)
    assert FORECAST in (await outside.complete(bundle.scenarios["s"])).tools
    await outside.close()
