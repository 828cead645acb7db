"""What a run refuses before anything starts: each by its reason, with the file or field in the message, and nothing left behind."""

from collections.abc import Mapping
from typing import Any

import pytest

from engine.bundle import load_bundle
from engine.conversation import ItemRunner
from engine.items import Verdict
from engine.plan import Plan
from reconcile.cluster.port import PROVIDER, WORKSPACE
from tests.reconcile.conftest import BUNDLE, World, condition


def edited(name: str, old: str, new: str) -> Mapping[str, str]:
    """Return the bundle with one text replaced in one file."""
    assert old in BUNDLE[name]
    return {**BUNDLE, name: BUNDLE[name].replace(old, new)}


def without(name: str) -> Mapping[str, str]:
    """Return the bundle without a file."""
    return {path: text for path, text in BUNDLE.items() if path != name}


@pytest.mark.parametrize(
    ("files", "spec", "reason", "message"),
    [
        pytest.param(BUNDLE, {"arenaFile": "absent.yaml"}, "ArenaFileNotFound", "absent.yaml", id="the arena file is missing"),
        pytest.param(BUNDLE, {"ref": "no-such-branch"}, "RefNotFound", "no-such-branch", id="the ref names nothing"),
        pytest.param(BUNDLE, {"scenarios": {"include": ["nothing-*"]}}, "NoScenarios", "nothing-", id="a filter that matches nothing"),
        pytest.param(BUNDLE, {"trials": 10_001}, "MatrixTooLarge", "10000", id="a matrix over the cap names the cap"),
        pytest.param(BUNDLE, {"trials": 10_001}, "MatrixTooLarge", "10001", id="a matrix over the cap names its size"),
        pytest.param(
            edited("scenario.yaml", "content_includes", "content_inclodes"),
            {},
            "BundleInvalid",
            "content_includes",
            id="an unknown check, with the near miss",
        ),
        pytest.param(edited("scenario.yaml", "patterns", "patern"), {}, "BundleInvalid", "patterns", id="a mistyped parameter, with the near miss"),
        pytest.param(without("scenario.yaml"), {}, "BundleInvalid", "scenario.yaml", id="a missing scenario file"),
        pytest.param(
            edited("scenario.yaml", "  turns:", "  providers: [gpt]\n  turns:"),
            {},
            "ProviderNotFound",
            "gpt",
            id="a scenario that names an unknown provider",
        ),
        pytest.param(edited("provider.yaml", "type: mock", "type: imagen"), {}, "NotSupported", "imagen", id="a provider type that is not built"),
        pytest.param(
            BUNDLE,
            {"providers": {"default": [{"providerRef": {"name": "absent"}}]}},
            "ProviderNotFound",
            "absent",
            id="a job that names an unknown Provider",
        ),
        pytest.param(BUNDLE, {"baseline": {"ref": "main"}}, "NotSupported", "spec.baseline", id="a field that is not supported"),
        pytest.param(BUNDLE, {"type": "loadtest"}, "NotSupported", "spec.type", id="a type that is not supported"),
    ],
)
async def test_refused_by_name(world: World, files: Mapping[str, str], spec: Mapping[str, Any], reason: str, message: str) -> None:
    """A run that cannot be what was asked for fails with a reason and a message that names the cause; no Job is made, nothing is queued."""
    await world.project_with(files)
    await world.job(**spec)
    await world.look_at_all(2)
    run = await world.run()
    ready = condition(run)
    assert (run["status"]["phase"], ready["reason"]) == ("Failed", reason), ready["message"]
    assert message in ready["message"]
    assert await world.worker_jobs() == []
    assert await world.queue.runs() == []
    assert "result" not in run["status"]


@pytest.mark.parametrize(
    ("name", "label", "refused"),
    [
        pytest.param("arena", None, True, id="the workspace of the namespace's own name"),
        pytest.param("team", "team", True, id="the workspace that the namespace's label names"),
        pytest.param("arena", "team", False, id="the label goes before the name"),
        pytest.param("other", None, False, id="another workspace"),
    ],
)
async def test_a_workspace_with_quotas_is_not_supported(world: World, name: str, label: str | None, *, refused: bool) -> None:
    """A run in a namespace whose Workspace sets what nothing honours yet is refused, naming the field."""
    labels = {"omnia.altairalabs.ai/workspace": label} if label else {}
    await world.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "arena", "labels": labels}})
    await world.cluster.create(
        {
            "apiVersion": WORKSPACE.api_version,
            "kind": "Workspace",
            "metadata": {"name": name},
            "spec": {"namespace": {"name": "arena"}, "quotas": {"arena": {"maxConcurrentJobs": 1}}},
        },
    )
    await world.project_with()
    await world.job()
    await world.look_at_all(2)
    ready = condition(await world.run())
    assert (ready["reason"] == "NotSupported", "spec.quotas" in ready["message"]) == (refused, refused)


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        pytest.param(
            {"baseline": {"ref": "main"}, "scenarios": {"include": ["scenarios/[a"]}},
            "InvalidSpec",
            "spec.scenarios.include[0]",
            id="invalid before not supported",
        ),
        pytest.param(
            {"providers": {"default": [{"providerRef": {"name": "p"}, "agentRef": {"name": "a"}}]}},
            "InvalidProviderEntry",
            "default[0]",
            id="an entry with both",
        ),
        pytest.param({"providers": {"judge": {"main": {}}}}, "InvalidProviderEntry", "main", id="an entry with neither"),
        pytest.param({"arenaFile": "../other/config.arena.yaml"}, "InvalidSpec", "spec.arenaFile", id="an arena file outside"),
    ],
)
async def test_what_no_admission_refused_is_refused_by_the_run(lenient_world: World, spec: Mapping[str, Any], reason: str, message: str) -> None:
    """Where no admission runs, the run checks its template itself; what is wrong is named before what is not built."""
    world = lenient_world
    await world.project_with()
    await world.job(**spec)
    await world.look_at_all(2)
    run = await world.run()
    ready = condition(run)
    assert (run["status"]["phase"], ready["reason"]) == ("Failed", reason), ready["message"]
    assert message in ready["message"]


async def test_a_provider_elsewhere_keeps_the_run_pending(lenient_world: World) -> None:
    """A Provider of another namespace is refused as JobCreationFailed, and tried again: the run stays Pending."""
    world = lenient_world
    await world.project_with()
    await world.job(providers={"default": [{"providerRef": {"name": "p", "namespace": "other"}}]})
    await world.look_at_all(2)
    run = await world.run()
    assert run["status"]["phase"] == "Pending"
    assert condition(run, "JobCreated")["reason"] == "JobCreationFailed"


async def test_job_providers_replace_the_bundles(world: World) -> None:
    """With providers in the job, array entries are the subjects under their Provider's name, and the bundle's own do not run."""
    await world.project_with()
    for name in ("alpha", "beta"):
        await world.apply(PROVIDER, name, {"type": "mock", "model": name})
    await world.job(providers={"default": [{"providerRef": {"name": "beta"}}, {"providerRef": {"name": "alpha"}}]})
    await world.look_at_all(2)
    run = await world.run()
    assert run["status"]["plan"]["items"] == 2, condition(run)["message"]
    assert run["status"]["plan"]["providers"] == 2


async def test_a_providers_answers_come_from_its_config_map(world: World) -> None:
    """A mock Provider answers with what its ConfigMap says, and the run's plan carries it."""
    await world.project_with()
    await world.cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "answers", "namespace": "arena"}, "data": {"a.yaml": "defaultResponse: hello"}}
    )
    await world.apply(PROVIDER, "alpha", {"type": "mock", "mock": {"configMap": {"name": "answers", "key": "a.yaml"}}})
    await world.job(providers={"default": [{"providerRef": {"name": "alpha"}}]})
    await world.look_at_all(2)
    run = await world.run()
    plan = Plan.from_bytes(await world.queue.plan(run["metadata"]["uid"]))
    bundle = load_bundle(world.volume.snapshot(world.project, run["status"]["source"]["commit"]))
    result = await ItemRunner(bundle, plan, world.clock).run(plan.items[0])
    assert result.verdict is Verdict.PASS, result.checks


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        pytest.param(
            {"type": "mock", "mock": {"configMap": {"name": "absent", "key": "k"}}}, "ProviderNotFound", "absent", id="answers that do not exist"
        ),
        pytest.param({"type": "imagen", "role": "image", "model": "m"}, "NotSupported", "imagen", id="a type that is not built"),
    ],
)
async def test_providers_refused(world: World, spec: Mapping[str, Any], reason: str, message: str) -> None:
    """A Provider that a run cannot honour whole fails the run, naming what."""
    await world.project_with()
    await world.apply(PROVIDER, "alpha", spec)
    await world.job(providers={"default": [{"providerRef": {"name": "alpha"}}]})
    await world.look_at_all(2)
    ready = condition(await world.run())
    assert (ready["reason"], message in ready["message"]) == (reason, True), ready["message"]
