"""Arena as a cluster runs it, from push to verdict: real controllers, git servers, workers, Job controller and API server."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.installation import Installation, Team, installed
from tests.apiserver.server_fixture import REAL
from tests.e2e.bundles import bundle

pytestmark = [*REAL, pytest.mark.e2e]


@pytest.fixture(scope="module")
def arena(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Run one installation for the tests that do not harm it."""
    with installed(control_plane, tmp_path_factory.mktemp("installation")) as running:
        yield running


@pytest.fixture
def team(arena: Installation, tmp_path: Path) -> Team:
    """Return a namespace that no other test uses."""
    return Team(arena, f"t-{uuid4().hex[:10]}", tmp_path)


def test_from_a_push_to_a_verdict(team: Team) -> None:
    """A push over git starts a run, whose pods work it to its verdict."""
    checkout = team.project()
    team.job(trials=3, workers={"replicas": 2})
    commit = checkout.commit(bundle(trials=3))
    pushed = checkout.push()
    assert pushed.code == 0, pushed.err
    (run,) = team.ended_runs()
    assert (run["status"]["phase"], run["status"]["display"]["progress"]) == ("Succeeded", "3/3"), run["status"]
    assert run["status"]["source"]["commit"] == commit
