"""Tokens of a real API server: which are known, what a real git client may do with one, and that the port says what the API server does."""

import asyncio
import base64
import json
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from structlog.testing import capture_logs

from arena.authorization.errors import DecisionUnavailable, NotAllowed, NotAuthenticated
from arena.authorization.failures import Failures
from arena.authorization.port import Action, Credential, fetch, push
from arena.authorization.token_review import TokenReviewAuthorizer
from foundation.clock import SystemClock
from reconcile.cluster.kube_access import by_kubeconfig
from reconcile.cluster.kube_reviews import KubeReviews
from reconcile.cluster.port import ARENA_PROJECT
from tests.apiserver.control_plane import ADMIN_TOKEN, OTHER_TOKEN, ControlPlane, kubeconfig
from tests.apiserver.server_fixture import REAL, clear, connected
from tests.authorization.adapters import GIT, HOME, ROLES, add_account, arrived, on_server, reviewing, token_of
from tests.authorization.git_service import PROJECT, GitService, git_service
from tests.ports import free_ports

pytestmark = REAL
FETCH, PUSH = fetch(HOME, PROJECT), push(HOME, PROJECT)


@pytest.fixture
def account(control_plane: ControlPlane) -> str:
    """Create a service account that may fetch and push."""
    name = f"ci-{uuid4().hex[:8]}"
    add_account(control_plane, name, ROLES["writer"])
    return name


@asynccontextmanager
async def asking(folder: Path, url: str, ca_file: Path, token: str) -> AsyncIterator[TokenReviewAuthorizer]:
    """Give the authorizer whose own token and API server are these."""
    (folder / "config").write_text(yaml.safe_dump(kubeconfig(url, ca_file, {"token": token})))
    reviews = KubeReviews(by_kubeconfig(str(folder / "config")), SystemClock())
    try:
        yield TokenReviewAuthorizer(reviews, SystemClock())
    finally:
        await reviews.close()


def signed(plane: ControlPlane, token: str, **changes: Any) -> str:
    """Return a token with other claims, signed by the API server's own key."""
    header, payload, _ = token.split(".")
    claims = {**json.loads(base64.urlsafe_b64decode(payload + "==")), **changes}
    body = f"{header}.{encoded(json.dumps(claims).encode())}"
    key = load_pem_private_key((plane.folder / "sa.key").read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    r, s = decode_dss_signature(key.sign(body.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{body}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def encoded(data: bytes) -> str:
    """Return data as a web token has it."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


async def test_a_signed_token_is_known(control_plane: ControlPlane, account: str) -> None:
    """A token that is signed as these tests sign is known: what the others are refused for is what they say."""
    token = token_of(control_plane, account)
    await arrived(control_plane, token, FETCH)
    async with reviewing(control_plane) as authorizer:
        caller = await authorizer.authorize(Credential(signed(control_plane, token)), FETCH)
    assert caller.name == f"system:serviceaccount:{HOME}:{account}"


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"exp": 1_700_000_600, "iat": 1_700_000_000, "nbf": 1_700_000_000}, id="expired"),
        pytest.param({"nbf": 4_000_000_000}, id="not valid yet"),
        pytest.param({"iss": "https://elsewhere.example.com"}, id="of another issuer"),
        pytest.param({"aud": ["vault"]}, id="for another audience"),
    ],
)
async def test_tokens_that_are_not_valid(control_plane: ControlPlane, account: str, claims: Mapping[str, Any]) -> None:
    """A token that has ended, has not begun, or is for somebody else is nobody's, though it is signed."""
    token = token_of(control_plane, account)
    async with reviewing(control_plane) as authorizer:
        with pytest.raises(NotAuthenticated) as caught:
            await authorizer.authorize(Credential(signed(control_plane, token, **claims)), FETCH)
    assert caught.value.cause


@pytest.mark.parametrize("harm", ["signature", "payload"])
async def test_forged_tokens(control_plane: ControlPlane, account: str, harm: str) -> None:
    """A token that nobody signed as it is is nobody's."""
    header, payload, signature = token_of(control_plane, account).split(".")
    claims = encoded(base64.urlsafe_b64decode(payload + "==").replace(account.encode(), b"default"))
    token = f"{header}.{payload}.{signature[::-1]}" if harm == "signature" else f"{header}.{claims}.{signature}"
    async with reviewing(control_plane) as authorizer:
        with pytest.raises(NotAuthenticated):
            await authorizer.authorize(Credential(token), FETCH)


async def test_an_account_that_is_deleted(control_plane: ControlPlane, account: str) -> None:
    """A token whose service account has been deleted is soon nobody's, though it has not expired; the API server itself remembers it for 10 s."""
    token = token_of(control_plane, account)
    await arrived(control_plane, token, FETCH)
    control_plane.ask("DELETE", f"/api/v1/namespaces/{HOME}/serviceaccounts/{account}").close()
    await forgotten(control_plane, token)


async def forgotten(plane: ControlPlane, token: str) -> None:
    """Wait until a token is nobody's, asking afresh each time."""
    async with asyncio.timeout(60):
        while True:
            async with reviewing(plane) as authorizer:
                try:
                    await authorizer.authorize(Credential(token), FETCH)
                except NotAuthenticated:
                    return
            await asyncio.sleep(0.2)


async def test_a_role_for_one_project(control_plane: ControlPlane) -> None:
    """A role that names a project (`resourceNames`) is for that one."""
    name = f"one-{uuid4().hex[:8]}"
    add_account(control_plane, name, ())
    rules = [{"apiGroups": [ARENA_PROJECT.group], "resources": [GIT], "resourceNames": [PROJECT], "verbs": ["get"]}]
    role = {"metadata": {"name": name}, "rules": rules}
    control_plane.ask("PUT", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{HOME}/roles/{name}", role).close()
    token = token_of(control_plane, name)
    await arrived(control_plane, token, FETCH)
    async with reviewing(control_plane) as authorizer:
        for action in (PUSH, fetch(HOME, "other")):
            with pytest.raises(NotAllowed):
                await authorizer.authorize(Credential(token), action)


async def test_the_port_says_what_the_server_does(control_plane: ControlPlane) -> None:
    """What the port allows is what the API server lets the same token do: reading a pod's log above all, as `kubectl logs` does."""
    pod = Action("get", "pods", HOME, "nightly-1-worker-0", "", "")
    log = Action("get", "pods", HOME, "nightly-1-worker-0", "log", "")
    async with on_server(control_plane) as adapter:
        for role, token in adapter.tokens.items():
            for action, path in ((pod, "pods/nightly-1-worker-0"), (log, "pods/nightly-1-worker-0/log")):
                try:
                    await adapter.authorizer.authorize(Credential(token), action)
                    expected = 404  # let in, and there is no such pod
                except NotAllowed:
                    expected = 403
                assert answered(control_plane, token, f"/api/v1/namespaces/{HOME}/{path}") == expected, role


def answered(plane: ControlPlane, token: str, path: str) -> int:
    """Return the status of a GET with a token."""
    request = urllib.request.Request(plane.url + path, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=20, context=ssl.create_default_context(cafile=plane.ca_file)) as answer:  # noqa: S310 - loopback
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
@pytest.mark.parametrize(("verb", "role"), [("get", "reader"), ("update", "reader"), ("get", "nobody")])
async def test_what_kubectl_says(control_plane: ControlPlane, verb: str, role: str) -> None:
    """`kubectl auth can-i`, as the documentation spells it, says what the git server will say."""
    name = f"{role}-{uuid4().hex[:8]}"
    add_account(control_plane, name, ROLES[role])
    token = token_of(control_plane, name)
    if ROLES[role]:
        await arrived(control_plane, token, FETCH)
    said = can_i(control_plane, verb, name)
    async with reviewing(control_plane) as authorizer:
        try:
            await authorizer.authorize(Credential(token), FETCH if verb == "get" else PUSH)
        except NotAllowed:
            assert said == "no"
        else:
            assert said == "yes"


def can_i(plane: ControlPlane, verb: str, account: str) -> str:
    """Return what kubectl says of an account and the project."""
    words = (f"{ARENA_PROJECT.plural}.{ARENA_PROJECT.group}/{PROJECT}", "--subresource=git", "-n", HOME)
    return plane.kubectl("auth", "can-i", verb, *words, "--as", f"system:serviceaccount:{HOME}:{account}").stdout.strip()


async def test_we_may_not_ask(control_plane: ControlPlane, account: str, tmp_path: Path) -> None:
    """A server of ours without the rights of system:auth-delegator lets nobody in, and says what to bind."""
    token = token_of(control_plane, account)
    async with asking(tmp_path, control_plane.url, control_plane.ca_file, OTHER_TOKEN) as authorizer:
        with pytest.raises(DecisionUnavailable, match="tokenreviews") as caught:
            await authorizer.authorize(Credential(token), FETCH)
    assert "system:auth-delegator" in caught.value.hint
    assert token not in caught.value.message


async def test_the_delegators_role_is_enough(control_plane: ControlPlane, account: str, tmp_path: Path) -> None:
    """The rights of system:auth-delegator are all that asking takes."""
    name, token = f"asker-{uuid4().hex[:8]}", token_of(control_plane, account)
    add_account(control_plane, name, ())
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": HOME}],
    }
    control_plane.ask("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).close()
    await arrived(control_plane, token, FETCH)
    own = token_of(control_plane, name)
    await arrived(control_plane, own, Action("create", "subjectaccessreviews", group="authorization.k8s.io"))
    async with asking(tmp_path, control_plane.url, control_plane.ca_file, own) as authorizer:
        assert await authorizer.authorize(Credential(token), PUSH)


@asynccontextmanager
async def git_on(plane: ControlPlane, authorizer: TokenReviewAuthorizer, folder: Path) -> AsyncIterator[GitService]:
    """Run the git server over a real API server."""
    cluster = connected(plane)
    await clear(cluster)
    try:
        async with git_service(cluster, authorizer, folder, Failures(SystemClock())) as service:
            yield service
    finally:
        await cluster.delete(ARENA_PROJECT, HOME, PROJECT)
        await cluster.close()


async def test_git_with_a_service_account(control_plane: ControlPlane, account: str, tmp_path: Path) -> None:
    """A real git client clones and pushes with a service account's token as password; one that may only fetch does not push; and no log holds a token."""
    reader = f"reader-{uuid4().hex[:8]}"
    add_account(control_plane, reader, ROLES["reader"])
    tokens = [token_of(control_plane, account), token_of(control_plane, reader)]
    await arrived(control_plane, tokens[0], PUSH)
    await arrived(control_plane, tokens[1], FETCH)
    with capture_logs() as logs:
        async with reviewing(control_plane) as authorizer, git_on(control_plane, authorizer, tmp_path) as service:
            work = await service.clone(tokens[0], "work")
            assert (await service.push(tokens[0], work)).status == 0
            again = await service.clone(tokens[1], "again")
            assert (again / "prompt.txt").read_text() == "change"
            refused = await service.push(tokens[1], again, "refused")
            assert f"'system:serviceaccount:{HOME}:{reader}' may not" in refused.err
            assert "403" in refused.err
            assert "Authentication failed" in (await service.fetch(f"{tokens[0]}x")).err
    written = repr(logs) + "".join(path.read_text(errors="replace") for path in control_plane.folder.glob("*.log"))
    assert not [token for token in tokens if token in written or token.rpartition(".")[2] in written]


async def test_the_documented_credential_helper(control_plane: ControlPlane, account: str, tmp_path: Path) -> None:
    """Git asks the helper of the documentation for a token when the server asks for a password; here kubectl is a script that has one."""
    token = token_of(control_plane, account)
    await arrived(control_plane, token, FETCH)
    text = (Path(__file__).parents[2] / "docs" / "authorization.md").read_text()
    helper = text.partition("credential.helper='")[2].partition("' ")[0]
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").write_text(f"#!/bin/sh\ntest \"$*\" = 'create token prompts-ci -n team' && echo {token}\n")
    (programs / "kubectl").chmod(0o755)
    async with reviewing(control_plane) as authorizer, git_on(control_plane, authorizer, tmp_path) as service:
        path = {"PATH": f"{programs}:{service.git.environment['PATH']}"}
        await service.git("clone", "-q", "-c", f"credential.helper={helper}", service.url(), str(tmp_path / "work"), env=path)
    assert (tmp_path / "work" / "README").read_text() == "hello\n"
    assert token not in (tmp_path / "work" / ".git" / "config").read_text()


async def test_an_api_server_that_is_gone(control_plane: ControlPlane, account: str, tmp_path: Path) -> None:
    """While nobody answers at the API server's address, git is told 503 and nobody gets in."""
    token, port = token_of(control_plane, account), free_ports(1)[0]
    async with asking(tmp_path, f"https://127.0.0.1:{port}", control_plane.ca_file, ADMIN_TOKEN) as authorizer:
        with pytest.raises(DecisionUnavailable, match="does not answer"):
            await authorizer.authorize(Credential(token), FETCH)
        async with git_on(control_plane, authorizer, tmp_path) as service:
            assert "503" in (await service.fetch(token)).err
