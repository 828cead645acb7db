"""What the embedded store keeps beyond the contract: over restarts, compaction, hooks and kills."""

import asyncio
import os
import signal
import sqlite3
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from foundation.clock import FakeClock, SystemClock
from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, CONFIG_MAP, EVENT, Object, WatchEvent
from reconcile.cluster.sqlite import SqliteCluster, admission_warnings
from reconcile.cluster.sqlite_tables import LogLimits
from reconcile.errors import FieldError, Gone, Invalid, NotFound, StoreUnavailable

NS = "arena"
REPOSITORY = Path(__file__).parents[2]


def job(name: str, **spec: Any) -> Object:
    """Return an ArenaJob."""
    return {"apiVersion": ARENA_JOB.api_version, "kind": "ArenaJob", "metadata": {"name": name, "namespace": NS}, "spec": spec}


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that the test moves."""
    return FakeClock()


@pytest.fixture
async def cluster(clock: FakeClock) -> AsyncIterator[SqliteCluster]:
    """Give a store in memory that keeps 20 changes, for a minute, in 10 kB."""
    store = SqliteCluster(":memory:", clock, log_limits=LogLimits(events=20, size_bytes=10_000, age_s=60))
    yield store
    await store.close()


async def first(watch: AsyncIterator[WatchEvent]) -> WatchEvent:
    """Return the next event of a watch."""
    async with asyncio.timeout(60):
        return await anext(watch)


async def test_everything_survives_a_restart(tmp_path: Path) -> None:
    """Objects, versions and the log are there after closing and opening; a watch resumes across it."""
    path = tmp_path / "store.db"
    store = SqliteCluster(path, SystemClock())
    created = await store.create(job("a"))
    version = (await store.list(ARENA_JOB)).resource_version
    await store.create(job("b"))
    await store.close()
    store = SqliteCluster(path, SystemClock())
    assert await store.get(ARENA_JOB, NS, "a") == created
    assert (await first(store.watch(ARENA_JOB, NS, version))).object["metadata"]["name"] == "b"
    later = await store.create(job("c"))
    assert int(later["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"]) + 1
    await store.close()


async def test_the_file_is_private_and_durable(tmp_path: Path) -> None:
    """The file and its companions have mode 0600, whatever they had; the journal is a WAL, synced at each commit."""
    path = tmp_path / "store.db"
    path.touch(0o666)
    path.chmod(0o666)
    store = SqliteCluster(path, SystemClock())
    await store.create(job("a"))
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in os.scandir(tmp_path)}
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}
    journal, synchronous = await store._thread.run(
        lambda: [store._tables._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")], writes=False
    )
    assert (journal, synchronous) == ("wal", 2)
    await store.close()


async def test_a_closed_store(cluster: SqliteCluster) -> None:
    """Closing ends the watches; every call after it is StoreUnavailable; closing again is fine."""
    watching = asyncio.create_task(collect(cluster.watch(ARENA_JOB, NS, (await cluster.list(ARENA_JOB)).resource_version)))
    await cluster.list(ARENA_JOB)
    await cluster.close()
    assert await watching == []
    await cluster.close()
    with pytest.raises(StoreUnavailable, match="it is closed"):
        await cluster.get(ARENA_JOB, NS, "a")


async def collect(watch: AsyncIterator[WatchEvent]) -> list[WatchEvent]:
    """Return all events of a watch."""
    return [event async for event in watch]


@pytest.mark.parametrize("limit", ["count", "size", "age"])
async def test_compaction_makes_old_versions_gone(cluster: SqliteCluster, clock: FakeClock, limit: str) -> None:
    """When the log outgrows its count, size or age, its oldest changes go, and a watch from before them is Gone."""
    version = (await cluster.list(ARENA_JOB)).resource_version
    if limit == "count":
        for number in range(30):
            await cluster.create(job(f"j{number}"))
    elif limit == "size":
        for number in range(3):
            await cluster.create(job(f"j{number}", text="x" * 6000))
    else:
        await cluster.create(job("old"))
        await clock.advance(61)
    await cluster.compact()
    with pytest.raises(Gone, match="compacted"):
        await first(cluster.watch(ARENA_JOB, NS, version))


async def test_the_log_is_bounded_by_itself(cluster: SqliteCluster) -> None:
    """However many changes there are, the log stays near its limits without anybody asking."""
    await cluster.create(job("a"))
    for number in range(200):
        await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": number})
    kept = await cluster._thread.run(lambda: cluster._tables._db.execute("SELECT count(*) FROM log").fetchone()[0], writes=False)
    assert kept <= 21


async def test_recent_versions_survive_compaction(cluster: SqliteCluster) -> None:
    """What is within the limits can still be resumed from."""
    for number in range(30):
        await cluster.create(job(f"j{number}"))
    version = (await cluster.list(ARENA_JOB)).resource_version
    await cluster.create(job("last"))
    await cluster.compact()
    assert (await first(cluster.watch(ARENA_JOB, NS, version))).object["metadata"]["name"] == "last"


async def test_a_quiet_kind_is_not_gone(cluster: SqliteCluster) -> None:
    """Changes of other kinds do not make a watch Gone that missed nothing."""
    watch = cluster.watch(ARENA_RUN, NS, (await cluster.list(ARENA_RUN)).resource_version)
    for number in range(60):
        await cluster.create(job(f"j{number}"))
    await cluster.compact()
    await cluster.create({**job("r"), "kind": "ArenaRun"})
    assert (await first(watch)).object["metadata"]["name"] == "r"


async def test_a_version_of_the_future_is_gone(cluster: SqliteCluster) -> None:
    """A version that this store never gave (another state directory's) is Gone: list again."""
    with pytest.raises(Gone):
        await first(cluster.watch(ARENA_JOB, NS, "999999"))


async def test_no_version(cluster: SqliteCluster) -> None:
    """A version that is no number is Invalid."""
    with pytest.raises(Invalid, match="resourceVersion"):
        await first(cluster.watch(ARENA_JOB, NS, "soon"))


async def test_events_expire(cluster: SqliteCluster, clock: FakeClock) -> None:
    """Events go a day after their last change; nothing else does."""
    for kind in (EVENT, CONFIG_MAP):
        for name in ("old", "renewed"):
            await cluster.create({"apiVersion": "v1", "kind": kind.kind, "metadata": {"name": name, "namespace": NS}})
    await clock.advance(20 * 3600)
    await cluster.patch(EVENT, NS, "renewed", {"count": 2})
    await clock.advance(5 * 3600)
    await cluster.compact()
    assert [event["metadata"]["name"] for event in (await cluster.list(EVENT)).items] == ["renewed"]
    assert len((await cluster.list(CONFIG_MAP)).items) == 2


@dataclass(frozen=True)
class Let:
    """An object as a test's admission lets it in."""

    object: Object
    warnings: Sequence[str] = field(default=())


def admit(kind: str, new: Object, old: Object | None) -> Let:
    """Default spec.workers of ArenaJobs, refuse 13 of them, keep `ref` immutable, and warn of `old`."""
    if kind != "ArenaJob":
        return Let(new)
    spec = {"workers": 1, **new["spec"]}
    if spec["workers"] == 13:
        raise Invalid([FieldError("spec.workers", "bad luck"), FieldError("spec", "worse")])
    if old is not None and old["spec"].get("ref") != spec.get("ref"):
        raise Invalid([FieldError("spec.ref", "is immutable")])
    return Let({**new, "spec": spec, "status": {"smuggled": True}, "metadata": {"name": "smuggled"}}, ["spec.old is old"] if "old" in spec else [])


def admit_status(kind: str, new: Object, old: Object) -> None:
    """Keep status.source of ArenaRuns once it is set."""
    before = old.get("status", {}).get("source")
    if kind == "ArenaRun" and before is not None and new.get("status", {}).get("source") != before:
        raise Invalid([FieldError("status.source", "is set once")])


@pytest.fixture
async def ruled() -> AsyncIterator[SqliteCluster]:
    """Give a store with rules of kinds."""
    store = SqliteCluster(":memory:", SystemClock(), admit=admit, admit_status=admit_status)
    yield store
    await store.close()


async def test_admission_defaults(ruled: SqliteCluster) -> None:
    """What admission defaults is stored, also where a patch removes it; metadata and status stay the store's."""
    created = await ruled.create(job("a"))
    assert created["spec"] == {"workers": 1}
    assert created["metadata"]["name"] == "a"
    assert "status" not in created
    assert await ruled.patch(ARENA_JOB, NS, "a", {"spec": {"workers": None}}) == created


async def test_admission_refuses(ruled: SqliteCluster) -> None:
    """A refusal names the object and every field, and nothing is stored; rules may compare with what is stored."""
    with pytest.raises(Invalid, match=r"cannot accept ArenaJob 'a': spec\.workers: bad luck; spec: worse") as refusal:
        await ruled.create(job("a", workers=13))
    assert [error.path for error in refusal.value.errors] == ["spec.workers", "spec"]
    with pytest.raises(NotFound):
        await ruled.get(ARENA_JOB, NS, "a")
    await ruled.create(job("a", ref="main"))
    with pytest.raises(Invalid, match="immutable"):
        await ruled.patch(ARENA_JOB, NS, "a", {"spec": {"ref": "v1"}})


async def test_admission_warnings_reach_the_caller(ruled: SqliteCluster) -> None:
    """Warnings of the writes in a block are collected there; other kinds pass unchanged."""
    with admission_warnings() as warnings:
        await ruled.create(job("a", old=1))
        await ruled.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": NS}})
    await ruled.create(job("b", old=1))
    assert warnings == ["spec.old is old"]


async def test_stricter_rules_do_not_hold_a_deleted_object(tmp_path: Path) -> None:
    """An object that today's rules would refuse can still lose its finalizers and go; its spec cannot change in passing."""
    store = SqliteCluster(tmp_path / "store.db", SystemClock())
    old = job("a", workers=13)
    await store.create({**old, "metadata": {**old["metadata"], "finalizers": ["arena.test/hold"]}})
    await store.delete(ARENA_JOB, NS, "a")
    await store.close()
    store = SqliteCluster(tmp_path / "store.db", SystemClock(), admit=admit)
    with pytest.raises(Invalid, match="bad luck"):
        await store.patch(ARENA_JOB, NS, "a", {"spec": {"other": 1}})
    await store.patch(ARENA_JOB, NS, "a", {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await store.get(ARENA_JOB, NS, "a")
    await store.close()


async def test_status_rules(ruled: SqliteCluster) -> None:
    """What is set once in a status cannot be changed or removed, and other fields can."""
    await ruled.create({**job("r"), "kind": "ArenaRun"})
    await ruled.patch_status(ARENA_RUN, NS, "r", {"source": {"commit": "abc"}})
    for source in ({"commit": "def"}, None):
        with pytest.raises(Invalid, match="set once"):
            await ruled.patch_status(ARENA_RUN, NS, "r", {"source": source})
    assert (await ruled.patch_status(ARENA_RUN, NS, "r", {"phase": "Running"}))["status"]["source"] == {"commit": "abc"}


async def test_a_hook_that_breaks_breaks_one_write(clock: FakeClock) -> None:
    """A fault in a hook fails the write it was called for, and no other in the same commit."""

    def faulty(_: str, new: Object, __: Object | None) -> Let:
        if new["metadata"]["name"] == "bad":
            raise ZeroDivisionError
        return Let(new)

    store = SqliteCluster(":memory:", clock, admit=faulty)
    results = await asyncio.gather(*(store.create(job(name)) for name in ("a", "bad", "b")), return_exceptions=True)
    assert [type(result) for result in results] == [dict, ZeroDivisionError, dict]
    assert len((await store.list(ARENA_JOB)).items) == 2
    await store.close()


async def test_a_failed_write_leaves_no_trace(cluster: SqliteCluster) -> None:
    """A refused write and a dry run make no event and use no name."""
    version = (await cluster.list(ARENA_JOB)).resource_version
    with pytest.raises(Invalid):
        await cluster.create(job("Bad Name"))
    await cluster.create(job("a"), dry_run=True)
    await cluster.create(job("b"))
    assert (await first(cluster.watch(ARENA_JOB, NS, version))).object["metadata"]["name"] == "b"


WRITER = """
import asyncio, sys
from pathlib import Path
from foundation.clock import SystemClock
from reconcile.cluster.sqlite import SqliteCluster

async def write():
    store = SqliteCluster(Path(sys.argv[1]), SystemClock())
    async def one(worker):
        for number in range(100000):
            name = f"{worker}-{number}"
            await store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "arena"}})
            print(name, flush=True)
    await asyncio.gather(*(one(worker) for worker in "abcd"))

asyncio.run(write())
"""


async def test_every_acknowledged_write_survives_a_kill(tmp_path: Path) -> None:
    """After SIGKILL in the middle of many writes the file opens, and every write that was answered is there, once in objects and log."""
    path = tmp_path / "store.db"
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(path), cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}
    )
    assert writer.stdout is not None
    acknowledged = [(await writer.stdout.readline()).decode().strip() for _ in range(200)]
    writer.send_signal(signal.SIGKILL)
    acknowledged += [line.decode().strip() for line in (await writer.stdout.read()).splitlines(keepends=True) if line.endswith(b"\n")]
    await writer.wait()
    store = SqliteCluster(path, SystemClock())
    listing = await store.list(CONFIG_MAP, NS)
    assert set(acknowledged) <= {obj["metadata"]["name"] for obj in listing.items}
    await store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone()[0] == len(listing.items)
    connection.close()
