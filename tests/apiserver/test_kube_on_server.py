"""Our client on a real API server: who it is, what it may do, and a server that is restarted under it."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from structlog.testing import capture_logs

from foundation.clock import SystemClock
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.kube_access import Access, by_kubeconfig, in_cluster
from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, CONFIG_MAP, EVENT, NAMESPACE
from reconcile.errors import Forbidden, Gone, KindNotServed, NotFound, StoreUnavailable, Unauthorized
from reconcile.runtime.cache import Keeping
from reconcile.runtime.events import record
from reconcile.runtime.reflector import Reflector
from tests.apiserver.control_plane import ADMIN_TOKEN, OTHER_TOKEN, ControlPlane, kubeconfig
from tests.apiserver.server_fixture import REAL, namespace
from tests.contracts.cluster_objects import NS, job

pytestmark = REAL
RBAC = "/apis/rbac.authorization.k8s.io/v1"
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


@asynccontextmanager
async def client(access: Access) -> AsyncIterator[KubeCluster]:
    """Give a client for a while."""
    cluster = KubeCluster(access, SystemClock())
    yield cluster
    await cluster.close()


def configured(plane: ControlPlane, folder: Path, user: dict[str, object]) -> Access:
    """Return the access of a user by a kubeconfig in a folder."""
    file = folder / "config"
    file.write_text(yaml.safe_dump(kubeconfig(plane.url, plane.ca_file, user)))
    return by_kubeconfig(str(file))


def plugin(folder: Path, token_file: Path) -> dict[str, object]:
    """Return a user whose token a program of theirs prints."""
    program = folder / "login"
    program.write_text(
        '#!/bin/sh\nprintf \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
        f'"status": {{"token": "%s"}}}}\' $(cat {token_file})\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}}


@pytest.mark.parametrize("way", ["token", "client certificate", "token file", "exec plugin"])
async def test_ways_to_sign_in(control_plane: ControlPlane, tmp_path: Path, way: str) -> None:
    """A kubeconfig's token, certificate, token file and plugin are each understood."""
    (tmp_path / "token").write_text(ADMIN_TOKEN)
    users: dict[str, dict[str, object]] = {
        "token": {"token": ADMIN_TOKEN},
        "client certificate": {"client-certificate": str(control_plane.folder / "admin.pem"), "client-key": str(control_plane.folder / "admin.key")},
        "token file": {"tokenFile": "token"},
        "exec plugin": plugin(tmp_path, tmp_path / "token"),
    }
    async with client(configured(control_plane, tmp_path, users[way])) as cluster:
        assert (await cluster.get(NAMESPACE, None, NS))["metadata"]["name"] == NS


@pytest.mark.parametrize("way", ["token file", "exec plugin"])
async def test_credentials_that_change(control_plane: ControlPlane, tmp_path: Path, way: str) -> None:
    """A token that is no longer taken is read again, by the same client."""
    user: dict[str, object] = {"tokenFile": "token"} if way == "token file" else plugin(tmp_path, tmp_path / "token")
    (tmp_path / "token").write_text("expired")
    async with client(configured(control_plane, tmp_path, user)) as cluster:
        with pytest.raises(Unauthorized):
            await cluster.get(NAMESPACE, None, NS)
        (tmp_path / "token").write_text(ADMIN_TOKEN)
        assert await cluster.get(NAMESPACE, None, NS)


async def test_inside_a_pod(control_plane: ControlPlane, cluster: KubeCluster, tmp_path: Path) -> None:
    """A service account's token signs in; what it may not do is Forbidden and names the account; RBAC lets it."""
    account = f"/api/v1/namespaces/{NS}/serviceaccounts"
    control_plane.ask("POST", account, {"metadata": {"name": "arena"}}).close()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [], "expirationSeconds": 600}}
    with control_plane.ask("POST", f"{account}/arena/token", review) as answer:
        (tmp_path / "token").write_text(json.load(answer)["status"]["token"])
    (tmp_path / "ca.crt").write_bytes(control_plane.ca_file.read_bytes())
    host, port = control_plane.url.removeprefix("https://").split(":")
    await cluster.create(job("a"))
    async with client(in_cluster(host, port, tmp_path)) as inside:
        with pytest.raises(Forbidden, match="system:serviceaccount:arena:arena"):
            await inside.get(ARENA_JOB, NS, "a")
        rules = [{"apiGroups": [ARENA_JOB.group], "resources": [ARENA_JOB.plural], "verbs": ["get"]}]
        control_plane.ask("POST", f"{RBAC}/namespaces/{NS}/roles", {"metadata": {"name": "arena"}, "rules": rules}).close()
        binding = {
            "metadata": {"name": "arena"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "arena"},
            "subjects": [{"kind": "ServiceAccount", "name": "arena", "namespace": NS}],
        }
        control_plane.ask("POST", f"{RBAC}/namespaces/{NS}/rolebindings", binding).close()
        assert await allowed(inside)


async def allowed(cluster: KubeCluster) -> bool:
    """Wait until a role that was just given has arrived at the server's authorizer."""
    async with asyncio.timeout(20):
        while True:
            try:
                await cluster.get(ARENA_JOB, NS, "a")
            except Forbidden:
                await asyncio.sleep(0.05)
            else:
                return True


def broken_mounts() -> list[Any]:
    """Return folders that are no service account's: which files are there."""
    return [pytest.param((), id="nothing"), pytest.param(("token",), id="no authority"), pytest.param(("ca.crt",), id="no token")]


@pytest.mark.parametrize("files", broken_mounts())
async def test_no_service_account(tmp_path: Path, files: tuple[str, ...]) -> None:
    """Without a token or the server's authority nothing is asked, and the error names the folder."""
    for name in files:
        (tmp_path / name).write_text("x")
    async with client(in_cluster("127.0.0.1", "1", tmp_path)) as cluster:
        with pytest.raises(Unauthorized, match=tmp_path.name):
            await cluster.get(NAMESPACE, None, NS)


@pytest.mark.parametrize("text", ["", "clusters: []", "{", "[]"], ids=["empty", "no context", "no YAML", "a list"])
async def test_a_kubeconfig_that_is_none(tmp_path: Path, text: str) -> None:
    """A kubeconfig that cannot be read is an error that names the file."""
    (tmp_path / "config").write_text(text)
    async with client(by_kubeconfig(str(tmp_path / "config"))) as cluster:
        with pytest.raises(Unauthorized, match="cannot read kubeconfig"):
            await cluster.get(NAMESPACE, None, NS)


async def test_a_server_that_is_not_ours(control_plane: ControlPlane, tmp_path: Path) -> None:
    """A server whose certificate another authority signed gets no token: the connection fails."""
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig(control_plane.url, tmp_path / "other.pem", {"token": ADMIN_TOKEN})))
    async with client(by_kubeconfig(str(tmp_path / "config"))) as cluster:
        with pytest.raises(StoreUnavailable, match="certificate verify failed"):
            await cluster.get(NAMESPACE, None, NS)


async def test_priority_and_fairness(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Requests that the server's priority and fairness turns away come again when it says, and all are answered."""
    level = {"limitResponse": {"type": "Reject"}, "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    anything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"], "clusterScope": True}
    schema = {
        "priorityLevelConfiguration": {"name": "narrow"},
        "matchingPrecedence": 2,
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "other"}}], "resourceRules": [anything]}],
    }
    control_plane.ask("POST", f"{FLOW}/prioritylevelconfigurations", {"metadata": {"name": "narrow"}, "spec": {"type": "Limited", "limited": level}})
    control_plane.ask("POST", f"{FLOW}/flowschemas", {"metadata": {"name": "narrow"}, "spec": schema}).close()
    try:
        async with asyncio.timeout(60), client(configured(control_plane, tmp_path, {"token": OTHER_TOKEN})) as cluster:
            with capture_logs() as logs:
                while not [entry for entry in logs if entry["event"] == "kube.throttled"]:
                    answers = await asyncio.gather(*(cluster.list(CONFIG_MAP, NS) for _ in range(12)), return_exceptions=True)
                    assert {type(answer) for answer in answers} == {Forbidden}
    finally:
        control_plane.ask("DELETE", f"{FLOW}/flowschemas/narrow").close()
        control_plane.ask("DELETE", f"{FLOW}/prioritylevelconfigurations/narrow").close()


async def test_a_namespace_that_does_not_exist(cluster: KubeCluster) -> None:
    """Creating where there is no namespace is NotFound, and names the namespace."""
    with pytest.raises(NotFound, match="cannot find Namespace 'nowhere'"):
        await cluster.create(job("a", metadata={"namespace": "nowhere"}))


async def test_a_namespace_that_is_being_deleted(cluster: KubeCluster) -> None:
    """A namespace that goes takes nothing new, but lets its objects lose their finalizers."""
    await cluster.create(namespace("going"))
    held = await cluster.create(job("held", metadata={"namespace": "going", "finalizers": ["arena.test/hold"]}))
    await cluster.delete(NAMESPACE, None, "going")
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await cluster.create(job("late", metadata={"namespace": "going"}))
    await cluster.patch_status(ARENA_JOB, "going", "held", {"activeCount": 1})
    await cluster.patch(ARENA_JOB, "going", "held", {"metadata": {"finalizers": None, "labels": {"uid": held["metadata"]["uid"]}}})


async def test_events_are_counted(cluster: KubeCluster) -> None:
    """An event told twice is one Event with a count, also of an object that has no namespace."""
    one = await cluster.create(job("a"))
    whole = await cluster.get(NAMESPACE, None, NS)
    for obj, where in ((one, NS), (whole, "default")):
        for _ in range(2):
            await record(cluster, obj, "Warning", "Testing", "said twice", clock=SystemClock())
        (event,) = [event for event in (await cluster.list(EVENT, where)).items if event["involvedObject"].get("uid") == obj["metadata"]["uid"]]
        assert (event["count"], event["reason"]) == (2, "Testing")


async def test_a_kind_that_is_not_installed(fragile: ControlPlane) -> None:
    """Where a CRD is missing, the error says which, and what to apply."""
    async with client(by_kubeconfig(str(fragile.kubeconfig))) as cluster:
        for ask in (cluster.list(ARENA_RUN), cluster.get(ARENA_RUN, NS, "a")):
            with pytest.raises(KindNotServed, match="does not serve arenaruns") as refusal:
                await ask
            assert "manifests/crds" in refusal.value.hint


async def test_a_version_that_is_forgotten(fragile: ControlPlane) -> None:
    """A watch from a version that the server no longer remembers is Gone."""
    async with client(by_kubeconfig(str(fragile.kubeconfig))) as cluster:
        version = (await cluster.create(job("a")))["metadata"]["resourceVersion"]
        for count in range(3):
            await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": count})
        fragile.kill("kube-apiserver")
        fragile.start_api_server()
        with pytest.raises(Gone):
            async with asyncio.timeout(60), aclosing(cluster.watch(ARENA_JOB, NS, version)) as events:
                await anext(events)


@pytest.mark.parametrize("victims", [("kube-apiserver",), ("kube-apiserver", "etcd")], ids=["the API server", "everything"])
async def test_a_server_that_is_killed(fragile: ControlPlane, victims: tuple[str, ...]) -> None:
    """Whoever follows a kind hears of every object made before, during and after the server's restart."""
    async with client(by_kubeconfig(str(fragile.kubeconfig))) as cluster:
        reflector = Reflector(cluster, Keeping(ARENA_JOB), SystemClock())
        listed = asyncio.Event()
        following = asyncio.create_task(reflector.run(listed.set))
        await listed.wait()
        await cluster.create(job("before"))
        await known(reflector, "before")
        for name in victims:
            fragile.kill(name)
        with pytest.raises(StoreUnavailable):
            await cluster.create(job("lost"))
        if "etcd" in victims:
            await asyncio.to_thread(fragile.start_etcd)
        await asyncio.to_thread(fragile.start_api_server)
        await cluster.create(job("after"))
        await known(reflector, "before", "after")
        following.cancel()


async def known(reflector: Reflector, *names: str) -> None:
    """Wait until a reflector remembers exactly these."""
    async with asyncio.timeout(60):
        while {key.name for key in reflector.cache.all_keys()} != set(names):  # noqa: ASYNC110 - a cache tells nobody that it changed
            await asyncio.sleep(0.05)
