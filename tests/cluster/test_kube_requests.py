"""Requests to an API server that is busy, ill, or does not know us."""

import asyncio
import json
import random
import subprocess
import sys
from contextlib import aclosing
from typing import Any

import pytest
from structlog.testing import capture_logs

from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, CONFIG_MAP, RUN_PHASE, Fields, Labels, Object
from reconcile.cluster.selectors import Selector
from reconcile.errors import Conflict, Invalid, NotFound, StoreUnavailable, Unauthorized
from tests.cluster.scripted_server import HastyClock, Reply, ScriptedServer, scripted

JOB: Object = {"apiVersion": ARENA_JOB.api_version, "kind": "ArenaJob", "metadata": {"name": "a", "namespace": "ns"}, "spec": {}}
PATH = "/apis/omnia.altairalabs.ai/v1alpha1/namespaces/ns/arenajobs"
CONFLICT = Reply(409, {"kind": "Status", "reason": "Conflict", "message": "Operation cannot be fulfilled: the object has been modified"})


def client(server: ScriptedServer, clock: HastyClock) -> KubeCluster:
    """Return our client of a server, with dice that always fall the same way."""
    return KubeCluster(server.access, clock, dice=random.Random(1))  # noqa: S311 - a test wants the same again


@pytest.mark.parametrize(
    ("busy", "waits"),
    [
        pytest.param(Reply(429, headers={"Retry-After": "3"}), (3.0, 3.3), id="429 with a time"),
        pytest.param(Reply(429), (1.0, 1.1), id="429 without"),
        pytest.param(Reply(429, headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), (1.0, 1.1), id="429 with a date"),
        pytest.param(Reply(503, headers={"Retry-After": "5"}), (5.0, 5.5), id="a server that is going down"),
    ],
)
@pytest.mark.parametrize("verb", ["get", "create"])
async def test_a_busy_server_is_asked_again_when_it_says(busy: Reply, waits: tuple[float, float], verb: str) -> None:
    """A request that was not begun is repeated after the time the server names, a little jittered, whatever its verb."""
    clock = HastyClock()
    async with scripted(busy, Reply(body=JOB)) as server:
        cluster = client(server, clock)
        assert await (cluster.get(ARENA_JOB, "ns", "a") if verb == "get" else cluster.create(JOB)) == JOB
        await cluster.close()
    assert len(server.requests) == 2
    assert len(clock.slept) == 1
    assert waits[0] <= clock.slept[0] <= waits[1]


@pytest.mark.parametrize(("seconds", "tries"), [("1", 10), ("25", 3)], ids=["ten tries", "a minute"])
async def test_a_server_that_stays_busy(seconds: str, tries: int) -> None:
    """After ten tries, or before more than a minute, the store counts as unavailable."""
    async with scripted(*[Reply(429, headers={"Retry-After": seconds})] * 20) as server:
        cluster = client(server, HastyClock())
        with pytest.raises(StoreUnavailable, match="busy"):
            await cluster.get(ARENA_JOB, "ns", "a")
        await cluster.close()
    assert len(server.requests) == tries


@pytest.mark.parametrize(
    "reply", [Reply(500, {"message": "broken"}), Reply(body=b"{no json"), Reply(502, b"<html>")], ids=["500", "no JSON", "a proxy's page"]
)
async def test_a_failure_is_told_at_once(reply: Reply) -> None:
    """What the server does not ask to repeat is not repeated here: whoever asked decides again."""
    async with scripted(reply) as server:
        cluster = client(server, HastyClock())
        with pytest.raises(StoreUnavailable):
            await cluster.create(JOB)
        await cluster.close()
    assert len(server.requests) == 1


async def test_nobody_answers() -> None:
    """A server that is not there is unavailable; a closed client too."""
    async with scripted() as server:
        pass
    cluster = client(server, HastyClock())
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await cluster.get(ARENA_JOB, "ns", "a")
    await cluster.close()
    await cluster.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await cluster.get(ARENA_JOB, "ns", "a")


async def test_a_client_that_is_closed_meanwhile() -> None:
    """Whatever a request is about when its client is closed, connecting or waiting for the answer, the store is unavailable, or has answered."""
    async with scripted(*[Reply(body=JOB)] * 40) as server:
        for turns in range(40):
            cluster = client(server, HastyClock())
            asking = asyncio.create_task(cluster.get(ARENA_JOB, "ns", "a"))
            for _ in range(turns):
                await asyncio.sleep(0)
            await cluster.close()
            (answer,) = await asyncio.gather(asking, return_exceptions=True)
            assert answer == JOB or isinstance(answer, StoreUnavailable), f"closed after {turns} turns: {answer!r}"


async def test_credentials_are_read_again() -> None:
    """A refused token is read again, once for all who were refused, and their requests are repeated."""

    def guard(request: Any) -> Reply:
        return Reply(body=JOB) if request.headers["Authorization"] == "Bearer token-2" else Reply(401)

    async with scripted(*[guard] * 20) as server:
        cluster = client(server, HastyClock())
        await asyncio.gather(*(cluster.get(ARENA_JOB, "ns", "a") for _ in range(5)))
        await cluster.close()
    assert server.loads == 2
    assert len(server.requests) <= 10


async def test_credentials_that_stay_refused() -> None:
    """A token that is refused after it was read again is an error of its own, after two requests."""
    async with scripted(Reply(401), Reply(401)) as server:
        cluster = client(server, HastyClock())
        with pytest.raises(Unauthorized, match="cannot create ArenaJob 'ns/a'"):
            await cluster.create(JOB)
        await cluster.close()
    assert len(server.requests) == 2


async def test_a_patch_that_lost_a_race_is_repeated() -> None:
    """A patch that holds to no version is repeated when the server gave up on racing it; one that does is the caller's to decide."""
    async with scripted(CONFLICT, CONFLICT, Reply(body=JOB), CONFLICT, *[CONFLICT] * 5) as server:
        cluster = client(server, HastyClock())
        assert await cluster.patch(ARENA_JOB, "ns", "a", {"spec": {"suspend": True}}) == JOB
        with pytest.raises(Conflict):
            await cluster.patch_status(ARENA_JOB, "ns", "a", {"activeCount": 1}, resource_version="7")
        with pytest.raises(Conflict):
            await cluster.patch(ARENA_JOB, "ns", "a", {})
        await cluster.close()
    assert len(server.requests) == 9


def page(names: str, version: str, more: str = "") -> Reply:
    """Return a page of a list of ConfigMaps, as the server sends them: without kind and apiVersion."""
    items = [{"metadata": {"name": name, "namespace": "ns", "managedFields": [{}]}} for name in names]
    return Reply(body={"metadata": {"resourceVersion": version, "continue": more}, "items": items})


async def test_a_list_is_read_in_pages() -> None:
    """A list asks for 500 at a time, and its items are whole objects without managedFields."""
    async with scripted(page("ba", "7", "more"), page("c", "7")) as server:
        cluster = client(server, HastyClock())
        listing = await cluster.list(CONFIG_MAP, "ns")
        await cluster.close()
    assert [dict(request.query) for request in server.requests] == [{"limit": "500"}, {"limit": "500", "continue": "more"}]
    assert listing.resource_version == "7"
    assert listing.items[0] == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}}
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b", "c"]


async def test_the_next_page_is_asked_for_ahead() -> None:
    """While a page is decoded the server makes the next one, and only that one: it is asked for before the last object is taken."""
    asked = asyncio.Event()

    def second(_: Any) -> Reply:
        asked.set()
        return page("c", "7", "c")

    async with scripted(page("ab", "7", "b"), second, page("d", "7")) as server:
        cluster = client(server, HastyClock())
        async with aclosing(cluster.pages(CONFIG_MAP, "ns")) as pages:
            await anext(pages)
            await asyncio.wait_for(asked.wait(), 20)
        await cluster.close()
    assert [request.query.get("continue") for request in server.requests] == [None, "b"]


async def test_who_lists_no_further_asks_no_further() -> None:
    """A listing that is closed before its end leaves no request for its next page under way."""
    async with scripted(page("ab", "7", "b")) as server:
        cluster = client(server, HastyClock())
        async with aclosing(cluster.pages(CONFIG_MAP, "ns")) as pages:
            await anext(pages)
        left = [task for task in asyncio.all_tasks() if "._page(" in repr(task) or "KubeCluster._page" in repr(task)]
        await cluster.close()
    assert left == []


async def test_a_list_whose_moment_is_forgotten() -> None:
    """Where the server forgot the first page before the last, everything is read at once."""
    async with scripted(page("a", "7", "more"), Reply(410, {"kind": "Status", "code": 410, "message": "expired"}), page("ab", "9")) as server:
        cluster = client(server, HastyClock())
        listing = await cluster.list(CONFIG_MAP, "ns", {"x": "y"})
        await cluster.close()
    assert dict(server.requests[2].query) == {"labelSelector": "x in (y)"}
    assert (listing.resource_version, len(listing.items)) == ("9", 2)


@pytest.mark.parametrize(
    ("labels", "fields", "query"),
    [
        pytest.param({"a": "b", "c": ""}, None, {"labelSelector": "a in (b),c in ()"}, id="equal"),
        pytest.param(
            Selector.parse("a in (x, y),b notin (z),c!=d,e,!f"), None, {"labelSelector": "a in (x,y),b notin (z),c notin (d),e,!f"}, id="sets"
        ),
        pytest.param(None, {RUN_PHASE: "a,b=c\\"}, {"fieldSelector": "status.phase=a\\,b\\=c\\\\"}, id="a field with special characters"),
        pytest.param(
            None, Selector.parse(f"{RUN_PHASE} notin (b, a)"), {"fieldSelector": "status.phase!=a,status.phase!=b"}, id="a field that is none of"
        ),
        pytest.param({}, {}, {}, id="everything"),
    ],
)
async def test_a_selection_as_the_server_reads_it(labels: Labels | None, fields: Fields | None, query: dict[str, str]) -> None:
    """Labels and fields are spelt as in a URL of the API server."""
    async with scripted(page("", "7")) as server:
        cluster = client(server, HastyClock())
        await cluster.list(ARENA_RUN, "ns", labels, fields=fields)
        await cluster.close()
    assert dict(server.requests[0].query) == {**query, "limit": "500"}


async def test_a_field_term_that_no_server_knows() -> None:
    """A field can be equal or not equal to a value; anything else is refused before it is asked."""
    async with scripted() as server:
        cluster = client(server, HastyClock())
        for text in (f"{RUN_PHASE} in (a, b)", RUN_PHASE, f"!{RUN_PHASE}"):
            with pytest.raises(Invalid):
                await cluster.list(ARENA_RUN, "ns", fields=Selector.parse(text))
        await cluster.close()
    assert server.requests == []


@pytest.mark.parametrize(("namespace", "name"), [("ns", ""), ("ns", "."), ("ns", ".."), ("..", "a"), ("", "a"), (None, "a")])
async def test_a_name_that_is_no_name(namespace: str | None, name: str) -> None:
    """A name that would lead elsewhere in a URL names nothing, and is not asked for."""
    async with scripted() as server:
        cluster = client(server, HastyClock())
        with pytest.raises(NotFound):
            await cluster.delete(ARENA_JOB, namespace, name)
        await cluster.close()
    assert server.requests == []


async def test_a_name_is_quoted() -> None:
    """Whatever is in a name stays within its part of the path."""
    async with scripted(Reply(404, {"kind": "Status", "details": {"name": "x"}})) as server:
        cluster = client(server, HastyClock())
        with pytest.raises(NotFound):
            await cluster.get(ARENA_JOB, "ns", "a/../b?c=d#e%2f")
        await cluster.close()
    assert server.requests[0].raw_path == f"{PATH}/a%2F..%2Fb%3Fc=d%23e%252f"


async def test_what_a_write_says_of_itself() -> None:
    """A write names its manager, lets nothing unknown pass, and is not one when it is a dry run."""
    async with scripted(*[Reply(body=JOB)] * 3) as server:
        cluster = client(server, HastyClock())
        await cluster.create(JOB, dry_run=True)
        await cluster.patch(ARENA_JOB, "ns", "a", {"metadata": {"labels": {"x": "y"}}}, resource_version="7")
        await cluster.patch_status(ARENA_JOB, "ns", "a", {"activeCount": 1})
        sent = [json.loads(await request.read()) for request in server.requests[1:]]
        await cluster.close()
    asked = {"fieldManager": "arena", "fieldValidation": "Strict"}
    assert [dict(request.query) for request in server.requests] == [{**asked, "dryRun": "All"}, asked, asked]
    assert sent == [{"metadata": {"labels": {"x": "y"}, "resourceVersion": "7"}}, {"status": {"activeCount": 1}}]
    assert server.requests[2].path == f"{PATH}/a/status"
    assert {request.headers["Content-Type"] for request in server.requests[1:]} == {"application/merge-patch+json"}


async def test_a_warning_of_the_server_is_logged() -> None:
    """What the server warns of on a write is not lost."""
    async with scripted(Reply(body=JOB, headers={"Warning": '299 - "this is deprecated"'})) as server:
        cluster = client(server, HastyClock())
        with capture_logs() as logs:
            await cluster.update({**JOB, "metadata": {**JOB["metadata"], "resourceVersion": "1"}})
        await cluster.close()
    assert [entry["warning"] for entry in logs if entry["event"] == "kube.warned"] == ['299 - "this is deprecated"']


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param({**JOB, "metadata": {"name": "a"}}, id="no namespace"),
        pytest.param({**JOB, "spec": {"value": float("nan")}}, id="no JSON number"),
        pytest.param({**JOB, "spec": {"value": {1, 2}}}, id="no JSON value"),
    ],
)
async def test_what_cannot_be_sent(obj: Object) -> None:
    """An object that no server could take is refused before it is sent."""
    async with scripted() as server:
        cluster = client(server, HastyClock())
        with pytest.raises(Invalid):
            await cluster.create(obj)
        await cluster.close()
    assert server.requests == []


def test_a_pod_does_without_the_client_library() -> None:
    """Whoever signs in with a service account imports nothing of the client library: it would be a quarter of a controller's memory."""
    words = "import sys, reconcile.cluster.kube, reconcile.cluster.kube_access; sys.exit('kubernetes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0
