"""`arena up` with a token file: its tokens open git within their scopes, and nothing else."""

from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from arena.cli.client import Client, ServerRefused
from reconcile.cluster.port import ARENA_PROJECT
from tests.authorization.adapters import entry, write_tokens
from tests.authorization.headers import TOKEN, basic
from tests.e2e.installation import ARENA, Server, clean_environment, run_command, serving, until

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run an installation with one project and a token that may read it."""
    folder = tmp_path_factory.mktemp("arena")
    tokens = write_tokens(folder / "tokens.yaml", entry("reader", TOKEN, ["read"], ["default/*"]))
    with serving(folder / "state", folder / "home", "--token-file", str(tokens)) as running:
        project = {"apiVersion": ARENA_PROJECT.api_version, "kind": ARENA_PROJECT.kind, "metadata": {"name": "support"}, "spec": {"hosted": {}}}
        running.client.create(ARENA_PROJECT, "default", project)
        until(lambda: (running.client.get(ARENA_PROJECT, "default", "support").get("status") or {}).get("repositoryURL"), "the repository")
        yield running


@pytest.mark.parametrize(
    ("password", "service", "status"),
    [
        pytest.param(TOKEN, "git-upload-pack", 200, id="a token of the file fetches"),
        pytest.param(TOKEN, "git-receive-pack", 403, id="and does not push"),
        pytest.param("", "git-receive-pack", 200, id="the installation's own does"),
        pytest.param("wrong", "git-upload-pack", 401, id="another one does nothing"),
    ],
)
def test_git(server: Server, password: str, service: str, status: int) -> None:
    """Git is answered by what the token is good for."""
    address = urlsplit(server.url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=30)
    with closing(connection):
        headers = basic(password or server.state.read_token())
        connection.request("GET", f"/git/default/support.git/info/refs?service={service}", headers=headers)
        assert connection.getresponse().status == status


def test_the_api(server: Server) -> None:
    """A token of the file opens nothing of the API."""
    with pytest.raises(ServerRefused) as caught:
        Client(server.url, TOKEN).get(ARENA_PROJECT, "default", "support")
    assert caught.value.code == 403


def test_a_broken_file(tmp_path: Path) -> None:
    """A server does not start with a broken file; it says what is wrong and ends with the code of wrong usage."""
    tokens = write_tokens(tmp_path / "tokens.yaml", {**entry("reader", TOKEN, ["read"], ["default/*"]), "sha256": TOKEN})
    words = (*ARENA, "up", "--state", str(tmp_path / "state"), "--port", "0", "--token-file", str(tokens))
    done = run_command(words, environment=clean_environment(tmp_path))
    assert TOKEN not in done.err
    assert done.code == 2, done.err
    assert "tokens[0].sha256: it must be 64 hexadecimal digits" in done.err
