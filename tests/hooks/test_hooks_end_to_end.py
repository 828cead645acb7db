"""From a delivery to a mirrored commit: a real git host, a real server, nothing between them that waits for a poll."""

import base64
import hashlib
import hmac
import http.client
import json
import shutil
import tempfile
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reconcile.cluster.port import ARENA_PROJECT, SECRET
from reconcile.kinds.names import REQUESTED_SYNC
from tests.e2e.installation import Server, serving, until
from tests.mirror.https_host import HttpsHost, Upstream, https_host, is_installed

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.skipif(not is_installed(), reason="nginx, fcgiwrap and git http-backend are needed")]

VALUE = b"between the two of us"
NAMESPACE = "team"


@pytest.fixture(scope="module")
def host() -> Iterator[HttpsHost]:
    """Run a git host."""
    folder = Path(tempfile.mkdtemp(prefix="hooks-"))
    try:
        with https_host(folder / "git") as found:
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run an installation that may mirror from this machine."""
    folder = tmp_path_factory.mktemp("arena")
    with serving(folder / "state", folder / "home", "--allow-network", "127.0.0.0/8") as found:
        yield found


class Mirrored:
    """A project that would poll in an hour, and its remote."""

    def __init__(self, server: Server, host: HttpsHost, name: str) -> None:
        self.server = server
        self.name = name
        self.upstream: Upstream = host.create(name)
        self.url = host.url(name, host="127.0.0.1")
        self.head = self.upstream.commit()
        secrets = ((f"{name}-remote", "ca.crt", host.ca_certificates.encode()), (f"{name}-hook", "secret", VALUE))
        for secret, key, value in secrets:
            server.client.create(SECRET, NAMESPACE, {"metadata": {"name": secret}, "data": {key: base64.b64encode(value).decode()}})
        webhook = {"host": "gitea", "secretRef": {"name": f"{name}-hook", "key": "secret"}}
        external = {"url": self.url, "secretRef": {"name": f"{name}-remote"}, "pollInterval": "1h", "webhook": webhook}
        server.client.create(ARENA_PROJECT, NAMESPACE, {"metadata": {"name": name}, "spec": {"external": external}})
        self.await_head(self.head)

    def status(self) -> dict[str, Any]:
        """Return the project's status."""
        found: dict[str, Any] = self.server.client.get(ARENA_PROJECT, NAMESPACE, self.name).get("status") or {}
        return found

    def await_head(self, commit: str) -> None:
        """Wait until the project has come to a commit."""
        until(lambda: (self.status().get("head") or {}).get("commit") == commit, f"{self.name} at {commit[:12]}")

    def deliver(self, ref: str, path: str = "") -> str:
        """Deliver a push of a ref and return the request that it became."""
        body = json.dumps({"ref": ref, "before": "0" * 40, "after": "0" * 40, "repository": {"clone_url": self.url}}).encode()
        signature = hmac.new(VALUE, body, hashlib.sha256).hexdigest()
        address = urllib.parse.urlsplit(self.server.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        headers = {"Content-Type": "application/json", "X-Gitea-Event": "push", "X-Gitea-Signature": signature, "Connection": "close"}
        connection.request("POST", path or f"/hooks/gitea/{NAMESPACE}/{self.name}", body, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        assert response.status == 202, answer
        sync: str = answer["requested"][0]["sync"]
        return sync

    def is_asked(self) -> bool:
        """Say whether a request waits for its answer."""
        found = self.server.client.get(ARENA_PROJECT, NAMESPACE, self.name)
        return bool(found["metadata"]["annotations"][REQUESTED_SYNC] != found["status"].get("lastHandledSync"))

    def await_answer(self, sync: str) -> None:
        """Wait until a request has been answered."""
        until(lambda: self.status().get("lastHandledSync") == sync, f"the answer to {sync}")


def test_a_delivery_is_a_fetch(server: Server, host: HttpsHost) -> None:
    """A new commit is mirrored at its delivery, an hour before the poll."""
    project = Mirrored(server, host, "prompts")
    commit = project.upstream.commit()
    project.await_answer(project.deliver("refs/heads/main"))
    project.await_head(commit)


def test_lost_late_and_repeated_deliveries(server: Server, host: HttpsHost) -> None:
    """A delivery that is lost is made good by any later one, one that comes late or again changes nothing, and zero SHAs are never believed."""
    project = Mirrored(server, host, "lossy")
    for _ in range(3):
        commit = project.upstream.commit()  # of three pushes, two deliveries are lost
    project.await_answer(project.deliver("refs/heads/feature/with/slashes"))
    project.await_head(commit)
    for ref in ("refs/heads/main", "refs/heads/main", "refs/tags/gone", ""):
        project.await_answer(project.deliver(ref))
    assert project.status()["head"]["commit"] == commit
    assert project.upstream.refs() == {"refs/heads/main": commit}


def test_new_branches_and_tags(server: Server, host: HttpsHost) -> None:
    """Tags and branches, made and removed, are followed at their delivery to the host's own address."""
    project = Mirrored(server, host, "branched")
    project.upstream.commit("feature/x")
    project.upstream.set_ref("refs/tags/v1", project.head)
    project.await_answer(project.deliver("refs/tags/v1", "/hooks/gitea"))
    refs = project.status()["refs"]
    assert (refs["branches"], refs["tags"]) == (2, 1)
    project.upstream.delete_ref("refs/heads/feature/x")
    project.await_answer(project.deliver("refs/heads/feature/x", "/hooks/gitea"))
    assert project.status()["refs"]["branches"] == 1


def test_ten_deliveries_are_a_look_and_one_more(server: Server, host: HttpsHost) -> None:
    """What comes while the remote is looked at is one more look, however much it is."""
    project = Mirrored(server, host, "flooded")
    before = looks(host, "flooded")
    with host.answering("flooded", "slow"), ThreadPoolExecutor(10) as senders:
        requests = set(senders.map(project.deliver, ["refs/heads/main"] * 10))
        until(lambda: project.status().get("lastHandledSync") in requests and not project.is_asked(), "the answer to the last request")
    assert 1 <= looks(host, "flooded") - before <= 3


def looks(host: HttpsHost, name: str) -> int:
    """Return how often a repository's refs were asked for."""
    return len([line for line in host.requests(name) if "/info/refs" in line])
