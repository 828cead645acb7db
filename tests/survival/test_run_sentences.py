"""Sentences of survival.md about a run that no other test has: each test's docstring is the sentence, or the part of it that is tested here."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta

import pytest

from engine.errors import QueueUnavailable
from engine.items import Item, ItemResult, RunUID, Verdict
from engine.records import record_of
from engine.worker import WorkerOptions
from engine.worker_settings import from_environment
from reconcile.cluster.port import ARENA_PROJECT, ARENA_RUN, JOB
from reconcile.project import LOOK_AGAIN
from reconcile.run import RunReconciler
from reconcile.runtime.controller import Controller
from tests.reconcile.conftest import BUNDLE, NAMESPACE, ProcessDied, World, condition, dying, started


async def test_progress_decides_nothing(world: World) -> None:
    """`status.progress` is a display copy and decides nothing."""
    run = await started(world, trials=3)
    await world.cluster.patch_status(
        ARENA_RUN, NAMESPACE, run["metadata"]["name"], {"progress": {"total": 3, "completed": 3, "failed": 0, "pending": 0}}
    )
    await world.look_at_all(2)
    assert (await world.run())["status"]["phase"] == "Running"
    await world.work(run)
    await world.cluster.patch_status(ARENA_RUN, NAMESPACE, run["metadata"]["name"], {"progress": {"total": 3, "completed": 0, "pending": 3}})
    await world.look_at_all(2)
    run = await world.run()
    assert (run["status"]["phase"], run["status"]["progress"]["completed"]) == ("Succeeded", 3)


async def test_an_empty_store_is_not_drained(world: World) -> None:
    """*Drained* means that the number of records equals `status.plan.items`; an empty stream, a missing group or a missing key never means it."""
    run = await started(world, trials=3)
    uid = RunUID(run["metadata"]["uid"])
    world.queue.lose(uid, [0, 1, 2])
    assert (await world.queue.state(uid)).queued == 0
    await world.look_at_all()
    assert (await world.run())["status"]["phase"] == "Running"
    world.queue.lose(uid)
    await world.look_at_all()
    assert (await world.run())["status"]["phase"] == "Running"
    assert await world.work(run) == 3


async def test_the_plan_file(world: World) -> None:
    """`plan-<digest>.json` has items, resolved provider specs without secrets, engine version, mock override and worker image."""
    run = await started(world, trials=2)
    directory = world.volume.run(NAMESPACE, run["metadata"]["name"])
    digest = run["status"]["plan"]["digest"].removeprefix("sha256:")
    assert [path.name for path in directory.glob("*plan*")] == [f"plan-{digest}.json"]
    plan = json.loads((directory / f"plan-{digest}.json").read_bytes())
    told = json.dumps(plan)
    assert all(word in told for word in ("greeting", "steady", "arena:test")), told
    assert {"engineVersion", "cells", "providers", "mocked", "image"} <= plan.keys(), sorted(plan)


async def test_workers_keep_the_image_of_the_plan(world: World) -> None:
    """A Job that is gone is made again with the worker image that the plan names."""
    await started(world)
    (job,) = await world.worker_jobs()
    await world.cluster.delete(JOB, NAMESPACE, job["metadata"]["name"])
    newer = dataclasses.replace(world.runs_world, image="arena:newer")
    world.controllers["ArenaRun"] = Controller(world.cluster, RunReconciler(newer), clock=world.clock)
    await world.look_at_all()
    (job,) = await world.worker_jobs()
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "arena:test"


async def test_fewer_workers_than_asked_for(world: World) -> None:
    """A run that asks for more workers gets `--max-workers`, said in `status.workers`."""
    small = dataclasses.replace(world.runs_world, max_workers=2)
    world.controllers["ArenaRun"] = Controller(world.cluster, RunReconciler(small), clock=world.clock)
    run = await started(world, trials=4, workers={"replicas": 7})
    (job,) = await world.worker_jobs()
    assert (run["status"]["workers"], job["spec"]["completions"], len(await world.events("WorkersReduced"))) == (2, 2, 1)


async def test_no_transcript_enters_redis() -> None:
    """No transcript enters Redis."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    messages = [{"role": "user", "content": "a question of mine"}, {"role": "assistant", "content": "an answer of theirs"}]
    result = ItemResult(Item(0, "s", "p", 1), Verdict.PASS, now, now, messages=messages)
    data = record_of(result, line=None, lease=None).to_bytes()
    assert b"of mine" not in data
    assert b"of theirs" not in data


def test_lease_times() -> None:
    """Lease 30 s, renewed every 10 s; 5 s in tests."""
    required = {"ARENA_RUN_UID": "u", "REDIS_URL": "unix:///x", "ARENA_INSTALLATION": "i", "ARENA_CONTENT_PATH": "/c"}
    options = from_environment(required).options
    assert (options.lease_s, options.renew_s) == (30, 10)
    assert WorkerOptions(name="w").patience_s == timedelta(minutes=10).total_seconds()


async def test_progress_is_written_every_two_seconds(world: World) -> None:
    """Progress is written on change, at most every 2 s."""
    run = await started(world, trials=8)
    await world.look_at_all()
    versions = []
    for _ in range(4):
        await world.work(run, limit=1)
        world.clock._elapsed += 1
        await world.look(ARENA_RUN, run["metadata"]["name"])
        versions.append((await world.run())["metadata"]["resourceVersion"])
    assert len(set(versions)) in {2, 3}, versions
    assert versions[-1] == versions[-2] or versions[-2] == versions[-3]


async def test_a_push_that_nobody_announced_is_found(world: World) -> None:
    """A hosted main is read again every 30 s: a crash between the ref's update and the stamp loses nothing."""
    assert timedelta(seconds=30) == LOOK_AGAIN
    await world.project_with()
    commit = await world.commit({**BUNDLE, "NOTES": "unannounced"})
    before = (await world.get(ARENA_PROJECT, "src"))["metadata"].get("annotations")
    await world.look(ARENA_PROJECT, "src")
    project = await world.get(ARENA_PROJECT, "src")
    assert (project["status"]["head"]["commit"], project["metadata"].get("annotations")) == (commit, before)


async def test_a_full_store_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that takes nothing keeps a run waiting with the cause, at whatever step; when it takes again, the run goes on."""

    async def full(*_: object, **__: object) -> None:
        raise QueueUnavailable("cannot use the queue's store: out of memory", hint="give it more memory")

    await world.project_with()
    await world.job(trials=2)
    for verb in ("pin", "publish_plan", "put"):
        with monkeypatch.context() as patch:
            patch.setattr(world.queue, verb, full)
            await world.look_at_all(2)
        ready = condition(await world.run())
        assert (ready["reason"], "out of memory" in ready["message"]) == ("QueueUnavailable", True)
        assert await world.worker_jobs() == []
    await world.look_at_all()
    run = await world.run()
    assert await world.work(run) == 2
    monkeypatch.setattr(world.queue, "settle", full)
    await world.look_at_all(2)
    assert (await world.run())["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize("jump", [timedelta(days=400), timedelta(days=-400)], ids=["forward", "back"])
async def test_a_wall_clock_that_jumps_changes_no_run(world: World, jump: timedelta) -> None:
    """A run without a deadline goes on as it was when the wall clock jumps: leases and patience are counted by the monotonic one."""
    run = await started(world, trials=4)
    assert await world.work(run, limit=2) == 2
    world.clock._start += jump
    await world.look_at_all(2)
    run = await world.run()
    assert (run["status"]["phase"], "stop" in run["status"]) == ("Running", False)
    assert await world.work(run) == 2
    await world.look_at_all(2)
    run = await world.run()
    assert (run["status"]["phase"], run["status"]["result"]["summary"]["passedItems"]) == ("Succeeded", "4")


async def test_a_clock_that_jumps_back_prolongs_a_deadline_and_breaks_nothing(world: World) -> None:
    """A deadline is a date: a clock that jumps back puts it off, and one that jumps forward ends the run with its reason."""
    run = await started(world, trials=4, deadline="1h")
    world.clock._start -= timedelta(days=1)
    await world.look_at_all(2)
    assert (await world.run())["status"]["phase"] == "Running"
    await world.work(run, limit=1)
    world.clock._start += timedelta(days=2)
    await world.look_at_all(3)
    run = await world.run()
    assert (run["status"]["phase"], condition(run)["reason"], run["status"]["progress"]["completed"]) == ("Failed", "DeadlineExceeded", 1)


async def test_a_deposed_controller_may_repeat_any_effect(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deposed controller may repeat any outside effect: each is keyed by UID, monotone, and refused by state."""
    other = world.beside()
    await world.project_with()
    await world.job(trials=2)
    monkeypatch.setattr(world.queue, "put", dying(world.queue.put, before=False))
    with pytest.raises(ProcessDied):
        await world.look_at_all(2)
    await other.look_at_all(2)
    run = await world.run()
    uid, name = RunUID(run["metadata"]["uid"]), run["metadata"]["name"]
    plan = await world.queue.plan(uid)
    assert await world.work(run) == 2
    await world.queue.publish_plan(uid, plan)
    await world.queue.put(uid, 0, [(0, "greeting/steady/1"), (1, "greeting/steady/2")], last=True)
    assert (await world.queue.state(uid)).queued == 0
    await other.look(ARENA_RUN, name)
    await world.look(ARENA_RUN, name)
    await other.look(ARENA_RUN, name)
    run = await world.run()
    assert (run["status"]["phase"], run["status"]["result"]["summary"]["totalItems"]) == ("Succeeded", "2")
