"""The HTTP face of admission, driven as an ASGI application."""

import asyncio
import json
from typing import Any

import pytest

from hooks.admission import LIMITS, PATH, AdmissionWebhook
from hooks.intake import BodyLimits
from tests.hooks.sender import DEADLINE_S, Incoming

SMALL = BodyLimits(max_bytes=2000, free_bytes=500, deadline_s=0.05, skip_s=0.05)


async def post(*portions: bytes, path: str = PATH, method: str = "POST", headers: dict[str, str] | None = None, **how: bool) -> list[dict[str, Any]]:
    """Send a request and return what the application sends."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    encoded = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "path": path, "method": method, "headers": encoded}
    async with asyncio.timeout(DEADLINE_S):
        await AdmissionWebhook(SMALL)(scope, Incoming(portions, **how).receive, send)
    return sent


def review(**request: Any) -> bytes:
    """Return a review of something that is not ours."""
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", **request}}).encode()


@pytest.mark.parametrize("padding", [pytest.param("", id="at once"), pytest.param("x" * 1000, id="beside the event loop")])
async def test_answers(padding: str) -> None:
    """A review is answered 200 in JSON, whatever its size."""
    start, body = await post(review(name=padding))
    assert start["status"] == 200
    assert (b"content-type", b"application/json") in start["headers"]
    assert json.loads(body["body"])["response"] == {"uid": "u", "allowed": True}


async def test_in_portions() -> None:
    """A body may come in portions."""
    text = review()
    assert (await post(text[:10], text[10:]))[0]["status"] == 200


@pytest.mark.parametrize(
    ("status", "request_"),
    [
        pytest.param(400, {"body": b"nothing of the kind"}, id="no review"),
        pytest.param(400, {"body": b""}, id="no body"),
        pytest.param(400, {"body": b"[" * 1500}, id="no review, beside the event loop"),
        pytest.param(404, {"path": "/admission"}, id="another path"),
        pytest.param(405, {"method": "GET"}, id="another method"),
        pytest.param(413, {"body": b"x" * 2001}, id="too large"),
        pytest.param(413, {"headers": {"content-length": "2001"}}, id="too large, as it says itself"),
        pytest.param(408, {"stalls": True}, id="too slow"),
    ],
)
async def test_refused(status: int, request_: dict[str, Any]) -> None:
    """What cannot be answered is the sender's fault, never a failure of ours, and is told in words."""
    start, body = await post(request_.pop("body", b"{}"), **request_)
    assert start["status"] == status
    assert body["body"].startswith(b"cannot ")


async def test_a_sender_that_leaves() -> None:
    """Nobody is answered who left before the end."""
    assert await post(b"{", gone=True) == []


def test_limits() -> None:
    """An object of the largest size, before and after, fits into a review."""
    assert LIMITS.max_bytes > (3 + 1.5) * 1024 * 1024
