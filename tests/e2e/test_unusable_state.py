"""What keeps `arena up` from starting is said in one error with its remedy: exit 2, no traceback, nothing left running."""

import socket
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.bundles import bundle
from tests.e2e.installation import ARENA, Done, Namespace, clean_environment, descendants, run_command, serving

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def start(state: Path, home: Path, *options: str, wrapper: Sequence[str] = ()) -> Done:
    """Run `arena up`, which must end by itself."""
    home.mkdir(exist_ok=True)
    return run_command([*wrapper, *ARENA, "up", "--port", "0", "--state", str(state), *options], environment=clean_environment(home), cwd=home)


def assert_refused(done: Done, state: Path, *said: str) -> None:
    """Check that the start was refused in words, and that nothing runs on the state directory."""
    assert done.code == 2, done.err
    assert done.out == ""
    assert "Traceback" not in done.err, done.err
    lines = done.err.splitlines()
    assert lines[0].startswith("error: cannot "), done.err
    assert any(line.startswith("hint: ") for line in lines), done.err
    assert [words for words in said if words not in done.err] == [], done.err
    assert descendants(f"{state}/queue") == []


def test_second_server_on_a_state_directory(tmp_path: Path) -> None:
    """A second server says that one runs, and where; the first goes on. The path here is too long for a socket: doctor finds the queue all the same."""
    state, home = tmp_path / ("long-name-" * 12) / "state", tmp_path / "home"
    with serving(state, home) as first:
        done = start(state, home)
        assert done.code == 2
        assert f"one is running already at {first.url} (pid {first.process.pid})" in done.err
        assert "hint: " in done.err
        seen = first.arena("doctor")
        assert (seen.code, seen.out.splitlines()[-1]) == (0, "ok   queue server")


def test_port_in_use(tmp_path: Path) -> None:
    """A port that another program listens on is named."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        done = start(tmp_path / "state", tmp_path / "home", "--port", port)
    assert_refused(done, tmp_path / "state", f"127.0.0.1:{port}", "--port")


DAMAGES = [
    pytest.param(lambda path: path.write_bytes(b"this is no database" * 500), "damaged", id="garbage"),
    pytest.param(lambda path: path.write_bytes(path.read_bytes()[:5000]), "damaged", id="truncated"),
]


@pytest.fixture(scope="module")
def used_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state directory that a server has used and left cleanly."""
    folder = tmp_path_factory.mktemp("used")
    with serving(folder / "state", folder / "home") as server:
        server.arena("apply", "-f", "-", text="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\ndata: {a: b}\n")
    return folder / "state"


def copied(state: Path, target: Path) -> Path:
    """Return a copy of a state directory."""
    subprocess.run(["cp", "-a", str(state), str(target)], check=True)
    return target


@pytest.mark.parametrize(("damage", "said"), DAMAGES)
def test_damaged_store(used_state: Path, tmp_path: Path, damage: object, said: str) -> None:
    """A store that is no SQLite database, or only the beginning of one, is refused and left as it is."""
    assert callable(damage)
    state = copied(used_state, tmp_path / "state")
    database = state / "cluster.db"
    for extra in (state / "cluster.db-wal", state / "cluster.db-shm"):
        extra.unlink(missing_ok=True)
    damage(database)
    before = database.read_bytes()
    assert_refused(start(state, tmp_path / "home"), state, "cluster.db", said)
    assert database.read_bytes() == before


def test_store_of_a_newer_program(used_state: Path, tmp_path: Path) -> None:
    """A store with a schema that this program does not know is refused and left as it is."""
    state = copied(used_state, tmp_path / "state")
    with sqlite3.connect(state / "cluster.db") as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    assert_refused(start(state, tmp_path / "home"), state, "newer")


@pytest.fixture(params=["1m"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of a few MiB; 1 where a test says nothing else."""
    folder = tmp_path / "small"
    folder.mkdir()
    options = f"size={request.param}"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_full_disk(small_disk: Path, tmp_path: Path) -> None:
    """A state directory on a full disk is refused with the remedy: to make room or to choose another."""
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "ballast").write_bytes(bytes(2 * 1024 * 1024))
    assert_refused(start(small_disk / "state", tmp_path / "home"), small_disk / "state", "no space left", "--state")


def test_disk_that_fills_up_while_starting(small_disk: Path, tmp_path: Path) -> None:
    """A disk with room for the directory, but not for the store, is refused just as clearly."""
    (small_disk / "ballast").write_bytes(bytes(1024 * 1024 - 80 * 1024))
    done = start(small_disk / "state", tmp_path / "home")
    assert_refused(done, small_disk / "state")
    assert "space" in done.err or "full" in done.err, done.err


@pytest.mark.parametrize("small_disk", ["24m"], indirect=True)
def test_disk_that_fills_up_under_a_server(small_disk: Path, tmp_path: Path) -> None:
    """While the disk is full, applies and pushes are refused in words and reads work; when there is room again, everything goes on."""
    with serving(small_disk / "state", tmp_path / "home") as server:
        namespace = Namespace(server, "default", tmp_path)
        checkout = namespace.project()
        checkout.commit(bundle())
        assert checkout.push().code == 0
        namespace.job(spec={"onPush": {}})
        namespace.ended_run()
        with pytest.raises(OSError, match="No space left"):
            (small_disk / "ballast").write_bytes(bytes(64 * 1024 * 1024))
        big = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big}}\ndata: {{a: {'b' * 200_000}}}\n"
        applied = namespace.arena("apply", "-f", "-", text=big)
        assert (applied.code, "the disk is full" in applied.err, "hint: free space" in applied.err) == (2, True, True)
        checkout.commit(bundle(answer="for 30 days"))
        pushed = checkout.push()
        assert pushed.code != 0
        assert "no space left on device" in pushed.err
        assert namespace.arena("get", "arenaprojects").code == 0
        (small_disk / "ballast").unlink()
        assert checkout.push().code == 0
        assert namespace.ended_run(count=2)["status"]["phase"] == "Succeeded"


def test_read_only_state(used_state: Path, tmp_path: Path) -> None:
    """A state directory on a read-only file system is refused."""
    state = copied(used_state, tmp_path / "state")
    script = f'mount --bind "{state}" "{state}" && mount -o remount,ro,bind "{state}" && shift && exec "$@"'
    probe = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", "x", "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"cannot bind-mount in a namespace: {probe.stderr.strip()}")
    done = start(state, tmp_path / "home", wrapper=["unshare", "-rm", "sh", "-c", script, "sh", "x"])
    assert_refused(done, state, "read-only", "--state")


def test_state_path_that_is_a_file(tmp_path: Path) -> None:
    """A state directory that is a file is refused."""
    (tmp_path / "state").write_text("x")
    done = start(tmp_path / "state", tmp_path / "home")
    assert done.code == 2
    assert "Traceback" not in done.err
    assert "--state" in done.err


def test_queue_server_that_cannot_start(tmp_path: Path) -> None:
    """A queue server that dies at its start is named with its last words and its log."""
    state = tmp_path / "state"
    (state / "queue" / "appendonlydir").mkdir(parents=True)
    (state / "queue" / "appendonlydir" / "appendonly.aof.manifest").write_text("no manifest at all\n")
    assert_refused(start(state, tmp_path / "home"), state, "queue server", "server.log")
