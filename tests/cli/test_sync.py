"""`arena sync` and what `arena up` takes of networks: what they say and refuse."""

from pathlib import Path

import pytest

from reconcile.cluster.port import ARENA_PROJECT
from reconcile.kinds.names import REQUESTED_SYNC
from tests.e2e.bundles import bundle
from tests.e2e.installation import ARENA, Namespace, clean_environment, run_command, until

pytestmark = pytest.mark.e2e


def test_sync_waits_for_what_it_asked(namespace: Namespace) -> None:
    """With --wait the command returns when its own request was answered, and says what the default branch is."""
    checkout = namespace.project()
    commit = checkout.commit(bundle())
    checkout.push()
    done = namespace.arena("sync", "support", "--wait")
    assert (done.code, done.out) == (0, f"support: main is {commit[:12]} (branches 1, tags 0)\n"), done.err
    found = namespace.client.get(ARENA_PROJECT, namespace.name, "support")
    assert found["status"]["lastHandledSync"] == found["metadata"]["annotations"][REQUESTED_SYNC]


def test_sync_without_wait_returns_at_once(namespace: Namespace) -> None:
    """The request is stamped, and the line that shows its outcome is said."""
    namespace.project()
    done = namespace.arena("sync", "support")
    assert (done.code, done.out, done.err) == (0, "support is being synced\n", f"  arena describe ap support -n {namespace.name}\n")
    until(lambda: namespace.client.get(ARENA_PROJECT, namespace.name, "support").get("status", {}).get("lastHandledSync"), "the request's answer")


@pytest.mark.parametrize(
    ("spec", "words", "said"),
    [
        pytest.param(None, [], "cannot find", id="a project that is not there"),
        pytest.param({"hosted": {}, "suspend": True}, [], "it is suspended", id="a suspended project"),
        pytest.param({"hosted": {}}, ["--wait"], "RepositoryEmpty: no commit yet", id="a project without a commit"),
        pytest.param(
            {"external": {"url": "https://10.255.255.1/team/p.git"}}, ["--wait"], "RemoteUnreachable", id="a remote in a network that is not allowed"
        ),
        pytest.param(
            {"external": {"url": "https://localhost/p.git", "secretRef": {"name": "none"}}},
            ["--wait"],
            "AuthenticationFailed: Secret 'none' does not exist",
            id="a Secret that is not there",
        ),
    ],
)
def test_sync_refuses(namespace: Namespace, spec: dict[str, object] | None, words: list[str], said: str) -> None:
    """What cannot be synced exits 2 with the reason of the project's status."""
    if spec is not None:
        namespace.client.create(ARENA_PROJECT, namespace.name, {"metadata": {"name": "support"}, "spec": spec})
    done = namespace.arena("sync", "support", *words)
    assert (done.code, said in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        pytest.param(["--allow-network", "10.1.2.3/8"], {}, "'10.1.2.3/8': 10.1.2.3/8 has host bits set", id="bits beyond the mask, on the line"),
        pytest.param([], {"ARENA_ALLOW_NETWORK": "10.0.0.0/8 all"}, "'all': 'all' does not appear", id="no network, in the environment"),
    ],
)
def test_a_network_that_cannot_be_read(tmp_path: Path, words: list[str], environment: dict[str, str], said: str) -> None:
    """`arena up` does not start with a network that it cannot read, and touches no state."""
    done = run_command([*ARENA, "up", "--state", str(tmp_path / "state"), *words], environment=clean_environment(tmp_path, **environment))
    assert (done.code, said in done.err) == (2, True), done.err
    assert not (tmp_path / "state").exists()
