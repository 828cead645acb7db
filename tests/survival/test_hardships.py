"""What the queue's store may do to a whole installation while a run goes: fall silent, fill up, drop keys, die, forget its last second."""

import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from bench.accounts import account_of
from engine.items import RunUID
from engine.queue.keys import run_keys, run_user
from engine.queue.processes import is_running
from tests.e2e.bundles import bundle
from tests.e2e.installation import until
from tests.survival.doomed import Doomed
from tests.survival.scenarios import SLOW, Scene, new_scene

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
ITEMS = 30
LATENCY_MS = 150
SILENCE_MS = 2500
"""Longer than two leases."""
CUTS = 4
SEED = 20261129


def begun(scene: Scene) -> dict[str, Any]:
    """Begin a run of many short items, and return it when the first has a line."""
    scene.push(scene.project(), bundle(trials=ITEMS, latency_ms=LATENCY_MS))
    scene.job(workers={**SLOW, "replicas": 2})
    return scene.begun_run()


def assert_whole(scene: Scene) -> None:
    """Check that the run ends, and that it counts each item once."""
    run = scene.ended_run()
    account = account_of(run, scene.volume.run(scene.namespace, run["metadata"]["name"]))
    assert account.phase == "Succeeded", run["status"]["conditions"]
    assert account.counts == Counter(f"s0/model/{trial}" for trial in range(1, ITEMS + 1))
    assert account.sums["progress"] == {"total": ITEMS, "completed": ITEMS, "failed": 0, "pending": 0}
    assert account.sums["status passedItems"] == str(ITEMS)


def more_lines(scene: Scene, run: Mapping[str, Any], count: int = 2) -> None:
    """Wait until the workers have written some more lines; or have nothing left to write."""
    goal = min(ITEMS, scene.lines(run) + count)
    scene.doomed.until(lambda: scene.lines(run) >= goal, f"{goal} lines")


def keep_silent(scene: Scene, run: Mapping[str, Any]) -> None:
    """Answer nobody for longer than two leases."""
    with scene.store() as store:
        store.execute_command("CLIENT", "PAUSE", SILENCE_MS, "ALL")
    more_lines(scene, run)


def fill_up(scene: Scene, run: Mapping[str, Any]) -> None:
    """Refuse every write for a while."""
    with scene.store() as store:
        store.config_set("maxmemory", "1mb")
        assert store.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
        scene.doomed.until(lambda: store.info("errorstats").get("errorstat_OOM"), "a write to be refused")
        store.config_set("maxmemory", "0")
    more_lines(scene, run)


def drop_keys(scene: Scene, run: Mapping[str, Any]) -> None:
    """Drop each key of the run, one after the other, as a store that evicts would."""
    keys = run_keys(scene.doomed.server.state.installation(), RunUID(run["metadata"]["uid"]))
    with scene.store() as store:
        for key in keys.all():
            if key != keys.settled:
                store.delete(key)
                more_lines(scene, run)


def die(scene: Scene, run: Mapping[str, Any]) -> None:
    """Die by kill -9, twice. The users of runs die with the store, and the workers come back as the user that is made anew."""
    user = run_user(scene.doomed.server.state.installation(), RunUID(run["metadata"]["uid"]))
    for _ in range(2):
        scene.doomed.until(lambda: user in clients(scene), "the workers to come as the run's user")
        os.kill(scene.queue_server(), signal.SIGKILL)
        more_lines(scene, run)


def clients(scene: Scene) -> set[str]:
    """Return the users of the store's clients; none while it does not answer."""
    with contextlib.suppress(redis.RedisError), scene.store() as store:
        return {client["user"] for client in store.client_list()}
    return set()


def gone(pid: int) -> bool:
    """Say whether a process has ended."""
    return not is_running(pid)


def forget_the_last_second(scene: Scene, run: Mapping[str, Any]) -> None:
    """Die and lose the end of the append-only file, cut at random places, again and again."""
    chance = random.Random(SEED)  # noqa: S311 - a repeatable choice
    folder = scene.doomed.server.state.queue
    for _ in range(CUTS):
        server, pid = scene.doomed.server.process.pid, scene.queue_server()
        os.kill(server, signal.SIGSTOP)  # it would start the store again before the file is cut
        try:
            os.kill(pid, signal.SIGKILL)
            until(partial(gone, pid), "the store to end")
            (log,) = (folder / "appendonlydir").glob("*.incr.aof")
            size = log.stat().st_size
            os.truncate(log, max(0, size - chance.randrange(1, 20_000)))
        finally:
            os.kill(server, signal.SIGCONT)
        more_lines(scene, run)


HARDSHIPS = [
    pytest.param(keep_silent, id="slow"),
    pytest.param(fill_up, id="full"),
    pytest.param(drop_keys, id="evicting"),
    pytest.param(die, id="restarted"),
    pytest.param(forget_the_last_second, id="its last second lost"),
]


@pytest.mark.parametrize("hardship", HARDSHIPS)
def test_a_run_survives_its_queues_store(doomed: Doomed, tmp_path: Path, hardship: Callable[[Scene, Mapping[str, Any]], None]) -> None:
    """Whatever the store does, the run ends with every item counted once, and its sums are those of its records."""
    scene = new_scene(doomed, tmp_path)
    hardship(scene, begun(scene))
    assert_whole(scene)


def test_a_store_of_unsafe_settings_is_named(doomed: Doomed, tmp_path: Path) -> None:
    """Redis must be noeviction and append-only; otherwise a Warning, and `arena doctor` says so."""
    scene = new_scene(doomed, tmp_path)
    with scene.store() as store:
        store.config_set("maxmemory-policy", "allkeys-lru")
        try:
            scene.push(scene.project(), bundle())
            scene.job()
            scene.ended_run()
            told = [event["message"] for event in scene.events() if event["reason"] == "QueueUnsafe"]
            seen = doomed.server.arena("doctor")
        finally:
            store.config_set("maxmemory-policy", "noeviction")
    assert told
    assert "noeviction" in told[0]
    assert "noeviction" in seen.out + seen.err, seen.out + seen.err
