"""A whole control plane in one process for the tests of reconcilers: embedded store, real repositories, a queue in memory, a clock by hand.

Passes happen only when a test asks for them, so each test says what was looked at, and when.
"""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.items import Item, ItemResult, Verdict
from engine.plan import Plan
from engine.queue.memory import MemoryWorkQueue
from engine.records import record_of
from engine.results.lines import item_line
from engine.results.parts import PARTS, PartWriter
from foundation.clock import FakeClock, SystemClock
from gitops.content import ContentVolume, ProjectKey
from gitops.repositories import Repositories
from gitops.snapshots import Snapshots
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, EVENT, JOB, Object, ObjectKey, ResourceKind
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.job import JobReconciler
from reconcile.kinds.admission import admit, admit_status
from reconcile.project import ProjectReconciler, ProjectWorld
from reconcile.run import RunReconciler, RunWorld
from reconcile.runtime.controller import Controller, ControllerOptions
from reconcile.sync_requests import SyncRequests
from tests.mirror.https_host import Upstream
from tests.reconcile.remotes import URL, TeamRemotes

NAMESPACE = "arena"
AUTHOR = "Test <test@localhost>"
PROMPT = """
apiVersion: promptkit.altairalabs.ai/v1alpha1
kind: PromptConfig
metadata: {name: support}
spec: {task_type: support, version: v1.0.0, description: d, system_template: You help.}
"""
SCENARIO = """
apiVersion: promptkit.altairalabs.ai/v1alpha1
kind: Scenario
metadata: {name: greeting}
spec:
  task_type: support
  description: d
  turns:
    - role: user
      content: Hello
      assertions: [{type: content_includes, params: {patterns: [hello]}}]
"""
PROVIDER = """
apiVersion: promptkit.altairalabs.ai/v1alpha1
kind: Provider
metadata: {name: steady}
spec: {type: mock, model: m, additional_config: {mock_config: answers.yaml}}
"""
CONFIG = """
apiVersion: promptkit.altairalabs.ai/v1alpha1
kind: Arena
metadata: {name: support}
spec:
  prompt_configs: [{id: support, file: prompt.yaml}]
  providers: [{file: provider.yaml}]
  scenarios: [{file: scenario.yaml}]
  defaults: {temperature: 0.1}
"""
BUNDLE: Mapping[str, str] = {
    "config.arena.yaml": CONFIG,
    "prompt.yaml": PROMPT,
    "scenario.yaml": SCENARIO,
    "provider.yaml": PROVIDER,
    "answers.yaml": "defaultResponse: hello there\n",
}


class World:
    """The control plane, and the hands of those who use it."""

    def __init__(
        self, folder: Path, queue: MemoryWorkQueue, clock: FakeClock, *, admission: bool = True, cluster: SqliteCluster | KubeCluster | None = None
    ) -> None:
        self._folder = folder
        self.clock = clock
        self.queue = queue
        self.volume = ContentVolume(folder / "content")
        self.cluster = cluster or SqliteCluster(folder / "cluster.db", clock, admit=admit if admission else None, admit_status=admit_status)
        self.repositories = Repositories(self.volume, SystemClock())  # it waits for locks of other processes only
        self.snapshots = Snapshots(self.volume)
        self.project = ProjectKey(NAMESPACE, "src")
        self.remotes = TeamRemotes(folder, self.repositories)
        self.runs_world = RunWorld(
            self.repositories,
            self.snapshots,
            self.remotes,
            SyncRequests(self.cluster),
            self.volume,
            queue,
            image="arena:test",
            installation="test",
        )
        self.projects_world = ProjectWorld(self.repositories, self.snapshots, self.remotes, "http://arena/git")
        options = ControllerOptions(debug=True)
        self.controllers: dict[str, Controller] = {
            "ArenaProject": Controller(self.cluster, ProjectReconciler(self.projects_world), clock=clock, options=options),
            "ArenaJob": Controller(self.cluster, JobReconciler(self.repositories, self.volume), clock=clock, options=options),
            "ArenaRun": Controller(self.cluster, RunReconciler(self.runs_world), clock=clock, options=options),
        }

    async def apply(self, kind: ResourceKind, name: str, spec: Mapping[str, Any], **metadata: Any) -> Object:
        """Create an object in the namespace."""
        document = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
            "spec": dict(spec),
        }
        return await self.cluster.create(document)

    async def project_with(self, files: Mapping[str, str] = BUNDLE, **spec: Any) -> str:
        """Create the project, give it a first commit, and bring it to Ready; return the commit."""
        await self.apply(ARENA_PROJECT, "src", {"hosted": {}, **spec})
        await self.look(ARENA_PROJECT, "src")
        commit = await self.commit(files)
        await self.look(ARENA_PROJECT, "src")
        return commit

    async def external_project(self, files: Mapping[str, str] | None = BUNDLE, *, url: str = URL, **external: Any) -> Upstream:
        """Create the project as a mirror of a team's repository, and look at it once; with files, these are the repository's first commit."""
        upstream = self.remotes.upstream(url)
        if files:
            upstream.commit(files={name: text.encode() for name, text in files.items()})
        await self.apply(ARENA_PROJECT, "src", {"external": {"url": url, **external}})
        await self.look(ARENA_PROJECT, "src")
        return upstream

    async def commit(self, files: Mapping[str, str]) -> str:
        """Make these the files of the next commit on main."""
        return await commit_files(self.repositories, self.project, files)

    async def force_push(self, files: Mapping[str, str]) -> str:
        """Make main a new history of one commit with these files; what it named before is left to the keep-refs."""
        repository = self.volume.repository(self.project)
        await asyncio.to_thread(subprocess.run, ["git", "-C", str(repository), "update-ref", "-d", "refs/heads/main"], check=True)
        return await self.commit(files)

    def beside(self) -> "World":
        """Return a second control plane on the same store, volume and queue."""
        return World(self._folder, self.queue, self.clock, cluster=self.cluster)

    async def job(self, name: str = "eval", *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
        """Create a job of the project."""
        metadata = {"annotations": dict(annotations)} if annotations else {}
        return await self.apply(ARENA_JOB, name, {"sourceRef": {"name": "src"}, **spec}, **metadata)

    async def look(self, kind: ResourceKind, name: str) -> None:
        """Do one pass over an object."""
        await self.controllers[kind.kind].pass_over(ObjectKey(NAMESPACE, name))

    async def look_at_all(self, rounds: int = 1) -> None:
        """Do a pass over every object, in the order project, job, run."""
        for _ in range(rounds):
            for kind in (ARENA_PROJECT, ARENA_JOB, ARENA_RUN):
                for obj in (await self.cluster.list(kind, NAMESPACE)).items:
                    await self.look(kind, obj["metadata"]["name"])

    async def runs(self) -> list[Object]:
        """Return all runs, oldest first."""
        items = (await self.cluster.list(ARENA_RUN, NAMESPACE)).items
        return sorted(items, key=lambda run: (run["metadata"]["creationTimestamp"], run["metadata"]["name"]))

    async def run(self) -> Object:
        """Return the only run."""
        (run,) = await self.runs()
        return run

    async def get(self, kind: ResourceKind, name: str) -> Object:
        """Return an object."""
        return await self.cluster.get(kind, NAMESPACE, name)

    async def worker_jobs(self) -> list[Object]:
        """Return the worker Jobs."""
        return (await self.cluster.list(JOB, NAMESPACE)).items

    async def events(self, reason: str) -> list[str]:
        """Return the messages of the events of a reason."""
        return [event["message"] for event in (await self.cluster.list(EVENT, NAMESPACE)).items if event["reason"] == reason]

    async def work(self, run: Object, *, verdict: Callable[[Item], Verdict] = lambda _: Verdict.PASS, limit: int = 10_000) -> int:
        """Lease and complete up to `limit` items as a worker would, with lines in a part; return how many were counted."""
        uid = run["metadata"]["uid"]
        plan = Plan.from_bytes(await self.queue.plan(uid))
        leases = await self.queue.lease(uid, worker=f"w-{limit}", limit=limit, seconds=30)
        directory = self.volume.run(NAMESPACE, run["metadata"]["name"])
        results = [(lease, self._result(plan.items[lease.index], verdict)) for lease in leases]
        (directory / PARTS).mkdir(exist_ok=True)
        writer = PartWriter(directory / PARTS / f"{len(list((directory / PARTS).iterdir()))}.jsonl")
        lines = writer.append([item_line(result, run["metadata"]["name"]) for _, result in results])
        writer.sync()
        writer.close()
        records = [(lease, record_of(result, line=line, lease=lease)) for (lease, result), line in zip(results, lines, strict=True)]
        return (await self.queue.complete(uid, records)).count("counted") if records else 0

    def _result(self, item: Item, verdict: Callable[[Item], Verdict]) -> ItemResult:
        now = self.clock.now()
        return ItemResult(item, verdict(item), now, now + timedelta(milliseconds=5), cost_usd=0.01, duration_ms=5.0)


async def started(world: World, **spec: Any) -> Object:
    """Return a run whose worker Job exists."""
    await world.project_with()
    await world.job(**spec)
    await world.look_at_all(2)
    return await world.run()


async def cancel(world: World) -> None:
    """Set spec.cancelled of the only run, as `kubectl patch` would."""
    await world.cluster.patch(ARENA_RUN, NAMESPACE, (await world.run())["metadata"]["name"], {"spec": {"cancelled": True}})


async def beside_a_foreign_job(world: World) -> None:
    """Bring a run to the point where the name of its worker Job is taken by a Job that nobody owns."""
    name = (await started(world))["metadata"]["name"]
    await world.cluster.delete(JOB, NAMESPACE, f"{name}-worker")
    job = {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": {"name": f"{name}-worker", "namespace": NAMESPACE}, "spec": {"template": {}}}
    await world.cluster.create(job)
    await world.look_at_all()


class ProcessDied(BaseException):
    """The process ends here; nothing after this line happens."""


def dying(
    call: Callable[..., Awaitable[Any]], *, before: bool, when: Callable[..., bool] = lambda *_, **__: True, passed_over: int = 0
) -> Callable[..., Awaitable[Any]]:
    """Return a call in which the process dies, once: before it has done anything, or when it is done and nobody knows.

    `when` says which calls count, and `passed_over` how many of them it survives first.
    """
    left = [passed_over + 1]

    async def die(*arguments: Any, **keywords: Any) -> Any:
        left[0] -= bool(left[0] >= 0 and when(*arguments, **keywords))
        dies = left[0] == 0
        left[0] -= dies
        if dies and before:
            raise ProcessDied
        result = await call(*arguments, **keywords)
        if dies:
            raise ProcessDied
        return result

    return die


def condition(obj: Object, kind: str = "Ready") -> dict[str, Any]:
    """Return a condition of an object."""
    found: dict[str, Any] = next(c for c in obj["status"]["conditions"] if c["type"] == kind)
    return found


async def commit_files(repositories: Repositories, project: ProjectKey, files: Mapping[str, str]) -> str:
    """Commit a whole tree onto main with git's plumbing, as any client could have pushed it."""
    repository = repositories.volume.repository(project)

    def run() -> str:
        stream = ["commit refs/heads/main\ncommitter T <t@localhost> 1700000000 +0000\ndata 1\nx\n"]
        head = subprocess.run(
            ["git", "-C", str(repository), "rev-parse", "-q", "--verify", "refs/heads/main"], capture_output=True, text=True, check=False
        ).stdout.strip()
        stream += [f"from {head}\n"] if head else []
        stream += ["deleteall\n"]
        stream += [f"M 100644 inline {name}\ndata {len(text.encode())}\n{text}\n" for name, text in files.items()]
        subprocess.run(["git", "-C", str(repository), "fast-import", "--quiet", "--force"], input="".join(stream).encode(), check=True)
        return subprocess.run(
            ["git", "-C", str(repository), "rev-parse", "refs/heads/main"], capture_output=True, text=True, check=True
        ).stdout.strip()

    return await asyncio.to_thread(run)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where the machine has one: no test here pulls the plug, and syncing to a disk takes half of the time."""
    memory = Path("/dev/shm")  # noqa: S108 - a private directory is made in it
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="arena-test-", dir=memory) as directory:
        yield Path(directory)


@pytest.fixture
async def world(folder: Path) -> AsyncIterator[World]:
    """A control plane in which nothing has happened yet."""
    clock = FakeClock()
    world = World(folder, MemoryWorkQueue(clock), clock)
    yield world
    await world.cluster.close()


@pytest.fixture
async def lenient_world(folder: Path) -> AsyncIterator[World]:
    """A control plane over a store that admits anything, as a cluster without our webhook does."""
    clock = FakeClock()
    world = World(folder, MemoryWorkQueue(clock), clock, admission=False)
    yield world
    await world.cluster.close()
