"""A run of a job that names its own providers, agents and tool registries: what its plan and its Job get, what it waits for, what it says."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from engine.bundle.registry_tools import RegistryTool
from engine.plan import Plan
from reconcile.cluster.port import AGENT_RUNTIME, ARENA_RUN, CONFIG_MAP, PROVIDER, SECRET, TOOL_REGISTRY, Object
from reconcile.run.job_creation import waiting_for_job
from reconcile.run.scope import RunScope
from reconcile.runtime.passes import Pass
from tests.reconcile.conftest import BUNDLE, NAMESPACE, World, condition

KEY = "sk-planted-in-a-secret"
MOCK = {"type": "mock", "model": "m"}
OPENAI = {"type": "openai", "model": "gpt-5"}
JUDGED: Mapping[str, str] = {
    **BUNDLE,
    "config.arena.yaml": BUNDLE["config.arena.yaml"]
    .replace("providers: [{file: provider.yaml}]", "providers: [{file: provider.yaml}, {file: judge.yaml, group: judge}]")
    .replace("  defaults:", "  judges: [{name: strict, provider: referee}]\n  tools: [{file: tool.yaml}]\n  defaults:"),
    "judge.yaml": BUNDLE["provider.yaml"].replace("steady", "referee"),
    "tool.yaml": """
apiVersion: promptkit.altairalabs.ai/v1alpha1
kind: Tool
metadata: {name: find}
spec: {name: find, description: of the file, mode: mock, input_schema: {type: object}, mock_result: {a: 1}}
""",
}

WITH_A_SECOND = {
    **JUDGED,
    "config.arena.yaml": JUDGED["config.arena.yaml"].replace("[{file: provider.yaml}", "[{file: provider.yaml}, {file: second.yaml}"),
    "second.yaml": BUNDLE["provider.yaml"].replace("steady", "second").replace("type: mock", "type: anthropic"),
}
"""A second provider, of which only its id can be used: its type is none."""


def ref(name: str, **more: str) -> dict[str, Any]:
    """Return an entry that names a Provider."""
    return {"providerRef": {"name": name, **more}}


def agent(name: str) -> dict[str, Any]:
    """Return an entry that names an AgentRuntime."""
    return {"agentRef": {"name": name}}


async def secret(world: World, name: str, **data: str) -> None:
    """Create a Secret."""
    await world.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, "stringData": data})


async def run_of(world: World, files: Mapping[str, str] = BUNDLE, **spec: Any) -> Object:
    """Return the run of a job of these settings, looked at until its Job could be there."""
    await world.project_with(files)
    await world.job(**spec)
    await world.look_at_all(2)
    return await world.run()


async def plan_of(world: World, run: Object) -> Plan:
    """Return a run's plan."""
    assert run["status"].get("plan"), condition(run)["message"]
    return Plan.from_bytes(await world.queue.plan(run["metadata"]["uid"]))


async def variables(world: World) -> dict[str, Any]:
    """Return what each variable of the worker's container refers to, those with a plain value aside."""
    (job,) = await world.worker_jobs()
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry["valueFrom"]["secretKeyRef"] for entry in container["env"] if "valueFrom" in entry}


@pytest.mark.parametrize(
    ("providers", "tested"),
    [
        pytest.param({"default": [ref("b"), ref("a")]}, ["b", "a"], id="a list, in written order"),
        pytest.param({"default": {"steady": ref("a"), "second": ref("b")}}, ["second", "steady"], id="a map, by its keys"),
        pytest.param({"default": [ref("b"), ref("a")], "judge": [ref("c")]}, ["b", "a"], id="a list of judges is not tested"),
        pytest.param({"default": [ref("b")], "judge": {"referee": ref("a")}}, ["b"], id="a map of judges is not tested"),
        pytest.param({"default": [ref("a")], "extra": {"steady": ref("b")}}, ["a"], id="a map beside a list adds nothing"),
        pytest.param({"default": [ref("a"), agent("support")]}, ["a", "support"], id="an agent among providers"),
        pytest.param({"default": {"steady": agent("support"), "second": ref("a")}}, ["second", "steady"], id="an agent in a map, by its key"),
        pytest.param({"default": [ref("a", namespace=NAMESPACE)]}, ["a"], id="the job's own namespace may be named"),
    ],
)
async def test_who_is_tested(world: World, providers: dict[str, Any], tested: list[str]) -> None:
    """A job's groups replace the bundle's providers: lists and maps, alone and mixed, Providers and agents."""
    for name in "abc":
        await world.apply(PROVIDER, name, MOCK)
    await world.apply(AGENT_RUNTIME, "support", {})
    run = await run_of(world, WITH_A_SECOND, providers=providers)
    plan = await plan_of(world, run)
    assert [item.provider for item in plan.items] == tested
    assert set(plan.serving) <= {"referee"}


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"provider.yaml": None}, id="a file that is not there"),
        pytest.param({"provider.yaml": BUNDLE["provider.yaml"].replace("type: mock", "type: anthropic")}, id="a type that does not exist"),
        pytest.param({"answers.yaml": "turns: 7"}, id="answers that are none"),
    ],
)
async def test_provider_files_of_the_bundle_are_ignored(world: World, broken: Mapping[str, str | None]) -> None:
    """With providers in the job those of the bundle are not even read for what is wrong with them; without, they are."""
    files = {name: text for name, text in {**BUNDLE, **broken}.items() if text is not None}
    await world.apply(PROVIDER, "a", MOCK)
    run = await run_of(world, files, providers={"default": [ref("a")]})
    plan = await plan_of(world, run)
    assert ([item.provider for item in plan.items], plan.own_providers) == (["a"], False)
    assert await world.events("BundleWarning") == []
    await world.job("plain")
    await world.look_at_all(2)
    (own,) = [each for each in await world.runs() if each["spec"]["jobRef"]["name"] == "plain"]
    assert condition(own)["reason"] == "BundleInvalid"


@pytest.mark.parametrize(
    ("providers", "message"),
    [
        pytest.param({"default": [ref("absent")]}, "Provider 'absent' does not exist", id="a Provider"),
        pytest.param({"default": [agent("absent")]}, "AgentRuntime 'absent' does not exist", id="an AgentRuntime"),
        pytest.param({"other": {"steddy": ref("a")}}, "steady", id="a key that the config does not expect"),
        pytest.param({"default": {"second": ref("a")}}, "steady", id="a key that the config expects"),
    ],
)
async def test_what_is_missing_fails_the_run_by_name(world: World, providers: dict[str, Any], message: str) -> None:
    """An object or an id that is not there ends the run before anything starts, and the message names it."""
    await world.apply(PROVIDER, "a", MOCK)
    named = {**BUNDLE, "scenario.yaml": BUNDLE["scenario.yaml"].replace("  turns:", "  providers: [steady]\n  turns:")}
    run = await run_of(world, named, providers=providers)
    assert (run["status"]["phase"], condition(run)["reason"]) == ("Failed", "ProviderNotFound")
    assert message in condition(run)["message"]


async def test_a_provider_that_comes_later_is_for_the_next_run(world: World) -> None:
    """A run whose Provider is not there has ended, and stays so when it comes; the next run of the same template finds it."""
    named = {"default": [ref("late")]}
    assert condition(await run_of(world, providers=named))["reason"] == "ProviderNotFound"
    await world.apply(PROVIDER, "late", MOCK)
    await world.job("again", providers=named)
    await world.look_at_all(2)
    runs = {run["spec"]["jobRef"]["name"]: run["status"] for run in await world.runs()}
    assert (runs["eval"]["phase"], runs["again"].get("plan", {}).get("items")) == ("Failed", 1)


async def test_a_provider_that_cannot_be_read(lenient_world: World) -> None:
    """A Provider of another product may be no provider of ours; the run names it and the field."""
    await lenient_world.apply(PROVIDER, "a", {**OPENAI, "credential": {"envVar": "REDIS_URL"}})
    run = await run_of(lenient_world, providers={"default": [ref("a")]})
    assert condition(run)["reason"] == "InvalidSpec"
    assert "Provider 'a': spec.credential.envVar" in condition(run)["message"]


async def test_two_keys_of_one_vendor(world: World) -> None:
    """Each entry has a variable of its own, from its own Secret and key; one object named twice is one provider with one variable."""
    await secret(world, "team", OPENAI_TOKEN=KEY, **{"api-key": "other"})
    await secret(world, "batch", mine=KEY)
    await world.apply(PROVIDER, "one", {**OPENAI, "credential": {"secretRef": {"name": "team"}}})
    await world.apply(PROVIDER, "two", {**OPENAI, "credential": {"secretRef": {"name": "batch", "key": "mine"}}})
    run = await run_of(world, JUDGED, providers={"default": [ref("one"), ref("two")], "judge": {"referee": ref("one")}})
    plan = await plan_of(world, run)
    assert {name: spec["credential"]["credential_env"] for name, spec in plan.providers.items()} == {
        "one": "ARENA_CREDENTIAL_0",
        "two": "ARENA_CREDENTIAL_1",
    }
    assert await variables(world) == {
        "ARENA_CREDENTIAL_0": {"name": "team", "key": "OPENAI_TOKEN"},
        "ARENA_CREDENTIAL_1": {"name": "batch", "key": "mine"},
    }
    assert KEY not in json.dumps([await world.run(), await world.worker_jobs(), plan.to_bytes().decode()])


async def test_an_entry_that_the_plan_does_without_asks_for_no_secret(world: World) -> None:
    """Workers get the keys of their plan's providers and no other: nobody judges here, so the judge's Secret need not be there."""
    await world.apply(PROVIDER, "a", MOCK)
    await world.apply(PROVIDER, "unused", {**OPENAI, "credential": {"secretRef": {"name": "absent"}}})
    await run_of(world, providers={"default": [ref("a")], "extra": {"steady": ref("unused")}})
    assert await variables(world) == {}


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        pytest.param(None, "key 'mine' of Secret 'team', which does not exist", id="no Secret"),
        pytest.param({"other": "x"}, "key 'mine' of Secret 'team', which has no such key", id="no key"),
    ],
)
async def test_a_run_waits_for_a_secret_and_goes_on(world: World, data: dict[str, str] | None, cause: str) -> None:
    """A missing Secret or key is JobCreationFailed with both names; the run is tried again, each time later, and starts once it is there."""
    if data:
        await secret(world, "team", **data)
    await world.apply(PROVIDER, "one", {**OPENAI, "credential": {"secretRef": {"name": "team", "key": "mine"}}})
    run = await run_of(world, providers={"default": [ref("one")]})
    created = condition(run, "JobCreated")
    assert (run["status"]["phase"], created["status"], created["reason"]) == ("Pending", "False", "JobCreationFailed")
    assert cause in created["message"]
    assert "Provider 'one'" in created["message"]
    if data:
        await world.cluster.delete(SECRET, NAMESPACE, "team")
    await secret(world, "team", mine=KEY)
    await world.clock.advance(timedelta(minutes=1).total_seconds())
    await world.look_at_all()
    assert condition(await world.run(), "JobCreated")["status"] == "True"
    assert await variables(world) == {"ARENA_CREDENTIAL_0": {"name": "team", "key": "mine"}}


async def test_a_run_that_waits_is_looked_at_less_and_less_often(world: World) -> None:
    """The wait doubles from five seconds to a minute, whoever waits: what stands in the status tells how long it has lasted."""
    await world.apply(PROVIDER, "one", {**OPENAI, "credential": {"secretRef": {"name": "team"}}})
    run = await run_of(world, providers={"default": [ref("one")]})
    waits = []
    for _ in range(6):
        waiting = waiting_for_job(RunScope(Pass(run, world.cluster, world.clock), world.runs_world), "m")
        waits.append(waiting.after.total_seconds())
        await world.clock.advance(waits[-1])
    assert waits == [5, 5, 10, 20, 40, 60]


async def test_a_run_that_waits_for_a_secret_can_be_cancelled(world: World) -> None:
    """Nothing is planned yet, so it ends at once."""
    await world.apply(PROVIDER, "one", {**OPENAI, "credential": {"secretRef": {"name": "team"}}})
    run = await run_of(world, providers={"default": [ref("one")]})
    await world.cluster.patch(ARENA_RUN, NAMESPACE, run["metadata"]["name"], {"spec": {"cancelled": True}})
    await world.look_at_all()
    assert (await world.run())["status"]["phase"] == "Cancelled"


async def test_no_secret_is_asked_for_under_the_mock(world: World) -> None:
    """A run whose providers are replaced needs no key of theirs."""
    await world.apply(PROVIDER, "one", {**OPENAI, "credential": {"secretRef": {"name": "absent"}}})
    await world.project_with()
    await world.job(annotations={"arena.omnia.altairalabs.ai/mock-provider": "true"}, providers={"default": [ref("one")]})
    await world.look_at_all(2)
    assert await variables(world) == {}


async def test_variables_of_the_job_are_waited_for_on_one_machine(world: World) -> None:
    """What podOverrides refer to must be there before a process starts; the run says what is not."""
    await world.apply(PROVIDER, "a", MOCK)
    overrides = {
        "extraEnv": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "team", "key": "k"}}}],
        "extraEnvFrom": [{"configMapRef": {"name": "c"}}],
    }
    run = await run_of(world, providers={"default": [ref("a")]}, workers={"podOverrides": overrides})
    assert "podOverrides.extraEnv[0] needs key 'k' of Secret 'team', which does not exist" in condition(run, "JobCreated")["message"]
    await secret(world, "team", k=KEY)
    await world.look_at_all()
    said = condition(await world.run(), "JobCreated")["message"]
    assert "podOverrides.extraEnvFrom[0] needs ConfigMap 'c', which does not exist" in said
    await world.cluster.create({"apiVersion": "v1", "kind": CONFIG_MAP.kind, "metadata": {"name": "c", "namespace": NAMESPACE}, "data": {"a": "b"}})
    await world.look_at_all()
    assert len(await world.worker_jobs()) == 1


async def test_a_key_in_a_file_is_refused_on_one_machine(world: World) -> None:
    """A worker here could read any file of whoever runs it, so no provider may name one."""
    await world.apply(PROVIDER, "a", {**OPENAI, "credential": {"filePath": "/home/me/.ssh/id"}})
    run = await run_of(world, providers={"default": [ref("a")]})
    assert (run["status"]["phase"], condition(run)["reason"]) == ("Failed", "NotSupported")
    assert "provider 'a' takes its key from a file" in condition(run)["message"]


async def test_what_a_provider_says_in_vain_is_told(world: World) -> None:
    """A field without an effect is named in a Warning event; it fails nothing."""
    await world.apply(PROVIDER, "a", {**MOCK, "headers": {"x": "y"}})
    run = await run_of(world, providers={"default": [ref("a")]})
    assert run["status"]["phase"] == "Running"
    assert await world.events("FieldIgnored") == ["Provider 'a' sets what has no effect on a mock: spec.headers.x"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"phase": "Running", "serviceEndpoint": "support.agents:9000"}, {"endpoint": "support.agents:9000"}, id="running"),
        pytest.param({"phase": "Running", "serviceEndpoint": "support"}, {"endpoint": "support:8080"}, id="running, without a port"),
        pytest.param({"phase": "Running", "serviceEndpoint": "[::1]"}, {"endpoint": "[::1]:8080"}, id="running, at an address without a port"),
        pytest.param({"phase": "Pending"}, {"endpoint": "", "trouble": "AgentRuntime 'support' is Pending"}, id="pending"),
        pytest.param({"phase": "Failed", "serviceEndpoint": "s:1"}, {"endpoint": "", "trouble": "AgentRuntime 'support' is Failed"}, id="failed"),
        pytest.param({}, {"endpoint": "", "trouble": "AgentRuntime 'support' is not deployed yet"}, id="without a status"),
        pytest.param(
            {"phase": "Running"},
            {"endpoint": "", "trouble": "AgentRuntime 'support' is Running and has no serviceEndpoint"},
            id="running, without an endpoint",
        ),
    ],
)
async def test_an_agent_in_a_plan(world: World, status: dict[str, str], expected: dict[str, str]) -> None:
    """A plan says where an agent is, or why it cannot be talked to: its items then are errors, and the run goes on."""
    await world.apply(AGENT_RUNTIME, "support", {})
    if status:
        await world.cluster.patch_status(AGENT_RUNTIME, NAMESPACE, "support", status)
    plan = await plan_of(world, await run_of(world, providers={"default": [agent("support")]}))
    common = {"type": "agent", "id": "support", "agent": "support", "namespace": NAMESPACE, "from_job": True}
    assert plan.providers["support"] == {**common, **expected}


async def registry(world: World, name: str, *tools: dict[str, Any]) -> None:
    """Create a ToolRegistry that has discovered these tools."""
    handler = {"name": "h", "type": "http", "httpConfig": {"endpoint": "http://never"}}
    schema = {"name": "find", "description": "d", "inputSchema": {"type": "object"}}
    await world.apply(TOOL_REGISTRY, name, {"handlers": [{**handler, "tool": schema}]})
    await world.cluster.patch_status(TOOL_REGISTRY, NAMESPACE, name, {"phase": "Ready", "discoveredTools": list(tools)})


FIND = {"name": "find", "handlerName": "h", "description": "of the registry", "endpoint": "http://10.0.0.7/find", "status": "Available"}


async def test_tools_of_registries_are_planned(world: World) -> None:
    """The discovered tools that the bundle has are in the plan, by name; what the bundle does not have is none of its tools."""
    await registry(world, "core", FIND, {**FIND, "name": "unknown"})
    plan = await plan_of(world, await run_of(world, JUDGED, toolRegistries=[{"name": "core"}]))
    assert plan.tools == {"find": RegistryTool("http://10.0.0.7/find", "of the registry")}
    assert await world.events("FieldIgnored") == []


async def test_a_registry_that_is_not_there_fails_the_run_by_name(world: World) -> None:
    """Tools are not called elsewhere than was asked for."""
    run = await run_of(world, JUDGED, toolRegistries=[{"name": "absent"}])
    assert (run["status"]["phase"], condition(run)["reason"]) == ("Failed", "ToolRegistryNotFound")
    assert "ToolRegistry 'absent' does not exist" in condition(run)["message"]


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        pytest.param([], "ToolRegistry 'second' has discovered no tools", id="a registry without tools"),
        pytest.param([{**FIND, "endpoint": ""}], "has no endpoint, so the bundle's own is called", id="a tool without an endpoint"),
        pytest.param([{**FIND, "status": "Unavailable"}], "'second' is Unavailable", id="a tool that is not available"),
        pytest.param([FIND], "takes the place of that of ToolRegistry 'first'", id="a tool of both"),
    ],
)
async def test_what_is_odd_about_registries_is_told(world: World, tools: list[dict[str, Any]], said: str) -> None:
    """Whatever a reader would not expect is said in a Warning event; the run goes on."""
    await registry(world, "first", FIND)
    await registry(world, "second", *tools)
    await plan_of(world, await run_of(world, JUDGED, toolRegistries=[{"name": "first"}, {"name": "second"}]))
    assert any(said in event for event in await world.events("FieldIgnored")), await world.events("FieldIgnored")
