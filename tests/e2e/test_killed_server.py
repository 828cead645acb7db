"""What is left when `arena up` is killed in the middle of a run, what the next one does with it, and what a clean stop leaves."""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from arena.local.processes import Processes
from reconcile.cluster.port import ARENA_RUN
from tests.e2e.bundles import bundle
from tests.e2e.installation import ARENA, Namespace, Server, clean_environment, descendants, lines_written, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
ITEMS, LATENCY_MS = 56, 600  # four seconds of two workers, in which each test does what it does
LEASE = {"ARENA_LEASE_SECONDS": "2"}
"""What a dead worker had begun is due again after so long."""


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Return a state directory and a home; whatever still runs on the state directory at the end is killed."""
    home = tmp_path / "home"
    home.mkdir()
    yield tmp_path / "state", home
    for pid in descendants(str(tmp_path / "state")):
        os.kill(pid, signal.SIGKILL)


def begin(server: Server, folder: Path, *, concurrency: int = 4) -> tuple[Namespace, Path]:
    """Push a slow bundle and return, with the directory of the results, when its run has counted an item and has more to do."""
    namespace = Namespace(server, "default", folder)
    checkout = namespace.project()
    checkout.commit(bundle(trials=ITEMS, latency_ms=LATENCY_MS))
    namespace.job(spec={"workers": {"replicas": 2, "concurrency": concurrency}})
    assert checkout.push().code == 0
    output = namespace.output(until(namespace.runs, "the run to start")[0])
    until(lambda: lines_written(output), "the first item to end")
    return namespace, output


def workers_of(state: Path) -> list[int]:
    """Return the worker processes of a state directory that have a run."""
    processes = Processes(state / "processes")
    slots = [(uid, record) for uid in processes.owners() for record in processes.records(uid)]
    return [record.pid for uid, record in slots if processes.running(uid, record)]


def assert_whole(namespace: Namespace) -> None:
    """Check that the run has passed and that each of its items has one line."""
    run = namespace.ended_run()
    assert run["status"]["phase"] == "Succeeded", run["status"]
    lines = [json.loads(line) for line in (namespace.output(run) / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert Counter(line["item"] for line in lines) == Counter(f"s0/model/{trial}" for trial in range(1, ITEMS + 1))
    assert {line["verdict"] for line in lines} == {"pass"}
    summary = run["status"]["result"]["summary"]
    assert (summary["totalItems"], summary["passedItems"]) == (str(ITEMS), str(ITEMS))


def test_run_survives_a_killed_server(folders: tuple[Path, Path]) -> None:
    """After kill -9 of the server the next one finds workers and queue, and the run ends with every item counted once."""
    state, home = folders
    first = Server(state, home, environment=LEASE)
    _, output = begin(first, home / "ada")
    first.kill()
    assert lines_written(output) < ITEMS
    assert descendants(f"{state}/queue"), "the queue server outlives a killed parent"
    orphaned = first.arena("get", "arenaruns")
    assert (orphaned.code, "none runs on state directory" in orphaned.err, "hint: start one with `arena up`" in orphaned.err) == (2, True, True)
    second = Server(state, home, environment=LEASE)
    try:
        namespace = Namespace(second, "default", home / "eve")
        assert_whole(namespace)
        assert second.stderr == ""
    finally:
        code = second.stop()
    assert code == 0
    assert until(lambda: descendants(str(state)) == [], "every process to end")


def test_run_survives_killed_workers_and_queue(folders: tuple[Path, Path]) -> None:
    """After kill -9 of the server, of all workers and of the queue server the run still ends with every item counted once."""
    state, home = folders
    first = Server(state, home, environment=LEASE)
    _, output = begin(first, home / "ada")
    first.kill()
    for pid in descendants(str(state)):
        os.kill(pid, signal.SIGKILL)
    until(lambda: descendants(str(state)) == [], "the killed to be gone")
    assert lines_written(output) < ITEMS
    second = Server(state, home, environment=LEASE)
    try:
        assert_whole(Namespace(second, "default", home / "eve"))
    finally:
        second.stop()
    assert until(lambda: descendants(str(state)) == [], "every process to end")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "ctrl-c"])
def test_clean_stop_in_the_middle_of_a_run(folders: tuple[Path, Path], number: signal.Signals) -> None:
    """A stop ends workers and queue server within seconds without a word, though a watch is open; the next start ends the run."""
    state, home = folders
    first = Server(state, home, environment=LEASE)
    namespace, output = begin(first, home / "ada")
    watch = namespace.client.watch(ARENA_RUN, "default", namespace.runs()[0]["metadata"]["resourceVersion"])
    next(watch)
    begun = time.monotonic()
    assert first.stop(number) == 0
    assert time.monotonic() - begun < 25
    list(watch)
    assert descendants(str(state)) == []
    assert lines_written(output) < ITEMS
    assert first.stderr == ""
    assert not (state / "server.json").exists()
    second = Server(state, home, environment=LEASE)
    try:
        assert_whole(Namespace(second, "default", home / "eve"))
    finally:
        second.stop()


def test_stop_while_starting(folders: tuple[Path, Path]) -> None:
    """A server that is told to stop before it is up leaves nothing behind, not even the queue server that it had just started."""
    state, home = folders
    process = subprocess.Popen(
        [*ARENA, "up", "--port", "0", "--state", str(state)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(home)
    )
    until(lambda: descendants(f"{state}/queue"), "the queue server to start")
    process.terminate()
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert until(lambda: descendants(str(state)) == [], "every process to end")


def test_killed_worker_is_replaced(folders: tuple[Path, Path]) -> None:
    """A worker that is killed is started again, and its items are counted once."""
    state, home = folders
    server = Server(state, home, environment=LEASE)
    try:
        namespace, _ = begin(server, home / "ada")
        victims = until(lambda: workers_of(state), "workers")
        os.kill(victims[0], signal.SIGKILL)
        assert_whole(namespace)
    finally:
        server.stop()
