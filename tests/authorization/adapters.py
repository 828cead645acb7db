"""The adapters of the Authorizer port, each with tokens of several roles: what the contract suite runs on.

A role is what its token may do, by name: `owner` everything; `reader` fetch, `writer` fetch and push, `pusher` push alone, in namespace n0; `logs` read the
logs of pods there; `nobody` nothing. An adapter has the roles that it can express.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import yaml

from arena.authorization.errors import NotAllowed, NotAuthenticated
from arena.authorization.local_token import LocalToken
from arena.authorization.port import Action, Authorizer, Credential, fetch, push
from arena.authorization.token_file import TokenFile
from arena.authorization.token_review import TokenReviewAuthorizer
from foundation.clock import Clock, SystemClock
from reconcile.cluster.kube_access import by_kubeconfig
from reconcile.cluster.kube_reviews import KubeReviews
from reconcile.cluster.port import GROUP
from tests.apiserver.control_plane import ControlPlane
from tests.authorization.headers import TOKEN
from tests.authorization.scripted_reviews import ScriptedReviews

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
HOME: Final = "n0"
GIT: Final = "arenaprojects/git"
ROLES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "reader": (("get", GIT),),
    "writer": (("get", GIT), ("update", GIT)),
    "pusher": (("update", GIT),),
    "logs": (("get", "pods/log"),),
    "nobody": (),
}
"""What a role is granted in its namespace: verb and resource."""
SCOPES: Final[Mapping[str, Sequence[str]]] = {"reader": ["read"], "writer": ["read", "push"], "pusher": ["push"]}


@dataclass(frozen=True)
class Adapter:
    """An authorizer, and the token of each role that it has."""

    authorizer: Authorizer
    tokens: Mapping[str, str]


def local() -> Adapter:
    """Return the authorizer of local mode."""
    return Adapter(LocalToken(TOKEN), {"owner": TOKEN})


def entry(name: str, token: str, scopes: Sequence[str], projects: Sequence[str]) -> dict[str, Any]:
    """Return a token as its file has it."""
    return {"name": name, "sha256": hashlib.sha256(token.encode()).hexdigest(), "scopes": list(scopes), "projects": list(projects)}


def write_tokens(path: Path, *entries: Mapping[str, Any]) -> Path:
    """Write a token file, by exchanging it as a mounted Secret is."""
    fresh = path.with_name(f"{path.name}.{uuid4().hex}")
    fresh.write_text(yaml.safe_dump({"tokens": [dict(each) for each in entries]}))
    fresh.chmod(0o600)
    return fresh.rename(path)


async def by_file(path: Path, clock: Clock) -> Adapter:
    """Return the authorizer of a token file."""
    tokens = {role: f"{role}-{TOKEN}" for role in SCOPES}
    authorizer = TokenFile(write_tokens(path, *(entry(role, tokens[role], SCOPES[role], [f"{HOME}/*"]) for role in SCOPES)), clock)
    await authorizer.read()
    return Adapter(authorizer, tokens)


def by_scripted_reviews(clock: Clock) -> Adapter:
    """Return the authorizer of a cluster, on a script."""
    reviews = ScriptedReviews()
    for role, grants in ROLES.items():
        reviews.add(f"{role}-{TOKEN}", f"system:serviceaccount:{HOME}:{role}", [(verb, f"{HOME}/{thing}") for verb, thing in grants])
    return Adapter(TokenReviewAuthorizer(reviews, clock), {role: f"{role}-{TOKEN}" for role in ROLES})


def add_account(plane: ControlPlane, name: str, grants: Sequence[tuple[str, str]], namespace: str = HOME) -> None:
    """Create a service account that may do this in its namespace."""
    plane.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}}).close()
    rules = [{"apiGroups": ["" if thing.startswith("pods") else GROUP], "resources": [thing], "verbs": [verb]} for verb, thing in grants]
    plane.ask("POST", f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": name}, "rules": rules}).close()
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    plane.ask("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", binding).close()


def token_of(plane: ControlPlane, name: str, audiences: Sequence[str] = (), namespace: str = HOME) -> str:
    """Return a new token of a service account."""
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": list(audiences), "expirationSeconds": 600},
    }
    with plane.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", review) as answer:
        return str(json.load(answer)["status"]["token"])


@asynccontextmanager
async def reviewing(plane: ControlPlane) -> AsyncIterator[TokenReviewAuthorizer]:
    """Give the authorizer of a cluster, with nothing remembered."""
    reviews = KubeReviews(by_kubeconfig(str(plane.kubeconfig)), SystemClock())
    try:
        yield TokenReviewAuthorizer(reviews, SystemClock())
    finally:
        await reviews.close()


async def arrived(plane: ControlPlane, token: str, action: Action) -> None:
    """Wait until a role that was just given has reached the API server's authorizer."""
    async with asyncio.timeout(20):
        while True:
            async with reviewing(plane) as authorizer:
                try:
                    await authorizer.authorize(Credential(token), action)
                except (NotAllowed, NotAuthenticated):
                    await asyncio.sleep(0.05)
                else:
                    return


@asynccontextmanager
async def on_server(plane: ControlPlane) -> AsyncIterator[Adapter]:
    """Give the authorizer of a cluster on a real API server, with service accounts of its own."""
    suffix = uuid4().hex[:8]
    tokens = {}
    for role, grants in ROLES.items():
        add_account(plane, f"{role}-{suffix}", grants)
        tokens[role] = token_of(plane, f"{role}-{suffix}")
    proof = {"reader": fetch(HOME, "p"), "writer": push(HOME, "p"), "pusher": push(HOME, "p"), "logs": Action("get", "pods", HOME, "p", "log", "")}
    for role, action in proof.items():
        await arrived(plane, tokens[role], action)
    async with reviewing(plane) as authorizer:
        yield Adapter(authorizer, tokens)
