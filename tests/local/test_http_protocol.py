"""What a connection may cost the server before anybody has shown a token."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from arena import http_protocol
from arena.http_protocol import MAX_HEAD_BYTES, BoundedProtocol

DEADLINE_S = 20
HEAD = b"GET / HTTP/1.1\r\nhost: here\r\n"


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Read a body and say how long it was."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    text = f"{scope['method']} {size}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(text)).encode())]})
    await send({"type": "http.response.body", "body": text})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Serve with the protocol, and give the port."""
    config = uvicorn.Config(answer, port=0, http=BoundedProtocol, loop="none", ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    server.config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    yield server.servers[0].sockets[0].getsockname()[1]
    await server.shutdown()


async def told(port: int, *parts: bytes) -> bytes:
    """Send parts and return all that comes until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(DEADLINE_S):
            for part in parts:
                writer.write(part)
                await writer.drain()
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_requests_of_one_connection_are_all_answered(port: int) -> None:
    """Several requests after one another, each with a body larger than a head may be, count for themselves."""
    body = b"x" * (MAX_HEAD_BYTES * 2)
    post = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: %d\r\n" % len(body)
    said = await told(port, post + b"\r\n" + body, HEAD + b"\r\n", post + b"connection: close\r\n\r\n" + body)
    assert said.count(b"HTTP/1.1 200") == 3
    assert said.count(b"POST %d" % len(body)) == 2


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"GET /" + b"a" * (MAX_HEAD_BYTES + 1), id="an endless path"),
        pytest.param(HEAD + b"x: " + b"a" * (MAX_HEAD_BYTES + 1), id="an endless header"),
        pytest.param(HEAD + b"x: a\r\n" * (MAX_HEAD_BYTES // 6 + 1), id="headers without end"),
    ],
)
async def test_a_head_that_does_not_end_is_refused(port: int, head: bytes) -> None:
    """A head over its limit is answered 400, and the connection closed, whatever it is that grows."""
    assert (await told(port, head)).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("parts", [(), (b"GET /",), (HEAD + b"\r\n", HEAD)], ids=["nothing", "half a line", "a second request"])
async def test_a_slow_head_is_not_waited_for(port: int, parts: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that does not say what it wants is closed after a while."""
    monkeypatch.setattr(http_protocol, "MAX_HEAD_S", 0.5)
    assert (await told(port, *parts)).count(b"HTTP/1.1") == max(0, len(parts) - 1)


async def test_connections_are_counted(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection too many is closed at once; when others end, there is room again."""
    monkeypatch.setattr(http_protocol, "MAX_CONNECTIONS", 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD + b"\r\n")
    async with asyncio.timeout(DEADLINE_S):
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        assert await told(port) == b""
        writer.write(HEAD + b"connection: close\r\n\r\n")
        await reader.read()
        writer.close()
        while not (await told(port, HEAD + b"connection: close\r\n\r\n")).startswith(b"HTTP/1.1 200"):
            continue
