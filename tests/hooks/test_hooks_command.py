"""`arena hooks test`, and webhooks over the wire: a real server, a real connection."""

import base64
import hashlib
import hmac
import http.client
import json
import socket
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from arena.cli.client import Client
from reconcile.cluster.port import ARENA_PROJECT, SECRET
from reconcile.kinds.names import REQUESTED_SYNC
from tests.e2e.installation import Namespace

pytestmark = pytest.mark.e2e

URL = "https://git.example.com/team/prompts.git"
VALUE = "hunter2-hunter2-hunter2"


def subscribe(client: Client, namespace: str, host: str, **spec: Any) -> None:
    """Create a project with a webhook, and its Secret."""
    webhook = {"host": host, "secretRef": {"name": "hook", "key": "secret"}}
    client.create(ARENA_PROJECT, namespace, {"metadata": {"name": "prompts"}, "spec": {"external": {"url": URL, "webhook": webhook}, **spec}})
    client.create(SECRET, namespace, {"metadata": {"name": "hook"}, "data": {"secret": base64.b64encode(f"{VALUE}\n".encode()).decode()}})


def stamp(client: Client, namespace: str) -> str | None:
    """Return what the project was asked for."""
    value: str | None = (client.get(ARENA_PROJECT, namespace, "prompts")["metadata"].get("annotations") or {}).get(REQUESTED_SYNC)
    return value


def test_a_sample(namespace: Namespace) -> None:
    """A sample is taken like a delivery, asks for a fetch, and shows no secret, also where the host sends it as it is."""
    host = "gitlab"
    subscribe(namespace.client, namespace.name, host)
    done = namespace.arena("hooks", "test", "prompts")
    assert done.code == 0, done.err
    assert done.out == f"202 accepted: {host} asked project prompts for a fetch, {stamp(namespace.client, namespace.name)}\n"
    assert done.err == f"POST {namespace.server.url}/hooks/{host}/{namespace.name}/prompts\n  arena describe ap prompts -n {namespace.name}\n"
    assert VALUE not in done.out + done.err + namespace.server.stderr


def test_a_suspended_project_is_said_to_be(namespace: Namespace) -> None:
    """A suspended project takes the sample, and the command says that nothing is fetched yet."""
    subscribe(namespace.client, namespace.name, "github", suspend=True)
    done = namespace.arena("hooks", "test", "prompts")
    assert done.code == 0
    assert "spec.suspend is false" in done.out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"webhook": None}, "it has none", id="no webhook"),
        pytest.param({"webhook": {"secretRef": {"name": "gone"}}}, "Secret 'gone' with the webhook's secret does not exist", id="no Secret"),
        pytest.param({"webhook": {"secretRef": {"key": "gone"}}}, "Secret 'hook' has no key 'gone'", id="no key"),
    ],
)
def test_what_keeps_a_sample_from_being_sent(namespace: Namespace, change: dict[str, Any], said: str) -> None:
    """What is missing is said with its name, as a usage error."""
    subscribe(namespace.client, namespace.name, "github")
    namespace.client.patch(ARENA_PROJECT, namespace.name, "prompts", {"spec": {"external": change}})
    done = namespace.arena("hooks", "test", "prompts")
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_no_such_project(namespace: Namespace) -> None:
    """A project that is not there is said to be so."""
    done = namespace.arena("hooks", "test", "prompts")
    assert done.code == 2
    assert "arena get arenaprojects" in done.err


@pytest.fixture
def connection(namespace: Namespace) -> Iterator[http.client.HTTPConnection]:
    """Give a connection to a server that has a project for GitHub."""
    subscribe(namespace.client, namespace.name, "github")
    address = urllib.parse.urlsplit(namespace.server.url)
    found = http.client.HTTPConnection(address.hostname or "", address.port, timeout=20)
    yield found
    found.close()


def head(body: bytes, secret: str = VALUE) -> dict[str, str]:
    """Return the head of a delivery of GitHub's."""
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"Content-Type": "application/json", "X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signature}"}


def test_a_refusal_leaves_the_connection_in_order(namespace: Namespace, connection: http.client.HTTPConnection) -> None:
    """After a 401 the same connection carries the next delivery, in one piece or in chunks."""
    path, body = f"/hooks/github/{namespace.name}/prompts", json.dumps({"repository": {"clone_url": URL}}).encode()
    answers = []
    for sent, secret in ((body, "guessed"), (body, VALUE), (iter([body[:10], body[10:]]), VALUE)):
        connection.request("POST", path, sent, head(body, secret), encode_chunked=not isinstance(sent, bytes))
        response = connection.getresponse()
        answers.append((response.status, json.loads(response.read())))
    assert [status for status, _ in answers] == [401, 202, 202]
    assert answers[-1][1]["requested"][0]["sync"] == stamp(namespace.client, namespace.name)


def test_a_large_body_is_refused_at_its_head(namespace: Namespace, connection: http.client.HTTPConnection) -> None:
    """A body of 100 MB is refused before it is sent, and its connection is closed, so that the rest of it is not read either."""
    connection.putrequest("POST", f"/hooks/github/{namespace.name}/prompts")
    for name, value in {**head(b""), "Content-Length": "100000000"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert isinstance(connection.sock, socket.socket)
    connection.sock.sendall(b"{" * 1000)
    response = connection.getresponse()
    assert (response.status, response.headers["connection"]) == (413, "close")
