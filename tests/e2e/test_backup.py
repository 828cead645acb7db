"""A backup of a living installation, and what a second installation makes of it."""

import json
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arena.local.state import StateDirectory
from gitops.content import ContentVolume, ProjectKey
from reconcile.arena_run import finished
from reconcile.cluster.port import ARENA_PROJECT, ARENA_RUN
from reconcile.cluster.sqlite_reading import StoreReading
from tests.e2e.bundles import bundle
from tests.e2e.installation import ARENA, Checkout, Done, Namespace, clean_environment, descendants, lines_written, run_command, serving, until

pytestmark = pytest.mark.e2e
ITEMS = 40


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    """Return a folder for state directories and homes; whatever still runs on one at the end is killed."""
    (tmp_path / "home").mkdir()
    yield tmp_path
    for pid in descendants(str(tmp_path)):
        os.kill(pid, signal.SIGKILL)


def arena(folder: Path, *words: str) -> Done:
    """Run a command that needs no server."""
    return run_command([*ARENA, *words], environment=clean_environment(folder / "home"), cwd=folder)


@contextmanager
def pushing(checkout: Checkout) -> Iterator[list[str]]:
    """Push one commit after another until the block ends; the list is of those that arrived."""
    stopped, arrived = threading.Event(), list[str]()

    def push() -> None:
        while not stopped.is_set():
            commit = checkout.commit({"NOTES": str(len(arrived))})
            if checkout.push().code == 0:
                arrived.append(commit)

    thread = threading.Thread(target=push)
    thread.start()
    try:
        yield arrived
    finally:
        stopped.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_backup_of_a_living_installation(folders: Path) -> None:
    """A backup taken while a run goes on and pushes arrive is restored beside the original, and both end the run with every item counted once.

    An ended run shows the same results in the copy, and its repositories are whole.
    """
    archive = folders / "copy.tar.gz"
    with serving(folders / "state", folders / "home") as server:
        namespace = Namespace(server, "default", folders / "ada")
        checkout = namespace.project()
        namespace.job(spec={"workers": {"replicas": 2, "concurrency": 2}})
        checkout.commit(bundle(trials=2))
        assert checkout.push().code == 0
        ended = namespace.ended_run()
        slow = checkout.commit(bundle(trials=ITEMS, latency_ms=1500))  # it outlasts a backup on a busy machine
        assert checkout.push().code == 0
        busy = namespace.project("busy")
        with pushing(busy) as arrived:
            until((server.state.content / "default/default/arena/repos/busy.git/refs/heads/main").exists, "the first push")
            assert namespace.arena("run", "eval").code == 0
            until(lambda: items_begun(namespace) > 1, "the run to count its first items")
            taken = arena(folders, "backup", str(archive), "--state", str(server.state.root))
            seen = namespace.arena("doctor")
            assert seen.code == 0, seen.out
        assert (taken.code, "2 projects, 2 runs" in taken.out) == (0, True), taken.err
        assert archive.stat().st_mode & 0o777 == 0o600
        copy = folders / "copy"
        restored = arena(folders, "restore", str(archive), "--state", str(copy))
        assert restored.code == 0, restored.err
        assert_sound(StateDirectory(copy), server.state)
        with serving(copy, folders / "home") as second:
            assert_ends(Namespace(second, "default", folders / "eve"), slow, ended)
            assert second.stderr == ""
            seen = second.arena("doctor", "--verify-snapshots", "--verify-objects")
            assert seen.code == 0, seen.out
        assert_ends(namespace, slow, ended)
        assert arrived


def items_begun(namespace: Namespace) -> int:
    """Return how many items workers have written down for runs that go on."""
    return sum(lines_written(namespace.output(run)) for run in namespace.runs() if not finished(run))


def assert_sound(copy: StateDirectory, original: StateDirectory) -> None:
    """Check what was restored, before any server has touched it: whole repositories, private files, an id of its own, and nothing that is made again."""
    with StoreReading(copy.database) as store:
        assert sorted(run["status"]["phase"] for run in store.objects(ARENA_RUN)) == ["Running", "Succeeded"]
    for project in ("support", "busy"):
        repository = ContentVolume(copy.content).repository(ProjectKey("default", project))
        checked = subprocess.run(["git", "-C", str(repository), "fsck", "--full", "--strict"], capture_output=True, text=True, check=False)
        assert (checked.returncode, "missing" in checked.stdout + checked.stderr) == (0, False), checked.stderr
    assert copy.installation() != original.installation()
    owners = {marker.read_text().split()[1] for marker in copy.content.rglob(".owner")}
    assert owners == {copy.installation()}
    assert not (copy.root / "token").exists()
    assert [path for path in copy.root.iterdir() if path.name not in {"cluster.db", "content", "installation"}] == []
    assert list(copy.content.rglob("versions")) == []
    assert (copy.root.stat().st_mode & 0o777, copy.database.stat().st_mode & 0o777) == (0o700, 0o600)


def assert_ends(namespace: Namespace, commit: str, ended: dict[str, object]) -> None:
    """Check that the run of a commit ends with each item counted once, and that the run that had ended says what it said."""
    run = namespace.ended_run_of(commit)
    assert run["status"]["phase"] == "Succeeded", run["status"]
    lines = [json.loads(line) for line in (namespace.output(run) / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert Counter(line["item"] for line in lines) == Counter(f"s0/model/{trial}" for trial in range(1, ITEMS + 1))
    assert run["status"]["result"]["summary"]["passedItems"] == str(ITEMS)
    before = namespace.client.get(ARENA_RUN, namespace.name, ended["metadata"]["name"])  # type: ignore[index]
    assert before["status"]["result"] == ended["status"]["result"]  # type: ignore[index]
    assert len((namespace.output(before) / "results.jsonl").read_text(encoding="utf-8").splitlines()) == 2


def test_adopt_brings_a_repository_back(namespace: Namespace) -> None:
    """`arena project adopt` creates the project with the retained repository; of several it lists all and takes the one named; a project with commits is left alone."""
    none = namespace.arena("project", "adopt", "support")
    assert (none.code, "none is retained" in none.err) == (2, True)
    heads: dict[str, str] = {}
    for number in range(2):
        checkout = namespace.project()
        commit = checkout.commit({"NOTES": str(number)})
        assert checkout.push().code == 0
        uid = namespace.client.get(ARENA_PROJECT, namespace.name, "support")["metadata"]["uid"]
        assert namespace.arena("delete", "arenaproject", "support").code == 0
        heads[uid] = commit
    several = namespace.arena("project", "adopt", "support")
    assert (several.code, "--uid UID" in several.err, [uid for uid in heads if uid not in several.err]) == (2, True, [])
    uid, commit = next(iter(heads.items()))
    done = namespace.arena("project", "adopt", "support", "--uid", uid)
    assert (done.code, done.out) == (0, f"project support has its repository back: main is {commit[:12]}\n"), done.err
    assert namespace.client.get(ARENA_PROJECT, namespace.name, "support")["status"]["head"]["commit"] == commit
    refused = namespace.arena("project", "adopt", "support")
    assert (refused.code, "commits of its own" in refused.err) == (2, True)
