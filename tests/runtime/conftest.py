"""A store in memory, a clock by hand, and a controller over a function."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest

from foundation.clock import FakeClock
from reconcile.cluster.port import ARENA_JOB, Object, ResourceKind
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.runtime.controller import Controller, ControllerOptions
from reconcile.runtime.passes import Pass
from reconcile.runtime.reconciler import Result

Act = Callable[[Pass], Awaitable[Result]]


class Scripted:
    """A reconciler that does what a test gives it, and counts the passes of each object by name."""

    def __init__(self, act: Act, kind: ResourceKind = ARENA_JOB) -> None:
        self.kind = kind
        self.act = act
        self.passes: list[str] = []

    async def reconcile(self, scope: Pass) -> Result:
        """Count the pass, then do what the test says."""
        self.passes.append(scope.key.name)
        return await self.act(scope)


class Bench:
    """What a controller test works with."""

    def __init__(self, cluster: SqliteCluster, clock: FakeClock) -> None:
        self.cluster = cluster
        self.clock = clock
        self._running: list[asyncio.Task[None]] = []

    def start(self, reconciler: Scripted, **arguments: Any) -> Controller:
        """Start a controller in debug mode; it is stopped when the test ends."""
        arguments.setdefault("options", ControllerOptions(debug=True))
        controller = Controller(arguments.pop("cluster", self.cluster), reconciler, clock=self.clock, **arguments)
        self._running.append(asyncio.create_task(controller.run()))
        return controller

    def run(self, *duties: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
        """Run something until the test ends; return its tasks."""
        tasks = [asyncio.create_task(duty) for duty in duties]
        self._running += tasks
        return tasks

    async def stop(self) -> None:
        """Stop all controllers, and raise what ended one of them before."""
        for task in self._running:
            task.cancel()
        for result in await asyncio.gather(*self._running, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    async def until(self, check: Callable[[], bool | Awaitable[bool]]) -> None:
        """Wait until a condition holds, with a deadline; a controller that died meanwhile is raised."""
        async with asyncio.timeout(60):
            while True:
                result = check()
                if result if isinstance(result, bool) else await result:
                    return
                for task in self._running:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.002)

    async def idle(self, controller: Controller, cluster: SqliteCluster | None = None) -> None:
        """Wait until the controller has seen every change and has nothing to do; `cluster` is its store if that is not the bench's."""
        quiet = 0
        while quiet < 10:
            await (cluster or self.cluster).list(ARENA_JOB)
            await asyncio.sleep(0)
            quiet = quiet + 1 if controller.is_idle else 0

    async def job(self, name: str = "a", **metadata: Any) -> Object:
        """Create an ArenaJob."""
        metadata = {"name": name, "namespace": "arena", **metadata}
        return await self.cluster.create({"apiVersion": ARENA_JOB.api_version, "kind": "ArenaJob", "metadata": metadata, "spec": {"suspend": False}})

    async def get(self, name: str = "a") -> Object:
        """Read an ArenaJob."""
        return await self.cluster.get(ARENA_JOB, "arena", name)

    async def ready(self, name: str = "a") -> tuple[str, str]:
        """Return status and reason of an ArenaJob's Ready condition, empty when there is none."""
        for condition in (await self.get(name)).get("status", {}).get("conditions", []):
            if condition["type"] == "Ready":
                return condition["status"], condition["reason"]
        return "", ""


@pytest.fixture
def scripted() -> type[Scripted]:
    """Give the reconciler that tests script."""
    return Scripted


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """Give a store, a clock, and what starts controllers on them."""
    clock = FakeClock()
    cluster = SqliteCluster(":memory:", clock)
    made = Bench(cluster, clock)
    try:
        yield made
        await made.stop()
    finally:
        await made.stop()
        await cluster.close()
