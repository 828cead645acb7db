"""How a run is stopped, loses its queue, or is deleted, and what it leaves behind."""

from pathlib import Path

from engine.queue.port import Refusal, RunMeta
from reconcile.cluster.port import ARENA_PROJECT, ARENA_RUN, JOB, ObjectKey
from tests.reconcile.conftest import BUNDLE, NAMESPACE, World, cancel, condition, started


async def test_cancel(world: World) -> None:
    """A cancelled run ends its workers, counts what was not begun as skipped, and is Cancelled with what it had."""
    run = await started(world, trials=5)
    assert await world.work(run, limit=2) == 2
    await cancel(world)
    await world.look_at_all(2)
    run = await world.run()
    summary = run["status"]["result"]["summary"]
    assert (run["status"]["phase"], summary["verdict"], summary["passedItems"], summary["drainedItems"]) == ("Cancelled", "cancelled", "2", "3")
    assert await world.worker_jobs() == []


async def test_cancel_before_the_first_item(world: World) -> None:
    """A run that waits for its project and is cancelled ends at once, without a verdict."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": {}})
    await world.job()
    await world.look_at_all(2)
    await cancel(world)
    await world.look_at_all()
    run = await world.run()
    assert (run["status"]["phase"], "result" in run["status"]) == ("Cancelled", False)


async def test_a_drained_run_keeps_its_verdict(world: World) -> None:
    """A cancel that comes when every item is counted changes nothing."""
    run = await started(world)
    await world.work(run)
    await cancel(world)
    await world.look_at_all()
    assert (await world.run())["status"]["phase"] == "Succeeded"


async def test_a_deadline_ends_a_waiting_run(world: World) -> None:
    """A run that is Pending longer than its deadline fails with DeadlineExceeded."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": {}})
    await world.job(deadline="1m")
    await world.look_at_all(2)
    world.clock._elapsed += 61
    await world.look_at_all()
    run = await world.run()
    assert (run["status"]["phase"], condition(run)["reason"]) == ("Failed", "DeadlineExceeded")


async def test_a_deadline_ends_a_running_run(world: World) -> None:
    """A run that works longer than its deadline is stopped; its verdict is an error, and what was counted stays counted."""
    run = await started(world, trials=3, deadline="1m")
    await world.work(run, limit=1)
    world.clock._elapsed += 61
    await world.look_at_all(2)
    run = await world.run()
    summary = run["status"]["result"]["summary"]
    assert (condition(run)["reason"], summary["verdict"], summary["passedItems"], summary["drainedItems"]) == ("DeadlineExceeded", "error", "1", "2")


async def test_a_lost_queue_is_rebuilt(world: World) -> None:
    """A queue that forgot the run is filled again: items with a whole line are counted from it, the others run again, each once."""
    run = await started(world, trials=4)
    await world.work(run, limit=2)
    await world.queue.drop(run["metadata"]["uid"])
    await world.look_at_all()
    assert (await world.events("QueueRebuilt"))[0].startswith("the queue had lost the run: 2 of 4")
    assert await world.work(run) == 2
    await world.look_at_all()
    assert (await world.run())["status"]["result"]["summary"]["passedItems"] == "4"


async def test_a_lost_queue_of_a_cancelled_run_stays_stopped(world: World) -> None:
    """A stop in the status is issued before anything else to a queue that forgot the run."""
    run = await started(world, trials=4)
    await world.work(run, limit=1)
    await cancel(world)
    await world.queue.drop(run["metadata"]["uid"])
    await world.look_at_all(3)
    run = await world.run()
    summary = run["status"]["result"]["summary"]
    assert (run["status"]["phase"], summary["passedItems"], summary["drainedItems"]) == ("Cancelled", "1", "3")


async def test_a_run_whose_workers_cannot_begin_fails_by_name(world: World) -> None:
    """What a worker lacks becomes the run's failure: its reason, its words, no item executed, and a verdict that is no score."""
    run = await started(world, trials=3)
    await world.queue.refuse(run["metadata"]["uid"], Refusal("credential_missing", "provider 'gpt' needs the variable OPENAI_API_KEY"))
    await world.look_at_all(2)
    run = await world.run()
    ready = condition(run)
    assert (run["status"]["phase"], ready["reason"], run["status"]["stop"]["reason"]) == ("Failed", "CredentialMissing", "CredentialMissing")
    assert "provider 'gpt' needs the variable OPENAI_API_KEY; 0 of 0 items passed, 3 were not run" in ready["message"]
    assert run["status"]["result"]["summary"]["totalItems"] == "0"


async def test_a_worker_that_comes_too_late_to_begin_changes_nothing(world: World) -> None:
    """A worker that is started again when every item is counted, and finds its key gone by then, costs the run nothing."""
    run = await started(world)
    await world.work(run)
    await world.queue.refuse(run["metadata"]["uid"], Refusal("credential_missing", "provider 'gpt' needs the variable OPENAI_API_KEY"))
    await world.look_at_all()
    assert (await world.run())["status"]["phase"] == "Succeeded"


async def test_a_foreign_queue_under_the_runs_uid_fails_it(world: World) -> None:
    """A queue that holds another plan under the run's uid is never used."""
    await world.project_with()
    await world.job()
    await world.look(ARENA_PROJECT, "src")
    await world.controllers["ArenaJob"].pass_over(_key("eval"))
    run = await world.run()
    await world.queue.pin(run["metadata"]["uid"], RunMeta("sha256:other", 7))
    await world.look_at_all()
    assert condition(await world.run())["reason"] == "QueueLost"


async def test_deletion_takes_everything_along(world: World) -> None:
    """A deleted run's workers, keys, keep-ref and directory go, and then the object."""
    run = await started(world)
    directory = world.volume.run(NAMESPACE, run["metadata"]["name"])
    assert directory.is_dir()
    await world.cluster.delete(ARENA_RUN, NAMESPACE, run["metadata"]["name"])
    await world.look_at_all(2)
    assert await world.runs() == []
    assert (await world.worker_jobs(), await world.queue.runs(), await world.repositories.pins(world.project)) == ([], [], {})
    assert not directory.exists()


async def test_deletion_waits_for_the_workers(world: World) -> None:
    """A run that is deleted stays until its worker Job, which a finalizer holds, is gone."""
    run = await started(world)
    (job,) = await world.worker_jobs()
    await world.cluster.patch(JOB, NAMESPACE, job["metadata"]["name"], {"metadata": {"finalizers": ["test/hold"]}})
    await world.cluster.delete(ARENA_RUN, NAMESPACE, run["metadata"]["name"])
    await world.look_at_all(2)
    assert len(await world.runs()) == 1
    await world.cluster.patch(JOB, NAMESPACE, job["metadata"]["name"], {"metadata": {"finalizers": None}})
    await world.look_at_all(2)
    assert await world.runs() == []


async def test_a_directory_of_a_dead_run_is_moved_aside(world: World) -> None:
    """A directory of the run's name that a run which no longer lives left behind is never used or mixed."""
    await world.project_with()
    await world.job()
    await world.controllers["ArenaJob"].pass_over(_key("eval"))
    name = (await world.run())["metadata"]["name"]
    directory = world.volume.run(NAMESPACE, name)
    directory.mkdir(parents=True)
    (directory / ".owner").write_text("dead-uid test\n")
    (directory / "results.jsonl").write_text("old\n")
    await world.look_at_all()
    assert not (directory / "results.jsonl").exists()
    assert (directory.parent / ".trash" / f"{name}-dead-uid" / "results.jsonl").read_text() == "old\n"


async def test_an_unwritable_directory_is_waited_for_then_done_without(world: World) -> None:
    """Settling waits ten minutes for the run's directory; then the verdict stands in the status and an event says that the files are lost."""
    run = await started(world)
    await world.work(run)
    directory = world.volume.run(NAMESPACE, run["metadata"]["name"])
    _make_unusable(directory)
    await world.look_at_all()
    assert condition(await world.run())["reason"] == "StorageFailed"
    world.clock._elapsed += 601
    await world.look_at_all()
    run = await world.run()
    assert run["status"]["phase"] == "Succeeded"
    assert await world.events("OutputLost")


async def test_a_lost_plan_file_comes_back_from_the_queue(world: World) -> None:
    """The plan is read from the queue when the volume lost it, and written again."""
    run = await started(world)
    directory = world.volume.run(NAMESPACE, run["metadata"]["name"])
    (plan,) = directory.glob("plan-*.json")
    data = plan.read_bytes()
    plan.unlink()
    await world.look_at_all()
    assert plan.read_bytes() == data
    assert (await world.run())["status"]["phase"] == "Running"


async def test_a_deleted_project_waits_for_its_pinned_runs(world: World) -> None:
    """A project goes only when the runs that pinned a commit of it have ended; its repository is kept aside."""
    run = await started(world)
    uid = (await world.get(ARENA_PROJECT, "src"))["metadata"]["uid"]
    await world.cluster.delete(ARENA_PROJECT, NAMESPACE, "src")
    await world.look_at_all()
    assert run["metadata"]["name"] in condition(await world.get(ARENA_PROJECT, "src"))["message"]
    await world.work(run)
    await world.look_at_all(2)
    assert [project["metadata"]["name"] for project in (await world.cluster.list(ARENA_PROJECT, NAMESPACE)).items] == []
    assert world.volume.retained(world.project, uid).is_dir()


async def test_retention_never_takes_the_snapshot_of_a_run(world: World) -> None:
    """With retain 0 only the head and the snapshots of runs that go on stay."""
    await world.project_with(snapshots={"retain": 0})
    await world.job()
    await world.look_at_all(2)
    run = await world.run()
    for number in range(2):
        await world.commit({**BUNDLE, "NOTES": str(number)})
        await world.look_at_all()
    versions = {path.name for path in world.volume.versions(world.project).iterdir() if not path.name.startswith(".")}
    assert run["status"]["source"]["commit"] in versions
    assert len(versions) == 2


async def test_retention_keeps_what_a_waiting_run_names(world: World) -> None:
    """The snapshot of a SHA that a run which has not begun will pin is not removed meanwhile."""
    commit = await world.project_with(snapshots={"retain": 0})
    await world.job(ref=commit)
    await world.controllers["ArenaJob"].pass_over(_key("eval"))
    await world.commit({**BUNDLE, "NOTES": "x"})
    await world.look(ARENA_PROJECT, "src")
    assert await world.snapshots.find(world.project, commit) is not None


def _key(name: str) -> ObjectKey:
    return ObjectKey(NAMESPACE, name)


def _make_unusable(directory: Path) -> None:
    """Put a file where the results are to be written: root ignores permissions, so a read-only directory would not do."""
    (directory / "results.jsonl").mkdir()
    (directory / "results.jsonl" / "in the way").write_text("x")
