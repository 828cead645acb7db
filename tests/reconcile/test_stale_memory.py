"""What is remembered of the store may be behind it: that costs a pass, never a run made twice, left out, or pruned with its commit."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from engine.queue.memory import MemoryWorkQueue
from foundation.clock import FakeClock
from reconcile.arena_run import cause_of, finished
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, Labels, Object, ObjectKey, ResourceKind, WatchEvent
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.control_plane import ControlPlane, Reconcilers
from reconcile.job import JobReconciler
from reconcile.job.known_refs import FRESH_S
from reconcile.keeping import is_final
from reconcile.kinds.admission import admit, admit_status
from reconcile.kinds.names import REQUESTED_RUN
from reconcile.live_runs import live_runs
from reconcile.project import ProjectReconciler, ProjectWorld
from reconcile.run import RunReconciler
from reconcile.runtime.controller import ControllerOptions
from tests.reconcile.conftest import BUNDLE, NAMESPACE, World, started


class Muffled(SqliteCluster):
    """A store whose watches tell of a kind only while it is `heard`. `causes` are those of the runs that were made, in order."""

    def __init__(self, path: Path, clock: FakeClock) -> None:
        super().__init__(path, clock, admit=admit, admit_status=admit_status)
        self.heard = {kind: asyncio.Event() for kind in (ARENA_JOB, ARENA_RUN, ARENA_PROJECT)}
        self.causes: list[str] = []

    async def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Note what a run is made for."""
        created = await super().create(obj, dry_run=dry_run)
        self.causes += [cause_of(created)] if obj["kind"] == "ArenaRun" else []
        return created

    async def watch(
        self, kind: ResourceKind, namespace: str | None, resource_version: str, *, labels: Labels | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """Watch, and hold events back."""
        async for event in super().watch(kind, namespace, resource_version, labels=labels):
            if kind in self.heard:
                await self.heard[kind].wait()
            yield event


class Behind:
    """A control plane whose memory is behind, beside one that reads everything afresh (`world`)."""

    def __init__(self, world: World, cluster: Muffled) -> None:
        self.world = world
        self.cluster = cluster
        project = ProjectReconciler(ProjectWorld(world.repositories, world.snapshots, world.remotes, "http://arena/git"))
        reconcilers = Reconcilers(project, JobReconciler(world.repositories, world.volume), RunReconciler(world.runs_world))
        self.plane = ControlPlane(cluster, reconcilers, world.clock, options=ControllerOptions(debug=True))
        self.following: asyncio.Task[None] | None = None

    async def follow(self) -> None:
        """Begin to remember: list everything."""
        self.following = asyncio.create_task(self.plane.informers.run())
        await self.plane.informers.synced()

    async def hear(self, *kinds: ResourceKind) -> None:
        """Be told of all that has happened to some kinds so far."""
        for kind in kinds:
            self.cluster.heard[kind].set()
        async with asyncio.timeout(60):
            for kind in kinds:
                while not await self._knows(kind):  # noqa: ASYNC110 - nobody says when a watch has caught up
                    await asyncio.sleep(0.002)
        for kind in kinds:
            self.cluster.heard[kind].clear()

    async def _knows(self, kind: ResourceKind) -> bool:
        entries = self.plane.informers._reflectors[kind].cache._entries
        stored = {ObjectKey.of(obj): obj["metadata"]["resourceVersion"] for obj in (await self.cluster.list(kind)).items}
        return {key: entry.version for key, entry in entries.items()} == stored

    async def look(self, kind: ResourceKind = ARENA_JOB, name: str = "eval", *, passes: int = 3) -> None:
        """Do some passes over an object as it is remembered."""
        for _ in range(passes):
            await self.plane.controllers[kind].pass_over(ObjectKey(NAMESPACE, name))


@pytest.fixture
async def behind(folder: Path) -> AsyncIterator[Behind]:
    """Give a control plane that remembers nothing yet."""
    clock = FakeClock()
    cluster = Muffled(folder / "cluster.db", clock)
    made = Behind(World(folder, MemoryWorkQueue(clock), clock, cluster=cluster), cluster)
    yield made
    if made.following is not None:
        made.following.cancel()
        await asyncio.gather(made.following, return_exceptions=True)
    await cluster.close()


@pytest.mark.parametrize(
    "heard",
    [
        pytest.param((), id="hears nothing"),
        pytest.param((ARENA_JOB,), id="hears of jobs alone"),
        pytest.param((ARENA_RUN,), id="hears of runs alone"),
        pytest.param((ARENA_JOB, ARENA_RUN), id="hears in time"),
    ],
)
@pytest.mark.parametrize("kept", [0, 10], ids=["keeps no history", "keeps history"])
async def test_a_cause_has_one_run_however_far_the_memory_is_behind(behind: Behind, heard: tuple[ResourceKind, ...], kept: int) -> None:
    """First sight, a request and pushes make a run each, at most once while the memory is behind, and none is left out when it has caught up."""
    world = behind.world
    await world.project_with()
    await world.job(successfulRunsHistoryLimit=kept, failedRunsHistoryLimit=kept, onPush={})
    await behind.follow()
    for number in range(3):
        await behind.look()
        for run in await world.runs():
            await world.look(ARENA_RUN, run["metadata"]["name"])
            await world.look(ARENA_RUN, run["metadata"]["name"])
            if "deletionTimestamp" not in run["metadata"] and not finished(run):
                await world.work(run)
                await world.look(ARENA_RUN, run["metadata"]["name"])
        await behind.hear(*heard)
        await behind.look()
        await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"metadata": {"annotations": {REQUESTED_RUN: f"r{number}"}}})
        await world.commit({**BUNDLE, "new.txt": str(number)})
        await world.clock.advance(FRESH_S + 1)  # nobody has stamped the project
        await behind.hear(*heard)
    await behind.hear(ARENA_JOB, ARENA_RUN)
    await behind.look()
    head = await world.repositories.head(world.project)
    made = [cause.split(":") for cause in behind.cluster.causes]
    assert len({tuple(cause) for cause in made}) == len(made)
    assert [cause for cause in made if cause[0] == "first"] == [["first"]]
    assert ["request", "r2"] in made
    assert [cause for cause in made if cause[0] == "push"][-1][2] == head


async def test_what_another_started_and_pruned_is_not_started_again(behind: Behind) -> None:
    """A controller that does not know yet that a job had its first run, made and pruned by another, makes none."""
    world = behind.world
    await world.project_with()
    await world.job(successfulRunsHistoryLimit=0)
    await behind.follow()
    await world.look(ARENA_JOB, "eval")
    run = await world.run()
    await world.cluster.delete(ARENA_RUN, NAMESPACE, run["metadata"]["name"])
    await behind.look()
    assert behind.cluster.causes == ["first"]


async def test_only_what_the_store_holds_is_pruned(behind: Behind) -> None:
    """A run that the memory counts as superfluous stays if the store has room for it: the newer one has been deleted by a person since."""
    world = behind.world
    await world.project_with()
    await world.job(successfulRunsHistoryLimit=1)
    await world.look(ARENA_JOB, "eval")
    await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"metadata": {"annotations": {REQUESTED_RUN: "one"}}})
    await world.look(ARENA_JOB, "eval")
    older, newer = sorted([run["metadata"]["name"] for run in await world.runs()])
    await behind.follow()
    for hour, name in enumerate((older, newer)):
        status = {"phase": "Succeeded", "completionTime": f"2026-01-01T0{hour}:00:00Z"}
        await world.cluster.patch_status(ARENA_RUN, NAMESPACE, name, status)
    await world.cluster.patch_status(ARENA_JOB, NAMESPACE, "eval", {"active": [], "activeCount": 0})
    await behind.hear(ARENA_JOB, ARENA_RUN)
    await world.cluster.delete(ARENA_RUN, NAMESPACE, newer)
    await behind.look()
    assert [run["metadata"]["name"] for run in await world.runs()] == [older]


async def test_a_push_replaces_a_run_that_is_not_known_yet(behind: Behind) -> None:
    """The run of the push before is cancelled, though the memory of runs does not have it."""
    world = behind.world
    await world.project_with()
    await world.job(onPush={})
    await world.look_at_all(2)
    await world.commit({**BUNDLE, "new.txt": "1"})
    await behind.follow()
    await world.look(ARENA_JOB, "eval")
    await behind.hear(ARENA_JOB)
    await world.commit({**BUNDLE, "new.txt": "2"})
    await behind.look()
    (replaced,) = [run for run in await world.runs() if run["spec"].get("cancelled")]
    assert [cause.split(":")[0] for cause in behind.cluster.causes] == ["first", "push", "push"]
    assert cause_of(replaced) == behind.cluster.causes[1]


async def test_a_snapshot_of_a_run_that_is_not_known_yet_stays(behind: Behind) -> None:
    """Retention reads the runs from the store: what a run has pinned since the memory was told stays, though the head has moved on."""
    world = behind.world
    await world.project_with(snapshots={"retain": 0})
    await behind.follow()
    await world.job()
    await world.look(ARENA_JOB, "eval")
    run = await world.run()
    await world.look(ARENA_RUN, run["metadata"]["name"])
    pinned = (await world.run())["status"]["source"]["commit"]
    await world.commit({**BUNDLE, "new.txt": "x"})
    await behind.look(ARENA_PROJECT, "src")
    assert await world.snapshots.find(world.project, pinned) is not None
    assert [obj["metadata"]["name"] for obj in await live_runs(world.cluster, ObjectKey(NAMESPACE, "src"))] == [run["metadata"]["name"]]


async def test_a_deleted_project_waits_for_a_run_that_is_not_known_yet(behind: Behind) -> None:
    """A project stays as long as a run needs it, though the memory knows no such run."""
    world = behind.world
    await world.project_with()
    await behind.follow()
    await world.job()
    await world.look(ARENA_JOB, "eval")
    await world.look(ARENA_RUN, (await world.run())["metadata"]["name"])
    await world.cluster.delete(ARENA_PROJECT, NAMESPACE, "src")
    await behind.look(ARENA_PROJECT, "src")
    assert await world.repositories.exists(world.project)


async def test_an_ended_run_costs_nothing_after_a_restart(behind: Behind) -> None:
    """When a run's keys are gone for good its status says so; whoever starts afterwards keeps a projection of it and gives it no pass."""
    world = behind.world
    run = await started(world)
    await world.work(run)
    await world.look_at_all(2)
    assert not is_final(await world.run())
    world.clock._elapsed += 4
    await world.look_at_all()
    assert is_final(await world.run())
    await behind.follow()
    key = ObjectKey.of(run)
    assert behind.plane.informers.is_final(ARENA_RUN, key)
    before = await world.run()
    await behind.look(ARENA_RUN, key.name)
    assert await world.run() == before
