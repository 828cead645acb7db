"""Controllers and git servers that are killed, ended and replaced while runs are in flight: nothing is lost, and nothing is counted twice."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.installation import Installation, Replica, Team, installed
from tests.apiserver.objects import Object
from tests.e2e.bundles import bundle
from tests.e2e.installation import until

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(300, func_only=True)]
ITEMS = 40
UNRELEASED = timedelta(seconds=15)
"""So long a Lease holds that nobody has given back."""


@pytest.fixture(scope="module")
def arena(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Run an installation whose controllers come and go."""
    with installed(control_plane, tmp_path_factory.mktemp("installation"), controllers=0) as running:
        yield running


@pytest.fixture
def pair(arena: Installation) -> list[Replica]:
    """Return two controllers that live and are ready."""
    alive = [replica for replica in arena.controllers if replica.is_running]
    while len(alive) < 2:
        alive.append(arena.start_controller())
    return [replica.await_ready() for replica in alive]


@pytest.fixture
def team(arena: Installation, tmp_path: Path) -> Team:
    """Return a namespace that no other test uses."""
    return Team(arena, f"t-{uuid4().hex[:10]}", tmp_path)


def begin(team: Team, *jobs: str) -> None:
    """Have a run of each job work, for several seconds yet."""
    checkout = team.project()
    for job in jobs:
        team.job(job, workers={"concurrency": 2})
    team.push(checkout, bundle(trials=ITEMS, latency_ms=500))
    until(lambda: len([run for run in team.runs() if has_begun(run)]) == len(jobs), "every run to count its first item")


def has_begun(run: Object) -> bool:
    """Say whether an item of a run is counted."""
    return bool((run.get("status") or {}).get("progress", {}).get("completed"))


def check(team: Team, count: int) -> None:
    """Wait for the end of so many runs, and see that each item of each is there once."""
    runs = team.ended_runs(count)
    assert len(runs) == count
    for run in runs:
        assert (run["status"]["phase"], run["status"]["display"]["progress"]) == ("Succeeded", f"{ITEMS}/{ITEMS}"), run["status"]
        items = team.results(run)
        assert (len(items), len(set(items))) == (ITEMS, ITEMS)


def when(replica: Replica, event: str) -> datetime:
    """Return when a process logged an event for the first time."""
    return next(datetime.fromisoformat(str(line["timestamp"])) for line in replica.events() if line["event"] == event)


def test_a_leader_that_is_killed(arena: Installation, pair: list[Replica], team: Team) -> None:
    """When the leader is killed the standby goes on with its runs, as soon as the Lease has run out."""
    leader = arena.await_leader()
    assert leader in pair
    begin(team, "eval")
    leader.kill()
    standby = arena.await_leader(other_than=leader)
    assert standby in pair
    check(team, 1)


def test_a_leader_that_is_ended(arena: Installation, pair: list[Replica]) -> None:
    """A leader that is told to end gives its Lease back at once, is ready no more, and ends well; the standby need not wait for the Lease to run out."""
    leader = arena.await_leader()
    (standby,) = [replica for replica in pair if replica is not leader]
    assert leader.terminate() == 0
    assert arena.await_leader() is standby
    assert when(standby, "leader.elected") - when(leader, "process.stopping") < UNRELEASED / 2
    assert when(leader, "leader.released") < when(leader, "process.stopped")


def test_a_rolling_upgrade(arena: Installation, pair: list[Replica], team: Team) -> None:
    """When every controller and git server is replaced by a new one, runs in flight end as if nothing had happened, and new ones start."""
    begin(team, "one", "two")
    for old in (*pair, *[replica for replica in arena.git_servers if replica.is_running]):
        (arena.start_controller() if old in pair else arena.start_git_server()).await_ready()
        assert old.terminate() == 0
    team.job("three")
    check(team, 3)
