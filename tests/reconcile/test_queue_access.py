"""How a run's workers get into the queue: a Secret, a user and a Job, in this order; and how they are shut out again."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.queue.memory import MemoryWorkQueue
from engine.queue.memory_users import MemoryRunUsers
from engine.queue.urls import password_of
from foundation.clock import FakeClock
from reconcile.cluster.core_kinds import value_in
from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, SECRET, Object
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.errors import NotFound
from reconcile.orphans import EVERY_S, GONE_FOR_S
from reconcile.run import RunReconciler
from reconcile.run.settling import STRAGGLING
from reconcile.runtime.controller import Controller, ControllerOptions
from reconcile.sweep import Sweep
from reconcile.worker_job import ClusterPods, SecretValue
from reconcile.worker_job.queue_secret import URL_KEY, queue_secret_value
from tests.reconcile.conftest import NAMESPACE, ProcessDied, World, cancel, condition, dying, started
from tests.reconcile.test_run_crashes import end_job

SHARED = SecretValue("shared", "url")


class Isolated(World):
    """A control plane whose runs have users of their own."""

    def __init__(self, folder: Path, queue: MemoryWorkQueue, clock: FakeClock) -> None:
        super().__init__(folder, queue, clock)
        self.users = MemoryRunUsers()
        self.give(users=self.users)

    def give(self, **changes: Any) -> None:
        """Let runs find another world."""
        self.runs_world = replace(self.runs_world, **changes)
        options = ControllerOptions(debug=True)
        self.controllers["ArenaRun"] = Controller(self.cluster, RunReconciler(self.runs_world), clock=self.clock, options=options)

    async def secret(self) -> Object | None:
        """Return the Secret of the only run."""
        try:
            return await self.cluster.get(SECRET, NAMESPACE, queue_secret_value((await self.run())["metadata"]["name"]).name)
        except NotFound:
            return None

    async def address(self) -> str:
        """Return the address in that Secret, "" when there is none."""
        return value_in(await self.secret() or {}, URL_KEY)

    async def reference(self) -> dict[str, Any] | None:
        """Return where the worker Job's address of the queue comes from."""
        (job,) = await self.worker_jobs()
        variables = {entry["name"]: entry for entry in job["spec"]["template"]["spec"]["containers"][0]["env"]}
        found: dict[str, Any] | None = variables.get("REDIS_URL")
        return found and found["valueFrom"]["secretKeyRef"]


@pytest.fixture
async def isolated(folder: Path) -> AsyncIterator[Isolated]:
    """A control plane in which nothing has happened yet."""
    clock = FakeClock()
    world = Isolated(folder, MemoryWorkQueue(clock), clock)
    yield world
    await world.cluster.close()


async def test_workers_get_the_address_of_their_runs_user(isolated: Isolated) -> None:
    """The Secret of a run holds the address with the password of its user, belongs to the run, and is what the Job refers to; the Job holds no password."""
    run = await started(isolated)
    secret = await isolated.secret()
    assert secret is not None
    assert [(owner["kind"], owner["uid"]) for owner in secret["metadata"]["ownerReferences"]] == [("ArenaRun", run["metadata"]["uid"])]
    password = isolated.users.users[run["metadata"]["uid"]]
    assert await isolated.address() == isolated.users.url(run["metadata"]["uid"], password)
    assert len(password) > 40
    assert await isolated.reference() == {"name": secret["metadata"]["name"], "key": URL_KEY}
    assert password not in str(await isolated.worker_jobs())
    assert password not in str(await isolated.run())


DEATHS = [
    pytest.param(SqliteCluster, "create", lambda obj, **_: obj["kind"] == "Secret", id="Secret"),
    pytest.param(MemoryRunUsers, "make", lambda *_: True, id="user"),
    pytest.param(SqliteCluster, "create", lambda obj, **_: obj["kind"] == "Job", id="Job"),
]


@pytest.mark.parametrize("before", [pytest.param(True, id="before"), pytest.param(False, id="after")])
@pytest.mark.parametrize(("owner", "verb", "when"), DEATHS)
async def test_a_death_between_secret_user_and_job(
    isolated: Isolated, monkeypatch: pytest.MonkeyPatch, owner: type, verb: str, when: Any, *, before: bool
) -> None:
    """Whatever a controller had done when it died, the next one ends with one Secret, one user of its password, and one Job that refers to it."""
    target: Any = {SqliteCluster: isolated.cluster, MemoryRunUsers: isolated.users}[owner]
    monkeypatch.setattr(target, verb, dying(getattr(target, verb), before=before, when=when))
    with pytest.raises(ProcessDied):
        await started(isolated)
    await isolated.look_at_all(2)
    run = await isolated.run()
    uid = run["metadata"]["uid"]
    assert await isolated.address() == isolated.users.url(uid, isolated.users.users[uid])
    assert await isolated.reference() == {"name": queue_secret_value(run["metadata"]["name"]).name, "key": URL_KEY}
    assert run["status"]["phase"] == "Running"


async def test_passes_ask_for_nothing_while_the_user_is_there(isolated: Isolated) -> None:
    """A user is made once, not at every pass."""
    await started(isolated)
    await isolated.look_at_all(3)
    assert isolated.users.makings == 1


async def test_a_server_that_started_again_gets_its_users_back(isolated: Isolated) -> None:
    """A user that the server forgot is made again with the same password, also for workers that end what they have begun of a stopped run."""
    run = await started(isolated, trials=3)
    uid, before = run["metadata"]["uid"], await isolated.address()
    isolated.users.start_again()
    await isolated.look_at_all()
    assert (isolated.users.users[uid], await isolated.address()) == (password_of(before), before)
    await isolated.queue.lease(uid, worker="w", limit=1, seconds=30)
    await isolated.queue.stop(uid, "budget")
    isolated.users.start_again()
    await isolated.look_at_all()
    assert isolated.users.users == {uid: password_of(before)}


async def test_a_server_that_moved_gets_a_new_address(isolated: Isolated) -> None:
    """When workers are to reach the server elsewhere, the Secret says so, and the password stays."""
    run = await started(isolated)
    uid, password = run["metadata"]["uid"], password_of(await isolated.address())
    isolated.users.start_again(address="rediss://other:6380/2")
    await isolated.look_at_all()
    assert await isolated.address() == isolated.users.url(uid, password)
    assert "@other:6380/2" in await isolated.address()


@pytest.mark.parametrize(
    "data", [{}, {URL_KEY: ""}, {URL_KEY: "/w=="}, {URL_KEY: "cmVkaXM6Ly9xdWV1ZQ=="}], ids=["none", "empty", "no text", "no password"]
)
async def test_a_damaged_secret_is_written_anew(isolated: Isolated, data: dict[str, str]) -> None:
    """A Secret without a password that can be read gets a new one, and so does the user."""
    run = await started(isolated)
    secret = await isolated.secret()
    assert secret is not None
    await isolated.cluster.delete(SECRET, NAMESPACE, secret["metadata"]["name"])
    metadata = {key: secret["metadata"][key] for key in ("name", "namespace", "ownerReferences")}
    await isolated.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    isolated.users.start_again()
    await isolated.look_at_all()
    uid = run["metadata"]["uid"]
    assert await isolated.address() == isolated.users.url(uid, isolated.users.users[uid])


async def test_a_strangers_secret_is_left_alone(isolated: Isolated) -> None:
    """A run whose Secret's name is taken waits, and says for what; it neither uses nor changes the Secret of somebody else."""
    await isolated.project_with()
    await isolated.job()
    await isolated.look(ARENA_JOB, "eval")
    name = queue_secret_value((await isolated.run())["metadata"]["name"]).name
    theirs = await isolated.cluster.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, "stringData": {"url": "redis://theirs"}}
    )
    await isolated.look_at_all()
    assert (await isolated.worker_jobs(), isolated.users.users) == ([], {})
    assert condition(await isolated.run())["message"] == f"a Secret '{name}' exists that is not this run's"
    assert await isolated.secret() == theirs
    await isolated.cluster.delete(SECRET, NAMESPACE, name)
    await isolated.look_at_all()
    assert len(await isolated.worker_jobs()) == 1


async def test_a_run_that_has_ended_shuts_its_queue_when_its_workers_have_left(isolated: Isolated) -> None:
    """User and Secret of an ended run stay for a worker that comes late and looks for the mark; they go once the Job has ended, and the run is put away."""
    run = await started(isolated)
    uid = run["metadata"]["uid"]
    await isolated.work(run)
    await isolated.look_at_all(2)
    assert ((await isolated.run())["status"]["phase"], list(isolated.users.users)) == ("Succeeded", [uid])
    isolated.users.start_again()
    await isolated.look_at_all()
    assert list(isolated.users.users) == [uid], "a worker that is still there could not come back"
    await end_job(isolated, "Complete")
    await isolated.clock.advance(5)
    await isolated.look_at_all()
    assert (isolated.users.users, await isolated.secret()) == ({}, None)
    assert (await isolated.run())["status"]["tidied"] is True


async def test_a_worker_that_never_comes_keeps_no_queue_open(isolated: Isolated) -> None:
    """A Job of an ended run of which a pod cannot start would never end: it is deleted after a while, and user and Secret go."""
    run = await started(isolated)
    await isolated.work(run)
    await isolated.look_at_all(2)
    await isolated.clock.advance(STRAGGLING.total_seconds())
    await isolated.look_at_all()
    assert (len(await isolated.worker_jobs()), len(isolated.users.users)) == (1, 1)
    await isolated.clock.advance(10)
    await isolated.look_at_all(2)
    assert (await isolated.worker_jobs(), isolated.users.users, await isolated.secret()) == ([], {}, None)
    assert (await isolated.run())["status"]["tidied"] is True


async def test_a_cancelled_run_shuts_its_queue(isolated: Isolated) -> None:
    """A cancelled run's Job is deleted, and its user and its Secret go."""
    await started(isolated)
    await cancel(isolated)
    await isolated.look_at_all(2)
    assert (await isolated.worker_jobs(), isolated.users.users, await isolated.secret()) == ([], {}, None)


async def test_a_deleted_run_takes_its_user_along(isolated: Isolated) -> None:
    """A run that is deleted while it goes leaves neither user nor Secret."""
    run = await started(isolated)
    name = run["metadata"]["name"]
    await isolated.cluster.delete(ARENA_RUN, NAMESPACE, name)
    for _ in range(3):
        await isolated.look(ARENA_RUN, name)
    assert isolated.users.users == {}
    assert [secret for secret in (await isolated.cluster.list(SECRET, NAMESPACE)).items if name in secret["metadata"]["name"]] == []


async def test_orphaned_users_are_swept(isolated: Isolated) -> None:
    """A user whose run has been gone for an hour is removed; a living run's stays."""
    run = await started(isolated)
    await isolated.users.make("gone", "password")  # type: ignore[arg-type]
    sweep = Sweep(isolated.cluster, isolated.runs_world, isolated.clock)
    await sweep.sweep()
    await isolated.clock.advance(GONE_FOR_S + EVERY_S)
    assert await sweep.sweep() == ["queue user of gone"]
    assert list(isolated.users.users) == [run["metadata"]["uid"]]


@pytest.mark.parametrize("in_cluster", [False, True], ids=["processes", "pods"])
async def test_a_server_that_makes_no_users(isolated: Isolated, *, in_cluster: bool) -> None:
    """Where the server makes no users, workers come as those of all runs, by the Secret that the operator names, and a Warning on the run says so."""
    isolated.users.refuses = "unknown command 'ACL'"
    isolated.give(shared_queue=SHARED if in_cluster else None, pods=ClusterPods("test", "content") if in_cluster else None)
    await started(isolated)
    assert await isolated.reference() == ({"name": SHARED.name, "key": SHARED.key} if in_cluster else None)
    (told,) = await isolated.events("QueueShared")
    assert "unknown command 'ACL'" in told
    await isolated.look_at_all(2)
    assert isolated.users.makings == 1


async def test_a_cluster_without_any_address_for_workers(isolated: Isolated) -> None:
    """Where the server makes no users and the operator names no Secret, a run waits and says what is missing."""
    isolated.users.refuses = "no permission"
    isolated.give(pods=ClusterPods("test", "content"))
    await started(isolated)
    assert await isolated.worker_jobs() == []
    assert (condition(await isolated.run())["reason"], "--queue-secret" in condition(await isolated.run())["message"]) == ("QueueUnavailable", True)
