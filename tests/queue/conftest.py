"""A real queue server, and a wire between it and a client that can be cut."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from uuid import uuid4

import pytest
import pytest_asyncio
import redis.asyncio

from engine.items import RunUID
from engine.queue.embedded import EmbeddedServer
from engine.queue.port import RunMeta, WorkQueue
from engine.queue.redis import RedisWorkQueue
from foundation.clock import SystemClock
from tests.queue.run_users import SERVERS, Scene, two_runs

DEADLINE_S = 60.0
T = TypeVar("T")


async def eventually(look: Callable[[], Awaitable[T]]) -> T:
    """Return the first true answer of `look`, within the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if seen := await look():
                return seen
            await asyncio.sleep(0.005)


async def synced(url: str) -> None:
    """Wait until all that a server has answered for is in its file, whatever kills it: it writes up to two seconds later while it syncs what was before."""
    async with redis.asyncio.Redis.from_url(url) as client:
        await client.set("synced", "1")  # WAITAOF waits for what was written by its own connection, and so for all before that
        local, _ = await client.execute_command("WAITAOF", 1, 0, 10_000)  # type: ignore[no-untyped-call]
        assert local == 1
        await client.delete("synced")


async def put_items(queue: WorkQueue, run: RunUID, count: int) -> None:
    """Pin a run of `count` items and put them all."""
    await queue.pin(run, RunMeta("sha256:x", count))
    await queue.put(run, 0, [(index, f"s/p/{index + 1}") for index in range(count)], last=True)


class FastClock(SystemClock):
    """A clock on which a second lasts a quarter of one."""

    def monotonic(self) -> float:
        """Return fast seconds."""
        return super().monotonic() * 4

    async def sleep(self, seconds: float) -> None:
        """Wait fast seconds."""
        await super().sleep(seconds / 4)


class Wire:
    """A unix socket before another one. While `swallow` is set, an answer is not passed on: the connection ends instead."""

    def __init__(self, server_socket: Path, own_socket: Path) -> None:
        self._server_socket = server_socket
        self._own_socket = own_socket
        self._server: asyncio.Server | None = None
        self._carriers: set[asyncio.Future[None]] = set()
        self.swallow = False

    @property
    def url(self) -> str:
        """Return the URL of this end."""
        return f"unix://{self._own_socket}"

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._carry, str(self._own_socket))

    async def close(self) -> None:
        """Listen no more, and end all connections."""
        if self._server is not None:
            self._server.close()
        for carrier in list(self._carriers):
            carrier.cancel()
        await asyncio.gather(*self._carriers, return_exceptions=True)
        for _ in range(3):  # aborted transports close in the loop's next rounds
            await asyncio.sleep(0)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carrier = asyncio.ensure_future(self._carry_both_ways(reader, writer))
        self._carriers.add(carrier)
        await asyncio.wait({carrier})

    async def _carry_both_ways(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(str(self._server_socket))
        ways = [asyncio.ensure_future(self._copy(reader, to_server)), asyncio.ensure_future(self._copy(from_server, writer, may_swallow=True))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for each in (writer, to_server):
                each.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, may_swallow: bool = False) -> None:
        while data := await reader.read(65536):
            if may_swallow and self.swallow:
                return
            writer.write(data)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedServer]:
    """Start a real server."""
    started = EmbeddedServer(tmp_path_factory.mktemp("queue"))
    await started.start()
    yield started
    await started.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SERVERS)
async def each_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedServer]:
    """Start a real server of each kind that is here."""
    started = EmbeddedServer(tmp_path_factory.mktemp("each"), find_binary=request.param)
    await started.start()
    yield started
    await started.stop()


@pytest.fixture
async def scene(each_server: EmbeddedServer) -> AsyncIterator[Scene]:
    """Return two runs on each kind of server."""
    async with two_runs(each_server.url) as made:
        yield made


@pytest.fixture
async def queue(server: EmbeddedServer) -> AsyncIterator[RedisWorkQueue]:
    """Return a queue of an installation of its own."""
    made = RedisWorkQueue(server.url, installation=uuid4().hex)
    yield made
    await made.close()


@pytest.fixture
def run() -> RunUID:
    """Return a run that nobody else uses."""
    return RunUID(str(uuid4()))


@pytest.fixture
async def wire(server: EmbeddedServer) -> AsyncIterator[Wire]:
    """Return a wire to the server."""
    with TemporaryDirectory(prefix="wire-") as folder:
        made = Wire(Path(server.url.removeprefix("unix://")), Path(folder) / "s")
        await made.open()
        yield made
        await made.close()
