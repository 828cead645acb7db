"""Least privilege: what the accounts of an installation ask a real API server for, by its audit log, is what their roles grant, and no more."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.installation import Git
from tests.manifests.granting import granted
from tests.manifests.installing import MANIFESTS, TEAM, Installation, cluster_in, eventually
from tests.manifests.objects import long_run, ours
from tests.manifests.rendering import rendered

OVERLAY = "overlays/single-node"
ACCOUNTS = ("arena-controller", "arena-git-server")
REMOTE = "https://127.0.0.1/team/prompts.git"

RARE: Mapping[str, str] = {
    "update arenajobs/finalizers.omnia.altairalabs.ai": "asked for by the admission plugin that this cluster runs, of the authorizer: in no audit log",
    "update arenaruns/finalizers.omnia.altairalabs.ai": "the same",
    "update secrets.core arena-webhook in arena-system": "the certificate is renewed after 60 days",
    "patch secrets.core in arena": "a run's password, when the queue has lost its users",
    "get namespaces.core": "by the git server: a push to a namespace that no controller has looked at",
    "patch events.core in arena": "an Event that is told again",
    "delete events.core in arena": "the oldest of more than 50 Events of one object",
}
"""What is granted though no test makes it happen, and why."""


def test_what_is_granted_is_read_as_a_cluster_reads_it() -> None:
    """A grant is a verb, a resource and a place; nothing is granted by a wildcard."""
    for account in ACCOUNTS:
        grants = granted(rendered(OVERLAY), account)
        assert grants
        assert not [grant for grant in grants if "*" in (grant.verb, grant.group, grant.resource)]
        secrets = [grant for grant in grants if grant.resource == "secrets" and not grant.namespace]
        assert secrets == [], "nobody reads Secrets everywhere"
    assert {str(grant) for account in ACCOUNTS for grant in granted(rendered(OVERLAY), account)} >= RARE.keys()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation that has been used in every way."""
    async with cluster_in(tmp_path) as running:
        await running.install("single-node")
        await use(running, tmp_path)
        yield running


@pytest.mark.slow
@pytest.mark.timeout(500, func_only=False)
async def test_accounts_ask_for_what_they_are_granted(cluster: Installation) -> None:
    """Of all that the accounts ask for nothing is refused, and of all that they are granted nothing goes unasked for."""
    audits = {account: cluster.audit.of(f"system:serviceaccount:arena-system:{account}") for account in ACCOUNTS}
    assert sorted(f"{account}: {asked}" for account, audit in audits.items() for asked in audit.refused) == []
    idle = []
    for account, audit in audits.items():
        unasked = {str(grant) for grant in granted(rendered(OVERLAY), account) if not any(grant.covers(asked) for asked in audit.asked)}
        idle += [f"{account}: {grant}" for grant in sorted(unasked - RARE.keys())]
    assert not idle, "\n".join(idle)


async def use(cluster: Installation, folder: Path) -> None:
    """Use all that there is: seeds, runs, pushes, cancels, history, mirrors, deliveries, Providers, deletion."""
    await cluster.kubectl("apply", "-n", TEAM, "-k", str(MANIFESTS / "samples"))
    await cluster.verdicts("library")
    await cluster.apply_objects(folder, *long_run(), *mirrors(), *with_a_provider())
    await push(cluster, folder)
    url = (await cluster.get("arenaproject", "library", "-n", TEAM))["status"]["repositoryURL"].partition("/git/")[0]
    for path in ("/hooks/github/arena/mirror", "/hooks/github/arena/forgetful", "/hooks/github"):
        await asyncio.to_thread(deliver, url + path)
    await cancel(cluster)
    await cluster.kubectl("patch", "arenajob", "library-eval", "-n", TEAM, "--type=merge", "-p", '{"spec": {"successfulRunsHistoryLimit": 0}}')

    async def is_pruned() -> bool:
        return not [run for run in (await cluster.get("arenaruns", "-n", TEAM))["items"] if succeeded_of(run, "library-eval")]

    await eventually(is_pruned, cluster)
    await cluster.kubectl("delete", "arenajobs,arenaruns,arenaprojects", "--all", "-n", TEAM)


def succeeded_of(run: Mapping[str, Any], job: str) -> bool:
    """Say whether a run is one of a job's own that has succeeded."""
    owned = any(owner["name"] == job for owner in run["metadata"].get("ownerReferences", ()))
    return owned and (run.get("status") or {}).get("phase") == "Succeeded"


async def push(cluster: Installation, folder: Path) -> None:
    """Push with the token of an account that may edit."""
    await cluster.kubectl("create", "serviceaccount", "dev", "-n", TEAM)
    await cluster.kubectl("create", "rolebinding", "dev", "-n", TEAM, "--clusterrole=edit", f"--serviceaccount={TEAM}:dev")
    token = (await cluster.kubectl("create", "token", "dev", "-n", TEAM)).strip()
    url = (await cluster.get("arenaproject", "library", "-n", TEAM))["status"]["repositoryURL"].replace("http://", f"http://dev:{token}@")

    def work() -> None:
        git = Git(folder / "home")
        git.run("clone", "--quiet", url, str(folder / "work"))
        git.run("commit", "--quiet", "--allow-empty", "--message", "Nothing", cwd=folder / "work")
        git.run("push", "--quiet", cwd=folder / "work")

    await asyncio.to_thread(work)


async def cancel(cluster: Installation) -> None:
    """Cancel the long run while its workers work."""

    async def is_working() -> bool:
        run = await cluster.get("arenarun", "long", "-n", TEAM)
        return bool((run.get("status") or {}).get("progress", {}).get("completed"))

    await eventually(is_working, cluster)
    await cluster.kubectl("patch", "arenarun", "long", "-n", TEAM, "--type=merge", "-p", '{"spec": {"cancelled": true}}')
    await cluster.verdicts("long")


def deliver(url: str) -> None:
    """Deliver as a git host whose secret is another."""
    body = json.dumps({"ref": "refs/heads/main", "repository": {"clone_url": REMOTE}}).encode()
    headers = {"Content-Type": "application/json", "X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={'0' * 64}"}
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30)  # noqa: S310 - loopback
    refusal.value.close()
    assert refusal.value.code in (401, 403)


def mirrors() -> list[Mapping[str, Any]]:
    """Return two mirrors of a remote that nobody may reach from here; one names a key that its Secret lacks."""

    def external(key: str) -> Mapping[str, Any]:
        webhook = {"host": "github", "secretRef": {"name": "mirror", "key": key}}
        return {"external": {"url": REMOTE, "secretRef": {"name": "mirror"}, "webhook": webhook}}

    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mirror"}, "stringData": {"token": "t", "secret": "s"}},
        ours("ArenaProject", "mirror", external("secret")),
        ours("ArenaProject", "forgetful", external("other")),
    ]


def with_a_provider() -> list[Mapping[str, Any]]:
    """Return a run on a Provider and an AgentRuntime of the namespace, with the tools of a registry."""
    entries = [{"providerRef": {"name": "model"}}, {"agentRef": {"name": "support"}}]
    template = {"sourceRef": {"name": "library"}, "providers": {"default": entries}, "toolRegistries": [{"name": "tools"}]}
    tool = {"name": "find", "description": "Find an order.", "inputSchema": {"type": "object"}}
    handler = {"name": "finder", "type": "http", "tool": tool, "httpConfig": {"endpoint": "http://127.0.0.1:9/find"}}
    return [
        ours("Provider", "model", {"type": "mock"}),
        ours("AgentRuntime", "support", {}),
        ours("ToolRegistry", "tools", {"handlers": [handler]}),
        ours("ArenaRun", "provided", {"jobRef": {"name": "none"}, "template": template}),
    ]
