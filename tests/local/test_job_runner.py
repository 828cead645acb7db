"""Jobs as processes: what is started, accounted for, restarted, ended, and found again after a kill."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from arena.local.job_runner import FINALIZER, Host, JobRunner
from arena.local.process_times import start_time
from arena.local.processes import Processes, ProcessRecord
from arena.local.spare import MAX_ORDER_BYTES, Command, Spare
from engine.worker_settings import unpacked
from foundation.clock import Clock, SystemClock
from reconcile.cluster.port import JOB, SECRET, Listing
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.errors import NotFound, StoreFull

NS = "team"
COMMAND = ("tests.local.stand_in",)
WORDS = (sys.executable, "-m", *COMMAND)


class Scene:
    """A store, a job runner on it, and the Jobs of a test."""

    def __init__(self, folder: Path, *, max_workers: int = 4, spare: Spare | None = None) -> None:
        self.folder = folder
        self.cluster = SqliteCluster(folder / "store.db", SystemClock())
        self.processes = Processes(folder / "processes", spare)
        environment = {"GREETING": "from the host", "REDIS_URL": "unix:///socket", "ARENA_INSTALLATION": "here"}
        host = Host(content=folder / "content", logs=folder / "logs", environment=lambda: environment, max_workers=max_workers, command=COMMAND)
        self.runner = JobRunner(self.cluster, self.processes, host, SystemClock())

    async def job(
        self, word: str, *, name: str = "run-worker", workers: int = 1, backoff: int = 1, env: Sequence[object] = (), **spec: Any
    ) -> dict[str, Any]:
        """Create a Job of stand-ins. `envFrom` goes to the container, all else to the Job's spec."""
        container = {
            "name": "worker",
            "image": "none",
            "command": ["tests.local.stand_in"],
            "env": [{"name": "ARENA_STAND_IN", "value": word}, {"name": "ARENA_OUTPUT_PATH", "value": "/arena-output"}, *env],
            "volumeMounts": [{"name": "content", "mountPath": "/arena-output", "subPath": "team/runs/run"}],
            "envFrom": spec.pop("envFrom", []),
        }
        return await self.cluster.create(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": name, "namespace": NS},
                "spec": {"completions": workers, "backoffLimitPerIndex": backoff, "template": {"spec": {"containers": [container]}}, **spec},
            }
        )

    async def status(self, name: str = "run-worker") -> dict[str, Any]:
        """Return a Job's status."""
        status: dict[str, Any] = (await self.cluster.get(JOB, NS, name)).get("status", {})
        return status

    async def ended(self, name: str = "run-worker") -> dict[str, Any]:
        """Look at the Jobs until one has ended, and return its status."""
        found: dict[str, Any] = await self.until(lambda: self._ended(name))
        return found

    async def _ended(self, name: str) -> dict[str, Any] | None:
        status = await self.status(name)
        return status if {c["type"] for c in status.get("conditions") or ()} & {"Complete", "Failed"} else None

    async def until(self, probe: Callable[[], Awaitable[Any]], deadline_s: float = 60.0) -> Any:
        """Let the runner look until `probe` finds something."""
        async with asyncio.timeout(deadline_s):
            while True:
                await self.runner.sync()
                found = await probe()
                if found:
                    return found
                await asyncio.sleep(0.02)

    async def heard(self, count: int) -> None:
        """Let the runner look until so many stand-ins have spoken."""

        async def probe() -> bool:
            return len(self.said()) == count

        await self.until(probe)

    async def close(self) -> None:
        """Kill what runs, and let the loop see every end."""
        for pid in self.pids():
            os.killpg(pid, signal.SIGKILL)
        for child in self.processes._children.values():
            await asyncio.wait_for(child.wait(), 20)
        await self.cluster.close()

    def pids(self) -> list[int]:
        """Return the processes that run now."""
        slots = [(uid, record) for uid in self.processes.owners() for record in self.processes.records(uid)]
        return [record.pid for uid, record in slots if self.processes.running(uid, record)]

    def said(self, name: str = "run-worker") -> list[dict[str, str]]:
        """Return what the stand-ins of a Job printed."""
        return [json.loads(line) for path in sorted(self.folder.glob(f"logs/{NS}/*/{name}-*.log")) for line in path.read_text().splitlines()]


class FailingStore(SqliteCluster):
    """A store that fails so often before it works, each time in another way."""

    def __init__(self, path: Path, clock: Clock) -> None:
        super().__init__(path, clock)
        self.failures = ["list", "list", "patch", "patch_status"]

    def _fail(self, verb: str) -> None:
        if verb in self.failures:
            self.failures.remove(verb)
            raise StoreFull(f"cannot {verb}: the disk is full")

    async def list(self, *arguments: Any, **named: Any) -> Listing:
        """List, or fail."""
        self._fail("list")
        return await super().list(*arguments, **named)

    async def patch(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Patch, or fail."""
        self._fail("patch")
        return await super().patch(*arguments, **named)

    async def patch_status(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Patch the status, or fail."""
        self._fail("patch_status")
        return await super().patch_status(*arguments, **named)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """Return a scene whose processes end with the test."""
    found = Scene(tmp_path)
    yield found
    await found.close()


async def test_job_runs_to_completion(scene: Scene) -> None:
    """Every index runs once; the Job is Complete, and nothing is started again."""
    await scene.job("0", workers=3)
    status = await scene.ended()
    assert (status["succeeded"], status["active"], status["completedIndexes"]) == (3, 0, "0,1,2")
    assert [(c["type"], c["status"]) for c in status["conditions"]] == [("Complete", "True")]
    await scene.runner.sync()
    assert len(scene.said()) == 3


async def test_process_gets_its_variables_and_paths(scene: Scene) -> None:
    """A process has the container's variables with mount points turned into paths here, the host's own, and its name."""
    await scene.job("0")
    await scene.ended()
    assert scene.said() == [
        {
            "ARENA_STAND_IN": "0",
            "GREETING": "from the host",
            "REDIS_URL": "unix:///socket",
            "ARENA_WORKER_NAME": "run-worker-0",
            "ARENA_OUTPUT_PATH": str(scene.folder / "content" / "team/runs/run"),
        }
    ]


def _secret(name: str) -> dict[str, Any]:
    return {"valueFrom": {"secretKeyRef": {"name": name, "key": "url"}}}


STALE = [
    pytest.param(None, id="no Secret"),
    pytest.param("unix://arena%3Ahere%3Auid:password@/elsewhere", id="another server"),
    pytest.param("unix://arena%3Athere%3Auid:password@/socket", id="another installation"),
    pytest.param("unix:///socket", id="no credentials"),
]


@pytest.mark.parametrize("stale", STALE)
async def test_process_gets_its_queue_from_a_secret(scene: Scene, stale: str | None) -> None:
    """The Secret that a Job names gives the queue's address; until it has one of a run here, as after a restore, nothing starts, and no failure counts."""
    job = await scene.job("0", env=[{"name": "REDIS_URL", **_secret("run-queue")}])
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "run-queue", "namespace": NS}}
    if stale:
        await scene.cluster.create({**secret, "stringData": {"url": stale}})
    for _ in range(3):
        await scene.runner.sync()
    assert scene.processes.records(job["metadata"]["uid"]) == []
    if stale:
        await scene.cluster.delete(SECRET, NS, "run-queue")
    url = "unix://arena%3Ahere%3Auid:password@/socket"
    await scene.cluster.create({**secret, "stringData": {"url": url}})
    status = await scene.ended()
    assert (status["succeeded"], status["failed"], [said["REDIS_URL"] for said in scene.said()]) == (1, 0, [url])


def _spec(**container: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"command": list(COMMAND), **container}]}}}


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        pytest.param({}, "spec.template: field required", id="no template"),
        pytest.param(_spec(command=["http.server"]), "its command must be", id="another program"),
        pytest.param(_spec(command="arena"), "spec.template.spec.containers.0.command", id="a command that is no list"),
        pytest.param(_spec(env=[{"name": "ARENA_X\n", "value": ""}]), "env.0.name", id="a line break behind a name"),
        pytest.param(_spec(env=[{"name": "REDIS_URL", "value": "redis://theirs"}]), "comes from a secret", id="a queue of its own"),
        pytest.param(
            _spec(env=[{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]), "a key of a secret", id="a fact of a pod"
        ),
        pytest.param(_spec(volumeMounts=[{"mountPath": "/m", "subPath": "a/../../.."}]), "must stay inside the volume", id="a way out of the volume"),
        pytest.param(_spec(volumeMounts=[{"mountPath": "/m", "subPath": "/etc"}]), "must stay inside the volume", id="an absolute path"),
        pytest.param({**_spec(), "completions": 10**9}, "spec.completions", id="a billion processes"),
    ],
)
async def test_job_that_asks_for_more_than_a_worker_is_refused(scene: Scene, spec: dict[str, Any], cause: str) -> None:
    """A Job that is none of ours fails with the cause in its status, starts nothing, and keeps no other Job from running."""
    metadata = {"name": "another", "namespace": NS}
    await scene.cluster.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    await scene.job("0")
    await scene.ended()
    condition = (await scene.ended("another"))["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("Failed", "NotRunnable")
    assert cause in condition["message"]
    assert scene.said("another") == []


async def test_variables_of_a_job(scene: Scene) -> None:
    """A key of a provider is a variable of the process; all else that a Job gives is data, so that nothing can change what a program does."""
    await scene.cluster.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": NS}, "stringData": {"a": "1", "b": "2"}}
    )
    await scene.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": NS}, "data": {"region": "eu"}})
    from_config = {"valueFrom": {"configMapKeyRef": {"name": "settings", "key": "region"}}}
    absent = {"valueFrom": {"secretKeyRef": {"name": "absent", "key": "x", "optional": True}}}
    await scene.job(
        "0",
        env=[
            {"name": "ARENA_CREDENTIAL_0", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}},
            {"name": "PYTHONPATH", "value": "/theirs"},
            {"name": "REGION", **from_config},
            {"name": "ABSENT", **absent},
        ],
        envFrom=[{"prefix": "TEAM_", "secretRef": {"name": "keys"}}, {"configMapRef": {"name": "absent", "optional": True}}],
    )
    await scene.ended()
    (said,) = scene.said()
    assert said["ARENA_CREDENTIAL_0"] == "1"
    assert said.get("PYTHONPATH") != "/theirs"
    given = {"TEAM_a": "1", "TEAM_b": "2", "PYTHONPATH": "/theirs", "REGION": "eu"}
    assert {name: unpacked(said).get(name) for name in given} == given
    assert "ABSENT" not in unpacked(said)


async def test_a_process_waits_for_what_its_variables_refer_to(scene: Scene) -> None:
    """Until a Secret is there nothing starts, and no failure counts; when it comes the process does."""
    job = await scene.job("0", env=[{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "late", "key": "a"}}}])
    for _ in range(2):
        await scene.runner.sync()
    assert scene.processes.records(job["metadata"]["uid"]) == []
    before = await scene.cluster.get(JOB, NS, "run-worker")
    (waiting,) = before["status"]["conditions"]
    assert (waiting["type"], waiting["message"]) == ("Waiting", "Secret 'late'")
    await scene.runner.sync()
    assert (await scene.cluster.get(JOB, NS, "run-worker"))["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    await scene.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "late", "namespace": NS}, "stringData": {"a": "1"}})
    status = await scene.ended()
    assert (status["succeeded"], status["failed"]) == (1, 0)


async def test_failing_index_is_tried_up_to_its_limit(scene: Scene) -> None:
    """An index that fails is started again as often as its backoff limit says; then the Job has failed."""
    await scene.job("3", backoff=2)
    status = await scene.ended()
    assert (status["failed"], status["failedIndexes"]) == (3, "0")
    assert [c["type"] for c in status["conditions"]] == ["Failed"]
    assert len(scene.said()) == 3


async def test_no_more_processes_than_allowed(tmp_path: Path) -> None:
    """Indexes beyond the machine's limit wait; another Job's, too."""
    scene = Scene(tmp_path, max_workers=2)
    await scene.job("wait", workers=3)
    await scene.job("wait", name="other-worker")
    await scene.runner.sync()
    await scene.runner.sync()
    assert len(scene.pids()) == 2
    assert sum([(await scene.status(name)).get("active", 0) for name in ("run-worker", "other-worker")]) == 2
    await scene.runner.stop()
    assert scene.pids() == []
    await scene.close()


async def test_deleted_job_goes_when_its_processes_have_ended(scene: Scene) -> None:
    """The finalizer holds a deleted Job until its processes are gone, and its records go with it."""
    job = await scene.job("wait", workers=2)
    await scene.heard(2)
    assert FINALIZER in (await scene.cluster.get(JOB, NS, "run-worker"))["metadata"]["finalizers"]
    await scene.cluster.delete(JOB, NS, "run-worker")

    async def gone() -> bool:
        try:
            await scene.cluster.get(JOB, NS, "run-worker")
        except NotFound:
            return True
        return False

    await scene.until(gone)
    assert scene.pids() == []
    assert scene.processes.records(job["metadata"]["uid"]) == []


async def test_runner_outlives_a_store_that_fails(scene: Scene) -> None:
    """While the store can be neither read nor written the runner waits; then it goes on, and nothing is started twice."""
    store = FailingStore(scene.folder / "store.db", SystemClock())
    scene.runner = JobRunner(store, scene.processes, scene.runner._host, SystemClock())
    await scene.job("0")
    running = asyncio.ensure_future(scene.runner.run())
    try:
        async with asyncio.timeout(60):
            while not (await scene.status()).get("conditions") and not running.done():  # noqa: ASYNC110 - the runner changes it
                await asyncio.sleep(0.02)
    finally:
        running.cancel()
        await asyncio.wait({running})
        await store.close()
    assert running.cancelled()
    assert store.failures == []
    assert len(scene.said()) == 1


async def test_process_is_asked_to_end_once(scene: Scene) -> None:
    """A process is asked to end once, not at every look, so that it may finish what it has begun."""
    await scene.job("deaf")
    await scene.heard(1)
    await scene.cluster.delete(JOB, NS, "run-worker")
    await scene.heard(2)
    for _ in range(5):
        await scene.runner.sync()
    assert scene.said()[1:] == [{"asked": "1"}]


async def test_processes_of_a_killed_runner_are_found_again(scene: Scene) -> None:
    """Another runner on the same folder takes the processes over: none is started twice, and an end that nobody saw is accounted for."""
    await scene.job("wait", workers=2)
    await scene.heard(2)
    before = sorted(scene.pids())
    heir = Scene.__new__(Scene)
    heir.folder, heir.cluster = scene.folder, scene.cluster
    heir.processes = Processes(scene.folder / "processes")
    host = Host(content=scene.folder / "content", logs=scene.folder / "logs", environment=dict, max_workers=4, command=COMMAND)
    heir.runner = JobRunner(scene.cluster, heir.processes, host, SystemClock())
    await heir.runner.sync()
    assert sorted(heir.pids()) == before
    await heir.runner.stop()
    status = await heir.ended()
    assert status["succeeded"] == 2
    assert len(scene.said()) == 2


async def test_killed_process_is_replaced(scene: Scene) -> None:
    """A process that is killed counts as one failure of its index and is started again."""
    await scene.job("wait")
    await scene.heard(1)
    os.killpg(scene.pids()[0], signal.SIGKILL)
    await scene.heard(2)
    assert (await scene.status())["failed"] == 1


def test_pid_of_somebody_else_is_not_ours(tmp_path: Path) -> None:
    """A record whose start time is not the process's own means nobody: the system has given the number away."""
    processes = Processes(tmp_path)
    mine = os.getpid()
    assert processes.running("uid", ProcessRecord(0, pid=mine, started=start_time(mine) or 0))
    assert not processes.running("uid", ProcessRecord(0, pid=mine, started=1))
    assert start_time(2**22 + 1) is None


class Ready:
    """A spare, and what is left of its process."""

    def __init__(self, folder: Path) -> None:
        self.spare = Spare(WORDS, {**os.environ, "ARENA_STAND_IN": "0"})
        self.command = Command(WORDS, {**os.environ, "ARENA_STAND_IN": "3", "GREETING": "from the order"}, folder / "logs" / "a.log", folder)


async def test_waiting_process_takes_a_command(tmp_path: Path) -> None:
    """A process that waits gets environment, log and exit file with its command; it is the one that was started before."""
    ready = Ready(tmp_path)
    assert ready.spare.take(ready.command) is None
    await ready.spare.prepare()
    await ready.spare.prepare()
    child = ready.spare.take(ready.command)
    assert child is not None
    assert await asyncio.wait_for(child.wait(), 20) == 3
    assert json.loads((tmp_path / "logs" / "a.log").read_text())["GREETING"] == "from the order"
    assert (tmp_path / f"{child.pid}.exit").read_text() == "3\n"
    assert ready.spare.take(ready.command) is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"words": ("other",)}, id="another program"),
        pytest.param({"environment": {"BIG": "x" * MAX_ORDER_BYTES}}, id="an order that no pipe holds"),
    ],
)
async def test_waiting_process_is_not_for_every_command(tmp_path: Path, change: dict[str, Any]) -> None:
    """A command that it was not started for, or that is too long, is left to a process of its own; the waiting one stays."""
    ready = Ready(tmp_path)
    await ready.spare.prepare()
    fields = {"words": ready.command.words, "environment": ready.command.environment, "log": ready.command.log, "exits": ready.command.exits}
    assert ready.spare.take(Command(**{**fields, **change})) is None
    child = ready.spare.take(ready.command)
    assert child is not None
    assert await asyncio.wait_for(child.wait(), 20) == 3


async def test_process_that_cannot_wait_is_not_started_again(tmp_path: Path) -> None:
    """A program that fails at its start is tried once; commands then get processes of their own."""
    spare = Spare((sys.executable, "-c", "raise SystemExit(7)"), os.environ)
    await spare.prepare()
    child = spare._child
    assert child is not None
    await asyncio.wait_for(child.wait(), 20)
    await spare.prepare()
    assert spare._child is child
    assert spare.take(Ready(tmp_path).command) is None


async def test_waiting_process_ends_with_its_server(tmp_path: Path) -> None:
    """A waiting process whose order can never come, because the pipe is closed, ends by itself."""
    ready = Ready(tmp_path)
    await ready.spare.prepare()
    child = ready.spare._child
    assert child is not None
    ready.spare.dismiss()
    assert await asyncio.wait_for(child.wait(), 20) == 0
