"""Serving an agent: who is let in, how a session goes, what it may use, and how it ends."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from engine.agents.door import SPARE_CONNECTIONS
from engine.agents.frames import Done, Said
from engine.agents.hosting import SessionLimits
from engine.agents.served import Emit
from engine.agents.server import ServerOptions
from engine.errors import ProviderError
from tests.agents.clients import Client, PlainAgent, connected, hosted
from tests.agents.scripted_agent import let_sockets_deliver, until
from tests.open_ends import open_ends


async def _echo(content: str, emit: Emit) -> None:
    emit(Said(content))
    emit(Done())


class Held:
    """Answers with what was said, once it may. `left` says that an answer was broken off."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.left = False

    async def answer(self, content: str, emit: Emit) -> None:
        """Answer, later."""
        emit(Said(content))
        self.begun.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.left = True
            raise
        emit(Done())


async def test_each_connection_is_a_conversation() -> None:
    """Sessions have different names, and one that is busy holds up no other."""
    held = Held()
    async with hosted(PlainAgent(held.answer)) as (server, endpoint), connected(endpoint) as one, connected(endpoint) as other:
        assert one.session != other.session
        await one.say("1")
        await held.begun.wait()
        await other.say("2")
        assert (await one.frame(), await other.frame()) == ({"type": "chunk", "content": "1"}, {"type": "chunk", "content": "2"})
        assert server.sessions == 2
        held.may_end.set()
        assert (await one.frame(), await other.frame()) == ({"type": "done"}, {"type": "done"})


async def test_messages_are_answered_in_their_order() -> None:
    """A client that does not wait for the end of a reply is answered after it."""
    async with hosted(PlainAgent(_echo)) as (_, endpoint), connected(endpoint) as client:
        await client.say("1")
        await client.say("2")
        assert await client.reply() + await client.reply() == [
            {"type": "chunk", "content": "1"},
            {"type": "done"},
            {"type": "chunk", "content": "2"},
            {"type": "done"},
        ]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer s3cret"}, 101),
        ({"Authorization": "bearer  s3cret "}, 101),
        ({}, 401),
        ({"Authorization": "Bearer s3cre"}, 401),
        ({"Authorization": "Bearer s3cret2"}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Authorization": "Basic s3cret"}, 401),
        ({"Authorization": "Bearer \u00e9"}, 401),
        ({"Authorization": "Bearer s3cret", "Origin": "https://elsewhere.example"}, 403),
        ({"Authorization": "Bearer s3cret", "Origin": "http://rebound.example", "Host": "rebound.example"}, 403),
        ({"Authorization": "Bearer s3cret", "Origin": "http://127.0.0.1:80", "Host": "127.0.0.1:80"}, 101),
    ],
    ids=[
        "right",
        "right, written otherwise",
        "none",
        "shorter",
        "longer",
        "empty",
        "another scheme",
        "not ASCII",
        "a page of another site",
        "a page that calls us by its own name",
        "a client that names us",
    ],
)
async def test_only_who_shows_the_token_is_let_in(headers: dict[str, str], status: int) -> None:
    """Anybody else gets a status, and no session; nor does a web page, which a browser would let in."""
    agent = PlainAgent(_echo)
    async with hosted(agent, ServerOptions("s3cret")) as (_, endpoint):
        try:
            async with connected(endpoint, headers=headers):
                found = 101
        except aiohttp.WSServerHandshakeError as error:
            found = error.status
            assert agent.open == 0
    assert found == status


async def test_there_are_only_so_many_sessions() -> None:
    """One too many is told to come again, and may when another has ended."""
    async with hosted(PlainAgent(_echo), ServerOptions(max_sessions=1)) as (server, endpoint):
        async with connected(endpoint):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                async with connected(endpoint):
                    pass
            assert (refused.value.status, refused.value.headers and refused.value.headers["Retry-After"]) == (429, "1")
        await until(lambda: server.sessions == 0)
        async with connected(endpoint) as client:
            assert await client.ask("hello") == [{"type": "chunk", "content": "hello"}, {"type": "done"}]


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "another type": ({"type": "done"}, "a client sends frames of type message"),
    "an unknown type": ({"type": "hello"}, "unknown type 'hello'"),
    "another session": ({"session_id": "x"}, "another session"),
    "content that is no text": ({"content": {"a": 1}}, "content"),
    "nothing": ({"content": " \n"}, "the message is empty"),
}


@pytest.mark.parametrize(("frame", "cause"), FAULTS.values(), ids=FAULTS.keys())
async def test_a_frame_that_is_no_message_is_refused_and_the_session_goes_on(frame: dict[str, Any], cause: str) -> None:
    """The client is told what is wrong; what it said before and says next stands."""
    async with hosted(PlainAgent(_echo)) as (_, endpoint), connected(endpoint) as client:
        await client.say("x", **frame)
        (refused,) = await client.reply()
        assert refused["error"]["code"] == "INVALID_MESSAGE"
        assert cause in refused["error"]["message"]
        assert (await client.ask("y"))[0] == {"type": "chunk", "content": "y"}


async def test_limits_of_a_session_end_it() -> None:
    """Turns, refused frames and the size of a message have limits, each with a close code of its own."""
    limits = SessionLimits(max_message_bytes=1000, max_turns=2, max_faults=1)
    async with hosted(PlainAgent(_echo), ServerOptions(limits=limits)) as (server, endpoint):
        async with connected(endpoint) as client:
            await client.ask("1")
            await client.ask("2")
            await client.say("3")
            assert await client.end() == (1008, "a session has at most 2 turns")
        async with connected(endpoint) as client:
            await client.ask("")
            await client.say("")
            assert (await client.end())[0] == 1008
        async with connected(endpoint) as client:
            await client.say("x" * 1001)
            assert (await client.end())[0] == 1009
        async with connected(endpoint) as client:
            await client.socket.send_bytes(b"x")
            assert await client.end() == (1003, "frames are text")
        await until(lambda: server.sessions == 0)


async def test_a_client_that_says_nothing_is_let_go() -> None:
    """A session that nobody uses ends."""
    limits = SessionLimits(idle_s=0.1)
    async with hosted(PlainAgent(_echo), ServerOptions(limits=limits)) as (_, endpoint), connected(endpoint) as client:
        assert await client.end() == (1000, "nothing was said for 0.1 s")


async def test_a_client_that_leaves_ends_the_reply() -> None:
    """Nobody pays for a reply that nobody hears."""
    held = Held()
    agent = PlainAgent(held.answer)
    async with hosted(agent) as (_, endpoint):
        async with connected(endpoint) as client:
            await client.say("x")
            await held.begun.wait()
        await until(lambda: held.left)
        await until(lambda: agent.open == 0)


@pytest.mark.parametrize(
    ("error", "frame"),
    [
        (ProviderError("the model is out", kind="unavailable", transient=True), {"code": "PROVIDER_UNAVAILABLE", "message": "the model is out"}),
        (ProviderError("slow", kind="rate_limit", transient=True), {"code": "PROVIDER_RATE_LIMIT", "message": "slow"}),
    ],
    ids=["out", "limited"],
)
async def test_a_turn_that_fails_is_an_error_frame(error: ProviderError, frame: dict[str, str]) -> None:
    """What the agent could not do is said in the protocol's words, and the conversation may go on."""

    async def answer(content: str, emit: Emit) -> None:
        if content == "fail":
            raise error
        await _echo(content, emit)

    async with hosted(PlainAgent(answer)) as (_, endpoint), connected(endpoint) as client:
        assert await client.ask("fail") == [{"type": "error", "error": frame}]
        assert (await client.ask("y"))[0] == {"type": "chunk", "content": "y"}


async def test_a_fault_of_ours_ends_its_session_only() -> None:
    """The client learns that the agent failed and nothing of how; others go on."""

    async def answer(content: str, emit: Emit) -> None:
        if content == "break":
            raise KeyError("a secret of ours")
        await _echo(content, emit)

    async with hosted(PlainAgent(answer)) as (_, endpoint), connected(endpoint) as other:
        async with connected(endpoint) as client:
            await client.say("break")
            assert await client.end() == (1011, "the agent failed")
        assert (await other.ask("y"))[0] == {"type": "chunk", "content": "y"}


@asynccontextmanager
async def connected_to_stop(held: Held, *, grace_s: float = 20) -> AsyncIterator[tuple[Client, Client, asyncio.Event]]:
    """Have a client in the middle of a reply, and one that is silent, of a server that stops at the event."""
    stop = asyncio.Event()
    up: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve() -> None:
        async with hosted(PlainAgent(held.answer), ServerOptions(grace_s=grace_s)) as (_, endpoint):
            up.set_result(endpoint)
            await stop.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(serve())
        endpoint = await up
        async with connected(endpoint) as busy, connected(endpoint) as idle:
            await busy.say("x")
            await busy.frame()
            yield busy, idle, stop
            stop.set()


async def test_a_stop_lets_turns_end_and_closes_every_session() -> None:
    """A reply that is under way is given to its end, then the client hears that the server goes; whoever was silent hears it at once."""
    held = Held()
    async with connected_to_stop(held) as (busy, idle, stop):
        stop.set()
        assert await idle.end() == (1001, "the server stops")
        held.may_end.set()
        assert (await busy.frame())["type"] == "done"
        assert await busy.end() == (1001, "the server stops")


async def test_a_stop_does_not_wait_for_ever() -> None:
    """A turn that does not end within the grace is broken off."""
    held = Held()
    async with connected_to_stop(held, grace_s=0.05) as (busy, _, stop):
        stop.set()
        assert (await busy.end())[0] == 1001
        assert held.left


async def test_health_is_said_without_a_token() -> None:
    """Whoever starts the server can ask whether it is up."""
    async with hosted(PlainAgent(_echo), ServerOptions("s3cret")) as (_, endpoint), aiohttp.request("GET", f"http://{endpoint}/healthz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok\n")


async def test_nothing_else_is_served() -> None:
    """Other paths say where agents are, and a request without a WebSocket is told what is missing."""
    async with hosted(PlainAgent(_echo)) as (_, endpoint):
        for path, status in (("/", 404), ("/ws", 400)):
            async with aiohttp.request("GET", f"http://{endpoint}{path}") as answer:
                assert answer.status == status


async def test_a_connection_that_asks_nothing_is_let_go() -> None:
    """Nor does one that never ends its head hold a place; one that has a session keeps it."""
    async with hosted(PlainAgent(_echo), ServerOptions(head_s=1.5)) as (_, endpoint), connected(endpoint) as client:
        host, port = endpoint.split(":")
        silent, quiet = await asyncio.open_connection(host, int(port))
        endless, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /ws HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        async with asyncio.timeout(20):
            assert (await silent.read(), await endless.read()) == (b"", b"")
        assert (await client.ask("still here"))[0] == {"type": "chunk", "content": "still here"}
        quiet.close()
        writer.close()


async def test_there_are_only_so_many_connections() -> None:
    """Connections that ask nothing cannot take up all the files of the process."""
    async with hosted(PlainAgent(_echo), ServerOptions(max_sessions=1)) as (_, endpoint):
        host, port = endpoint.split(":")
        held = [await asyncio.open_connection(host, int(port)) for _ in range(1 + SPARE_CONNECTIONS)]
        await let_sockets_deliver()
        reader, writer = await asyncio.open_connection(host, int(port))
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        for _, each in held:
            each.close()
        writer.close()


async def test_nothing_is_left_of_many_sessions() -> None:
    """Tasks and sockets end with their sessions, however these ended."""
    before = open_ends()
    async with hosted(PlainAgent(_echo)) as (server, endpoint):
        for ending in range(20):
            async with connected(endpoint) as client:
                await client.ask("x")
                if ending % 2:
                    with socket.socket(fileno=os.dup(client.socket.get_extra_info("socket").fileno())) as same:
                        same.shutdown(socket.SHUT_RDWR)
        await until(lambda: server.sessions == 0)
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()} and open_ends() <= before)
