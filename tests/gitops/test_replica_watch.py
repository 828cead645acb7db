"""Replicas find out whether their locks reach one another."""

import asyncio
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from foundation.clock import FakeClock, SystemClock
from gitops.content import ContentVolume
from gitops.replica_watch import BEAT_S, FORGOTTEN_AFTER_BEATS, ReplicaWatch
from tests.gitops.conftest import until


@pytest.fixture
def volume(tmp_path: Path) -> ContentVolume:
    """An empty content volume."""
    return ContentVolume(tmp_path)


@pytest.fixture
def watch(volume: ContentVolume) -> ReplicaWatch:
    """The replica under test."""
    return ReplicaWatch(volume, SystemClock(), name="git-server-0")


def test_replicas_that_lock_see_no_problem(volume: ContentVolume, watch: ReplicaWatch) -> None:
    """Replicas that hold their locks are no problem to one another, however often they look."""
    other = ReplicaWatch(volume, SystemClock(), name="git-server-1")
    for _ in range(4):
        watch.beat()
        other.beat()
    assert (watch.problem, other.problem) == ("", "")
    assert len(list(volume.replicas.iterdir())) == 2
    watch.close()
    other.close()
    assert not list(volume.replicas.iterdir())


def test_counting_on_behind_a_free_lock_is_a_problem(volume: ContentVolume, watch: ReplicaWatch) -> None:
    """A replica whose lock is to be had and that counts on all the same is named; once its lock holds, the problem is over."""
    watch.beat()
    other = volume.replicas / "git-server-1-cafe.alive"
    other.write_text("000000000001\n")
    watch.beat()
    assert watch.problem == ""
    other.write_text("000000000002\n")
    watch.beat()
    assert watch.problem == "locks of the content volume do not reach git-server-1-cafe.alive"
    watch.beat()
    assert watch.problem
    with other.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        watch.beat()
    assert watch.problem == ""


def test_dead_replica_is_forgotten(volume: ContentVolume, watch: ReplicaWatch) -> None:
    """A replica that died is no problem, and its file goes after five minutes."""
    watch.beat()
    dead = volume.replicas / "git-server-1-cafe.alive"
    dead.write_text("000000000007\n")
    for _ in range(FORGOTTEN_AFTER_BEATS):
        watch.beat()
        assert dead.exists()
        assert watch.problem == ""
    watch.beat()
    assert not dead.exists()


async def test_unreadable_volume_is_a_problem_until_it_is_back(volume: ContentVolume) -> None:
    """While the volume cannot be written the replica says so; when it is back, it locks anew. In the end its file goes."""
    clock = FakeClock()
    watch = ReplicaWatch(volume, clock, name="git-server-0")
    volume.root.rmdir()
    volume.root.write_text("no directory")
    running = asyncio.create_task(watch.run())

    await until(lambda: "cannot be read or written" in watch.problem, "the problem")
    volume.root.unlink()
    volume.root.mkdir()
    await clock.advance(BEAT_S)
    await until(lambda: not watch.problem, "the volume")
    (own,) = volume.replicas.iterdir()
    descriptor = os.open(own, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not list(volume.replicas.iterdir())
    shutil.rmtree(volume.root)
