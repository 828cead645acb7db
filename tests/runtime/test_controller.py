"""When a pass happens: changes, delays, the interval, and what breaks a watch."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, Labels, Object, ObjectKey, ResourceKind, WatchEvent
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.errors import Gone, StoreUnavailable, Waiting
from reconcile.runtime.controller import Controller, ControllerOptions
from reconcile.runtime.reconciler import Done, Failed, Result
from reconcile.runtime.reflector import by_owner

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from reconcile.runtime.passes import Pass
    from tests.runtime.conftest import Bench, Scripted

KEY = ObjectKey("arena", "a")


def always(result: Result | Exception) -> Callable[[Pass], Awaitable[Result]]:
    """Return what answers each pass alike."""

    async def act(_: Pass) -> Result:
        if isinstance(result, Exception):
            raise result
        return result

    return act


def run_owned_by(job: Object) -> Object:
    """Return an ArenaRun of a job."""
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    metadata = {"name": f"{job['metadata']['name']}-run", "namespace": "arena", "ownerReferences": [owner]}
    return {"apiVersion": ARENA_RUN.api_version, "kind": "ArenaRun", "metadata": metadata, "spec": {}}


async def test_what_is_there_at_the_start_is_reconciled(bench: Bench, scripted: type[Scripted]) -> None:
    """Objects that were there before the controller get a pass, and later ones too."""
    await bench.job("before")
    reconciler = scripted(always(Done()))
    bench.start(reconciler)
    await bench.until(lambda: "before" in reconciler.passes)
    await bench.job("after")
    await bench.until(lambda: "after" in reconciler.passes)


async def test_failures_are_retried_with_backoff(bench: Bench, scripted: type[Scripted]) -> None:
    """An exception shows as ProgressingWithRetry and comes again after growing delays; success ends it."""
    reconciler = scripted(always(RuntimeError("secret")))
    await bench.job()
    controller = bench.start(reconciler)
    await bench.idle(controller)
    assert await bench.ready() == ("False", "ProgressingWithRetry")
    assert "secret" not in str(await bench.get())
    seen = len(reconciler.passes)
    await bench.clock.advance(0.1)
    await bench.until(lambda: len(reconciler.passes) > seen)
    reconciler.act = always(Done())
    await bench.clock.advance(20)
    await bench.idle(controller)
    assert await bench.ready() == ("True", "Succeeded")


async def test_waiting_looks_again(bench: Bench, scripted: type[Scripted]) -> None:
    """Waiting is looked at again after its time, not before."""
    reconciler = scripted(always(Waiting("ProjectNotReady", "no commit yet", timedelta(seconds=10))))
    await bench.job()
    controller = bench.start(reconciler)
    await bench.idle(controller)
    assert await bench.ready() == ("False", "ProjectNotReady")
    reconciler.act = always(Done())
    await bench.clock.advance(9)
    await bench.idle(controller)
    assert await bench.ready() == ("False", "ProjectNotReady")
    await bench.clock.advance(2)
    await bench.until(lambda: bench_is_ready(bench))


async def bench_is_ready(bench: Bench) -> bool:
    """Say whether job `a` is Ready."""
    return (await bench.ready())[0] == "True"


async def test_look_again_at_a_wall_clock_time(bench: Bench, scripted: type[Scripted]) -> None:
    """A look at a date happens then (a cron tick)."""
    tick = bench.clock.now() + timedelta(seconds=20)
    reconciler = scripted(always(Done(look_again=tick, final=True)))
    await bench.job()
    controller = bench.start(reconciler)
    await bench.idle(controller)
    seen = len(reconciler.passes)
    await bench.clock.advance(19)
    await bench.idle(controller)
    assert len(reconciler.passes) == seen
    await bench.clock.advance(2)
    await bench.until(lambda: len(reconciler.passes) > seen)


async def test_the_interval_looks_at_everything_not_final(bench: Bench, scripted: type[Scripted]) -> None:
    """Every 30 s or so each object gets a pass though nothing changed, but for those that are final."""

    async def act(scope: Pass) -> Result:
        return Failed("TestsFailed") if scope.key.name == "over" else Done()

    await bench.job("lives")
    await bench.job("over")
    reconciler = scripted(act)
    controller = bench.start(reconciler)
    await bench.idle(controller)
    reconciler.passes.clear()
    await bench.clock.advance(33.1)
    await bench.until(lambda: "lives" in reconciler.passes)
    await bench.idle(controller)
    assert "over" not in reconciler.passes


async def test_one_pass_of_an_object_at_a_time(bench: Bench, scripted: type[Scripted]) -> None:
    """Passes of one object never overlap; those of several do, up to the number of workers."""
    under_way: list[str] = []
    most = 0
    release = asyncio.Event()

    async def act(scope: Pass) -> Result:
        nonlocal most
        assert scope.key.name not in under_way
        under_way.append(scope.key.name)
        most = max(most, len(under_way))
        await release.wait()
        under_way.remove(scope.key.name)
        return Done()

    controller = bench.start(scripted(act), options=ControllerOptions(workers=3, debug=True))
    for name in ("a", "b", "c", "d"):
        await bench.job(name)
    await bench.until(lambda: len(under_way) == 3)
    for count in range(5):
        await bench.cluster.patch(ARENA_JOB, "arena", "a", {"metadata": {"labels": {"count": str(count)}}})
    release.set()
    await bench.idle(controller)
    assert most == 3


async def test_owned_objects_wake_their_owner(bench: Bench, scripted: type[Scripted]) -> None:
    """A change or the end of an owned object is a pass over its owner."""
    reconciler = scripted(always(Done()))
    controller = bench.start(reconciler, owns=[(ARENA_RUN, by_owner(ARENA_JOB))])
    job = await bench.job()
    await bench.idle(controller)
    for change in ("create", "status", "delete"):
        reconciler.passes.clear()
        if change == "create":
            await bench.cluster.create(run_owned_by(job))
        elif change == "status":
            await bench.cluster.patch_status(ARENA_RUN, "arena", "a-run", {"phase": "Running"})
        else:
            await bench.cluster.delete(ARENA_RUN, "arena", "a-run")
        await bench.until(lambda: reconciler.passes == ["a"])
        await bench.idle(controller)


async def test_a_mapper_may_look_at_the_world_and_may_fail(bench: Bench, scripted: type[Scripted]) -> None:
    """A mapper can be a coroutine function; one that fails costs its own change only."""

    async def every_job(run: Object) -> list[ObjectKey]:
        if run["metadata"]["name"] == "b-run":
            raise ValueError
        return [ObjectKey.of(obj) for obj in (await bench.cluster.list(ARENA_JOB)).items]

    reconciler = scripted(always(Done()))
    controller = bench.start(reconciler, owns=[(ARENA_RUN, every_job)])
    jobs = [await bench.job("b"), await bench.job("a")]
    await bench.idle(controller)
    reconciler.passes.clear()
    for job in jobs:
        await bench.cluster.create(run_owned_by(job))
    await bench.until(lambda: sorted(reconciler.passes) == ["a", "b"])


class Forgetful(SqliteCluster):
    """A store whose watches are refused as long as a test says so."""

    refusal: Exception | None = None
    refused = 0

    async def watch(
        self, kind: ResourceKind, namespace: str | None, resource_version: str, *, labels: Labels | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """Watch, or raise what the test wants, at once and between any two events."""
        async for event in super().watch(kind, namespace, resource_version, labels=labels):
            if self.refusal is not None:
                self.refused += 1
                raise self.refusal
            yield event


@pytest.mark.parametrize("refusal", [Gone("too old"), StoreUnavailable("down")], ids=["gone", "unavailable"])
async def test_what_happened_while_nobody_watched_is_found(bench: Bench, scripted: type[Scripted], refusal: Exception) -> None:
    """When a watch breaks, a new listing finds what changed and what vanished meanwhile."""
    cluster = Forgetful(":memory:", bench.clock)
    reconciler = scripted(always(Done()))
    bench.start(reconciler, cluster=cluster, owns=[(ARENA_RUN, by_owner(ARENA_JOB))])
    job = await cluster.create({"apiVersion": ARENA_JOB.api_version, "kind": "ArenaJob", "metadata": {"name": "a", "namespace": "arena"}, "spec": {}})
    await cluster.create(run_owned_by(job))
    await bench.until(lambda: reconciler.passes.count("a") >= 2)
    reconciler.passes.clear()
    cluster.refusal = refusal
    await cluster.delete(ARENA_RUN, "arena", "a-run")
    await bench.until(lambda: cluster.refused > 0)
    cluster.refusal = None
    await bench.clock.advance(25)
    await bench.until(lambda: "a" in reconciler.passes)
    await bench.stop()
    await cluster.close()


async def test_cancelling_ends_everything(bench: Bench, scripted: type[Scripted]) -> None:
    """A cancelled controller leaves no task behind, though a pass is under way."""
    begun = asyncio.Event()

    async def act(_: Pass) -> Result:
        begun.set()
        await asyncio.Event().wait()
        return Done()

    before = asyncio.all_tasks()
    await bench.job()
    bench.start(scripted(act))
    await begun.wait()
    await bench.stop()
    assert asyncio.all_tasks() == before


async def test_a_pass_over_nothing(bench: Bench, scripted: type[Scripted]) -> None:
    """A key whose object is gone is forgotten without a pass."""
    reconciler = scripted(always(Done()))
    await Controller(bench.cluster, reconciler, clock=bench.clock).pass_over(KEY)
    assert reconciler.passes == []


async def test_an_outside_wish(bench: Bench, scripted: type[Scripted]) -> None:
    """`enqueue` asks for a pass though nothing in the store changed."""
    reconciler = scripted(always(Done()))
    controller = bench.start(reconciler)
    await bench.job()
    await bench.idle(controller)
    seen = len(reconciler.passes)
    controller.enqueue(KEY)
    await bench.until(lambda: len(reconciler.passes) == seen + 1)
