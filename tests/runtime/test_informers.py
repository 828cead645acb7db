"""What several controllers share: one listing and one watch a kind, what is known without asking, and what must be asked all the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, Labels, Listing, Object, ObjectKey, ResourceKind, WatchEvent
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.errors import Conflict, Gone, StoreUnavailable
from reconcile.runtime.cache import Keeping
from reconcile.runtime.controller import Controller, ControllerOptions
from reconcile.runtime.informers import Informers
from reconcile.runtime.reconciler import Done, Result
from reconcile.runtime.reflector import by_itself

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from foundation.clock import FakeClock
    from reconcile.runtime.passes import Pass
    from tests.runtime.conftest import Bench, Scripted

KEY = ObjectKey("arena", "a")


class Slow(SqliteCluster):
    """A store that counts what is asked of it, and whose watches tell nothing unless it `hears`."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(":memory:", clock)
        self.asked: Counter[str] = Counter()
        self.hears = asyncio.Event()
        self.hears.set()
        self.refusal: Exception | None = None

    async def get(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        """Count, then read."""
        self.asked[f"get {kind}"] += 1
        return await super().get(kind, namespace, name)

    async def pages(self, kind: ResourceKind, namespace: str | None = None) -> AsyncGenerator[Listing, None]:
        """Count, then list."""
        self.asked[f"list {kind}"] += 1
        async for page in super().pages(kind, namespace):
            yield page

    async def watch(
        self, kind: ResourceKind, namespace: str | None, resource_version: str, *, labels: Labels | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """Count, then watch; refuse once what the test wants, and hold back events until it lets them be heard."""
        self.asked[f"watch {kind}"] += 1
        async for event in super().watch(kind, namespace, resource_version, labels=labels):
            if self.refusal is not None:
                refusal, self.refusal = self.refusal, None
                raise refusal
            await self.hears.wait()
            yield event


@pytest.fixture
async def cluster(bench: Bench) -> AsyncIterator[Slow]:
    """Give a store that counts and can be made deaf."""
    made = Slow(bench.clock)
    yield made
    await bench.stop()
    await made.close()


async def create(cluster: SqliteCluster, kind: ResourceKind = ARENA_JOB, name: str = "a", **status: Any) -> Object:
    """Create an object, with a status if one is given."""
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "namespace": "arena"}, "spec": {}}
    await cluster.create(obj)
    return await cluster.patch_status(kind, "arena", name, status or {"activeCount": 0})


async def done(_: Pass) -> Result:
    """Find everything as it should be."""
    return Done()


OPTIONS = ControllerOptions(debug=True)


async def start(bench: Bench, cluster: Slow, *reconcilers: Scripted, keeping: tuple[Keeping, ...] = ()) -> tuple[Informers, list[Controller]]:
    """Start controllers over shared informers, and wait until they have nothing to do."""
    informers = Informers(cluster, bench.clock, keeping)
    controllers = [Controller(cluster, each, clock=bench.clock, informers=informers, options=OPTIONS) for each in reconcilers]
    bench.run(informers.run(), *(controller.run() for controller in controllers))
    await informers.synced()
    await bench.until(lambda: all(controller.is_idle for controller in controllers))
    return informers, controllers


async def test_controllers_share_a_listing_and_a_watch(bench: Bench, cluster: Slow, scripted: type[Scripted]) -> None:
    """However many controllers follow a kind, it is listed and watched once, and passes over what is known ask nothing."""
    await create(cluster)
    first, second = scripted(done), scripted(done)
    _, controllers = await start(bench, cluster, first, second)
    await bench.until(lambda: len(first.passes) >= 2)
    await bench.idle(controllers[0], cluster)
    cluster.asked.clear()
    for controller in controllers:
        controller.enqueue(KEY)
    await bench.idle(controllers[0], cluster)
    await bench.idle(controllers[1], cluster)
    assert cluster.asked == {}


async def test_a_pass_sees_what_the_last_one_wrote(bench: Bench, cluster: Slow, scripted: type[Scripted]) -> None:
    """A pass that comes before the watch has told of our last write sees that write, so it is not done twice."""
    seen: list[int] = []

    async def count(scope: Pass) -> Result:
        seen.append(scope.status["activeCount"])
        scope.status["activeCount"] = min(seen[-1] + 1, 3)
        return Done()

    await create(cluster)
    cluster.hears.clear()
    _, (controller,) = await start(bench, cluster, scripted(count))
    for _ in range(2):
        controller.enqueue(KEY)
        await bench.idle(controller, cluster)
    assert seen == [0, 1, 2]


async def test_what_others_wrote_is_met_as_a_conflict(bench: Bench, cluster: Slow, scripted: type[Scripted]) -> None:
    """A pass over an old object writes nothing; the next one reads the new object, though the watch still tells nothing."""
    seen = []

    async def look(scope: Pass) -> Result:
        seen.append(scope.obj["spec"].get("suspend"))
        scope.status["activeCount"] = len(seen)
        return Done()

    await create(cluster)
    cluster.hears.clear()
    _, (controller,) = await start(bench, cluster, scripted(look))
    await cluster.patch(ARENA_JOB, "arena", "a", {"spec": {"suspend": True}})
    controller.enqueue(KEY)
    await bench.idle(controller, cluster)  # else the clock would be moved before the retry is planned
    assert len(seen) == 2
    await bench.clock.advance(0.1)
    await bench.until(lambda: len(seen) == 3)
    assert seen == [None, None, True]


async def test_making_sure_refuses_an_old_object(bench: Bench, cluster: Slow, scripted: type[Scripted]) -> None:
    """Before what cannot be taken back, a pass that sees an old object ends in a Conflict."""
    caught = []

    async def act(scope: Pass) -> Result:
        try:
            await scope.make_sure()
        except Conflict:
            caught.append(scope.obj["spec"])
        return Done()

    await create(cluster)
    cluster.hears.clear()
    _, (controller,) = await start(bench, cluster, scripted(act))
    assert caught == []
    await cluster.patch(ARENA_JOB, "arena", "a", {"spec": {"suspend": True}})
    controller.enqueue(KEY)
    await bench.until(lambda: caught == [{}])


async def test_an_unanswered_write_is_looked_up(bench: Bench, cluster: Slow, scripted: type[Scripted], monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that took effect although the store did not answer is seen by the next pass, before the watch tells of it."""
    write, seen = cluster.patch_status, []

    async def lost(*arguments: Any, **named: Any) -> Object:
        await write(*arguments, **named)
        monkeypatch.setattr(cluster, "patch_status", write)
        raise StoreUnavailable("no answer")

    async def count(scope: Pass) -> Result:
        seen.append(scope.status["activeCount"])
        scope.status["activeCount"] = 7
        return Done()

    await create(cluster)
    monkeypatch.setattr(cluster, "patch_status", lost)
    cluster.hears.clear()
    await start(bench, cluster, scripted(count))
    await bench.clock.advance(1)
    await bench.until(lambda: len(seen) == 2)
    assert seen == [0, 7]


async def test_what_goes_is_read_afresh(bench: Bench, cluster: Slow, scripted: type[Scripted]) -> None:
    """An object that is being deleted is read before each pass: one that is gone gets none, though the watch has not told yet."""
    deletions = []

    async def release(scope: Pass) -> Result:
        if scope.deleting:
            deletions.append(scope.key)
            await scope.remove_finalizer("arena.test/hold")
        return Done()

    await create(cluster)
    await cluster.patch(ARENA_JOB, "arena", "a", {"metadata": {"finalizers": ["arena.test/hold"]}})
    await cluster.delete(ARENA_JOB, "arena", "a")
    cluster.hears.clear()
    _, (controller,) = await start(bench, cluster, scripted(release))
    controller.enqueue(KEY)
    await bench.idle(controller, cluster)
    assert deletions == [KEY]


FINAL = Keeping(
    ARENA_RUN,
    is_final=lambda run: bool((run.get("status") or {}).get("tidied")),
    projection=lambda run: {
        "metadata": {key: run["metadata"][key] for key in ("namespace", "name")},
        "phase": (run.get("status") or {}).get("phase"),
    },
    indexes={"all": lambda _: ("",)},
)


async def test_final_objects_get_no_pass(bench: Bench, cluster: Slow, scripted: type[Scripted]) -> None:
    """What is final as stored is neither read nor looked at: not at the start, not when asked for, not at the interval; a change brings it back."""
    await create(cluster, ARENA_RUN, "over", phase="Failed", tidied=True)
    reconciler = scripted(done, ARENA_RUN)
    informers, (controller,) = await start(bench, cluster, reconciler, keeping=(FINAL,))
    controller.enqueue(ObjectKey("arena", "over"))
    await bench.clock.advance(40)
    await bench.idle(controller, cluster)
    assert (reconciler.passes, cluster.asked["get ArenaRun"]) == ([], 0)
    assert informers.select(ARENA_RUN, "all", "") == [{"metadata": {"namespace": "arena", "name": "over"}, "phase": "Failed"}]
    await cluster.patch_status(ARENA_RUN, "arena", "over", {"tidied": None})
    await bench.until(lambda: reconciler.passes != [])


async def test_others_hear_of_what_the_projection_shows(bench: Bench, cluster: Slow) -> None:
    """Who follows another kind hears of what its projection shows, of the first sight and of the end; of nothing else."""
    heard: list[ObjectKey] = []
    informers = Informers(cluster, bench.clock, (FINAL,))
    informers.subscribe(ARENA_RUN, by_itself, heard.append)
    bench.run(informers.run())
    await informers.synced()
    await create(cluster, ARENA_RUN, phase="Running")
    await bench.until(lambda: len(heard) == 2)
    await cluster.patch_status(ARENA_RUN, "arena", "a", {"progress": {"completed": 1}})
    await cluster.patch_status(ARENA_RUN, "arena", "a", {"phase": "Failed"})
    await bench.until(lambda: len(heard) == 3)
    await cluster.delete(ARENA_RUN, "arena", "a")
    await bench.until(lambda: len(heard) == 4)


async def test_a_relist_tells_only_what_has_changed(bench: Bench, cluster: Slow) -> None:
    """After a refused watch everything is listed anew; who subscribed hears of what changed, came or went, not of the rest."""
    heard: list[str] = []
    for name in ("same", "changed", "gone"):
        await create(cluster, ARENA_RUN, name)
    informers = Informers(cluster, bench.clock)
    informers.subscribe(ARENA_RUN, by_itself, lambda key: heard.append(key.name), own=True)
    bench.run(informers.run())
    await informers.synced()
    heard.clear()
    cluster.refusal = Gone("compacted")
    await cluster.delete(ARENA_RUN, "arena", "gone")
    await bench.until(lambda: cluster.refusal is None)
    await cluster.patch_status(ARENA_RUN, "arena", "changed", {"phase": "Running"})
    await bench.clock.advance(1)
    await bench.until(lambda: sorted(heard) == ["changed", "gone"])
    assert cluster.asked["list ArenaRun"] == 2


async def test_a_second_run_begins_anew(bench: Bench, cluster: Slow) -> None:
    """After a cancelled run nothing is known until everything was listed again: a leader that comes back trusts no old memory."""
    await create(cluster, ARENA_RUN, phase="Running")
    informers = Informers(cluster, bench.clock, (FINAL,))
    informers.subscribe(ARENA_RUN, by_itself, lambda _: None)
    (task,) = bench.run(informers.run())
    await informers.synced()
    assert informers.find(ARENA_RUN, KEY) is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (informers.find(ARENA_RUN, KEY), informers.select(ARENA_RUN, "all", "")) == (None, None)
    await cluster.delete(ARENA_RUN, "arena", "a")
    bench.run(informers.run())
    await informers.synced()
    assert informers.select(ARENA_RUN, "all", "") == []
