"""What `arena doctor` says of a state directory: each thing that can be wrong is found, with its remedy, and nothing is changed by looking."""

import asyncio
import hashlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from arena.doctor import machine
from arena.doctor.content import SNAPSHOTS_READ
from arena.doctor.examination import examine
from arena.doctor.finding import Finding
from arena.doctor.installation import lock_holder
from arena.doctor.survey import Survey
from arena.local.process_times import start_time
from arena.local.processes import Processes, ProcessRecord
from arena.local.state import StateDirectory
from engine.items import RunUID
from engine.queue.embedded import EmbeddedServer
from engine.queue.port import RunMeta
from engine.queue.redis import RedisWorkQueue
from foundation.clock import FakeClock, SystemClock
from gitops.content import ContentVolume, ProjectKey
from gitops.repositories import Repositories
from gitops.snapshot_disk import remove_tree
from gitops.snapshots import Snapshots
from reconcile.cluster.port import ARENA_PROJECT, ARENA_RUN, ResourceKind
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.run.ownership import Owner, claim
from tests.gitops.forge import FILE, Forge

PROJECT = ProjectKey("default", "support")
GONE = "00000000-0000-4000-8000-000000000000"


class Installation:
    """A state directory in good order, used by nobody: a project with a commit and its snapshot, and a run under way."""

    def __init__(self, root: Path) -> None:
        self.state = StateDirectory(root)
        self.clock = FakeClock()
        self.volume = ContentVolume(self.state.content)
        self.repositories = Repositories(self.volume, SystemClock())
        self.commit = ""

    async def make(self) -> None:
        """Make it."""
        self.state.prepare()
        self.state.token()
        self.cluster = SqliteCluster(self.state.database, self.clock)
        await self.create(ARENA_PROJECT, PROJECT.name, {"hosted": {}}, {})
        await self.repositories.create(PROJECT)
        self.commit = await self.repositories.seed(PROJECT, {"a": b"text"}, author="A <a@localhost>")
        await Snapshots(self.volume).export(PROJECT, self.commit)
        plan = b"{}"
        digest = hashlib.sha256(plan).hexdigest()
        run = await self.create(ARENA_RUN, "run-1", {}, {"phase": "Running", "plan": {"digest": f"sha256:{digest}"}})
        claim(self.output, Owner(run["metadata"]["uid"], self.state.installation()))
        (self.output / f"plan-{digest}.json").write_bytes(plan)
        await self.repositories.pin(PROJECT, run["metadata"]["uid"], self.commit)

    @property
    def output(self) -> Path:
        """The run's directory."""
        return self.volume.run("default", "run-1")

    @property
    def snapshot(self) -> Path:
        """The snapshot."""
        return self.volume.snapshot(PROJECT, self.commit)

    async def create(self, kind: ResourceKind, name: str, spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
        """Create an object with a status."""
        document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        await self.cluster.create(document)
        return await self.cluster.patch_status(kind, "default", name, status)

    async def examine(self, **options: Any) -> list[Finding]:
        """Look, and check that looking changed nothing."""
        before = self.traces()
        found = [finding async for finding in examine(Survey(self.state, self.clock, **options))]
        assert self.traces() == before
        return found

    def traces(self) -> dict[str, tuple[int, int]]:
        """Return size and time of every file; SQLite's shared memory is no part of what is kept."""
        paths = (path for path in self.state.root.rglob("*") if path.is_file() and path.suffix != ".db-shm" and not path.name.endswith("-shm"))
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation in good order."""
    place = Installation(tmp_path / "state")
    await place.make()
    yield place
    await place.cluster.close()


def wrong(findings: list[Finding]) -> list[str]:
    """Return what is wrong, as it is printed."""
    return [str(finding) for finding in findings if finding.state == "bad"]


@pytest.mark.parametrize("everything", [False, True])
async def test_nothing_is_wrong(place: Installation, *, everything: bool) -> None:
    """An installation in good order has no bad line, while its store is open and after."""
    assert wrong(await place.examine(verify_snapshots=everything, verify_objects=everything)) == []
    await place.cluster.close()
    assert wrong(await place.examine(verify_snapshots=everything, verify_objects=everything)) == []


def damage_object(place: Installation) -> None:
    """Remove every object of the repository."""
    for path in (place.volume.repository(PROJECT) / "objects").rglob("*"):
        if path.is_file():
            path.unlink()


def damage_snapshot(place: Installation) -> None:
    """Write into the snapshot."""
    (place.snapshot / "a").chmod(0o644)
    (place.snapshot / "a").write_bytes(b"TEXT")


FAULTS: list[Any] = [
    pytest.param(lambda p: p.state.root.chmod(0o755), ["chmod 700", "mode 0755"], id="a directory that others may enter"),
    pytest.param(lambda p: (p.state.root / "token").chmod(0o644), ["chmod 600", "token"], id="a token that others may read"),
    pytest.param(lambda p: (p.state.root / "server.json").write_text("{}") and (p.state.root / "server.json").chmod(0o600), ["server.json", "`arena up`"], id="a killed server"),
    pytest.param(damage_object, ["repository default/support", "restore a backup"], id="lost objects"),
    pytest.param(damage_snapshot, ["snapshots of default/support", "exported again"], id="a changed snapshot"),
    pytest.param(lambda p: next(p.output.glob("plan-*")).unlink(), ["plan of run default/run-1", "arena delete arun run-1"], id="a lost plan"),
    pytest.param(lambda p: next(p.output.glob("plan-*")).write_bytes(b"{ }"), ["is not what was planned"], id="a changed plan"),
    pytest.param(lambda p: claim(p.volume.run("default", "old"), Owner(GONE, p.state.installation())), ["run directories", "runs/old"], id="a directory of a run that is gone"),
    pytest.param(lambda p: p.volume.repository(PROJECT).rename(p.volume.repository(ProjectKey("default", "other"))), ["repository default/other", "no project of this name"], id="a repository of no project"),
]  # fmt: skip


@pytest.mark.parametrize(("harm", "said"), FAULTS)
async def test_what_is_wrong_is_said_with_its_remedy(place: Installation, harm: Callable[[Installation], object], said: list[str]) -> None:
    """Each fault gives one bad line that names the thing, the cause and what to do."""
    harm(place)
    (line,) = wrong(await place.examine())
    assert [words for words in said if words not in line] == [], line


async def test_snapshots_are_verified_on_request(place: Installation) -> None:
    """An old snapshot is read only with verify_snapshots, which names the file that is not what its manifest says, and what to remove."""
    snapshots = Snapshots(place.volume)
    forge = Forge(place.volume.repository(PROJECT))
    for number in range(SNAPSHOTS_READ):
        tree = forge.tree((FILE, b"a", forge.blob(b"%d" % number)))
        commit = await snapshots.export(PROJECT, forge.commit(tree, [place.commit]))
        os.utime(place.volume.versions(PROJECT) / ".manifests" / f"{commit.commit}.jsonl", (2_000_000_000 + number, 2_000_000_000 + number))
    damage_snapshot(place)
    assert wrong(await place.examine(verify_objects=True)) == []
    (line,) = wrong(await place.examine(verify_snapshots=True))
    assert f"{place.commit[:12]} ('a' has other bytes than its blob)" in line
    assert f"then remove {place.snapshot}: what is needed is exported again" in line
    remove_tree(place.snapshot)
    assert wrong(await place.examine(verify_snapshots=True)) == []


async def test_objects_are_verified_on_request(place: Installation) -> None:
    """A blob with other bytes is found only with verify_objects: the connections between objects are sound."""
    forge = Forge(place.volume.repository(PROJECT))
    right, wrong_one = (
        place.volume.repository(PROJECT) / "objects" / i[:2] / i[2:] for i in (forge.blob(b"text").decode(), forge.blob(b"TEXT").decode())
    )
    right.chmod(0o644)
    right.write_bytes(wrong_one.read_bytes())
    wrong_one.unlink()
    assert wrong(await place.examine()) == []
    (line,) = wrong(await place.examine(verify_objects=True))
    assert ("repository default/support" in line, "restore a backup" in line) == (True, True)


async def test_a_mirror_is_a_projects_repository(place: Installation) -> None:
    """The repository of an external project is looked at as a hosted one is; what it lost is at its remote."""
    external = {"external": {"url": "https://git.example.com/team/prompts.git"}}
    await place.create(ARENA_PROJECT, "mirrored", external, {"head": {"commit": "a" * 40}})
    (line,) = wrong(await place.examine())
    assert line == (
        "repository default/mirrored: it is gone; a running server fetches a mirror again that is not there; `arena sync mirrored` asks for it at once"
    )
    await place.repositories.create(ProjectKey("default", "mirrored"))
    assert wrong(await place.examine()) == []


async def test_a_mirror_that_cannot_be_fetched(place: Installation) -> None:
    """A mirror that answers with old commits is named, with what its last fetch met."""
    said = {"type": "FetchFailed", "status": "True", "reason": "RemoteUnreachable", "message": "cannot reach host 'git.example.com'; start it"}
    failed = {**said, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    external = {"external": {"url": "https://git.example.com/team/prompts.git"}}
    await place.create(ARENA_PROJECT, "mirrored", external, {"conditions": [failed]})
    await place.repositories.create(ProjectKey("default", "mirrored"))
    assert wrong(await place.examine()) == ["mirror default/mirrored: its last fetch failed: cannot reach host 'git.example.com'; start it"]
    await place.cluster.patch_status(ARENA_PROJECT, "default", "mirrored", {"conditions": [{**failed, "status": "False", "message": ""}]})
    assert wrong(await place.examine()) == []


async def test_a_repository_that_is_gone(place: Installation) -> None:
    """A project that had a head and has no repository any more is told apart from one that waits for its first push."""
    await place.create(ARENA_PROJECT, "fresh", {"hosted": {}}, {})
    await place.create(ARENA_PROJECT, "robbed", {"hosted": {}}, {"head": {"commit": "a" * 40}})
    (line,) = wrong(await place.examine())
    assert line.startswith("repository default/robbed: it is gone")


async def test_keep_refs_of_runs_that_are_gone(place: Installation) -> None:
    """A keep-ref whose run no longer exists is named."""
    await place.repositories.pin(PROJECT, GONE, place.commit)
    (line,) = wrong(await place.examine())
    assert ("keep-refs of default/support" in line, GONE in line) == (True, True)


async def test_a_worker_whose_job_is_gone(place: Installation) -> None:
    """A worker process that runs for a Job that no longer exists is named by its pid; one that has ended is nothing."""
    worker = await asyncio.create_subprocess_exec("sleep", "60")
    records = Processes(place.state.processes)
    records.save("job-gone", ProcessRecord(0, worker.pid, start_time(worker.pid) or 0))
    records.save("job-ended", ProcessRecord(0, worker.pid, 1))
    (line,) = wrong(await place.examine())
    worker.kill()
    await worker.wait()
    assert f"kill {worker.pid}" in line
    assert wrong(await place.examine()) == []


async def test_a_clock_that_went_back(place: Installation) -> None:
    """A wall clock that is far behind the newest entry of the store is said with its distance; a minute is nothing."""
    for back_s, lines in ((30, 0), (7200, 1)):
        clock = FakeClock(place.clock.now() - timedelta(seconds=back_s))
        found = [finding async for finding in examine(Survey(place.state, clock))]
        assert len(wrong(found)) == lines, wrong(found)
    assert f"{back_s} s behind" in wrong(found)[0]


@pytest.mark.parametrize("case", ["newer", "garbage", "foreign"])
async def test_a_store_that_cannot_be_used(place: Installation, case: str) -> None:
    """A newer schema, a damaged file and another program's are each said; what needs the store is left out."""
    await place.cluster.close()
    if case == "garbage":
        place.state.database.write_bytes(b"this is no database" * 500)
    else:
        with sqlite3.connect(place.state.database) as database:
            database.execute("PRAGMA user_version = 999" if case == "newer" else "PRAGMA application_id = 7")
        database.close()
    found = await place.examine()
    assert len(wrong(found)) == 1
    assert wrong(found)[0].startswith("store cluster.db: ")
    assert not any("repository" in str(finding) for finding in found)


async def test_little_room(place: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without room or without inodes is said before it is full."""
    for name in ("MIN_FREE_BYTES", "MIN_FREE_INODES"):
        with monkeypatch.context() as patched:
            patched.setattr(machine, name, 1 << 62)
            (line,) = wrong(await place.examine())
            assert "make room" in line


async def test_what_is_kept_aside_is_information(place: Installation) -> None:
    """A retained repository is told with its size and the command that brings it back, and is nothing wrong."""
    await place.repositories.create(ProjectKey("default", "old"))
    await place.repositories.retain(ProjectKey("default", "old"), GONE)
    found = await place.examine()
    assert wrong(found) == []
    (told,) = [str(finding) for finding in found if finding.state == "info"]
    assert f"arena project adopt old --uid {GONE} -n default" in told


async def test_a_queue_server_and_its_orphans(place: Installation) -> None:
    """Keys of runs that are gone are named, and a setting that loses records; the server's password is not shown."""
    server = EmbeddedServer(place.state.root)
    url = await server.start()
    queue = RedisWorkQueue(url, installation=place.state.installation())
    try:
        alive = (await place.cluster.get(ARENA_RUN, "default", "run-1"))["metadata"]["uid"]
        for uid in (alive, GONE):
            await queue.pin(RunUID(uid), RunMeta("sha256:x", 1))
        await queue._store.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        found = wrong([finding async for finding in examine(Survey(place.state, place.clock, url))])
    finally:
        await queue.close()
        await server.stop()
    assert [line.split(":")[0] for line in found] == ["queue server", "queue keys", "queue server"]
    assert ("runs without a server" in found[0], GONE in found[1], alive in found[1], "noeviction" in found[2]) == (True, True, False, True)
    (line,) = wrong(await place.examine(redis_url="redis://user:secret@127.0.0.1:1/0"))
    assert ("127.0.0.1:1" in line, "secret" in line) == (True, False)


def test_the_holder_of_a_lock_is_seen_without_taking_it(tmp_path: Path) -> None:
    """The process that holds a state directory is found, and 0 when nobody does."""
    state = StateDirectory(tmp_path)
    with state.lock():
        assert lock_holder(tmp_path / "lock") == os.getpid()
    assert lock_holder(tmp_path / "lock") == 0
