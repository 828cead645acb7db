"""External projects in a running control plane: who is woken by what, and that nobody asks a remote more often than is due."""

import asyncio
import base64
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gitops.errors import RemoteCause, RemoteFailed
from gitops.mirrors import MirrorState
from reconcile.cluster.port import ARENA_PROJECT, SECRET, Cluster, Listing, ResourceKind
from reconcile.control_plane import ControlPlane, Reconcilers
from reconcile.errors import Forbidden
from reconcile.job import JobReconciler
from reconcile.kinds.names import REQUESTED_SYNC
from reconcile.project import ProjectReconciler, ProjectWorld
from reconcile.run import RunReconciler
from reconcile.runtime.controller import ControllerOptions
from reconcile.runtime.learning import LearningCluster
from tests.reconcile.conftest import BUNDLE, NAMESPACE, World
from tests.reconcile.remotes import URL

FILES = {name: text.encode() for name, text in BUNDLE.items()}
STEP_S = 0.05
DEADLINE_S = 60.0


class _NoSecrets(LearningCluster):
    """A store that gives out Secrets by name alone."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, lambda _kind, _obj: None, lambda _kind, _key: None)

    def pages(self, kind: ResourceKind, namespace: str | None = None) -> AsyncGenerator[Listing, None]:
        """Yield all objects, but no Secret."""
        if kind is SECRET:
            raise Forbidden("secrets is forbidden: cannot list resource")
        return super().pages(kind, namespace)


@pytest.fixture
def plane(world: World) -> ControlPlane:
    """A control plane on a clock that a test moves, which may list no Secrets."""
    project = ProjectReconciler(ProjectWorld(world.repositories, world.snapshots, world.remotes, "http://arena/git"))
    reconcilers = Reconcilers(project, JobReconciler(world.repositories, world.volume), RunReconciler(world.runs_world))
    return ControlPlane(_NoSecrets(world.cluster), reconcilers, world.clock, options=ControllerOptions(debug=True))


@pytest.fixture
async def live(world: World, plane: ControlPlane) -> AsyncIterator[World]:
    """The world, in which the control plane runs by itself."""
    running = asyncio.create_task(plane.run())
    yield world
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def until(world: World, probe: Callable[[], Awaitable[bool]], *, within_s: float = 20.0) -> None:
    """Let the control plane work until `probe` holds; its clock stops after `within_s`, by default sooner than any regular look."""
    end = world.clock.monotonic() + within_s
    async with asyncio.timeout(DEADLINE_S):
        while not await probe():
            await asyncio.sleep(0.02)
            if world.clock.monotonic() < end:
                await world.clock.advance(STEP_S)


async def is_ready(world: World) -> bool:
    """Say whether the project is Ready."""
    status = (await world.get(ARENA_PROJECT, "src")).get("status") or {}
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))


async def test_a_push_wakes_the_runs_that_wait_for_it(live: World) -> None:
    """A request, as a webhook makes it, is a fetch; the fetch wakes the run that waited for the first commit, and the job of a later one."""
    upstream = live.remotes.upstream()
    await live.apply(ARENA_PROJECT, "src", {"external": {"url": URL}})
    await live.job(onPush={"branches": ["**"]})
    await until(live, lambda: _has_runs(live, 1))
    first = upstream.commit(files=FILES)
    await live.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"metadata": {"annotations": {REQUESTED_SYNC: "hook-1"}}})
    await until(live, lambda: _is_pinned(live, first))
    second = upstream.commit("topic", files={**FILES, "more": b"x"})
    await live.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"metadata": {"annotations": {REQUESTED_SYNC: "hook-2"}}})
    await until(live, lambda: _is_pinned(live, second))
    assert len(live.remotes.fetched) == 3


async def _has_runs(world: World, count: int) -> bool:
    return len(await world.runs()) == count and bool((await world.get(ARENA_PROJECT, "src")).get("status", {}).get("nextFetchTime"))


async def _is_pinned(world: World, commit: str) -> bool:
    return any(((run.get("status") or {}).get("source") or {}).get("commit") == commit for run in await world.runs())


async def test_no_list_of_secrets_is_read(live: World) -> None:
    """Who may read single Secrets alone, as whoever runs a cluster would have it, fetches; one that comes later is found by the regular look."""
    live.remotes.upstream().commit(files=FILES)
    await live.apply(ARENA_PROJECT, "src", {"external": {"url": URL, "secretRef": {"name": "read"}}})

    async def is_refused() -> bool:
        return "fetchFailure" in ((await live.get(ARENA_PROJECT, "src")).get("status") or {})

    await until(live, is_refused)
    data = {"token": base64.b64encode(b"t").decode()}
    await live.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "read", "namespace": NAMESPACE}, "data": data})
    await until(live, lambda: is_ready(live), within_s=35.0)
    assert [remote.credentials.token for remote in live.remotes.fetched] == ["t"]


async def test_remotes_that_do_not_answer_keep_nobody_waiting(live: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many remotes are silent, a hosted project is looked at; those that wait for a turn say so, and have it once the others have answered."""
    live.remotes.upstream().commit(files=FILES)
    answer, fetch = asyncio.Event(), live.remotes.fetch

    async def silent(*arguments: Any) -> MirrorState:
        await answer.wait()
        return await fetch(*arguments)

    monkeypatch.setattr(live.remotes, "fetch", silent)
    for number in range(20):
        await live.apply(ARENA_PROJECT, f"slow-{number}", {"external": {"url": URL}})

    async def said(name: str, word: str) -> bool:
        status = (await live.get(ARENA_PROJECT, name)).get("status") or {}
        return any(word in f"{condition['reason']} {condition['message']}" for condition in status.get("conditions", []))

    await until(live, lambda: said("slow-19", "waiting for its turn"))
    await live.apply(ARENA_PROJECT, "src", {"hosted": {}})
    await until(live, lambda: said("src", "RepositoryEmpty"))
    answer.set()
    await until(live, lambda: said("slow-19", "Succeeded"))


@pytest.mark.parametrize("known", [pytest.param(False, id="never fetched"), pytest.param(True, id="fetched before")])
async def test_a_remote_that_is_down_is_left_alone(live: World, plane: ControlPlane, *, known: bool) -> None:
    """In five minutes of failures at an interval of 100 s it is asked three times, however often the project is looked at."""
    live.remotes.upstream().commit(files=FILES)
    down = RemoteFailed("it is down", cause=RemoteCause.UNREACHABLE)
    live.remotes.failure = None if known else down
    await live.apply(ARENA_PROJECT, "src", {"external": {"url": URL, "pollInterval": "100s"}})
    if known:
        await until(live, lambda: is_ready(live))
        live.remotes.failure = down
        live.remotes.fetched.clear()
    else:
        await until(live, lambda: _was_asked(live, 1))
    async with asyncio.timeout(DEADLINE_S):
        for _ in range(150):
            await live.clock.advance(2)
            await asyncio.sleep(0.002)
            while not plane.is_idle:  # noqa: ASYNC110 - a pass that is under way has its threads: no time goes by for it meanwhile
                await asyncio.sleep(0.001)
    # at 0, 100 and 300 s, give or take a tenth; one that was fetched before was asked 100 s before the first of these
    await until(live, lambda: _was_asked(live, 2), within_s=100.0)
    assert len(live.remotes.fetched) <= 3, len(live.remotes.fetched)


async def _was_asked(world: World, times: int) -> bool:
    return len(world.remotes.fetched) >= times
