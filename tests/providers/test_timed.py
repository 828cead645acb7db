"""Requests that go out at once, and whose times are the wire's, whatever else the process has to do."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest
import trustme
import uvloop

from engine.providers.timed import TimedRequest, TimedResponse, Times

BUSY_S = 0.4
LATE_S = 0.2
"""What is noted at once is noted long before; what waits for the busy process is noted after."""

DEADLINE_S = 20.0

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Return what runs a coroutine on each of the loops that the program has."""
    return request.param  # type: ignore[no-any-return]


@contextmanager
def received(context: ssl.SSLContext | None, *, requests: int) -> Iterator[tuple[int, Future[float]]]:
    """Answer so many requests of one connection, in a thread; yields the port, and when the last request came, once it is answered."""
    came: Future[float] = Future()

    def serve() -> None:
        accepted, _ = listener.accept()
        with accepted if context is None else context.wrap_socket(accepted, server_side=True) as connection:
            for _ in range(requests):
                connection.recv(1 << 16)
                at = time.monotonic()
                connection.sendall(ANSWER)
            came.set_result(at)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], came
        thread.join(DEADLINE_S)


async def post(session: aiohttp.ClientSession, url: str, busy_s: float = 0.0) -> Times:
    """Post a few bytes, and be busy with the answer for so long."""
    async with session.post(url, data=b"{}") as response:
        await response.read()
        time.sleep(busy_s)  # noqa: ASYNC251 - a process that has much to do
    assert isinstance(response, TimedResponse)
    return response.times


def session(trust: ssl.SSLContext | None = None) -> aiohttp.ClientSession:
    """Return a session of such requests."""
    connector = aiohttp.TCPConnector(ssl=trust or True)
    return aiohttp.ClientSession(connector=connector, request_class=TimedRequest, response_class=TimedResponse)


async def while_busy(came: Sequence[Future[float]], *requests: Coroutine[Any, Any, Times]) -> list[Times]:
    """Return what comes of requests that are made while the process has other work ready, which keeps it until well after all are answered."""

    async def work() -> None:
        for each in came:
            each.result(DEADLINE_S)
        time.sleep(BUSY_S)  # noqa: ASYNC251 - a process that has much to do

    asked = [asyncio.create_task(request) for request in requests]
    await asyncio.create_task(work())
    return await asyncio.gather(*asked)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_request_waits_for_nobody(run: Run, scheme: str) -> None:
    """What is ready to run after the step that makes a request does not hold it up, and its sending is the time of its sending."""
    authority = trustme.CA()
    serving, trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    authority.configure_trust(trust)

    async def ask(port: int, came: Future[float]) -> Times:
        url = f"{scheme}://127.0.0.1:{port}/"
        async with session(trust) as client:
            await post(client, url)  # the connection is there after it
            (times,) = await while_busy([came], post(client, url))
            return times

    with received(serving if scheme == "https" else None, requests=2) as (port, came):
        began = time.monotonic()
        times = run(ask(port, came))
    assert began < times.sent < came.result() + LATE_S


def test_an_answer_came_when_its_bytes_did(run: Run) -> None:
    """Answers that came together took equally long, although the process is busy with each in turn when it has read them."""

    async def ask(ports: list[int], came: list[Future[float]]) -> list[Times]:
        urls = [f"http://127.0.0.1:{port}/" for port in ports]
        async with session() as client:
            for url in urls:
                await post(client, url)
            return await while_busy(came, *(post(client, url, BUSY_S) for url in urls))

    with received(None, requests=2) as (one, came), received(None, requests=2) as (other, too):
        first, second = run(ask([one, other], [came, too]))
    assert abs(first.took_s - second.took_s) < LATE_S


@contextmanager
def reading(expected: bytes) -> Iterator[int]:
    """Read a request slowly until it ends in `expected`, and answer it, in a thread; yields the port."""

    def serve() -> None:
        accepted, _ = listener.accept()
        with accepted:
            came = b""
            while not came.endswith(expected) and (piece := accepted.recv(4096)):
                came += piece
            accepted.sendall(ANSWER)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(DEADLINE_S)


def narrow(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket that takes little at once."""
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    made.settimeout(0)
    return made


def test_what_a_connection_does_not_take_at_once_follows(run: Run) -> None:
    """A request that is larger than what the connection takes goes on when there is room, and is whole."""
    headers = {f"x-{number}": "v" * 4096 for number in range(30)}
    body = b"y" * 32_000 + b"the end"

    async def ask(port: int) -> int:
        connector = aiohttp.TCPConnector(socket_factory=narrow)
        client = aiohttp.ClientSession(connector=connector, request_class=TimedRequest, response_class=TimedResponse)
        async with client, client.post(f"http://127.0.0.1:{port}/", headers=headers, data=body) as response:
            return response.status

    with reading(b"the end") as port:
        assert run(ask(port)) == 200
