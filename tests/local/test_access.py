"""Who gets in: the token opens everything, as git and API clients each send it, and nothing opens without it."""

import base64
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest

from arena.access import LocalAccess
from arena.app import ArenaApp
from foundation.clock import SystemClock
from gitops.content import ProjectKey
from gitops.errors import Forbidden, Unauthenticated, UnknownProject
from reconcile.cluster.port import ARENA_PROJECT
from reconcile.cluster.sqlite import SqliteCluster

TOKEN = "0123456789abcdef" * 3


def basic(password: str) -> str:
    """Return basic authentication with a password."""
    return "Basic " + base64.b64encode(f"arena:{password}".encode()).decode()


@pytest.fixture
async def cluster() -> AsyncIterator[SqliteCluster]:
    """Give a store without projects."""
    found = SqliteCluster(":memory:", SystemClock())
    yield found
    await found.close()


@pytest.mark.parametrize(
    ("header", "api", "git"),
    [
        pytest.param(f"Bearer {TOKEN}", True, True, id="a bearer token"),
        pytest.param(f"bearer  {TOKEN} ", True, True, id="its scheme in any case, with spaces"),
        pytest.param(basic(TOKEN), False, True, id="a password, which browsers send of themselves, opens no API"),
        pytest.param("", False, False, id="nothing"),
        pytest.param("Bearer ", False, False, id="an empty token"),
        pytest.param(basic(""), False, False, id="an empty password"),
        pytest.param("Basic %%%", False, False, id="no base64"),
        pytest.param(f"Bearer {TOKEN[:-1]}", False, False, id="a part of it"),
        pytest.param(f"Bearer {TOKEN}\xff", False, False, id="more than it"),
        pytest.param(f"Digest {TOKEN}", False, False, id="another scheme"),
    ],
)
async def test_what_opens_what(cluster: SqliteCluster, header: str, *, api: bool, git: bool) -> None:
    """The API takes the bearer token alone, git the password too."""
    access = LocalAccess(cluster, TOKEN)
    headers = {"authorization": header}
    assert access.admits(headers) is api
    with pytest.raises(UnknownProject if git else Unauthenticated):
        await access.authorize_git(headers, "team", "none", write=False)


@pytest.mark.parametrize(
    ("status", "write", "refusal"),
    [
        pytest.param({"repositoryURL": "https://git.example.com/p.git"}, False, None, id="a fetch of what is mirrored"),
        pytest.param({"repositoryURL": "https://git.example.com/old.git"}, False, UnknownProject, id="a fetch while the mirror is another remote's"),
        pytest.param({}, False, UnknownProject, id="a fetch before the first one of ours"),
        pytest.param({"repositoryURL": "https://git.example.com/p.git"}, True, Forbidden, id="a push"),
    ],
)
async def test_a_mirror_is_read_only(cluster: SqliteCluster, status: dict[str, str], refusal: type[Exception] | None, *, write: bool) -> None:
    """The mirror of an external project is served for fetch, once it is of the remote that the spec names, and takes no push, its discovery included."""
    document = {"apiVersion": ARENA_PROJECT.api_version, "kind": "ArenaProject", "metadata": {"name": "p", "namespace": "team"}}
    await cluster.create({**document, "spec": {"external": {"url": "https://git.example.com/p.git"}}})
    await cluster.patch_status(ARENA_PROJECT, "team", "p", status)
    access, headers = LocalAccess(cluster, TOKEN), {"authorization": basic(TOKEN)}
    if refusal is None:
        assert (await access.authorize_git(headers, "team", "p", write=write)).project == ProjectKey("team", "p")
        return
    with pytest.raises(refusal):
        await access.authorize_git(headers, "team", "p", write=write)


async def test_empty_token_opens_nothing(cluster: SqliteCluster) -> None:
    """An installation without a token is closed, not open."""
    access = LocalAccess(cluster, "")
    for header in ("", "Bearer ", basic(""), "Basic "):
        assert not access.admits({"authorization": header})
        with pytest.raises(Unauthenticated):
            await access.authorize_git({"authorization": header}, "team", "none", write=True)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/api/v1/secrets", "/apis/batch/v1/namespaces/a/jobs", "/apis/", "/api//", "/apis/x/../../healthz"])
async def test_no_path_of_the_api_is_open(cluster: SqliteCluster, method: str, path: str) -> None:
    """Whatever the path below the API and the method: without the token the answer is 401, and nothing behind it hears of the request."""

    async def reached(*_: object) -> None:
        raise AssertionError

    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    app = ArenaApp(git=reached, hooks=reached, kube=reached, access=LocalAccess(cluster, TOKEN))
    scope = {"type": "http", "method": method, "path": path, "headers": [(b"authorization", basic(TOKEN).encode())], "query_string": b""}
    await app(scope, receive, send)
    assert sent[0]["status"] == 401
