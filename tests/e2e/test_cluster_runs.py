"""Arena as a cluster runs it, from push to verdict: real controllers, git servers, workers, Job controller and API server."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, JOB, NAMESPACE, POD
from reconcile.kinds.names import REQUESTED_RUN, WORKSPACE_LABEL
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.installation import Installation, Team, installed
from tests.e2e.bundles import bundle
from tests.e2e.installation import until

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(300, func_only=True)]


@pytest.fixture(scope="module")
def arena(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Run one installation for the tests that do not harm it."""
    with installed(control_plane, tmp_path_factory.mktemp("installation")) as running:
        yield running


@pytest.fixture
def team(arena: Installation, tmp_path: Path) -> Team:
    """Return a namespace that no other test uses."""
    return Team(arena, unused_name(), tmp_path)


def unused_name() -> str:
    """Return a namespace's name."""
    return f"t-{uuid4().hex[:10]}"


def test_from_a_push_to_a_verdict(team: Team) -> None:
    """A push over git starts a run, whose pods work it to its verdict."""
    checkout = team.project()
    team.job(trials=3, workers={"replicas": 2})
    commit = team.push(checkout, bundle(trials=3))
    (run,) = team.ended_runs()
    assert (run["status"]["phase"], run["status"]["display"]["progress"]) == ("Succeeded", "3/3"), run["status"]
    assert run["status"]["source"]["commit"] == commit
    assert len(set(team.results(run))) == 3


def test_every_git_server_has_every_repository(arena: Installation, team: Team) -> None:
    """What one git server took, another one gives out."""
    first, second = arena.git_servers[:2]
    team.project()
    checkout = team.checkout(server=first)
    commit = team.push(checkout, bundle())
    other = team.checkout(server=second)
    assert other.git.run("ls-remote", other.url, "refs/heads/main").split()[0] == commit
    team.push(checkout, bundle(answer="never"))
    assert other.git.attempt("push", other.url, f"{commit}:refs/heads/main", cwd=checkout.folder).code != 0


def test_who_may_not_push(arena: Installation, team: Team) -> None:
    """A caller whom the API server does not know is not let in."""
    checkout = team.project()
    checkout.commit(bundle())
    checkout.url = checkout.url.replace("admin-token", "nobody-s-token")
    refused = checkout.push()
    assert refused.code != 0
    assert "Authentication failed" in refused.err
    assert arena.git_servers[0].ask().is_ready


def test_a_run_that_is_cancelled(team: Team) -> None:
    """A cancelled run ends long before its work would have been done, and its pods with it."""
    checkout = team.project()
    team.job()
    team.push(checkout, bundle(trials=200, latency_ms=2000))
    name = until(
        lambda: next((run["metadata"]["name"] for run in team.runs() if (run.get("status") or {}).get("phase") == "Running"), ""), "a run to work"
    )
    team.objects.patch(ARENA_RUN, team.name, name, {"spec": {"cancelled": True}})
    (run,) = team.ended_runs()
    assert run["status"]["phase"] == "Cancelled"
    until(lambda: not team.objects.list(JOB, team.name) and not team.objects.list(POD, team.name), "the workers to go")


def test_what_is_deleted_goes(team: Team) -> None:
    """A deleted run takes its directory along, also while it works; a deleted project ends with its sources gone and its repository retained."""
    checkout = team.project()
    team.job()
    team.push(checkout, bundle(trials=200, latency_ms=2000))
    name = until(
        lambda: next((run["metadata"]["name"] for run in team.runs() if (run.get("status") or {}).get("phase") == "Running"), ""), "a run to work"
    )
    team.objects.delete(ARENA_RUN, team.name, name)
    until(lambda: team.objects.find(ARENA_RUN, team.name, name) is None, "the run to go")
    assert not team.volume.run(team.name, name).exists()
    team.objects.delete(ARENA_JOB, team.name, "eval")
    uid = team.objects.get(ARENA_PROJECT, team.name, "support")["metadata"]["uid"]
    team.objects.delete(ARENA_PROJECT, team.name, "support")
    until(lambda: team.objects.find(ARENA_PROJECT, team.name, "support") is None, "the project to go")
    assert not checkout.repository.exists()
    assert [path.name for path in (checkout.repository.parent / ".retained").iterdir()] == [f"support-{uid}.git"]
    until(lambda: not team.objects.list(JOB, team.name) and not team.objects.list(POD, team.name), "the workers to go")


def test_history_is_pruned(team: Team) -> None:
    """Of the runs that succeeded the newest stay, as many as the job wants; the others leave their summaries."""
    checkout = team.project()
    team.job(successfulRunsHistoryLimit=1)
    team.push(checkout, bundle())
    (first,) = team.ended_runs()
    team.objects.patch(ARENA_JOB, team.name, "eval", {"metadata": {"annotations": {REQUESTED_RUN: "again"}}})
    until(lambda: team.objects.find(ARENA_RUN, team.name, first["metadata"]["name"]) is None, "the first run to be pruned")
    (second,) = team.ended_runs()
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert not team.volume.run(team.name, first["metadata"]["name"]).exists()
    assert [path.name.partition(".")[0] for path in team.volume.history(team.name, "eval").iterdir()]


def test_a_namespace_of_a_workspace(arena: Installation, tmp_path: Path) -> None:
    """The content of a namespace lies with its workspace's, as all processes see it; a label that changes later moves nothing away."""
    workspace = unused_name()
    team = Team(arena, unused_name(), tmp_path, labels={WORKSPACE_LABEL: workspace})
    checkout = team.project()
    assert checkout.repository.is_relative_to(arena.content / workspace / team.name)
    team.objects.patch(NAMESPACE, "", team.name, {"metadata": {"labels": {WORKSPACE_LABEL: "elsewhere"}}})
    team.job()
    team.push(checkout, bundle())
    (run,) = team.ended_runs()
    assert run["status"]["phase"] == "Succeeded"
    assert len(team.results(run)) == 1
    assert not (arena.content / "elsewhere").exists()
