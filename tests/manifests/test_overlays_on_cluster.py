"""The overlays on a real API server, from `kubectl apply -k` to `kubectl delete -k`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.installation import Git
from tests.manifests.installing import MANIFESTS, SLOW, SYSTEM, TEAM, Installation, cluster_in, eventually
from tests.manifests.objects import long_run

pytestmark = SLOW
OVERLAYS = ("single-node", "production")
SAMPLES = str(MANIFESTS / "samples")
PROJECT = "library"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Installation]:
    """A cluster with nothing of ours on it."""
    async with cluster_in(tmp_path) as running:
        yield running


def left_on(content: Path) -> set[str]:
    """Return the folders of the volume that hold files, those of a retained repository as one; what begins with a dot at its root is Arena's own."""
    files = [path.relative_to(content) for path in content.rglob("*") if path.is_file()]
    return {"/".join(file.parts[:6]) if ".retained" in file.parts else str(file) for file in files if not file.parts[0].startswith(".")}


@pytest.mark.parametrize("overlay", OVERLAYS)
async def test_from_apply_to_delete(cluster: Installation, overlay: str, tmp_path: Path) -> None:
    """An overlay installs Arena; a second apply changes nothing; samples reach their verdicts; a delete leaves retained repositories alone."""
    before = await settled(cluster)
    await cluster.install(overlay)

    versions = await cluster.versions(overlay)
    await cluster.apply(overlay)
    assert await cluster.versions(overlay) == versions

    await cluster.kubectl("apply", "-n", TEAM, "-k", SAMPLES)
    assert set((await cluster.verdicts(PROJECT)).values()) == {"Succeeded"}
    uid = (await cluster.get("arenaproject", PROJECT, "-n", TEAM))["metadata"]["uid"]
    await pushes(cluster, tmp_path)

    await cluster.kubectl("delete", "-n", TEAM, "-k", SAMPLES)
    await cluster.remove_objects()
    await cluster.kubectl("delete", "-k", str(MANIFESTS / "overlays" / overlay))
    assert await cluster.objects() - before == frozenset()
    assert left_on(cluster.content) == {f"{TEAM}/{TEAM}/arena/repos/.retained/{PROJECT}-{uid}.git"}


async def pushes(cluster: Installation, folder: Path) -> None:
    """Push a wrong answer as somebody who may edit in the namespace: its run fails."""
    url = (await cluster.get("arenaproject", PROJECT, "-n", TEAM))["status"]["repositoryURL"]
    before = await cluster.verdicts(PROJECT)
    await cluster.kubectl("create", "serviceaccount", "dev", "-n", TEAM)
    await cluster.kubectl("create", "rolebinding", "dev", "-n", TEAM, "--clusterrole=edit", f"--serviceaccount={TEAM}:dev")
    token = (await cluster.kubectl("create", "token", "dev", "-n", TEAM)).strip()
    await asyncio.to_thread(push_wrong_answer, url.replace("http://", f"http://dev:{token}@"), folder)

    async def look() -> set[str] | None:
        return {phase for name, phase in (await cluster.verdicts(PROJECT)).items() if name not in before} or None

    assert await eventually(look, cluster) == {"Failed"}


def push_wrong_answer(url: str, folder: Path) -> None:
    """Clone, have the mock forget the lending period, and push."""
    git = Git(folder / "home")
    git.run("clone", "--quiet", url, str(folder / "work"))
    file = folder / "work/mock/librarian.yaml"
    file.write_text(file.read_text().replace("4 weeks", "a while"))
    git.run("commit", "--quiet", "--all", "--message", "Shorten an answer", cwd=folder / "work")
    git.run("push", "--quiet", cwd=folder / "work")


async def settled(cluster: Installation) -> frozenset[str]:
    """Return the cluster's objects, when its own controllers have made theirs."""

    async def look() -> frozenset[str] | None:
        found = await cluster.objects()
        made = {"ServiceAccount.v1 kube-node-lease/default", "ConfigMap.v1 kube-node-lease/kube-root-ca.crt", "ServiceAccount.v1 default/default"}
        return found if made <= found else None

    return await eventually(look, cluster)


async def test_a_namespace_deleted_while_a_run_works(cluster: Installation, tmp_path: Path) -> None:
    """A team's namespace goes with all that is in it, a run at work too, though the controller's rights there go first; its repositories stay."""
    await cluster.install("single-node")
    await cluster.apply_objects(tmp_path, *long_run())

    async def is_working() -> bool:
        run = await cluster.get("arenarun", "long", "-n", TEAM)
        return bool((run.get("status") or {}).get("progress", {}).get("completed"))

    await eventually(is_working, cluster)
    uid = (await cluster.get("arenaproject", "long", "-n", TEAM))["metadata"]["uid"]
    await cluster.kubectl("delete", "namespace", TEAM)
    assert left_on(cluster.content) == {f"{TEAM}/{TEAM}/arena/repos/.retained/long-{uid}.git"}


async def test_everything_deleted_at_once(cluster: Installation) -> None:
    """Who deletes an overlay while there are projects loses nothing: what waits for a controller goes when a new apply brings one; repositories stay."""
    before = await settled(cluster)
    overlay = str(MANIFESTS / "overlays" / "single-node")
    await cluster.install("single-node")
    await cluster.kubectl("apply", "-n", TEAM, "-k", SAMPLES)
    await cluster.verdicts(PROJECT)
    uid = (await cluster.get("arenaproject", PROJECT, "-n", TEAM))["metadata"]["uid"]

    await cluster.kubectl("delete", "-k", overlay, "--wait=false")

    async def is_without_us() -> bool:
        return (await cluster.asked("get", "namespace", SYSTEM)).returncode != 0

    await eventually(is_without_us, cluster)
    await cluster.asked("apply", "-k", overlay)
    await cluster.kubectl("create", "secret", "generic", "arena-queue", "-n", SYSTEM, "--from-literal=password=another")

    async def are_gone() -> bool:
        namespaces = (await cluster.get("namespaces"))["items"]
        held = [each["metadata"]["name"] for each in namespaces if "deletionTimestamp" in each["metadata"]]
        return not held and not [each for each in await cluster.objects() if each.startswith("Arena")]

    await eventually(are_gone, cluster)
    await cluster.asked("delete", "-k", overlay, "--ignore-not-found")
    assert await cluster.objects() - before == frozenset()
    assert left_on(cluster.content) == {f"{TEAM}/{TEAM}/arena/repos/.retained/{PROJECT}-{uid}.git"}
