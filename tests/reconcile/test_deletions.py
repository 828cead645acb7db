"""What a deletion leaves behind, in every phase and when it is cut off; and that looking at an unchanged world changes nothing."""

import shutil
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from engine.errors import QueueUnavailable
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, Object
from reconcile.run.ownership import Owner, claim, move_aside, read_owner
from reconcile.sweep import Sweep
from tests.reconcile.conftest import BUNDLE, NAMESPACE, ProcessDied, World, condition, dying


async def waiting(world: World) -> None:
    """Make a run that waits for its project's first commit."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": {}})
    await world.job()
    await world.look_at_all(2)


async def unseen(world: World) -> None:
    """Make a run that nobody has looked at."""
    await world.project_with()
    await world.job()
    await world.look(ARENA_JOB, "eval")


async def refused(world: World) -> None:
    """Make a run that was refused."""
    await world.project_with()
    await world.job(arenaFile="absent.yaml")
    await world.look_at_all(2)


async def running(world: World) -> None:
    """Make a run that is half worked."""
    await world.project_with()
    await world.job(trials=4)
    await world.look_at_all(2)
    await world.work(await world.run(), limit=2)


async def drained(world: World) -> None:
    """Make a run whose every item is counted and that nobody has settled."""
    await running(world)
    await world.work(await world.run())


async def ended(world: World) -> None:
    """Make a run with a verdict, its keys still there."""
    await drained(world)
    await world.look(ARENA_RUN, (await world.run())["metadata"]["name"])


async def cancelled(world: World) -> None:
    """Make a run that is being stopped while a worker holds an item."""
    await running(world)
    run = await world.run()
    await world.queue.lease(run["metadata"]["uid"], worker="w", limit=1, seconds=30)
    await world.cluster.patch(ARENA_RUN, NAMESPACE, run["metadata"]["name"], {"spec": {"cancelled": True}})
    await world.look_at_all()


async def suspended(world: World) -> None:
    """Make a job and a project that are suspended."""
    await ended(world)
    for kind, name in ((ARENA_JOB, "eval"), (ARENA_PROJECT, "src")):
        await world.cluster.patch(kind, NAMESPACE, name, {"spec": {"suspend": True}})


async def pushed(world: World) -> None:
    """Make a job with a push run that goes on and a newer push that Forbid holds back."""
    await world.project_with()
    await world.job(onPush={"concurrencyPolicy": "Forbid"})
    await world.look_at_all(2)
    for number in range(2):
        await world.commit({**BUNDLE, "NOTES": str(number)})
        await world.look_at_all(2)


async def scheduled(world: World) -> None:
    """Make a job whose schedule is not supported."""
    await world.project_with()
    await world.job(schedule={"cron": "0 2 * * *"})


async def project_in_use(world: World) -> None:
    """Make a project that is deleted while a pinned run goes on."""
    await running(world)
    await world.cluster.delete(ARENA_PROJECT, NAMESPACE, "src")


def states(*given: Callable[[World], Awaitable[None]]) -> pytest.MarkDecorator:
    """Return the states as parameters, named for themselves."""
    return pytest.mark.parametrize("given", [pytest.param(state, id=state.__name__) for state in given])


@states(waiting, refused, running, ended, cancelled, suspended, pushed, scheduled, project_in_use)
async def test_looking_at_an_unchanged_world_writes_nothing(world: World, given: Callable[[World], Awaitable[None]]) -> None:
    """Two passes over an unchanged world write nothing at all, not even an event, in whatever state its objects are."""
    await given(world)
    await world.look_at_all(2)
    world.clock._elapsed += 5  # progress is written every two seconds at most
    await world.look_at_all(2)
    before = (await world.cluster.list(ARENA_RUN)).resource_version
    world.clock._elapsed += 5
    await world.look_at_all(2)
    assert (await world.cluster.list(ARENA_RUN)).resource_version == before


@states(waiting, unseen, refused, running, drained, ended, cancelled)
async def test_a_run_can_be_deleted_in_every_phase(world: World, given: Callable[[World], Awaitable[None]]) -> None:
    """Whatever a run is doing, its deletion takes workers, keys, keep-ref and directory along, and starts nothing."""
    await given(world)
    run = await world.run()
    await world.cluster.delete(ARENA_RUN, NAMESPACE, run["metadata"]["name"])
    await world.look_at_all(3)
    assert await world.runs() == []
    await nothing_is_left(world, run)


async def nothing_is_left(world: World, run: Object) -> None:
    """Check what a removed run must not leave behind."""
    directory = world.volume.run(NAMESPACE, run["metadata"]["name"])
    pins = await world.repositories.pins(world.project) if await world.repositories.exists(world.project) else {}
    assert (await world.worker_jobs(), await world.queue.runs(), pins, directory.exists()) == ([], [], {}, False)


@pytest.mark.parametrize("before", [pytest.param(True, id="before"), pytest.param(False, id="after")])
@pytest.mark.parametrize("step", ["stop", "delete", "drop", "unpin", "rmtree", "patch"])
async def test_a_deletion_that_was_cut_off_is_finished(world: World, monkeypatch: pytest.MonkeyPatch, step: str, *, before: bool) -> None:
    """Wherever a controller dies while it removes a run, the next one finds the rest: finalizers go last."""
    await running(world)
    run = await world.run()
    await world.cluster.delete(ARENA_RUN, NAMESPACE, run["metadata"]["name"])
    owners: Mapping[str, Any] = {
        "stop": world.queue,
        "drop": world.queue,
        "unpin": world.repositories,
        "delete": world.cluster,
        "patch": world.cluster,
    }
    if step == "rmtree":
        monkeypatch.setattr(shutil, "rmtree", _dying_rmtree(before=before))
    else:
        monkeypatch.setattr(owners[step], step, dying(getattr(owners[step], step), before=before))
    with pytest.raises(ProcessDied):
        await world.look(ARENA_RUN, run["metadata"]["name"])
    await world.look_at_all(2)
    assert await world.runs() == []
    await nothing_is_left(world, run)


def _dying_rmtree(*, before: bool) -> Callable[..., None]:
    remove, armed = shutil.rmtree, [True]

    def die(*arguments: Any, **keywords: Any) -> None:
        dies, armed[0] = armed[0], False
        if dies and before:
            raise ProcessDied
        remove(*arguments, **keywords)
        if dies:
            raise ProcessDied

    return die


async def test_a_deletion_needs_no_queue(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the queue down a run can be deleted; its keys are left to the sweep."""
    await running(world)
    run = await world.run()

    async def down(*_: object) -> None:
        raise QueueUnavailable("cannot reach the queue")

    with monkeypatch.context() as patch:
        for verb in ("stop", "drop", "state", "pin"):
            patch.setattr(world.queue, verb, down)
        await world.cluster.delete(ARENA_RUN, NAMESPACE, run["metadata"]["name"])
        await world.look_at_all(2)
        assert await world.runs() == []
    assert await world.queue.runs() == [run["metadata"]["uid"]]
    sweep = Sweep(world.cluster, world.runs_world, world.clock)
    await sweep.sweep()
    world.clock._elapsed += 3601
    await sweep.sweep()
    assert await world.queue.runs() == []


async def test_a_run_with_an_invalid_template_can_be_deleted(lenient_world: World) -> None:
    """What no admission refused can still be removed."""
    world = lenient_world
    await world.project_with()
    await world.apply(ARENA_RUN, "odd", {"jobRef": {"name": "none"}, "template": {"sourceRef": {"name": "src"}, "trials": "many"}})
    await world.look_at_all(2)
    assert condition(await world.run())["reason"] == "InvalidSpec"
    await world.cluster.delete(ARENA_RUN, NAMESPACE, "odd")
    await world.look_at_all(2)
    assert await world.runs() == []


async def test_a_run_of_the_same_name_inherits_nothing(world: World) -> None:
    """A run that is written again under its name has its own keys, directory and keep-ref, and runs all of its items."""
    await world.project_with()
    document: dict[str, Any] = {"jobRef": {"name": "none"}, "template": {"sourceRef": {"name": "src"}, "trials": 3}}
    await world.apply(ARENA_RUN, "hand", document)
    await world.look_at_all(2)
    await world.work(await world.run(), limit=2)
    await world.cluster.delete(ARENA_RUN, NAMESPACE, "hand")
    await world.look_at_all(2)
    await world.apply(ARENA_RUN, "hand", document)
    await world.look_at_all(2)
    assert await world.work(await world.run()) == 3


async def test_a_directory_that_was_moved_aside_is_swept(world: World) -> None:
    """What a dead run left in the trash goes after an hour like everything else of its uid."""
    directory = world.volume.run(NAMESPACE, "hand")
    claim(directory, Owner("dead-uid", "test"))
    move_aside(directory, Owner("dead-uid", "test"))
    sweep = Sweep(world.cluster, world.runs_world, world.clock)
    await sweep.sweep()
    world.clock._elapsed += 3601
    assert len(await sweep.sweep()) == 1
    assert list((directory.parent / ".trash").iterdir()) == []


async def test_what_cannot_be_removed_keeps_its_owner(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose directory cannot be emptied is let go, and the directory still says whose it is, for the sweep."""
    await running(world)
    run = await world.run()
    directory = world.volume.run(NAMESPACE, run["metadata"]["name"])
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        await world.cluster.delete(ARENA_RUN, NAMESPACE, run["metadata"]["name"])
        await world.look_at_all(2)
    assert (await world.runs(), read_owner(directory)) == ([], Owner(run["metadata"]["uid"], "test"))


@pytest.mark.parametrize("before", [pytest.param(True, id="before"), pytest.param(False, id="after")])
@pytest.mark.parametrize("policy", ["Retain", "Delete"])
@pytest.mark.parametrize("step", ["repository", "remove_all", "patch"])
async def test_a_projects_deletion_that_was_cut_off_is_finished(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, policy: str, *, before: bool
) -> None:
    """Wherever a controller dies while it removes a project, the next one finds the rest, and a retained repository is whole."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": {"reclaimPolicy": policy}})
    await world.look(ARENA_PROJECT, "src")
    await world.commit(BUNDLE)
    await world.look(ARENA_PROJECT, "src")
    uid = (await world.get(ARENA_PROJECT, "src"))["metadata"]["uid"]
    await world.cluster.delete(ARENA_PROJECT, NAMESPACE, "src")
    verb = {"Retain": "retain", "Delete": "remove"}[policy] if step == "repository" else step
    owner: Any = {"repository": world.repositories, "remove_all": world.snapshots, "patch": world.cluster}[step]
    monkeypatch.setattr(owner, verb, dying(getattr(owner, verb), before=before))
    with pytest.raises(ProcessDied):
        await world.look(ARENA_PROJECT, "src")
    await world.look(ARENA_PROJECT, "src")
    assert (await world.cluster.list(ARENA_PROJECT)).items == []
    assert (world.volume.repository(world.project).exists(), world.volume.sources(world.project).exists()) == (False, False)
    assert world.volume.retained(world.project, uid).exists() is (policy == "Retain")


async def test_a_project_being_deleted_starts_no_run(world: World) -> None:
    """A run that comes while its project goes waits; when the project is gone and there again, it starts."""
    await project_in_use(world)
    await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"metadata": {"annotations": {"arena.omnia.altairalabs.ai/requested-run": "late"}}})
    await world.look_at_all(2)
    late = next(run for run in await world.runs() if run["status"]["phase"] == "Pending")
    assert "is being deleted" in condition(late)["message"]
    (going,) = [run for run in await world.runs() if run["status"]["phase"] == "Running"]
    await world.work(going)
    await world.look_at_all(3)
    assert (await world.cluster.list(ARENA_PROJECT)).items == []
    await world.project_with()
    await world.look_at_all(2)
    assert (await world.get(ARENA_RUN, late["metadata"]["name"]))["status"]["phase"] == "Running"


async def test_a_namespace_that_goes_takes_its_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletion works in a terminating namespace, where nothing can be created any more."""
    await running(world)
    run = await world.run()

    async def refused_here(obj: Object, **_: bool) -> Object:
        raise AssertionError(f"created {obj['kind']} in a terminating namespace")

    monkeypatch.setattr(world.cluster, "create", refused_here)
    await world.cluster.delete(ARENA_JOB, NAMESPACE, "eval")
    await world.cluster.delete(ARENA_PROJECT, NAMESPACE, "src")
    await world.look_at_all(3)
    assert [await world.runs(), (await world.cluster.list(ARENA_PROJECT)).items] == [[], []]
    assert await world.queue.runs() == []
    assert not world.volume.run(NAMESPACE, run["metadata"]["name"]).exists()
