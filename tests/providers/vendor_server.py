"""A model's endpoint on loopback that answers byte by byte as a script says: documented shapes, and what servers really send.

It speaks HTTP/1.1 by hand, so that headers, cuts and endings are the script's. Times of what it read and wrote are kept, by `time.monotonic`.
"""

import asyncio
import contextlib
import json
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

from multidict import CIMultiDict


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next piece, never for less: a timer of uvloop's counts whole milliseconds, and may end within the last one."""

    seconds: float

    async def wait(self) -> None:
        """Wait to the end."""
        end = time.monotonic() + self.seconds
        while (left := end - time.monotonic()) > 0:  # noqa: ASYNC110 - it is time that is waited for
            await asyncio.sleep(left)


@dataclass(frozen=True, slots=True)
class Gate:
    """Wait until the test sets `opened`."""

    opened: asyncio.Event


class Cut:
    """Reset the connection."""


class Hang:
    """Say nothing more, and keep the connection until the client closes it."""


class Close:
    """Close the connection as at the end of an answer."""


Step = bytes | Pause | Gate | Cut | Hang | Close


@dataclass(slots=True)
class Seen:
    """A request. `at` is when its last byte was read; `sent_at` is when each piece of the answer was written."""

    method: str
    path: str
    headers: CIMultiDict[str]
    body: bytes
    at: float
    sent_at: list[float] = field(default_factory=list)
    connection: int = 0

    @property
    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


Answering = Callable[[Seen], Sequence[Step] | Awaitable[Sequence[Step]]]


class VendorServer:
    """Answers each request with the next script of `then`, the last one again and again, or as `answering` decides."""

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self.answering: Answering | None = None
        self.connections = 0
        self._scripts: list[Sequence[Step]] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Event()

    async def asked(self, times: int) -> None:
        """Wait until so many requests have come, 20 s at most."""
        async with asyncio.timeout(20):
            while len(self.requests) < times:
                self._arrived.clear()
                await self._arrived.wait()

    @property
    def port(self) -> int:
        """Return where it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """Return its address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def then(self, *steps: Step) -> None:
        """Add a script for the next request."""
        self._scripts.append(steps)

    async def start(self, **options: Any) -> None:
        """Listen on a free port of loopback."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 22, backlog=4096, **options)

    async def stop(self) -> None:
        """Stop listening and cut what is open."""
        if self._server is not None:
            self._server.close()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._serve(reader, writer, number):
                    pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers: CIMultiDict[str] = CIMultiDict()
        for line in head[1:-2]:
            name, _, value = line.partition(":")
            headers.add(name, value.strip())
        body = await reader.readexactly(int(headers.get("Content-Length", 0)))
        seen = Seen(method, path, headers, body, time.monotonic(), connection=number)
        self.requests.append(seen)
        self._arrived.set()
        if self.answering is not None:
            answer = self.answering(seen)
            steps = await answer if isinstance(answer, Awaitable) else answer
        else:
            steps = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        return await self._play(steps, seen, reader, writer)

    async def _play(self, steps: Sequence[Step], seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        for step in steps:
            if isinstance(step, bytes):
                writer.write(step)
                seen.sent_at.append(time.monotonic())
                await writer.drain()
            elif isinstance(step, Pause):
                await step.wait()
            elif isinstance(step, Gate):
                await step.opened.wait()
            elif isinstance(step, Hang):
                await reader.read()
                return False
            elif isinstance(step, Close):
                return False
            else:
                writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return False
        return True


@contextlib.asynccontextmanager
async def vendor_server(**options: Any) -> AsyncIterator[VendorServer]:
    """Run a server; `options` are asyncio's, such as `ssl`."""
    server = VendorServer()
    await server.start(**options)
    try:
        yield server
    finally:
        await server.stop()


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """Return a whole answer: `body` as it is when it is bytes, else as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head(status, {"Content-Type": "application/json", "Content-Length": str(len(content)), **(headers or {})}) + content


def head(status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the head of an answer."""
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def stream_head(headers: Mapping[str, str] | None = None, kind: str = "text/event-stream") -> bytes:
    """Return the head of an answer in chunks."""
    return head(200, {"Content-Type": kind, "Transfer-Encoding": "chunked", **(headers or {})})


def chunk(data: bytes) -> bytes:
    """Return a piece of a body in chunks."""
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def event(data: Any, name: str = "") -> bytes:
    """Return a server-sent event: `data` as it is when it is text, else as JSON."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def sse(*events: Any, last: Sequence[Step] = (LAST_CHUNK,)) -> tuple[Step, ...]:
    """Return a stream of events, each in a chunk of its own: JSON, text, bytes as they are, `(name, JSON)`, or a step of its own."""
    return (stream_head(), *(_piece(entry) for entry in events), *last)


def _piece(entry: Any) -> Step:
    if isinstance(entry, bytes):
        return chunk(entry)
    if isinstance(entry, Pause | Gate | Cut | Hang | Close):
        return entry
    return chunk(event(entry[1], entry[0])) if isinstance(entry, tuple) else chunk(event(entry))
