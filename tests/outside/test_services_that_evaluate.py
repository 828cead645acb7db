"""Checks that a web service or an agent decides: what they are sent, and that only a score is one."""

import json
from typing import Any

import pytest
from aiohttp import web

from engine.items import CheckResult, Verdict
from tests.outside.reaching import Hold, Serve


async def asked(hold: Hold, check: dict[str, Any], **more: Any) -> CheckResult:
    """Return the result of one check."""
    return (await hold({}, [], checks=[check], **more)).checks[0]


async def test_a_service_is_sent_the_conversation(hold: Hold, serve: Serve) -> None:
    """A service gets the reply, the messages, criteria and extras as JSON, with headers from the environment, whose values are in no result."""
    seen: list[dict[str, Any]] = []

    async def score(request: web.Request) -> web.Response:
        seen.append(await request.json() | {"key": request.headers["X-Key"]})
        return web.json_response({"score": 0.9, "reasoning": f"as {request.headers['X-Key']} said"})

    params = {"url": await serve(score=score) + "/score", "headers": {"X-Key": "${KEY}"}, "criteria": "short", "extra": {"a": 1}, "min_score": 0.8}
    result = await asked(hold, {"type": "rest_eval", "params": params}, environment={"KEY": "secret-key"})
    assert seen == [
        {
            "current_output": "done",
            "messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}],
            "criteria": "short",
            "extra": {"a": 1},
            "key": "secret-key",
        }
    ]
    assert (result.passed, result.score, result.explanation) == (True, 0.9, "as [REDACTED] said")


@pytest.mark.parametrize(
    ("status", "body", "score", "error"),
    [
        pytest.param(200, 'here: {"passed": false} ok', 0.0, "", id="passed alone, in other words"),
        pytest.param(200, "fine", None, "is not a JSON object", id="no JSON"),
        pytest.param(200, '{"score": 7}', None, "has no score from 0 to 1", id="no score"),
        pytest.param(500, "down", None, "answered 500 Internal Server Error: down", id="an outage"),
    ],
)
async def test_only_a_score_is_one(hold: Hold, serve: Serve, status: int, body: str, score: float | None, error: str) -> None:
    """What has no score from 0 to 1 is an error that names the service, and the item's verdict is error, not fail."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    base = await serve(answer=answer)
    held = await hold({}, [], checks=[{"type": "rest_eval_session", "params": {"url": f"{base}/answer"}}])
    assert held.checks[0].score == score
    assert (error in held.checks[0].error) if error else not held.checks[0].error
    assert held.verdict is (Verdict.ERROR if error else Verdict.FAIL)


async def test_private_services_are_refused(hold: Hold) -> None:
    """A check reaches no private address either."""
    result = await asked(hold, {"type": "rest_eval", "params": {"url": "http://169.254.169.254/latest"}})
    assert "its address is a cloud's metadata service" in result.error


async def test_an_agent_gives_a_score(hold: Hold, serve: Serve) -> None:
    """An agent is told the task and the conversation, with its token, and its JSON is the score."""
    seen: list[str] = []

    async def card(request: web.Request) -> web.Response:
        return web.json_response({"name": "j", "url": f"http://{request.host}/rpc"})

    async def rpc(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"] + (await request.json())["params"]["message"]["parts"][0]["text"])
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"kind": "message", "parts": [{"kind": "text", "text": '{"score": 1}'}]}})

    url = await serve(**{".well-known__agent-card.json": card, "rpc": rpc})
    params = {"agent_url": url, "auth_token": "${TOKEN}", "criteria": "be brief", "include_messages": False}
    result = await asked(hold, {"type": "a2a_eval", "params": params}, environment={"TOKEN": "tok"})
    assert (result.passed, result.score, result.error) == (True, 1.0, "")
    assert seen[0].startswith("Bearer tokYou are an evaluation judge")
    assert json.loads(seen[0].rpartition("Context:\n")[2]) == {"current_output": "done", "criteria": "be brief"}
