"""A team's own git host as the source: a real https server with a private authority, and a real `arena up`."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from reconcile.cluster.port import ARENA_PROJECT, EVENT, SECRET
from tests.e2e.bundles import bundle
from tests.e2e.installation import Namespace, until
from tests.mirror.https_host import HttpsHost, Upstream, https_host, is_installed

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsHost]:
    """Run one git host for this module."""
    if not is_installed():
        pytest.skip("nginx, fcgiwrap or git http-backend is not installed")
    with https_host(tmp_path_factory.mktemp("host") / "h") as running:
        yield running


@pytest.fixture
def team(host: HttpsHost, namespace: Namespace) -> Upstream:
    """A private repository of the host that no other test uses; its readers are in `users`."""
    host.users(reader="secret")
    return host.create(f"private/{namespace.name}")


def files(**options: Any) -> dict[str, bytes]:
    """Return a bundle as the host's repositories take it."""
    return {name: text.encode() for name, text in bundle(**options).items()}


def secret(namespace: Namespace, name: str, **data: str) -> None:
    """Create or change the Secret of a remote."""
    body = {"data": {key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()}}
    if namespace.client.find(SECRET, namespace.name, name):
        namespace.client.patch(SECRET, namespace.name, name, body)
    else:
        namespace.client.create(SECRET, namespace.name, {"metadata": {"name": name}, **body})


def mirror(namespace: Namespace, host: HttpsHost, team: Upstream, **external: Any) -> None:
    """Create the project that mirrors the team's repository, with its Secret."""
    secret(namespace, "read", username="reader", password="secret", ca_crt=host.ca_certificates)
    spec = {"external": {"url": team.url, "secretRef": {"name": "read"}, **external}}
    namespace.client.create(ARENA_PROJECT, namespace.name, {"metadata": {"name": "support"}, "spec": spec})


def condition(namespace: Namespace, kind: str) -> Mapping[str, str]:
    """Return a condition of the project, empty while there is none."""
    status = namespace.client.get(ARENA_PROJECT, namespace.name, "support").get("status") or {}
    return next((found for found in status.get("conditions", []) if found["type"] == kind), {})


@pytest.mark.slow
def test_from_a_push_elsewhere_to_a_verdict(namespace: Namespace, host: HttpsHost, team: Upstream) -> None:
    """A push to the team's host is fetched, runs, and has its verdict, which names remote, branch and commit; also on a branch that comes later."""
    team.commit(files=files())
    mirror(namespace, host, team)
    namespace.job(spec={"onPush": {"branches": ["**"]}})
    namespace.ended_run()
    commit = team.commit("topic", files(answer="never"))
    assert namespace.arena("sync", "support", "--wait").code == 0
    run = namespace.ended_run_of(commit)
    source = run["status"]["source"]
    assert (source["repository"], source["ref"], source["commit"]) == (team.url, "refs/heads/topic", commit)
    assert run["status"]["phase"] == "Failed"
    assert commit[:12] in namespace.arena("show", run["metadata"]["name"]).out


@pytest.mark.slow
def test_a_host_that_goes_and_comes_back(namespace: Namespace, host: HttpsHost, team: Upstream) -> None:
    """While the host fails, runs go on with what is mirrored and say so; when it is back the next sync ends it, without help."""
    commit = team.commit(files=files())
    mirror(namespace, host, team)
    namespace.job(spec={"ref": "main"})
    namespace.ended_run()
    with host.answering(team.name, 503):
        done = namespace.arena("sync", "support", "--wait")
        assert (done.code, "RemoteUnreachable" in done.err) == (2, True), done.err
        assert (condition(namespace, "Ready")["status"], condition(namespace, "FetchFailed")["status"]) == ("True", "True")
        assert namespace.arena("run", "eval", "--ref", commit, "--wait").code == 0
    assert namespace.arena("sync", "support", "--wait").code == 0
    assert condition(namespace, "FetchFailed")["status"] == "False"


@pytest.mark.slow
def test_a_rotated_secret(namespace: Namespace, host: HttpsHost, team: Upstream) -> None:
    """A password that the host no longer takes is AuthenticationFailed; the new one in the Secret is enough, nobody asks for a fetch."""
    team.commit(files=files())
    mirror(namespace, host, team)
    until(lambda: condition(namespace, "Ready").get("status") == "True", "the first fetch")
    host.users(reader="changed")
    assert "AuthenticationFailed" in namespace.arena("sync", "support", "--wait").err
    secret(namespace, "read", password="changed")
    until(lambda: condition(namespace, "FetchFailed")["status"] == "False", "the rotated Secret to be used", deadline_s=45.0)
    everything = [namespace.client.list(kind, namespace.name)["items"] for kind in (ARENA_PROJECT, EVENT)]
    assert all(word not in f"{everything}{namespace.server.stderr}" for word in ("changed", "Basic "))


@pytest.mark.slow
def test_an_empty_repository_waits_for_its_first_push(namespace: Namespace, host: HttpsHost, team: Upstream) -> None:
    """The run is Pending with RemoteEmpty, and starts at the first push that a sync finds."""
    mirror(namespace, host, team)
    namespace.job()
    until(lambda: condition(namespace, "Ready").get("reason") == "RemoteEmpty", "the empty remote to be seen")
    commit = team.commit(files=files())
    namespace.arena("sync", "support")
    assert namespace.ended_run()["status"]["source"]["commit"] == commit


@pytest.mark.slow
def test_a_mirror_is_read_and_not_pushed_to(namespace: Namespace, host: HttpsHost, team: Upstream) -> None:
    """Git fetches from a mirror like from any repository; a push is refused in one line that says where to push."""
    commit = team.commit(files=files())
    mirror(namespace, host, team)
    until(lambda: condition(namespace, "Ready").get("status") == "True", "the first fetch")
    checkout = namespace.checkout()
    assert namespace.git.run("ls-remote", checkout.url, "refs/heads/main", cwd=checkout.folder).split()[0] == commit
    checkout.commit(bundle())
    refused = checkout.push()
    assert (refused.code != 0, f"it mirrors {team.url}" in refused.err) == (True, True), refused.err
