"""Sentences of survival.md about a whole local installation that no other test has: with real git, real processes and the embedded store."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from arena.local.job_runner import Host, JobRunner
from arena.local.process_times import start_time
from arena.local.processes import Processes, ProcessRecord
from foundation.clock import FakeClock
from reconcile.arena_run import finished
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, JOB
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.naming import fit
from tests.e2e.bundles import bundle
from tests.e2e.installation import ready
from tests.survival.doomed import Doomed
from tests.survival.scenarios import JOB as EVAL
from tests.survival.scenarios import LONG_ITEMS, PROJECT, new_scene, remove, slow_run

LONGEST = "n" * 63


def started(folder: Path) -> "subprocess.Popen[bytes]":
    """Start a process that waits, and record it as a worker of a Job that no store has."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
    Processes(folder).save("gone", ProcessRecord(0, pid=child.pid, started=start_time(child.pid) or 0))
    return child


async def test_processes_of_a_job_that_is_gone_are_ended(tmp_path: Path) -> None:
    """A sweep removes processes of UIDs that have been gone: a worker whose Job vanished is ended at once, and its record goes."""
    clock = FakeClock()
    cluster = SqliteCluster(tmp_path / "store.db", clock)
    processes = Processes(tmp_path / "processes")
    child = started(tmp_path / "processes")
    runner = JobRunner(cluster, processes, Host(content=tmp_path, logs=tmp_path, environment=dict, max_workers=0), clock)
    try:
        await runner.sync()
        assert child.wait(20) == -signal.SIGTERM
        await runner.sync()
        assert processes.owners() == []
    finally:
        child.kill()
        await cluster.close()


@pytest.mark.e2e
def test_a_project_being_deleted_takes_no_push(doomed: Doomed, tmp_path: Path) -> None:
    """A project being deleted takes no push and no new run; its finalizer waits, naming them, until its pinned runs have ended."""
    scene = new_scene(doomed, tmp_path)
    _, run = slow_run(scene, items=LONG_ITEMS)
    checkout = scene.project()
    doomed.client.delete(ARENA_PROJECT, scene.namespace, PROJECT)
    checkout.commit({"NOTES": "too late"})
    refused = checkout.push("HEAD:main", "--force")
    waiting = doomed.until(
        lambda: told if (told := ready(scene.find(ARENA_PROJECT, PROJECT) or {}))[0] == "ProjectInUse" else None, "the project to wait"
    )
    assert (refused.code != 0, "is being deleted" in refused.err) == (True, True), refused.err
    assert run["metadata"]["name"] in waiting[1]
    doomed.client.patch(ARENA_RUN, scene.namespace, run["metadata"]["name"], {"spec": {"cancelled": True}})
    doomed.until(lambda: scene.find(ARENA_PROJECT, PROJECT) is None, "the project to go")
    assert not scene.volume.repository(scene.key).exists()


@pytest.mark.e2e
@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_a_project_deleted_with_runs_going(doomed: Doomed, tmp_path: Path, policy: str) -> None:
    """Only then its sources go and the repository is moved (Retain) or removed; the run that was going keeps its verdict and its results."""
    scene = new_scene(doomed, tmp_path)
    scene.push(scene.project(hosted={"reclaimPolicy": policy}), bundle(trials=6, latency_ms=200))
    scene.job(workers={"replicas": 1, "concurrency": 1})
    run = scene.begun_run()
    remove(scene, ARENA_PROJECT, PROJECT)
    ended = doomed.until(lambda: scene.find(ARENA_RUN, run["metadata"]["name"]), "the run")
    assert (ended["status"]["phase"], finished(ended)) == ("Succeeded", True)
    assert (scene.volume.run(scene.namespace, run["metadata"]["name"]) / "results.jsonl").is_file()
    assert not scene.volume.sources(scene.key).exists()
    assert len(list(scene.volume.repositories(scene.namespace).glob(".retained/*.git"))) == (policy == "Retain")


@pytest.mark.e2e
def test_names_of_63_characters(doomed: Doomed, tmp_path: Path) -> None:
    """Names are cut and hashed so that the Job's and pods' names fit 63 characters: project, job and namespace may have the longest names there are."""
    scene = new_scene(doomed, tmp_path)
    name = f"{LONGEST[:57]}-{scene.namespace[2:7]}"
    doomed.ensure(ARENA_PROJECT, scene.namespace, name, spec={"hosted": {}})
    doomed.until(lambda: ((scene.find(ARENA_PROJECT, name) or {}).get("status") or {}).get("repositoryURL"), "the repository's address")
    checkout = scene.project()
    checkout.url = checkout.url.replace(f"/{PROJECT}.git", f"/{name}.git")
    checkout.commit(bundle())
    assert checkout.push().code == 0
    doomed.ensure(ARENA_JOB, scene.namespace, name, spec={"sourceRef": {"name": name}})
    run = scene.ended_run()
    assert run["status"]["phase"] == "Succeeded"
    assert run["metadata"]["name"].startswith(fit(name, 44))
    assert all(len(value) <= 63 for value in run["metadata"]["labels"].values())
    assert all(len(f"{job['metadata']['name']}-0") <= 63 for job in scene.objects(JOB))


@pytest.mark.e2e
def test_a_job_that_is_made_again_under_its_name(doomed: Doomed, tmp_path: Path) -> None:
    """Two runs of one name never meet: a job that is deleted while its run goes, and made again, starts a run of its own that inherits nothing."""
    scene = new_scene(doomed, tmp_path)
    checkout = scene.project()
    scene.push(checkout, bundle(trials=4, latency_ms=200))
    scene.job(workers={"replicas": 1, "concurrency": 1})
    first = scene.begun_run()
    remove(scene, ARENA_JOB, EVAL)
    scene.job()
    second = doomed.until(
        lambda: next((run for run in scene.objects(ARENA_RUN) if finished(run) and run["metadata"]["uid"] != first["metadata"]["uid"]), None),
        "its run",
    )
    assert second["status"]["result"]["summary"]["passedItems"] == "4"
    assert second["metadata"]["name"] != first["metadata"]["name"]
    doomed.until(lambda: [run["metadata"]["uid"] for run in scene.objects(ARENA_RUN)] == [second["metadata"]["uid"]], "the first run to go")
    doomed.until(lambda: not scene.volume.run(scene.namespace, first["metadata"]["name"]).exists(), "its directory to go")
    scene.forgotten(first)
    assert scene.volume.run(scene.namespace, second["metadata"]["name"]).is_dir()
