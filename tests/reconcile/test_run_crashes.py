"""What the next pass makes of a run whose controller died, or lost its store, between two lines; a sentence of survival.md a test."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import QueueUnavailable
from engine.items import RunUID, Verdict
from engine.plan import Plan
from engine.queue.memory import MemoryWorkQueue
from engine.queue.port import QueueState
from gitops.repositories import Repositories
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, JOB, Object, ResourceKind
from reconcile.cluster.sqlite import SqliteCluster
from tests.reconcile.conftest import BUNDLE, NAMESPACE, ProcessDied, World, beside_a_foreign_job, cancel, condition, dying, started


async def end_job(world: World, how: str) -> None:
    """Let the worker Job end as a Job controller would write it."""
    (job,) = await world.worker_jobs()
    await world.cluster.patch_status(JOB, NAMESPACE, job["metadata"]["name"], {"conditions": [{"type": how, "status": "True"}]})


def writes(field: str) -> Callable[..., bool]:
    """Return whether a patch_status sets a field of a run for the first time."""

    def first(kind: Any, _namespace: str, _name: str, status: dict[str, Any], **_: Any) -> bool:
        return bool(kind is ARENA_RUN and status.get(field))

    return first


POINTS = [
    pytest.param(Repositories, "pin", None, id="keep-ref"),
    *[
        pytest.param(SqliteCluster, "patch_status", writes(field), id=f"status.{field}")
        for field in ("source", "snapshotDigest", "plan", "queue", "workers", "startTime", "stop", "result")
    ],
    *[pytest.param(MemoryWorkQueue, verb, None, id=f"queue.{verb}") for verb in ("pin", "publish_plan", "put", "stop", "skip_unbegun", "settle")],
    pytest.param(SqliteCluster, "create", lambda obj, **_: obj["kind"] == "Job", id="worker Job"),
]


@pytest.mark.parametrize("before", [pytest.param(True, id="before"), pytest.param(False, id="after")])
@pytest.mark.parametrize(("owner", "verb", "when"), POINTS)
async def test_a_death_at_any_step_is_found_again(
    world: World, monkeypatch: pytest.MonkeyPatch, owner: type, verb: str, when: Callable[..., bool] | None, *, before: bool
) -> None:
    """A controller that dies before or after any outside effect of a run leaves a world in which the next one goes on: every item is counted once."""
    target = {Repositories: world.repositories, SqliteCluster: world.cluster, MemoryWorkQueue: world.queue}[owner]
    monkeypatch.setattr(target, verb, dying(getattr(target, verb), before=before, when=when or (lambda *_, **__: True)))
    deaths = 0

    async def look() -> None:
        nonlocal deaths
        for _ in range(3):
            try:
                await world.look_at_all()
            except ProcessDied:
                deaths += 1

    await world.project_with()
    await world.job(trials=4)
    await look()
    run = await world.run()
    assert (run["status"]["phase"], "startTime" in run["status"], condition(run, "JobCreated")["status"]) == ("Running", True, "True")
    assert await world.work(run, limit=2) == 2
    await cancel(world)
    await look()
    run = await world.run()
    summary = run["status"]["result"]["summary"]
    assert (run["status"]["phase"], summary["passedItems"], summary["drainedItems"]) == ("Cancelled", "2", "2")
    assert (deaths, await world.worker_jobs(), await world.queue.runs()) == (1, [], [])
    directory = world.volume.run(NAMESPACE, run["metadata"]["name"])
    assert len((directory / "results.jsonl").read_text().splitlines()) == 4


async def test_a_commit_named_by_its_sha_survives_a_force_push_while_the_run_waits(world: World) -> None:
    """A full SHA gets its keep-ref at first sight, so a force push before the run starts does not take the commit from it."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": {}})
    await world.look(ARENA_PROJECT, "src")
    commit = await world.commit(BUNDLE)
    await world.job(ref=commit)
    await world.look(ARENA_JOB, "eval")
    name = (await world.run())["metadata"]["name"]
    await world.look(ARENA_RUN, name)
    assert condition(await world.run())["reason"] == "ProjectNotReady"
    await world.force_push({**BUNDLE, "NOTES": "another history"})
    await world.look_at_all(2)
    run = await world.run()
    assert (run["status"]["phase"], run["status"].get("source", {}).get("commit")) == ("Running", commit), condition(run)["message"]


async def test_a_keep_ref_that_another_controller_moved_is_set_right(world: World) -> None:
    """A deposed controller that repeats its pin with an older answer takes the commit from no run: each pass sees to the keep-ref."""
    run = await started(world)
    pinned = run["status"]["source"]["commit"]
    other = await world.commit({**BUNDLE, "NOTES": "x"})
    await world.repositories.pin(world.project, run["metadata"]["uid"], other)
    await world.look(ARENA_RUN, run["metadata"]["name"])
    assert await world.repositories.pins(world.project) == {run["metadata"]["uid"]: pinned}


async def test_a_run_that_lost_items_after_its_stop_still_drains(world: World) -> None:
    """Items of a stopped run that the queue's store lost are in no set; they are recorded as skipped, and the run ends."""
    run = await started(world, trials=4)
    assert await world.work(run, limit=1) == 1
    await cancel(world)
    world.queue.lose(RunUID(run["metadata"]["uid"]), [2, 3])
    await world.look_at_all(2)
    run = await world.run()
    assert (run["status"]["phase"], run["status"]["result"]["summary"]["drainedItems"]) == ("Cancelled", "3")


async def test_failed_workers_and_a_lost_queue_end_the_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that failed for good and a queue that forgot the run: what has no whole line is an error, worker_lost, and the run ends."""
    run = await started(world, trials=4)
    assert await world.work(run, limit=1) == 1
    await end_job(world, "Failed")
    world.queue.lose(RunUID(run["metadata"]["uid"]), [2])
    monkeypatch.setattr(world.queue, "stop", dying(world.queue.stop, before=True))
    with pytest.raises(ProcessDied):
        await world.look_at_all()
    world.queue.lose(RunUID(run["metadata"]["uid"]))
    await world.look_at_all(2)
    run = await world.run()
    summary = run["status"]["result"]["summary"]
    assert (condition(run)["reason"], summary["passedItems"], summary["failedItems"]) == ("WorkersFailed", "1", "3")


async def test_no_worker_before_the_put_is_complete(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put that was cut off between two chunks has no Job; the next pass puts the rest, and every item is there once."""
    await world.project_with()
    await world.job(trials=1200)
    monkeypatch.setattr(world.queue, "put", dying(world.queue.put, before=False, passed_over=1))
    with pytest.raises(ProcessDied):
        await world.look_at_all(2)
    run = await world.run()
    assert (await world.worker_jobs(), run["status"]["phase"]) == ([], "Pending")
    await world.look_at_all(2)
    state = await world.queue.state(run["metadata"]["uid"])
    assert (state.complete, state.queued, len(await world.worker_jobs())) == (True, 1200, 1)


async def test_a_second_settling_writes_equal_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that dies between the files and the status leaves the next one the same files to write, at any later time."""
    run = await started(world, trials=3)
    await world.work(run, verdict=lambda item: Verdict.FAIL if item.trial == 2 else Verdict.PASS)
    monkeypatch.setattr(world.cluster, "patch_status", dying(world.cluster.patch_status, before=True, when=writes("result")))
    with pytest.raises(ProcessDied):
        await world.look_at_all()
    directory = world.volume.run(NAMESPACE, run["metadata"]["name"])
    names = ("results.jsonl", "summary.json", "junit.xml", "report.md")
    before = [(directory / name).read_bytes() for name in names]
    world.clock._elapsed += 3600
    await world.look_at_all()
    assert (await world.run())["status"]["phase"] == "Failed"
    assert [(directory / name).read_bytes() for name in names] == before


async def test_an_ended_run_gets_no_workers(world: World) -> None:
    """A terminal phase is final: a Job that goes afterwards is not made again, and the keys stay gone."""
    run = await started(world)
    await world.work(run)
    await world.look_at_all(2)
    await world.cluster.delete(JOB, NAMESPACE, (await world.worker_jobs())[0]["metadata"]["name"])
    await world.look_at_all(2)
    assert (await world.worker_jobs(), await world.queue.runs()) == ([], [])
    assert (await world.run())["status"]["phase"] == "Succeeded"


async def test_workers_of_another_version_are_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose plan was made by an engine that cannot be had any more fails with WorkersFailed, naming the version."""
    monkeypatch.setattr("engine.plan.ENGINE_VERSION", "0.0.1-before")
    await started(world)
    monkeypatch.undo()
    await end_job(world, "Failed")
    await world.look_at_all(2)
    ready = condition(await world.run())
    assert (ready["reason"], "0.0.1-before" in ready["message"]) == ("WorkersFailed", True), ready["message"]


async def test_a_plan_that_cannot_be_read_ends_the_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that another release wrote, and this one cannot read, ends the run with a reason; its workers go, and its keys."""
    to_json = Plan._to_json
    monkeypatch.setattr(Plan, "_to_json", lambda plan: {key: value for key, value in to_json(plan).items() if key != "permissions"})
    await started(world)
    monkeypatch.undo()
    await world.look_at_all(3)
    run = await world.run()
    ready = condition(run)
    assert (run["status"]["phase"], ready["reason"], "'permissions'" in ready["message"]) == ("Failed", "WorkersFailed", True), ready["message"]
    assert (await world.worker_jobs(), await world.queue.runs()) == ([], [])


async def test_spend_counts_again_after_a_rebuild(world: World) -> None:
    """What the whole lines prove was spent is counted when a queue is rebuilt, so a budget that was crossed stays crossed."""
    run = await started(world, trials=6, budgetLimit="0.02")
    assert await world.work(run, limit=3) == 3
    world.queue.lose(RunUID(run["metadata"]["uid"]))
    await world.look_at_all(2)
    run = await world.run()
    assert (condition(run)["reason"], run["status"]["result"]["summary"]["drainedItems"]) == ("BudgetExceeded", "3")


async def test_a_rebuild_that_was_cut_off_is_done_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that dies while it rebuilds a queue leaves the whole lines to the next one: no item that has one runs again."""
    run = await started(world, trials=4)
    assert await world.work(run, limit=2) == 2
    world.queue.lose(RunUID(run["metadata"]["uid"]))
    monkeypatch.setattr(world.queue, "record", dying(world.queue.record, before=True))
    with pytest.raises(ProcessDied):
        await world.look_at_all()
    await world.look_at_all()
    assert await world.work(run) == 2


@pytest.mark.parametrize("how", ["Complete", "Failed"])
async def test_the_last_items_may_end_after_the_queue_was_read(world: World, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A Job that ended between the look at the queue and the look at the Job has left no items: nothing is restarted, nothing failed."""
    run = await started(world, trials=2)
    get, ended = world.cluster.get, asyncio.Event()

    async def slow(kind: ResourceKind, namespace: str | None, name: str) -> Object:
        if kind is JOB and not ended.is_set():
            ended.set()
            await world.work(run)
            await end_job(world, how)
        return await get(kind, namespace, name)

    monkeypatch.setattr(world.cluster, "get", slow)
    await world.look_at_all(2)
    run = await world.run()
    assert (run["status"]["phase"], "stop" in run["status"], len(await world.worker_jobs())) == ("Succeeded", False, 1)
    assert await world.events("WorkersRestarted") == []


async def test_a_cancel_that_the_queue_never_heard_of_changes_no_verdict(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose last item was counted before its stop reached the queue keeps its verdict."""
    run = await started(world, trials=2)
    await cancel(world)
    monkeypatch.setattr(world.cluster, "patch_status", dying(world.cluster.patch_status, before=False, when=writes("stop")))
    with pytest.raises(ProcessDied):
        await world.look_at_all()
    assert await world.work(run) == 2
    await world.look_at_all()
    run = await world.run()
    assert (run["status"]["phase"], run["status"]["result"]["summary"]["verdict"]) == ("Succeeded", "pass")


async def test_a_breach_by_the_last_items_is_a_breach(world: World) -> None:
    """A budget that the items in flight cross fails the run, whether or not anything was left to stop when somebody looked."""
    run = await started(world, trials=4, budgetLimit="0.02")
    assert await world.work(run) == 4
    await world.look_at_all()
    run = await world.run()
    summary = run["status"]["result"]["summary"]
    assert (run["status"]["phase"], condition(run)["reason"], summary["budgetBreached"]) == ("Failed", "BudgetExceeded", "true")
    assert summary["drainedItems"] == "0"


async def test_a_run_beside_a_foreign_job_can_be_cancelled(world: World) -> None:
    """A Job of somebody else keeps a run from starting, never from ending."""
    await beside_a_foreign_job(world)
    await cancel(world)
    await world.look_at_all(2)
    assert (await world.run())["status"]["phase"] == "Cancelled"
    assert len(await world.worker_jobs()) == 1


async def test_a_job_that_takes_long_to_go_does_not_hold_up_a_cancel(world: World) -> None:
    """Items that nobody has begun are skipped while the workers of a cancelled run still end what they have begun."""
    run = await started(world, trials=3)
    (job,) = await world.worker_jobs()
    await world.cluster.patch(JOB, NAMESPACE, job["metadata"]["name"], {"metadata": {"finalizers": ["test/hold"]}})
    (lease,) = await world.queue.lease(run["metadata"]["uid"], worker="w", limit=1, seconds=30)
    await cancel(world)
    await world.look_at_all(2)
    assert (await world.queue.state(run["metadata"]["uid"])).skipped == 2
    await world.queue.hand_back(run["metadata"]["uid"], [lease])
    await world.look_at_all()
    assert (await world.run())["status"]["phase"] == "Cancelled"


async def test_a_pending_run_that_cannot_make_its_job_can_be_cancelled(lenient_world: World) -> None:
    """A run that waits because its Provider is in another namespace ends when it is cancelled."""
    world = lenient_world
    await world.project_with()
    await world.job(providers={"default": [{"providerRef": {"name": "p", "namespace": "other"}}]})
    await world.look_at_all(2)
    await cancel(world)
    await world.look_at_all()
    assert (await world.run())["status"]["phase"] == "Cancelled"


async def test_an_ended_run_keeps_its_conditions_while_the_queue_is_down(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that does not answer keeps the keys of an ended run, and changes nothing of its verdict; they go when it is back."""
    run = await started(world)
    await world.work(run)
    await world.look(ARENA_RUN, run["metadata"]["name"])

    async def down(*_: object) -> QueueState:
        raise QueueUnavailable("cannot reach the queue")

    with monkeypatch.context() as patch:
        patch.setattr(world.queue, "state", down)
        before = await world.run()
        await world.look(ARENA_RUN, run["metadata"]["name"])
    assert await world.run() == before
    assert await world.queue.runs() == [run["metadata"]["uid"]]
    await world.look(ARENA_RUN, run["metadata"]["name"])
    assert await world.queue.runs() == []


async def test_a_cancel_after_the_end_is_observed_and_changes_nothing(world: World) -> None:
    """spec.cancelled has no effect on an ended run, whose status speaks of the new generation all the same (kstatus waits for that)."""
    run = await started(world)
    await world.work(run)
    await world.look_at_all(2)
    await cancel(world)
    await world.look_at_all()
    run = await world.run()
    assert (run["status"]["phase"], condition(run)["status"]) == ("Succeeded", "True")
    assert run["status"]["observedGeneration"] == run["metadata"]["generation"]


async def test_ten_minutes_of_patience_begin_when_storage_fails(world: World) -> None:
    """A run that worked for long before its directory failed is given the whole ten minutes."""
    run = await started(world)
    world.clock._elapsed += 3600
    await world.look_at_all()
    await world.work(run)
    results = world.volume.run(NAMESPACE, run["metadata"]["name"]) / "results.jsonl"
    results.mkdir()
    (results / "in the way").write_text("x")
    for _ in range(3):
        await world.look_at_all()
        world.clock._elapsed += 150
    assert condition(await world.run())["reason"] == "StorageFailed"
    (results / "in the way").unlink()
    results.rmdir()
    await world.look_at_all()
    assert (await world.run())["status"]["phase"] == "Succeeded"
    assert await world.events("OutputLost") == []


async def test_a_drained_run_needs_its_snapshot_no_more(world: World) -> None:
    """A volume that fails when every item is counted keeps no run from its verdict: accounting never needs the files."""
    run = await started(world)
    await world.work(run)
    await world.snapshots.remove_all(world.project)
    world.volume.repository(world.project).rename(world.volume.root / "elsewhere")
    await world.look(ARENA_RUN, run["metadata"]["name"])
    assert (await world.run())["status"]["phase"] == "Succeeded"


async def test_a_refused_run_leaves_no_workers(world: World) -> None:
    """A run that is refused while it works ends its workers: nothing will count what they do."""
    run = await started(world)
    (world.volume.run(NAMESPACE, run["metadata"]["name"]) / f"plan-{run['status']['plan']['digest'].removeprefix('sha256:')}.json").unlink()
    world.queue.lose(RunUID(run["metadata"]["uid"]))
    await world.look_at_all()
    run = await world.run()
    assert (run["status"]["phase"], condition(run)["reason"]) == ("Failed", "QueueLost")
    assert await world.worker_jobs() == []


async def test_two_controllers_make_one_run_of_everything(world: World) -> None:
    """Two controllers that pass over one store at the same time make one run, one Job and one verdict, and count every item once."""
    other = world.beside()
    await world.project_with()
    await world.job(trials=6)
    for _ in range(4):
        await asyncio.gather(world.look_at_all(), other.look_at_all())
    run = await world.run()
    assert (run["status"]["phase"], len(await world.worker_jobs())) == ("Running", 1)
    assert await world.work(run, limit=3) + await world.work(run, verdict=lambda _: Verdict.FAIL) == 6
    for _ in range(3):
        await asyncio.gather(world.look_at_all(), other.look_at_all())
    run = await world.run()
    assert (run["status"]["phase"], run["status"]["result"]["summary"]["passedItems"]) == ("Failed", "3")
    assert await world.queue.runs() == []
