"""What a person reads when the store's file cannot be used."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from foundation.clock import SystemClock
from reconcile.cluster.port import ARENA_RUN, CONFIG_MAP, RUN_PHASE, RUN_PROJECT
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.cluster.sqlite_file import MIGRATIONS, open_file
from reconcile.errors import StoreCorrupt, StoreTooNew, StoreUnavailable

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """Give a store's file with some objects, closed."""
    file = tmp_path / "store.db"
    store = SqliteCluster(file, SystemClock())
    for number in range(50):
        metadata = {"name": f"c{number}", "namespace": "arena"}
        await store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "x" * 2000}})
    await store.close()
    return file


def test_another_kind_of_file(tmp_path: Path) -> None:
    """A file that is no database is StoreCorrupt, with a remedy, and stays as it is."""
    file = tmp_path / "store.db"
    file.write_bytes(b"not a database, " * 1000)
    with pytest.raises(StoreCorrupt, match="cannot use store") as error:
        SqliteCluster(file, SystemClock())
    assert "restore a copy" in error.value.hint
    assert file.read_bytes() == b"not a database, " * 1000


def test_another_programs_database(tmp_path: Path) -> None:
    """A database of another program is refused and stays as it is."""
    file = tmp_path / "store.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(StoreCorrupt, match="another program's database"):
        SqliteCluster(file, SystemClock())


def test_a_damaged_file(path: Path) -> None:
    """A store with damaged pages is StoreCorrupt at the start."""
    with path.open("r+b") as stream:
        stream.seek(4096)
        stream.write(os.urandom(8 * 4096))
    with pytest.raises(StoreCorrupt):
        SqliteCluster(path, SystemClock())


def test_a_truncated_file(path: Path) -> None:
    """A store that lost its end is StoreCorrupt at the start."""
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreCorrupt):
        SqliteCluster(path, SystemClock())


async def test_damage_while_running(path: Path) -> None:
    """Damage that appears later is StoreCorrupt for who meets it."""
    store = SqliteCluster(path, SystemClock())
    with path.open("r+b") as stream:
        stream.seek(4096)
        stream.write(os.urandom(20 * 4096))
    await store._thread.run(lambda: store._tables._db.execute("PRAGMA shrink_memory"), writes=False)  # read the file again, not the cache
    with pytest.raises(StoreCorrupt):
        await store.list(CONFIG_MAP)
    await store.close()


def test_a_newer_programs_store(path: Path) -> None:
    """A store with a newer schema is refused with both versions and stays as it is."""
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 3}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match=f"schema version is {len(MIGRATIONS) + 3}, this program knows up to {len(MIGRATIONS)}"):
        SqliteCluster(path, SystemClock())
    assert path.read_bytes() == before


def test_an_older_programs_store_is_migrated(path: Path) -> None:
    """A newer program runs the statements that are missing, once, and keeps the objects."""
    newer = (*MIGRATIONS, ("CREATE TABLE added (x)", "INSERT INTO added VALUES (1)"))
    for _ in range(2):
        connection = open_file(path, newer)
        assert connection.execute("SELECT count(*) FROM added").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM objects").fetchone() == (50,)
        assert connection.execute("PRAGMA user_version").fetchone() == (len(newer),)
        connection.close()


def test_a_failing_migration_changes_nothing(path: Path) -> None:
    """A migration that fails half-way leaves the old schema and version."""
    with pytest.raises(StoreUnavailable):
        open_file(path, (*MIGRATIONS, ("CREATE TABLE added (x)", "NO SUCH STATEMENT")))
    connection = open_file(path)
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'added'").fetchone() == (0,)
    connection.close()


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """A missing directory is named as such."""
    with pytest.raises(StoreUnavailable, match="No such file or directory"):
        SqliteCluster(tmp_path / "none" / "store.db", SystemClock())


def in_namespace(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell script as root of a mount namespace of its own; skip visibly where there is none."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine allows no user namespaces")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHON": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        ["unshare", "-rm", "sh", "-euc", script], cwd=directory, check=False, capture_output=True, text=True, timeout=60, env=environment
    )


FILL = """
import asyncio, sys
from foundation.clock import SystemClock
from foundation.errors import ArenaError
from reconcile.cluster.port import ARENA_RUN, CONFIG_MAP, RUN_PHASE, RUN_PROJECT
from reconcile.cluster.sqlite import SqliteCluster

async def fill():
    store = SqliteCluster("state/store.db", SystemClock())
    stored = 0
    try:
        for number in range(2000):
            metadata = {"name": f"c{number}", "namespace": "arena"}
            await store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "x" * 2000}})
            stored += 1
    except ArenaError as error:
        print(type(error).__name__, error.message, "|", error.hint)
    print(stored > 20, len((await store.list(CONFIG_MAP)).items) == stored)

try:
    asyncio.run(fill())
except ArenaError as error:
    print(type(error).__name__, error.message, "|", error.hint)
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """On a full disk a write is StoreFull, what was stored can still be read, and a later start says the same."""
    (tmp_path / "state").mkdir()
    (tmp_path / "fill.py").write_text(FILL)
    done = in_namespace('mount -t tmpfs -o size=1m tmpfs state; "$PYTHON" fill.py; "$PYTHON" fill.py', tmp_path)
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        "StoreFull cannot write store 'state/store.db': the disk is full | free space on that disk; nothing else needs to be done",
        "True True",
    ], done
    assert lines[2].startswith(("StoreFull", "AlreadyExists")), done


@pytest.mark.parametrize("fresh", [True, False], ids=["no file yet", "with a file"])
def test_a_read_only_directory(path: Path, *, fresh: bool) -> None:
    """In a read-only directory the store says so at the start, also to root."""
    state = path.parent / "state"
    state.mkdir()
    if not fresh:
        path.rename(state / "store.db")
    (path.parent / "fill.py").write_text(FILL)
    done = in_namespace('mount --bind state state; mount -o remount,ro,bind state; "$PYTHON" fill.py', path.parent)
    assert done.stdout.startswith("StoreReadOnly cannot write store 'state/store.db': the file or its directory is read-only | make both writable"), (
        done
    )


async def test_what_an_older_file_holds_is_selected_by_fields(tmp_path: Path) -> None:
    """A file from before there were selectable fields is indexed when it is opened: its runs are found by phase and project."""
    path = tmp_path / "store.db"
    connection = open_file(path, MIGRATIONS[:1])
    for name, status in (("ended", '{"phase":"Succeeded"}'), ("new", "{}"), ("odd", '{"phase":{}}')):
        body = f'{{"metadata":{{"name":"{name}"}},"spec":{{"template":{{"sourceRef":{{"name":"src"}}}}}},"status":{status}}}'
        values = ("ArenaRun", "arena", name, name, 0.0, body)
        connection.execute("INSERT INTO objects (kind, namespace, name, uid, changed, body) VALUES (?, ?, ?, ?, ?, ?)", values)
    connection.close()
    store = SqliteCluster(path, SystemClock())
    found = await store.list(ARENA_RUN, fields={RUN_PROJECT: "src", RUN_PHASE: ""})
    await store.close()
    assert [run["metadata"]["name"] for run in found.items] == ["new", "odd"]
