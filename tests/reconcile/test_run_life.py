"""ArenaRun from Pending to a verdict, one rule a test."""

import asyncio
import json
import subprocess

import pytest

from engine.items import Verdict
from reconcile.cluster.port import ARENA_PROJECT, ARENA_RUN, JOB
from tests.reconcile.conftest import BUNDLE, NAMESPACE, World, beside_a_foreign_job, condition, started


async def test_a_push_becomes_a_verdict(world: World) -> None:
    """A job's first run is pinned to the commit, planned, put, worked and settled, and says so in its status."""
    commit = await world.project_with()
    await world.job(trials=3)
    await world.look_at_all(2)
    run = await world.run()
    assert run["status"]["phase"] == "Running"
    assert run["status"]["source"] == {
        "repository": "hosted",
        "ref": "main",
        "commit": commit,
        "contentPath": f"arena/sources/src/.arena/versions/{commit}",
    }
    assert run["status"]["plan"]["items"] == 3
    assert await world.work(run) == 3
    await world.look_at_all()
    run = await world.run()
    assert run["status"]["phase"] == "Succeeded"
    assert run["status"]["result"]["summary"]["passRate"] == "100.0"
    assert condition(run)["status"] == "True"
    lines = (world.volume.run(NAMESPACE, run["metadata"]["name"]) / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["item"] for line in lines] == ["greeting/steady/1", "greeting/steady/2", "greeting/steady/3"]


async def test_every_field_of_the_specification(world: World) -> None:
    """A run shows what the ArenaRun reference promises, while it works and when it has ended."""
    run = await started(world, trials=4, workers={"replicas": 2})
    name = run["metadata"]["name"]
    marks = run["metadata"]["annotations"]["arena.omnia.altairalabs.ai/output"], "arena.omnia.altairalabs.ai/output" in run["metadata"]["finalizers"]
    assert marks == (f"arena/runs/{name}", True)
    status = run["status"]
    assert (status["workers"], status["queue"], status["progress"]["pending"]) == (2, {"source": "Default", "serviceGroup": ""}, 4)
    assert [condition(run, kind)["status"] for kind in ("Ready", "SourceValid", "JobCreated", "Progressing")] == ["False", "True", "True", "True"]
    await world.work(run, verdict=lambda item: {2: Verdict.FAIL, 3: Verdict.ERROR}.get(item.trial or 0, Verdict.PASS))
    world.clock._elapsed += 60
    await world.look_at_all(2)
    run = await world.run()
    status = run["status"]
    assert status["progress"] == {"total": 4, "completed": 2, "failed": 2, "pending": 0}
    assert (status["phase"], status["activeWorkers"], status["observedGeneration"]) == ("Failed", 0, run["metadata"]["generation"])
    assert (status["startTime"], status["completionTime"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")
    assert [condition(run, kind)["status"] for kind in ("Ready", "SourceValid", "JobCreated", "Progressing")] == ["False", "True", "True", "False"]
    summary = status["result"]["summary"]
    keys = ("passRate", "totalItems", "passedItems", "failedItems", "totalCost")
    assert [summary[key] for key in keys] == ["50.0", "4", "2", "2", "0.0400"]
    assert set(json.loads(summary["details"])) == {"scenarios", "providers", "cells", "assertions", "errors"}
    assert (status["display"]["commit"], status["display"]["progress"]) == (status["source"]["commit"][:12], "4/4, 2 failed")


async def test_a_failed_item_fails_the_run(world: World) -> None:
    """A run with a failing item is Failed with TestsFailed, and its counts tell failures from errors."""
    run = await started(world, trials=2)
    await world.work(run, verdict=lambda item: Verdict.FAIL if item.trial == 2 else Verdict.PASS)
    await world.look_at_all()
    run = await world.run()
    assert (run["status"]["phase"], condition(run)["reason"]) == ("Failed", "TestsFailed")
    assert run["status"]["result"]["summary"]["verdict"] == "fail"


async def test_two_passes_over_an_unchanged_world_write_nothing(world: World) -> None:
    """A pass that finds nothing new leaves every object's resourceVersion as it was."""
    await started(world)
    await world.look_at_all()
    before = {run["metadata"]["name"]: run["metadata"]["resourceVersion"] for run in await world.runs()}
    jobs = [job["metadata"]["resourceVersion"] for job in await world.worker_jobs()]
    await world.look_at_all(2)
    assert {run["metadata"]["name"]: run["metadata"]["resourceVersion"] for run in await world.runs()} == before
    assert [job["metadata"]["resourceVersion"] for job in await world.worker_jobs()] == jobs


async def test_an_apply_before_the_first_push_waits_then_runs(world: World) -> None:
    """A run of a project without a commit is Pending with ProjectNotReady, and starts by itself at the first push."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": {}})
    await world.job()
    await world.look_at_all(2)
    run = await world.run()
    assert (run["status"]["phase"], condition(run)["reason"]) == ("Pending", "ProjectNotReady")
    commit = await world.commit(BUNDLE)
    await world.look_at_all()
    assert (await world.run())["status"]["source"]["commit"] == commit


async def test_a_waiting_run_tests_the_commit_of_its_start(world: World) -> None:
    """The ref is resolved when the run starts, not when it was created."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": {}})
    await world.job()
    await world.look_at_all(2)
    await world.commit(BUNDLE)
    second = await world.commit({**BUNDLE, "NOTES": "x"})
    await world.look_at_all()
    assert (await world.run())["status"]["source"]["commit"] == second


async def test_a_pinned_commit_survives_a_force_push(world: World) -> None:
    """The keep-ref holds the commit of a run that is going, whatever happens to main: no gc takes it, and a lost snapshot comes back."""
    run = await started(world)
    commit = run["status"]["source"]["commit"]
    assert await world.repositories.pins(world.project) == {run["metadata"]["uid"]: commit}
    await world.force_push({**BUNDLE, "NOTES": "another history"})
    await asyncio.to_thread(subprocess.run, ["git", "-C", str(world.volume.repository(world.project)), "gc", "-q", "--prune=now"], check=True)
    await world.snapshots.remove_all(world.project)
    await world.look_at_all(2)
    assert await world.snapshots.find(world.project, commit) is not None
    assert (await world.run())["status"]["phase"] == "Running"


async def test_a_lost_snapshot_is_exported_again(world: World) -> None:
    """Each pass of a run that goes on sees to it that its snapshot is there."""
    run = await started(world)
    await world.snapshots.remove_all(world.project)
    await world.look(ARENA_RUN, run["metadata"]["name"])
    assert await world.snapshots.find(world.project, run["status"]["source"]["commit"]) is not None


async def test_a_changed_bundle_changes_nothing_of_a_begun_run(world: World) -> None:
    """The plan is made once; a push while the run goes on neither adds nor removes items."""
    run = await started(world)
    await world.commit({**BUNDLE, "scenario.yaml": BUNDLE["scenario.yaml"].replace("greeting", "other")})
    await world.look_at_all()
    assert (await world.run())["status"]["plan"] == run["status"]["plan"]


async def test_a_worker_job_that_is_gone_is_made_again(world: World) -> None:
    """A Job that somebody deleted with items left comes back under its name, and the items are still counted once."""
    run = await started(world)
    (job,) = await world.worker_jobs()
    await world.cluster.delete(JOB, NAMESPACE, job["metadata"]["name"])
    await world.look_at_all()
    (again,) = await world.worker_jobs()
    assert again["metadata"]["uid"] != job["metadata"]["uid"]
    assert await world.work(run) == 1


async def test_a_complete_job_with_items_left_is_replaced(world: World) -> None:
    """Workers that all ended although items are left are started again."""
    run = await started(world)
    (job,) = await world.worker_jobs()
    await world.cluster.patch_status(JOB, NAMESPACE, job["metadata"]["name"], {"conditions": [{"type": "Complete", "status": "True"}]})
    await world.look_at_all(2)
    (again,) = await world.worker_jobs()
    assert again["metadata"]["uid"] != job["metadata"]["uid"]
    assert await world.events("WorkersRestarted")
    assert (await world.run())["metadata"]["uid"] == run["metadata"]["uid"]


async def test_a_failed_job_ends_the_run_with_its_items_counted_as_errors(world: World) -> None:
    """A Job that failed for good stops the run: the rest is recorded as error worker_lost, and the run is Failed with WorkersFailed."""
    await started(world, trials=4)
    (job,) = await world.worker_jobs()
    await world.cluster.patch_status(JOB, NAMESPACE, job["metadata"]["name"], {"conditions": [{"type": "Failed", "status": "True"}]})
    await world.look_at_all(2)
    run = await world.run()
    assert (run["status"]["phase"], condition(run)["reason"]) == ("Failed", "WorkersFailed")
    assert run["status"]["result"]["summary"]["failedItems"] == "4"
    assert run["status"]["result"]["summary"]["verdict"] == "error"


async def test_a_job_of_somebody_else_is_waited_for(world: World) -> None:
    """A Job of the worker Job's name that another owns is neither used nor removed."""
    await beside_a_foreign_job(world)
    run = await world.run()
    assert condition(run, "JobCreated")["reason"] == "JobCreationFailed"


async def test_budget(world: World) -> None:
    """Spend that crosses budgetLimit stops the run: nothing further is leased, the rest is skipped, reason BudgetExceeded."""
    run = await started(world, trials=10, budgetLimit="0.02")
    assert await world.work(run, limit=4) == 4
    await world.look_at_all(2)
    run = await world.run()
    summary = run["status"]["result"]["summary"]
    assert (run["status"]["phase"], condition(run)["reason"]) == ("Failed", "BudgetExceeded")
    assert (summary["budgetBreached"], summary["drainedItems"], summary["totalItems"]) == ("true", "6", "4")


@pytest.mark.parametrize(
    ("wanted", "phase", "reason"),
    [
        pytest.param(0.5, "Succeeded", "Succeeded", id="the bound is above it"),
        pytest.param(0.97, "Failed", "TestsFailed", id="39 of 40 pass, and the bound is below it"),
    ],
)
async def test_min_pass_rate(world: World, wanted: float, phase: str, reason: str) -> None:
    """With minPassRate a run passes when the lower bound of its pass rate reaches it, failures and all."""
    run = await started(world, trials=40, evaluation={"minPassRate": wanted})
    await world.work(run, verdict=lambda item: Verdict.FAIL if item.trial == 1 else Verdict.PASS)
    await world.look_at_all()
    run = await world.run()
    assert (run["status"]["phase"], condition(run)["reason"]) == (phase, reason), condition(run)["message"]


@pytest.mark.parametrize("annotated", [pytest.param(True, id="mocked"), pytest.param(False, id="as the bundle says")])
async def test_mocked_runs_say_so(world: World, *, annotated: bool) -> None:
    """A job that is annotated to use the mock has runs whose summary says MOCKED."""
    await world.project_with()
    await world.job(annotations={"arena.omnia.altairalabs.ai/mock-provider": "true"} if annotated else None)
    await world.look_at_all(2)
    await world.work(await world.run())
    await world.look_at_all()
    assert ((await world.run())["status"]["result"]["summary"].get("mocked") == "true") is annotated
