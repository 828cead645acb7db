"""The process `arena git-server`, with no more rights than the manifests give it: tokens of the cluster and of the file, and what its log tells."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from arena.authorization.port import Action, fetch, push
from foundation.clock import SystemClock
from gitops.content import ContentVolume, ProjectKey
from gitops.repositories import Repositories
from reconcile.cluster.port import ARENA_PROJECT
from tests.apiserver.control_plane import ControlPlane, kubeconfig
from tests.apiserver.installation import Installation, Replica
from tests.apiserver.server_fixture import REAL, clear, connected
from tests.authorization.adapters import HOME, RBAC, ROLES, add_account, arrived, entry, token_of, write_tokens
from tests.authorization.headers import TOKEN
from tests.e2e.installation import Git

pytestmark = [*REAL, pytest.mark.e2e]
PROJECT = "support"


def server_account(plane: ControlPlane) -> str:
    """Return the token of an account with the rights of the manifests' git server."""
    name = f"server-{uuid4().hex[:8]}"
    add_account(plane, name, ())
    documents = yaml.safe_load_all((Path(__file__).parents[2] / "manifests/base/roles-git-server.yaml").read_text())
    role = next(each for each in documents if each["kind"] == "ClusterRole" and each["metadata"]["name"] == "arena-git-server")
    plane.ask("POST", f"{RBAC}/clusterroles", {**role, "metadata": {"name": name}}).close()
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": HOME}],
    }
    plane.ask("POST", f"{RBAC}/clusterrolebindings", binding).close()
    return token_of(plane, name)


async def host_project(plane: ControlPlane, installation: Installation) -> None:
    """Create a project and its repository, as a controller does."""
    cluster = connected(plane)
    await clear(cluster)
    document = {"apiVersion": ARENA_PROJECT.api_version, "kind": ARENA_PROJECT.kind, "metadata": {"name": PROJECT, "namespace": HOME}}
    await cluster.create({**document, "spec": {"hosted": {}}})
    await cluster.close()
    repositories = Repositories(ContentVolume(installation.content, lambda namespace: namespace), SystemClock())
    await repositories.create(ProjectKey(HOME, PROJECT))
    await repositories.seed(ProjectKey(HOME, PROJECT), {"README": b"hello\n"}, author="Arena <arena@localhost>")


@pytest.fixture
async def replica(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[tuple[Replica, str]]:
    """Run one git server; gives it and where its repository is."""
    own = server_account(control_plane)
    await arrived(control_plane, own, Action("patch", ARENA_PROJECT.plural, HOME, PROJECT))
    installation = Installation(control_plane, tmp_path)
    await host_project(control_plane, installation)
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig(control_plane.url, control_plane.ca_file, {"token": own})))
    tokens = write_tokens(tmp_path / "tokens.yaml", entry("mirror", TOKEN, ["read"], [f"{HOME}/*"]))
    server = installation.start_git_server(KUBECONFIG=str(tmp_path / "config"), ARENA_TOKEN_FILE=str(tokens))
    try:
        server.await_ready()
        yield server, installation.git_url(server).rpartition("@")[2]
    finally:
        server.kill()


async def test_tokens(control_plane: ControlPlane, replica: tuple[Replica, str], tmp_path: Path) -> None:
    """An account of the cluster clones and pushes, the push is told to the project; a token of the file fetches; strangers do not; no token is in the log."""
    server, place = replica
    name = f"ci-{uuid4().hex[:8]}"
    add_account(control_plane, name, ROLES["writer"])
    token = token_of(control_plane, name)
    await arrived(control_plane, token, fetch(HOME, PROJECT))
    await arrived(control_plane, token, push(HOME, PROJECT))
    git, work = Git(tmp_path / "person"), tmp_path / "work"
    urls = {password: f"http://git:{password}@{place}/{HOME}/{PROJECT}.git" for password in (token, TOKEN, f"{token}x")}
    git.run("clone", "-q", urls[token], str(work))
    git.run("commit", "-q", "--allow-empty", "-m", "change", cwd=work)
    git.run("push", "-q", urls[token], "HEAD:main", cwd=work)
    annotations = control_plane.json(f"/apis/{ARENA_PROJECT.api_version}/namespaces/{HOME}/arenaprojects/{PROJECT}")["metadata"]["annotations"]
    assert annotations["arena.omnia.altairalabs.ai/requested-sync"]
    assert "refs/heads/main" in git.run("ls-remote", urls[TOKEN])
    assert "403" in git.attempt("push", "-q", urls[TOKEN], "HEAD:main", cwd=work).err
    assert "Authentication failed" in git.attempt("ls-remote", urls[f"{token}x"]).err
    assert {event["event"] for event in server.events()} >= {"token file read", "action refused", "login failed"}
    written = server.log_file.read_text()
    assert not [part for part in (TOKEN, token, token.rpartition(".")[2]) if part in written]
