"""What is done to an installation while it dies: each scenario passes some crash points, and tells what came of it.

A scenario never fails because something died: it asks again until it has its answer. Its outcome holds no time and no name, so that it equals the
outcome of the same scenario undisturbed.
"""

import asyncio
import contextlib
import json
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import redis

from arena.cli.client import ServerRefused
from bench.accounts import account_of
from engine.errors import QueueUnavailable
from engine.queue.redis import RedisWorkQueue
from gitops.content import ContentVolume, ProjectKey
from reconcile.arena_run import finished
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, CONFIG_MAP, EVENT, SECRET, ResourceKind
from reconcile.worker_job.queue_secret import queue_secret_value
from tests.e2e.bundles import bundle
from tests.e2e.installation import Checkout, GitClient, lines_written
from tests.mirror.https_host import https_host
from tests.survival.doomed import Doomed

PROJECT, JOB = "support", "eval"
ITEMS = 3
CHUNKED_ITEMS = 1100
SLOW_ITEMS = 10
LONG_ITEMS = 200
SLOW: Mapping[str, int] = {"replicas": 1, "concurrency": 1}


@dataclass(frozen=True)
class Outcome:
    """What came of a scenario. `again` counts the lines of items that ran more than once; it is no part of what must be equal."""

    facts: Mapping[str, Any]
    again: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Scene:
    """One namespace of an installation that may die."""

    doomed: Doomed
    namespace: str
    folder: Path

    @property
    def volume(self) -> ContentVolume:
        """Return the content volume."""
        return ContentVolume(self.doomed.server.state.content)

    @property
    def key(self) -> ProjectKey:
        """Return the project."""
        return ProjectKey(self.namespace, PROJECT)

    def find(self, kind: ResourceKind, name: str) -> dict[str, Any] | None:
        """Return an object, None when there is none."""
        return self.doomed.client.find(kind, self.namespace, name)

    def objects(self, kind: ResourceKind) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        items: list[dict[str, Any]] = self.doomed.client.list(kind, self.namespace)["items"]
        return items

    def count(self, kind: ResourceKind) -> int:
        """Return how many objects of a kind there are, whatever dies while this asks."""
        (items,) = self.doomed.until(lambda: (self.objects(kind),), f"the {kind.plural}")
        return len(items)

    def project(self, **spec: Any) -> Checkout:
        """Create the project and return a working copy once it takes pushes."""
        self.doomed.ensure(ARENA_PROJECT, self.namespace, PROJECT, spec={"hosted": {}, **spec})
        self.doomed.until(lambda: ((self.find(ARENA_PROJECT, PROJECT) or {}).get("status") or {}).get("repositoryURL"), "the repository's address")
        url = f"{self.doomed.server.url}/git/{self.namespace}/{PROJECT}.git"
        return Checkout(GitClient(self.doomed.server, self.folder / "ada"), self.folder / "work", url, self.volume.repository(self.key))

    def push(self, checkout: Checkout, files: Mapping[str, bytes | str]) -> str:
        """Commit and push until git says that the push is in; return the commit."""
        commit = checkout.commit(files)
        self.doomed.until(lambda: checkout.push().code == 0, "a push to be taken")
        assert checkout.remote_refs().splitlines()[0].split()[0] == commit, "an accepted push is lost"
        return commit

    def job(self, **spec: Any) -> None:
        """Create the job; its first run starts by itself."""
        self.doomed.ensure(ARENA_JOB, self.namespace, JOB, spec={"sourceRef": {"name": PROJECT}, **spec})

    def begun_run(self, *, lines: int = 1) -> dict[str, Any]:
        """Return the only run once so many items have a line."""

        def probe() -> dict[str, Any] | None:
            runs = self.objects(ARENA_RUN)
            return runs[0] if runs and self.lines(runs[0]) >= lines else None

        return self.doomed.until(probe, f"{lines} lines of a run")

    def ended_run(self) -> dict[str, Any]:
        """Return the only run when it has ended and its keys are gone."""
        run = self.doomed.until(lambda: next((run for run in self.objects(ARENA_RUN) if finished(run)), None), "the run to end")
        self.forgotten(run)
        return run

    def forgotten(self, run: Mapping[str, Any]) -> None:
        """Wait until a run's keys are gone, and its user of the queue with the Secret."""

        def probe() -> bool:
            with contextlib.suppress(QueueUnavailable):
                return run["metadata"]["uid"] not in self.queued() and self.find(SECRET, queue_secret_value(run["metadata"]["name"]).name) is None
            return False

        self.doomed.until(probe, "the run's keys and its user to go")

    def lines(self, run: Mapping[str, Any]) -> int:
        """Return how many items of a run the workers have written down."""
        return lines_written(self.volume.run(self.namespace, run["metadata"]["name"]))

    def queued(self) -> list[str]:
        """Return the uids of the runs that have keys or a user."""

        async def look() -> list[str]:
            queue = RedisWorkQueue(self._redis_url, installation=self.doomed.server.state.installation())
            try:
                return [str(uid) for uid in [*await queue.runs(), *await queue.users(self._redis_url).runs()]]
            finally:
                await queue.close()

        return asyncio.run(look())

    def store(self) -> redis.Redis:
        """Return a client of the queue's store, to do it harm."""
        return redis.Redis.from_url(self._redis_url, decode_responses=True)

    def queue_server(self) -> int:
        """Return the pid of the queue's store, once it answers."""

        def probe() -> int:
            with contextlib.suppress(redis.RedisError), self.store() as store:
                return int(store.info("server")["process_id"])
            return 0

        return self.doomed.until(probe, "the store to answer")

    def events(self) -> list[dict[str, Any]]:
        """Return the namespace's events."""
        return self.objects(EVENT)

    @property
    def _redis_url(self) -> str:
        return f"unix://{self.doomed.server.state.queue}/queue.sock"


def new_scene(doomed: Doomed, folder: Path) -> Scene:
    """Return a namespace that nothing was done in."""
    namespace = f"t-{uuid4().hex[:10]}"
    inner = folder / namespace
    inner.mkdir()
    return Scene(doomed, namespace, inner)


def run_facts(scene: Scene, run: Mapping[str, Any], commit: str) -> Outcome:
    """Return what a settled run says of itself, but for times and names."""
    status = run["status"]
    account = account_of(run, scene.volume.run(scene.namespace, run["metadata"]["name"]))
    facts = {
        "phase": account.phase,
        "lines": dict(account.lines),
        "order": list(account.lines),
        "counts": dict(account.counts),
        "sums": dict(account.sums),
        "commit": status["source"]["commit"] == commit,
        "plan": status["plan"],
        "snapshot": status["snapshotDigest"],
        "queue": status["queue"],
        "workers": status["workers"],
        "conditions": sorted((c["type"], c["status"], c["reason"], c["message"].replace(commit, "")) for c in status["conditions"]),
        "runs": scene.count(ARENA_RUN),
        "pins": len(list((scene.volume.repository(scene.key) / "refs" / "arena" / "runs").iterdir())),
    }
    return Outcome(facts, account.again)


def small_run(scene: Scene) -> Outcome:
    """A project, a push, a job when the push is exported: a run of three items. Export and job come one after the other, as the table has them."""
    checkout = scene.project()
    commit = scene.push(checkout, bundle(trials=ITEMS))
    head_is(scene, commit)
    scene.job()
    return run_facts(scene, scene.ended_run(), commit)


def chunked_run(scene: Scene) -> Outcome:
    """A run whose items are put in three chunks."""
    checkout = scene.project()
    commit = scene.push(checkout, bundle(trials=CHUNKED_ITEMS))
    scene.job(workers={"replicas": 2, "concurrency": 50})
    return run_facts(scene, scene.ended_run(), commit)


def seeded_run(scene: Scene) -> Outcome:
    """A project whose first commit comes from a ConfigMap, and a run of it."""
    data = {name.replace("/", "__"): text for name, text in bundle(trials=ITEMS).items()}
    scene.doomed.ensure(CONFIG_MAP, scene.namespace, "first", data=data)
    checkout = scene.project(hosted={"seed": {"configMap": {"name": "first"}}})
    scene.job()
    run = scene.ended_run()
    assert checkout.remote_refs().splitlines()[-1].split()[0] == run["status"]["source"]["commit"]
    return run_facts(scene, run, run["status"]["source"]["commit"])


def slow_run(scene: Scene, *, items: int) -> tuple[str, dict[str, Any]]:
    """Begin a run whose items take their time; return its commit and itself when its first item has a line."""
    checkout = scene.project()
    commit = scene.push(checkout, bundle(trials=items, latency_ms=300))
    scene.job(workers=SLOW)
    return commit, scene.begun_run()


def cancelled_run(scene: Scene) -> Outcome:
    """A run that is cancelled while it goes. Which items came to their end is chance; that each is counted once is not."""
    _, run = slow_run(scene, items=LONG_ITEMS)
    name = run["metadata"]["name"]
    scene.doomed.until(lambda: scene.doomed.client.patch(ARENA_RUN, scene.namespace, name, {"spec": {"cancelled": True}}), "the cancel")
    ended = scene.ended_run()
    lines = [json.loads(line) for line in (scene.volume.run(scene.namespace, name) / "results.jsonl").read_bytes().splitlines()]
    summary = ended["status"]["result"]["summary"]
    executed = sum(line["verdict"] == "pass" for line in lines)
    facts = {
        "phase": ended["status"]["phase"],
        "counts": Counter(line["item"] for line in lines),
        "verdicts": {line["verdict"] for line in lines} <= {"pass", "skipped"},
        "sums agree": (summary["totalItems"], summary["passedItems"]) == (str(executed), str(executed)),
        "stop": ended["status"]["stop"]["reason"],
        "verdict": summary["verdict"],
    }
    return Outcome(facts)


def deleted_run(scene: Scene) -> Outcome:
    """A run that is deleted while it goes: nothing of it stays, and nothing starts in its place."""
    _, run = slow_run(scene, items=LONG_ITEMS)
    remove(scene, ARENA_RUN, run["metadata"]["name"])
    scene.forgotten(run)
    pins = scene.volume.repository(scene.key) / "refs" / "arena" / "runs"
    job = scene.doomed.until(lambda: scene.find(ARENA_JOB, JOB), "the job")
    facts = {
        "directory": scene.volume.run(scene.namespace, run["metadata"]["name"]).exists(),
        "pins": [path.name for path in pins.iterdir()] if pins.is_dir() else [],
        "runs": scene.count(ARENA_RUN),
        "remembered": job["status"]["lastRunRef"]["uid"] == run["metadata"]["uid"],
    }
    return Outcome(facts)


def remove(scene: Scene, kind: ResourceKind, name: str) -> None:
    """Delete an object and wait until it is gone."""

    def gone() -> bool:
        found = scene.find(kind, name)
        if found is not None and "deletionTimestamp" not in found["metadata"]:
            try:
                scene.doomed.client.delete(kind, scene.namespace, name)
            except ServerRefused as error:
                if error.reason != "NotFound":
                    raise
        return scene.find(kind, name) is None

    scene.doomed.until(gone, f"{kind.kind} {name} to go")


def removed_project(scene: Scene) -> Outcome:
    """A project that is deleted: its sources go, its repository is kept aside, whole."""
    checkout = scene.project(hosted={"reclaimPolicy": "Retain"})
    commit = scene.push(checkout, bundle())
    head_is(scene, commit)
    remove(scene, ARENA_PROJECT, PROJECT)
    retained = list(scene.volume.repositories(scene.namespace).glob(".retained/*.git"))
    facts = {
        "repository": scene.volume.repository(scene.key).exists(),
        "sources": scene.volume.sources(scene.key).exists(),
        "retained": [checkout.git.run("--git-dir", str(path), "rev-parse", "main") for path in retained] == [commit],
    }
    return Outcome(facts)


def pruned_snapshots(scene: Scene) -> Outcome:
    """A project that keeps only its head's snapshot, and a second push."""
    checkout = scene.project(snapshots={"retain": 0})
    head_is(scene, scene.push(checkout, bundle()))
    commit = scene.push(checkout, {"NOTES": "second"})
    versions = scene.volume.versions(scene.key)

    def kept() -> list[str]:
        return sorted(path.name for path in versions.iterdir() if len(path.name) == len(commit))

    head_is(scene, commit)
    scene.doomed.until(lambda: kept() == [commit] and not list((versions / ".trash").iterdir()), "the first snapshot to go")
    facts = {"manifests": [path.stem for path in (versions / ".manifests").iterdir()] == [commit]}
    return Outcome(facts)


def head_is(scene: Scene, commit: str) -> None:
    """Wait until a project's head is a commit."""

    def probe() -> bool:
        return (((scene.find(ARENA_PROJECT, PROJECT) or {}).get("status") or {}).get("head") or {}).get("commit") == commit

    scene.doomed.until(probe, "the head to be seen")


def forgotten_history(scene: Scene) -> Outcome:
    """A job that keeps no run: the first one ends, leaves its summary, and is not made again."""
    checkout = scene.project()
    scene.push(checkout, bundle(trials=ITEMS))
    scene.job(successfulRunsHistoryLimit=0, failedRunsHistoryLimit=0)
    history = scene.volume.history(scene.namespace, JOB)
    (summary,) = scene.doomed.until(lambda: list(history.glob("[a-z]*.json")) if history.is_dir() else [], "the summary to be kept")
    scene.doomed.until(lambda: not scene.objects(ARENA_RUN), "the run to go")
    told = json.loads(summary.read_bytes())
    job = scene.doomed.until(lambda: scene.find(ARENA_JOB, JOB), "the job")
    (events,) = scene.doomed.until(lambda: (scene.events(),), "the events")
    created = sum(event["reason"] == "RunCreated" for event in events)
    facts = {"totals": told["totals"], "remembered": job["status"]["lastRunRef"]["name"] == summary.stem, "created": created <= 1}
    return Outcome(facts)


def rebuilt_run(scene: Scene) -> Outcome:
    """A run whose queue is lost while it goes."""
    commit, _ = slow_run(scene, items=SLOW_ITEMS)
    with scene.store() as store:
        store.flushall()
    return run_facts(scene, scene.ended_run(), commit)


def mirrored_run(scene: Scene) -> Outcome:
    """A project that mirrors one remote and then another, and a run of what the second has; each remote has a default branch of its own."""
    files = {name: text.encode() for name, text in bundle(trials=ITEMS).items()}
    with TemporaryDirectory(prefix="host-") as folder, https_host(Path(folder) / "h") as host:  # a socket's path is short
        old, new = host.create("old", branch="trunk"), host.create("new", branch="release/1")
        first, commit = old.commit("trunk", {"a": b"old"}), new.commit("release/1", files)
        trust = {"ca.crt": b64encode(host.ca_certificates.encode()).decode()}
        scene.doomed.ensure(SECRET, scene.namespace, "read", data=trust)
        scene.doomed.ensure(ARENA_PROJECT, scene.namespace, PROJECT, spec={"external": {"url": old.url, "secretRef": {"name": "read"}}})
        head_is(scene, first)
        change = {"spec": {"external": {"url": new.url}}}
        scene.doomed.until(lambda: scene.doomed.client.patch(ARENA_PROJECT, scene.namespace, PROJECT, change), "the other URL")
        head_is(scene, commit)
        scene.job()
        outcome = run_facts(scene, scene.ended_run(), commit)
        status = scene.doomed.until(lambda: scene.find(ARENA_PROJECT, PROJECT), "the project")["status"]
        mirror = GitClient(scene.doomed.server, scene.folder / "ada").run(
            "--git-dir", str(scene.volume.repository(scene.key)), "for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"
        )
        shown = {key: status[key] for key in ("defaultBranch", "refs")}
        return Outcome({**outcome.facts, "status": json.dumps(shown).replace(commit, ""), "refs": mirror}, outcome.again)


SCENARIOS: Mapping[str, Callable[[Scene], Outcome]] = {
    "run": small_run,
    "chunks": chunked_run,
    "seed": seeded_run,
    "cancel": cancelled_run,
    "delete": deleted_run,
    "remove": removed_project,
    "prune": pruned_snapshots,
    "history": forgotten_history,
    "rebuild": rebuilt_run,
    "mirror": mirrored_run,
}
