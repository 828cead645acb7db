"""A person's side of the agent protocol, frame by frame, and bundles served to it."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

import aiohttp

from arena.listening import listen
from engine.agents.served import Choice, Emit, ServedBundle, plan_agent
from engine.agents.server import Agent, AgentServer, ServerOptions
from engine.bundle import load_bundle
from engine.bundle.starter import starter_files
from engine.conversation import ItemRunner
from foundation.clock import SystemClock

Socket = aiohttp.ClientWebSocketResponse[Literal[True]]


class Client:
    """One connection to an agent."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self.session = ""

    async def begin(self) -> None:
        """Read the first frame."""
        frame = await self.frame()
        assert frame["type"] == "connected"
        self.session = frame["session_id"]

    async def say(self, content: Any, /, **more: Any) -> None:
        """Send a message."""
        await self.socket.send_json({"type": "message", "session_id": self.session, "content": content} | more)

    async def frame(self) -> dict[str, Any]:
        """Return the next frame, without the session that it must name."""
        message = await self.socket.receive(timeout=20)
        assert message.type is aiohttp.WSMsgType.TEXT, (message, self.socket.close_code)
        frame: dict[str, Any] = json.loads(message.data)
        assert frame.pop("session_id") == self.session or not self.session
        return frame if self.session else frame | {"session_id": json.loads(message.data)["session_id"]}

    async def reply(self) -> list[dict[str, Any]]:
        """Return the frames of a reply, the last of them `done` or `error`."""
        frames = [await self.frame()]
        while frames[-1]["type"] not in ("done", "error"):
            frames.append(await self.frame())
        return frames

    async def ask(self, content: str) -> list[dict[str, Any]]:
        """Say something and return the frames of the reply."""
        await self.say(content)
        return await self.reply()

    async def end(self) -> tuple[int | None, str]:
        """Return with which code and words the agent ends the session."""
        message = await self.socket.receive(timeout=20)
        assert message.type is aiohttp.WSMsgType.CLOSE, message
        return self.socket.close_code, str(message.extra or "")


@asynccontextmanager
async def connected(endpoint: str, *, greeted: bool = True, **options: Any) -> AsyncIterator[Client]:
    """Connect to an agent; `greeted` reads its first frame."""
    async with aiohttp.ClientSession() as session, session.ws_connect(f"ws://{endpoint}/ws?agent=a&namespace=n", **options) as socket:
        client = Client(socket)
        if greeted:
            await client.begin()
        yield client


@asynccontextmanager
async def hosted(agent: Agent, options: ServerOptions = ServerOptions()) -> AsyncIterator[tuple[AgentServer, str]]:  # noqa: B008 - frozen
    """Serve an agent; the block gets the server and its `host:port`."""
    server, listener = AgentServer(agent, options), listen("127.0.0.1", 0, hint="")
    endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
    async with server.serving(listener):
        yield server, endpoint


@asynccontextmanager
async def served(root: Path, choice: Choice, options: ServerOptions = ServerOptions()) -> AsyncIterator[tuple[AgentServer, str]]:  # noqa: B008 - frozen
    """Serve a bundle as `arena agent serve` does."""
    bundle, plan = plan_agent(load_bundle(root), choice)
    runner = ItemRunner(bundle, plan, SystemClock())
    try:
        async with hosted(ServedBundle(plan, runner), options) as found:
            yield found
    finally:
        await runner.close()


def write_starter(root: Path) -> Path:
    """Write the bundle that `arena init` writes; its provider `steady` answers the scenarios `order-status` and `refund-window`."""
    for name, content in starter_files().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


@contextmanager
def serving_command(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `arena agent serve` until the block ends; the block gets its process and the address it names."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ARENA_")}
    command = [sys.executable, "-m", "arena", "agent", "serve", *options, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            yield process, next(word for word in line.split() if word.startswith("ws://"))
        finally:
            process.kill()


class PlainAgent:
    """Answers by a function, which may wait, emit and raise. `open` counts its conversations."""

    def __init__(self, answer: "Callable[[str, Emit], Any]") -> None:
        self._answer = answer
        self.open = 0

    @asynccontextmanager
    async def begin(self, emit: Emit) -> "AsyncIterator[PlainConversation]":
        """Begin a conversation."""
        self.open += 1
        try:
            yield PlainConversation(self._answer, emit)
        finally:
            self.open -= 1


class PlainConversation:
    """One conversation of a plain agent."""

    def __init__(self, answer: "Callable[[str, Emit], Any]", emit: Emit) -> None:
        self._answer = answer
        self._emit = emit

    async def answer(self, content: str) -> None:
        """Answer."""
        await self._answer(content, self._emit)
