"""The matrix, its order, its ids, its bytes."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.bundle import load_bundle
from engine.bundle.model import Scenario, Turn
from engine.bundle.perturbations import count_variants, variants_of
from engine.errors import BundleInvalid, EngineVersionMismatch, MatrixTooLarge
from engine.job_providers import JobProviders, ResolvedProvider
from engine.plan import MockOverride, Plan, PlanRequest, WorkerOptions, make_plan
from engine.version import ENGINE_VERSION

Write = Callable[[Mapping[str, str | bytes | None]], Path]

ARENA = """kind: Arena
metadata: {name: small}
spec:
  prompt_configs: [{id: assistant, file: prompts/assistant.yaml}]
  providers: [{file: providers/mock.yaml}]
  provider_specs: {gpt: {type: openai, model: gpt-5, credential: {credential_env: KEY}}}
  scenarios: [{file: scenarios/hello.yaml}]
  defaults: {run_timeout: 90s}
"""
SCENARIO = """kind: Scenario
metadata: {name: hello}
spec:
  task_type: assistant
  trials: 2
  turns: [{role: user, content: "{a} {b}", perturbations: {a: [x, y], b: [1, 2]}}]
"""


@pytest.fixture
def root(write: Write) -> Path:
    """Return a bundle of one scenario with two trials and four variants, and two providers."""
    return write({"config.arena.yaml": ARENA, "scenarios/hello.yaml": SCENARIO, "override.yaml": "defaultResponse: over\n"})


def test_order_and_ids(root: Path) -> None:
    """Items come by scenario, provider, trial and perturbation; ids and indexes follow."""
    items = make_plan(load_bundle(root), PlanRequest()).items
    ids = [f"hello/{provider}/{trial}/a={a},b={b}" for provider in ("gpt", "mock") for trial in (1, 2) for a in ("x", "y") for b in (1, 2)]
    assert [item.id for item in items] == ids
    assert [item.index for item in items] == list(range(16))
    assert items[1].variables == (("a", "x"), ("b", "2"))


@pytest.mark.parametrize(
    ("trials", "items"),
    [pytest.param(None, 16, id="the scenario's own"), pytest.param(1, 8, id="fewer"), pytest.param(5, 40, id="more")],
)
def test_trials(root: Path, trials: int | None, items: int) -> None:
    """A request's trials override every scenario's own."""
    assert len(make_plan(load_bundle(root), PlanRequest(trials=trials)).items) == items


def test_cap(root: Path) -> None:
    """One item over the cap is refused with both numbers; a matrix at the cap is not."""
    bundle = load_bundle(root)
    assert len(make_plan(bundle, PlanRequest(item_cap=16)).items) == 16
    with pytest.raises(MatrixTooLarge) as caught:
        make_plan(bundle, PlanRequest(item_cap=15))
    assert caught.value.message == "cannot plan the run: 16 items are over the cap of 15"


def test_cap_before_the_product_is_made() -> None:
    """A product beyond any memory is counted, not made."""
    turn = Turn("user", perturbations={f"k{n}": tuple("abcdefghij") for n in range(30)})
    assert count_variants(Scenario("s", "s", turns=(turn,))) == 10**30


@pytest.mark.parametrize(
    ("values", "label"),
    [
        pytest.param({"order_id": ("ORD-1",)}, "order_id=ORD-1", id="readable"),
        pytest.param({"a": ("x y",), "b": ("é",)}, "a=x y,b=é", id="several keys, spaces, letters"),
        pytest.param({"url": ("https://a/b?c=d,e",)}, "url=https:%2F%2Fa%2Fb?c%3Dd%2Ce", id="separators are escaped"),
        pytest.param({"t": ("x" * 300,)}, "t=" + "x" * 81 + "~ad083dd256f27cba", id="long values are cut and hashed"),
    ],
)
def test_labels(values: dict[str, tuple[str, ...]], label: str) -> None:
    """A variant's label can be read, is unambiguous, and holds no separator of item ids."""
    assert variants_of(Scenario("s", "s", turns=(Turn("user", perturbations=values),)))[0].label == label


def test_bytes_are_canonical(root: Path) -> None:
    """Equal requests give equal bytes and digests; the bytes give the plan back."""
    one, two = (make_plan(load_bundle(root), PlanRequest(mock=MockOverride("override.yaml"))) for _ in range(2))
    assert one.to_bytes() == two.to_bytes()
    assert one.digest == two.digest
    assert one.digest.startswith("sha256:")
    again = Plan.from_bytes(one.to_bytes(), engine_version=ENGINE_VERSION)
    assert again == one
    assert again.items == one.items
    assert again.to_bytes() == one.to_bytes()


def test_size_does_not_grow_with_trials(root: Path) -> None:
    """The plan stores cells, so a thousand trials take no more room than two."""
    bundle = load_bundle(root)
    few, many = (make_plan(bundle, PlanRequest(trials=trials)).to_bytes() for trials in (2, 1000))
    assert len(many) - len(few) < 20


def test_other_engine_version_is_refused(root: Path) -> None:
    """A plan of another engine version is refused where that is asked for, and read where it is not."""
    content = json.loads(make_plan(load_bundle(root), PlanRequest()).to_bytes())
    data = json.dumps({**content, "engineVersion": "0"}).encode()
    with pytest.raises(EngineVersionMismatch, match=f"it was made by engine version 0, this one is {ENGINE_VERSION}"):
        Plan.from_bytes(data, engine_version=ENGINE_VERSION)
    assert Plan.from_bytes(data).engine_version == "0"


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"engineVersion": "1", "cells": 3}'])
def test_bytes_of_no_plan(data: bytes) -> None:
    """Other bytes are no plan."""
    with pytest.raises(ValueError, match=r"plan|Expecting value|list indices"):
        Plan.from_bytes(data)


def test_options(root: Path) -> None:
    """Worker options are copied; the item timeout falls back to the arena's run_timeout."""
    bundle = load_bundle(root)
    plan = make_plan(bundle, PlanRequest(), WorkerOptions(concurrency=3, image="arena:1", confidence=0.9))
    assert (plan.concurrency, plan.image, plan.confidence, plan.item_timeout_s) == (3, "arena:1", 0.9, 90.0)
    assert make_plan(bundle, PlanRequest(), WorkerOptions(item_timeout_s=7)).item_timeout_s == 7


def test_specs_are_resolved(root: Path) -> None:
    """The plan carries the specs of its providers, with paths relative to the bundle's root."""
    specs = make_plan(load_bundle(root), PlanRequest()).providers
    assert specs["mock"] == {"id": "mock", "type": "mock", "additional_config": {"mock_config": "mock.yaml"}}
    assert specs["gpt"] == {"id": "gpt", "type": "openai", "model": "gpt-5", "credential": {"credential_env": "KEY"}}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(None, {"gpt": {}, "mock": {"mock_config": "mock.yaml"}}, id="each its own file, or the generic reply"),
        pytest.param("override.yaml", {"gpt": {"mock_config": "override.yaml"}, "mock": {"mock_config": "override.yaml"}}, id="one file for all"),
    ],
)
def test_override(root: Path, config: str | None, expected: dict[str, Any]) -> None:
    """The mock replaces every provider: its file comes before a provider's own, and that before the generic reply."""
    plan = make_plan(load_bundle(root), PlanRequest(mock=MockOverride(config)))
    assert {ident: spec["additional_config"] for ident, spec in plan.providers.items()} == expected
    assert {spec["type"] for spec in plan.providers.values()} == {"mock"}
    assert plan.providers["gpt"]["model"] == "gpt-5"
    assert plan.mocked == MockOverride(config)


def test_override_file_before_a_job_s_answers(root: Path) -> None:
    """The override's file comes before answers that a job's mock provider brings; without a file the answers stay."""
    job: JobProviders = {"default": (ResolvedProvider("m", {"type": "mock", "additional_config": {"mock_answers": "defaultResponse: x"}}),)}
    bundle = load_bundle(root)
    plans = [make_plan(bundle, PlanRequest(providers=job, mock=MockOverride(config))) for config in ("override.yaml", None)]
    assert [plan.providers["m"]["additional_config"] for plan in plans] == [
        {"mock_config": "override.yaml"},
        {"mock_answers": "defaultResponse: x"},
    ]


def test_override_keeps_what_a_mock_is(write: Write) -> None:
    """A mock under the override keeps its own settings, and a model the response file that it names for being mocked."""
    mock = "kind: Provider\nmetadata: {name: mock}\nspec: {type: mock, additional_config: {latency_ms: 50}}\n"
    gpt = "kind: Provider\nmetadata: {name: gpt}\nspec: {type: openai, additional_config: {api_mode: chat, mock_config: mock.yaml}}\n"
    arena = ARENA.replace("[{file: providers/mock.yaml}]", "[{file: providers/mock.yaml}, {file: gpt.yaml}]").replace("{gpt: {", "{other: {")
    plan = make_plan(load_bundle(write({"config.arena.yaml": arena, "providers/mock.yaml": mock, "gpt.yaml": gpt})), PlanRequest(mock=MockOverride()))
    configs = {ident: spec["additional_config"] for ident, spec in plan.providers.items()}
    assert configs == {"gpt": {"mock_config": "mock.yaml"}, "mock": {"latency_ms": 50}, "other": {}}


def test_override_replaces_a_job_s_providers(root: Path) -> None:
    """A job's providers are replaced as well."""
    job = {"default": (ResolvedProvider("prod", {"type": "claude", "model": "c"}),)}
    plan = make_plan(load_bundle(root), PlanRequest(providers=job, mock=MockOverride()))
    assert plan.providers == {"prod": {"id": "prod", "model": "c", "type": "mock", "additional_config": {}}}


def test_override_by_absolute_path(root: Path, tmp_path: Path) -> None:
    """An absolute path inside the bundle is a path of the bundle; one outside needs leave."""
    outside = tmp_path / "mine.yaml"
    outside.write_text("defaultResponse: mine\n")
    bundle = load_bundle(root)
    assert make_plan(bundle, PlanRequest(mock=MockOverride(str(root / "override.yaml")))).mocked == MockOverride("override.yaml")
    with pytest.raises(BundleInvalid, match="the path leaves the bundle"):
        make_plan(bundle, PlanRequest(mock=MockOverride(str(outside))))
    assert make_plan(bundle, PlanRequest(mock=MockOverride(str(outside), outside=True))).mocked == MockOverride(str(outside), outside=True)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param("missing.yaml", "missing.yaml: cannot find 'missing.yaml': no such file in the bundle", id="missing"),
        pytest.param("scenarios/hello.yaml", "scenarios/hello.yaml:1: unknown key 'kind' in a mock response file", id="another file"),
        pytest.param("../mine.yaml", "cannot use mock responses '../mine.yaml': the path leaves the bundle", id="outside"),
    ],
)
def test_override_that_cannot_be_read(root: Path, config: str, message: str) -> None:
    """An override whose file cannot be read is refused before anything runs."""
    with pytest.raises(BundleInvalid) as caught:
        make_plan(load_bundle(root), PlanRequest(mock=MockOverride(config)))
    assert caught.value.message.splitlines()[0].startswith(message)


def test_plan_holds_no_secret(write: Write) -> None:
    """A key in a provider file does not reach the plan."""
    spec = "kind: Provider\nmetadata: {name: mock}\nspec: {type: openai, credential: {api_key: sk-secret}}\n"
    plan = make_plan(load_bundle(write({"providers/mock.yaml": spec})), PlanRequest())
    assert b"sk-secret" not in plan.to_bytes()
