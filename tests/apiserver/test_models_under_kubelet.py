"""A job of real models on a real API server: two Providers of one vendor, an agent, a judge and a registry's tool, worked by pods."""

import asyncio
import json
from pathlib import Path

from reconcile.cluster.port import AGENT_RUNTIME, KINDS, SECRET, TOOL_REGISTRY
from tests.apiserver.server_fixture import REAL
from tests.apiserver.test_runs_under_kubelet import condition_of, eventually, node, pushed, run_in, world
from tests.e2e.cast import FILES, JOB, KEYS, Cast, cast, planted_in, planted_in_files, planted_in_process_list
from tests.reconcile.conftest import NAMESPACE, World, condition

__all__ = ["node", "world"]
pytestmark = REAL


async def met(world: World, there: Cast) -> None:
    """Create the objects of a cast, with the status that another product's controllers would write."""
    for obj in there.objects():
        metadata = {**obj["metadata"], "namespace": NAMESPACE}
        await world.cluster.create({**obj, "metadata": metadata})
        if obj["kind"] == AGENT_RUNTIME.kind:
            status = {"phase": "Running", "serviceEndpoint": there.agent}
            await world.cluster.patch_status(AGENT_RUNTIME, NAMESPACE, "clerk", status)
        elif obj["kind"] == TOOL_REGISTRY.kind:
            (handler,) = obj["spec"]["handlers"]
            tool = {"name": "find", "description": "d", "endpoint": handler["httpConfig"]["endpoint"], "status": "Available"}
            await world.cluster.patch_status(TOOL_REGISTRY, NAMESPACE, "tools", {"phase": "Ready", "discoveredTools": [tool]})


async def forgotten(world: World) -> None:
    """Delete what `met` created."""
    for kind in ("Secret", "Provider", "AgentRuntime", "ToolRegistry"):
        for obj in (await world.cluster.list(KINDS[kind], NAMESPACE)).items:
            if obj["metadata"]["name"] in (*KEYS, "clerk", "tools"):
                await world.cluster.delete(KINDS[kind], NAMESPACE, obj["metadata"]["name"])


async def test_two_providers_an_agent_and_a_judge(world: World, tmp_path: Path) -> None:
    """Each pod has the keys of its plan by reference alone; the run succeeds, and no key is in any object but Secrets, in any file or command line."""
    async with cast() as there:
        await pushed(world)
        await world.commit(FILES)
        await met(world, there)
        await world.job(**JOB, workers={"replicas": 2})
        await asyncio.wait_for(there.begun.wait(), 90)
        assert planted_in_process_list() == []
        there.going_on.set()
        run = await run_in(world, "Succeeded", "Failed")
    assert run["status"]["phase"] == "Succeeded", condition_of(run, "message")
    assert there.showed == {KEYS["team"]: {"first-model"}, KEYS["batch"]: {"second-model"}, KEYS["referee"]: {"judge-model"}}
    assert there.found == [{"order": "7"}]
    assert run["status"]["display"]["progress"] == "3/3"
    for kind in (kind for kind in KINDS.values() if kind is not SECRET and kind.namespaced):
        assert planted_in(json.dumps((await world.cluster.list(kind, NAMESPACE)).items)) == [], kind
    assert planted_in_files(tmp_path) == set()
    await forgotten(world)


async def test_a_secret_that_comes_late(world: World) -> None:
    """A run whose Provider's Secret is not there waits, names it, and starts when it comes, without anybody's help."""
    async with cast() as there:
        there.going_on.set()
        await pushed(world)
        await world.commit(FILES)
        await met(world, there)
        await world.cluster.delete(SECRET, NAMESPACE, "batch")
        await world.job(**JOB)

        async def is_said() -> bool:
            runs = await world.runs()
            if not runs or not runs[0].get("status", {}).get("conditions"):
                return False
            created = [c for c in runs[0]["status"]["conditions"] if c["type"] == "JobCreated"]
            return bool(created) and "of Secret 'batch', which does not exist" in condition(runs[0], "JobCreated")["message"]

        await eventually(is_said)
        secret = next(obj for obj in there.objects() if obj["metadata"]["name"] == "batch")
        await world.cluster.create({**secret, "metadata": {"name": "batch", "namespace": NAMESPACE}})
        run = await run_in(world, "Succeeded", "Failed")
    assert run["status"]["phase"] == "Succeeded", condition_of(run, "message")
    await forgotten(world)


async def test_pods_without_a_key_fail_the_run_by_name(world: World) -> None:
    """A Provider that names a variable which no pod has ends the run before its first item, with provider and variable."""
    async with cast() as there:
        there.going_on.set()
        await pushed(world)
        await met(world, there)
        await world.cluster.patch(KINDS["Provider"], NAMESPACE, "team", {"spec": {"credential": {"secretRef": None, "envVar": "TEAM_KEY"}}})
        await world.job(providers={"default": [{"providerRef": {"name": "team"}}]}, workers={"replicas": 2})
        run = await run_in(world, "Succeeded", "Failed")
        assert (condition_of(run, "reason"), there.showed) == ("CredentialMissing", {})
        said = condition_of(run, "message")
        assert "provider 'team'" in said
        assert "TEAM_KEY" in said
        await forgotten(world)
