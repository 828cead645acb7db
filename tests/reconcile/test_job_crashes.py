"""What a job's next pass makes of one that died between two lines: a cause has one run, and no run is started by its own removal."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, Object
from tests.reconcile.conftest import BUNDLE, NAMESPACE, ProcessDied, World, dying

REQUESTED = "arena.omnia.altairalabs.ai/requested-run"


async def finish(world: World) -> None:
    """Work and settle every run that goes on, the job not looking."""
    for _ in range(2):
        for run in await world.runs():
            await world.look(ARENA_RUN, run["metadata"]["name"])
        for run in await world.runs():
            if run["status"]["phase"] == "Running":
                await world.work(run)
                await world.look(ARENA_RUN, run["metadata"]["name"])


async def push(world: World, number: int) -> str:
    """Push a commit that differs from the others."""
    return await world.commit({**BUNDLE, "NOTES": str(number)})


async def request(world: World, request_id: str) -> None:
    """Annotate the job as `kubectl annotate` would."""
    await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"metadata": {"annotations": {REQUESTED: request_id}}})


def of_kind(kind: str) -> Callable[..., bool]:
    """Return whether a call is about objects of a kind."""
    return lambda subject, *_, **__: (subject["kind"] if isinstance(subject, dict) else subject.kind) == kind


POINTS = [
    *(pytest.param("create", of_kind("ArenaRun"), number, id=f"run {number} is created") for number in range(4)),
    *(pytest.param("patch_status", of_kind("ArenaJob"), number, id=f"write {number} of the job's status") for number in range(3)),
    *(pytest.param("delete", of_kind("ArenaRun"), number, id=f"run {number} is pruned") for number in (0, 2)),
]


@pytest.mark.parametrize("before", [pytest.param(True, id="before"), pytest.param(False, id="after")])
@pytest.mark.parametrize(("verb", "when", "passed_over"), POINTS)
async def test_a_cause_has_one_run_whenever_the_controller_dies(
    world: World, monkeypatch: pytest.MonkeyPatch, verb: str, when: Callable[..., bool], passed_over: int, *, before: bool
) -> None:
    """First sight, a request and two pushes make four runs, of which history keeps none: wherever the controller died, none is made twice or left out."""
    made: list[str] = []
    create = world.cluster.create

    async def noting(obj: Object, **options: bool) -> Object:
        created = await create(obj, **options)
        if obj["kind"] == "ArenaRun":
            made.append(obj["metadata"]["annotations"]["arena.omnia.altairalabs.ai/cause"].split(":")[0])
        return created

    monkeypatch.setattr(world.cluster, "create", noting)
    monkeypatch.setattr(world.cluster, verb, dying(getattr(world.cluster, verb), before=before, when=when, passed_over=passed_over))

    async def look() -> None:
        for _ in range(2):
            with contextlib.suppress(ProcessDied):
                await world.look(ARENA_JOB, "eval")

    await world.project_with()
    await world.job(successfulRunsHistoryLimit=0, failedRunsHistoryLimit=0, onPush={})
    await look()
    with contextlib.suppress(ProcessDied):
        await finish(world)
    await finish(world)
    await look()
    await request(world, "one")
    await push(world, 1)
    await look()
    with contextlib.suppress(ProcessDied):
        await finish(world)
    await push(world, 2)
    await look()
    with contextlib.suppress(ProcessDied):
        await finish(world)
    await finish(world)
    await look()
    await world.look_at_all(3)
    assert sorted(made) == ["first", "push", "push", "request"]
    assert await world.runs() == []


async def test_a_run_that_is_pruned_at_first_sight_is_not_made_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run was made for is written before the run is pruned: a death on either side of both starts no second one."""
    await world.project_with()
    await world.job(successfulRunsHistoryLimit=0)
    monkeypatch.setattr(world.cluster, "patch_status", dying(world.cluster.patch_status, before=True, when=of_kind("ArenaJob")))
    with pytest.raises(ProcessDied):
        await world.look(ARENA_JOB, "eval")
    await finish(world)
    monkeypatch.setattr(world.cluster, "delete", dying(world.cluster.delete, before=False, when=of_kind("ArenaRun")))
    with pytest.raises(ProcessDied):
        await world.look(ARENA_JOB, "eval")
    for run in await world.runs():
        await world.look(ARENA_RUN, run["metadata"]["name"])
    await world.look_at_all(3)
    assert await world.runs() == []


async def test_a_push_counts_although_every_run_is_gone(world: World) -> None:
    """A job whose runs were all removed before any push compares later pushes with what it sees now: the next one starts a run."""
    await world.project_with()
    await world.job()
    await world.look_at_all(2)
    await world.cluster.delete(ARENA_RUN, NAMESPACE, (await world.run())["metadata"]["name"])
    await world.look_at_all(2)
    await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"spec": {"onPush": {}}})
    await world.look_at_all(2)
    assert await world.runs() == []
    commit = await push(world, 1)
    await world.look_at_all(2)
    assert (await world.run())["status"]["source"]["commit"] == commit


async def test_a_suspended_job_keeps_to_its_history(world: World) -> None:
    """Runs that end while their job is suspended are pruned like any others."""
    await world.project_with()
    await world.job(successfulRunsHistoryLimit=0)
    await world.look_at_all(2)
    await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"spec": {"suspend": True}})
    await finish(world)
    await world.look_at_all(2)
    assert await world.runs() == []


async def test_a_clash_of_names_lengthens_the_suffix(world: World) -> None:
    """A run of another cause that has the name already stays, and the new one's suffix is longer."""
    await world.project_with()
    job = await world.job()
    await world.look(ARENA_JOB, "eval")
    taken = (await world.run())["metadata"]["name"]
    await world.cluster.patch(ARENA_RUN, NAMESPACE, taken, {"metadata": {"ownerReferences": None, "labels": None}})
    await world.cluster.patch_status(ARENA_JOB, NAMESPACE, "eval", {"lastRunRef": None})
    await world.look(ARENA_JOB, "eval")
    (longer,) = [run["metadata"]["name"] for run in await world.runs() if run["metadata"]["name"] != taken]
    assert longer.startswith(taken)
    assert (await world.get(ARENA_JOB, "eval"))["metadata"]["uid"] == job["metadata"]["uid"]


@pytest.mark.parametrize("name", [pytest.param("j" * 63, id="63 characters"), pytest.param("a." * 60 + "b", id="121 with dots")])
async def test_names_fit(world: World, name: str) -> None:
    """However long a job's name, its run's Job and the pods' names are DNS labels, of at most 63 characters."""
    await world.project_with()
    await world.job(name)
    await world.look_at_all(2)
    run, (job,) = await world.run(), await world.worker_jobs()
    assert run["status"]["phase"] == "Running"
    assert len(f"{job['metadata']['name']}-99999") <= 63
    assert "." not in job["metadata"]["name"]


@pytest.mark.parametrize(
    "name", [pytest.param("r" * 63, id="63 characters"), pytest.param("r" * 253, id="253 characters"), pytest.param("a.b", id="dots")]
)
async def test_names_of_hand_written_runs_fit(world: World, name: str) -> None:
    """A hand-written run may have any name that Kubernetes takes; its Job's and pods' names fit all the same."""
    await world.project_with()
    await world.apply(ARENA_RUN, name, {"jobRef": {"name": "none"}, "template": {"sourceRef": {"name": "src"}}})
    await world.look_at_all(2)
    (job,) = await world.worker_jobs()
    assert len(f"{job['metadata']['name']}-99999") <= 63
    assert "." not in job["metadata"]["name"]
    assert await world.work(await world.run()) == 1


async def test_two_runs_with_like_names_have_two_jobs(world: World) -> None:
    """Names that are cut, or whose dots go, stay two."""
    await world.project_with()
    for name in ("a.b", "a-b", "r" * 63, "r" * 64):
        await world.apply(ARENA_RUN, name, {"jobRef": {"name": "none"}, "template": {"sourceRef": {"name": "src"}}})
    await world.look_at_all(2)
    assert len({job["metadata"]["name"] for job in await world.worker_jobs()}) == 4


async def test_a_push_run_waits_for_the_first_to_be_pinned(world: World) -> None:
    """Until the run of first sight has its commit, pushes start none; then the newest commit is compared with that one."""
    await world.project_with()
    await world.job(onPush={})
    await world.look(ARENA_JOB, "eval")
    await push(world, 1)
    await world.look(ARENA_JOB, "eval")
    assert len(await world.runs()) == 1
    await world.look_at_all(2)
    assert len(await world.runs()) == 1


async def test_two_controllers_make_one_run_of_a_push(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that looks while another is between the run and lastPush makes no second run, and cancels nothing."""
    await world.project_with()
    await world.job(onPush={})
    await world.look_at_all(2)
    await push(world, 1)
    create = world.cluster.create
    other = world.beside()
    asked: list[Any] = []

    async def overtaken(obj: Object, **options: bool) -> Object:
        if obj["kind"] == "ArenaRun" and not asked:
            asked.append(obj)
            await other.look(ARENA_JOB, "eval")
        return await create(obj, **options)

    monkeypatch.setattr(world.cluster, "create", overtaken)
    await world.look(ARENA_JOB, "eval")
    await world.look_at_all(2)
    pushed = [run for run in await world.runs() if run["spec"]["trigger"] == "Push"]
    assert [run["spec"].get("cancelled", False) for run in pushed] == [False]
    assert [entry["count"] for entry in (await world.get(ARENA_JOB, "eval"))["status"]["lastPush"]] == [1]
