"""Watches on an API server that ends, breaks, forgets or falls silent."""

import asyncio
import random
from contextlib import aclosing
from typing import Any

import pytest

from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.kube_watch import Backoff
from reconcile.cluster.port import ARENA_JOB
from reconcile.errors import ClusterError, Forbidden, Gone, StoreUnavailable
from tests.cluster.scripted_server import HastyClock, Reply, ScriptedServer, scripted

DICE = random.Random(1)  # noqa: S311 - a test wants the same again


def event(event_type: str, version: int) -> dict[str, Any]:
    """Return an event of a job whose name is its version."""
    metadata = {"name": f"j{version}", "namespace": "ns", "resourceVersion": str(version), "managedFields": [{}]}
    return {"type": event_type, "object": {"kind": "ArenaJob", "metadata": metadata}}


def error(code: int, message: str = "no") -> dict[str, Any]:
    """Return an error as it comes within a watch."""
    return {"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": code, "message": message}}


async def watched(server: ScriptedServer, count: int, clock: HastyClock | None = None, silence_s: float = 75.0) -> list[tuple[str, str]]:
    """Watch from version 5 until so many events came, and return their types and names."""
    cluster = KubeCluster(server.access, clock or HastyClock(), dice=DICE, silence_s=silence_s)
    told: list[tuple[str, str]] = []
    try:
        async with asyncio.timeout(20), aclosing(cluster.watch(ARENA_JOB, "ns", "5")) as events:
            async for each in events:
                assert "managedFields" not in each.object["metadata"]
                told.append((each.type, each.object["metadata"]["name"]))
                if len(told) == count:
                    break
    finally:
        await cluster.close()
    return told


def versions(server: ScriptedServer) -> list[str]:
    """Return the version that each request asked to go on from."""
    return [request.query["resourceVersion"] for request in server.requests]


async def test_what_a_watch_asks_for() -> None:
    """A watch asks for bookmarks, and for 5 to 10 minutes, so that many watches do not end together."""
    async with scripted(*[Reply(lines=[event("ADDED", place)]) for place in range(6, 16)]) as server:
        await watched(server, 10)
    assert {(request.query["watch"], request.query["allowWatchBookmarks"]) for request in server.requests} == {("true", "true")}
    seconds = {int(request.query["timeoutSeconds"]) for request in server.requests}
    assert all(300 <= each <= 600 for each in seconds)
    assert len(seconds) > 5


@pytest.mark.parametrize("then", ["end", "break"])
async def test_a_watch_goes_on_where_it_was(then: str) -> None:
    """A watch that the server ends, or whose connection breaks, goes on after the last event without a list."""
    first = Reply(lines=[event("ADDED", 6), event("MODIFIED", 7)], then=then)
    async with scripted(first, Reply(lines=[event("DELETED", 8)])) as server:
        assert await watched(server, 3) == [("ADDED", "j6"), ("MODIFIED", "j7"), ("DELETED", "j8")]
    assert versions(server) == ["5", "7"]


async def test_a_bookmark_is_where_a_watch_was() -> None:
    """A bookmark is told to nobody, and a watch goes on from it."""
    async with scripted(Reply(lines=[event("BOOKMARK", 70)]), Reply(lines=[event("ADDED", 71)])) as server:
        assert await watched(server, 1) == [("ADDED", "j71")]
    assert versions(server) == ["5", "70"]


async def test_an_event_that_was_cut_is_told_once() -> None:
    """A line that broke off is no event: it comes again, whole."""
    cut = Reply(lines=[event("ADDED", 6), b'{"type": "ADDED", "object": {"metad'], then="break")
    async with scripted(cut, Reply(lines=[event("ADDED", 7)])) as server:
        assert await watched(server, 2) == [("ADDED", "j6"), ("ADDED", "j7")]
    assert versions(server) == ["5", "6"]


async def test_events_cut_into_pieces() -> None:
    """Events are lines, however the network cuts or joins them; an empty line is none."""
    text = b'{"type":"ADDED","object":{"metadata":{"name":"j6","resourceVersion":"6"}}}\n'
    pieces = [text[:20], text[20:] + b"\n" + text.replace(b"6", b"7") + text[:1], text[1:].replace(b"6", b"8")]
    async with scripted(Reply(lines=pieces)) as server:
        assert [name for _, name in await watched(server, 3)] == ["j6", "j7", "j8"]


async def test_a_large_event() -> None:
    """An object of the greatest size arrives in one piece."""
    large = event("ADDED", 6)
    large["object"]["spec"] = {"text": "x" * 3_000_000}
    async with scripted(Reply(lines=[large])) as server:
        assert await watched(server, 1) == [("ADDED", "j6")]


async def test_a_silent_connection_is_given_up() -> None:
    """A connection on which nothing came for longer than the server's bookmarks take is dead, though nobody closed it."""
    async with scripted(Reply(lines=[event("ADDED", 6)], then="silence"), Reply(lines=[event("ADDED", 7)])) as server:
        assert await watched(server, 2, silence_s=1.0) == [("ADDED", "j6"), ("ADDED", "j7")]
    assert versions(server) == ["5", "6"]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(Reply(410, {"kind": "Status", "code": 410, "message": "too old"}), Gone, id="410 at once"),
        pytest.param(Reply(lines=[error(410, "too old resource version")]), Gone, id="410 within the watch"),
        pytest.param(Reply(lines=[error(500)]), StoreUnavailable, id="an error within the watch"),
        pytest.param(Reply(403, {"kind": "Status", "code": 403, "message": "no"}), Forbidden, id="403"),
    ],
)
async def test_what_ends_a_watch(reply: Reply, expected: type[ClusterError]) -> None:
    """What going on from the same version would only meet again is told, and nothing more is asked."""
    async with scripted(reply) as server:
        with pytest.raises(expected):
            await watched(server, 1)
    assert len(server.requests) == 1


async def test_an_ill_server_is_asked_more_and_more_rarely() -> None:
    """Failures of the server are not told: the watch comes again, after client-go's delays, from where it was."""
    clock = HastyClock()
    async with scripted(*[Reply(503, {"message": "ill"})] * 8, Reply(lines=[event("ADDED", 6)])) as server:
        assert await watched(server, 1, clock) == [("ADDED", "j6")]
    assert set(versions(server)) == {"5"}
    expected = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert all(least <= slept <= 2 * least for least, slept in zip(expected, clock.slept, strict=True))


async def test_a_server_that_hangs_up_at_once() -> None:
    """A watch that ends at once and empty is followed with backoff, not in a tight loop."""
    clock = HastyClock()
    async with scripted(*[Reply(lines=[])] * 3, Reply(lines=[event("ADDED", 6)])) as server:
        assert await watched(server, 1, clock) == [("ADDED", "j6")]
    assert len(clock.slept) == 3


async def test_closing_ends_a_watch() -> None:
    """A watch ends, without an error, when its client is closed."""
    async with scripted(Reply(lines=[event("ADDED", 6)], then="silence")) as server:
        cluster = KubeCluster(server.access, HastyClock())
        watch = cluster.watch(ARENA_JOB, "ns", "5")
        await anext(watch)
        rest = asyncio.create_task(anext(watch, None))
        await asyncio.sleep(0)
        await cluster.close()
        assert await asyncio.wait_for(rest, 60) is None


async def test_backoff_begins_anew_after_two_good_minutes() -> None:
    """Two minutes without a failure are forgiveness; less is not."""
    clock = HastyClock()
    backoff = Backoff(clock, DICE)
    delays = [backoff.delay_s() for _ in range(4)]
    await clock.advance(110)
    delays.append(backoff.delay_s())
    await clock.advance(121)
    delays.append(backoff.delay_s())
    assert all(least <= delay <= 2 * least for least, delay in zip([0.8, 1.6, 3.2, 6.4, 12.8, 0.8], delays, strict=True))
