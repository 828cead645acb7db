"""Sampling that a vendor refuses: told of a bundle before anything is asked, refused in a job's Provider."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.bundle import load_bundle
from engine.errors import BundleInvalid
from engine.job_providers import ResolvedProvider
from engine.plan import MockOverride, PlanRequest, make_plan
from engine.providers.sampling_ranges import sampling_faults
from engine.validate import Severity, validate_bundle
from reconcile.errors import Invalid
from reconcile.kinds.admission import admit
from reconcile.provider_spec import ProviderUnreadable, provider_spec


def written(root: Path, provider: dict[str, Any], arena: dict[str, Any] | None = None) -> Path:
    """Write a bundle of one provider that is tested."""
    prompt = {"p": {"task_type": "t", "system_template": "x"}}
    scenario = {"s": {"task_type": "t", "turns": [{"role": "user", "content": "Hi"}]}}
    spec = {"prompt_specs": prompt, "scenario_specs": scenario, "providers": [{"file": "m.yaml"}], "defaults": arena or {}}
    files = {"config.arena.yaml": ("Arena", spec), "m.yaml": ("Provider", {"type": "openai", "model": "gpt-5", **provider})}
    for name, (kind, content) in files.items():
        (root / name).write_text(yaml.safe_dump({"kind": kind, "metadata": {"name": "m"}, "spec": content}, sort_keys=False), encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("kind", "values", "keys"),
    [
        pytest.param("openai", {"temperature": 2.0, "top_p": 1.0}, [], id="the most that is taken"),
        pytest.param("openai", {"temperature": 0, "top_p": 0.0}, [], id="the least"),
        pytest.param("openai", {"temperature": 2.1, "top_p": 2.0}, ["temperature", "top_p"], id="above"),
        pytest.param("gemini", {"temperature": -0.1, "top_p": -1}, ["temperature", "top_p"], id="below"),
        pytest.param("claude", {"temperature": 1.5}, ["temperature"], id="a vendor's own range"),
        pytest.param("vllm", {"temperature": 9.0, "top_p": 1.1}, ["top_p"], id="a server that takes any temperature"),
        pytest.param("openai", {"temperature": float("nan")}, ["temperature"], id="no number at all"),
        pytest.param("openai", {"temperature": None}, [], id="not set"),
        pytest.param("mock", {"temperature": 9.0, "top_p": 9.0}, [], id="a mock"),
    ],
)
def test_the_ranges(kind: str, values: dict[str, Any], keys: list[str]) -> None:
    """Each type has its own; what asks nobody has none."""
    assert [key for key, _ in sampling_faults(kind, values)] == keys


@pytest.mark.parametrize(
    ("provider", "arena", "said"),
    [
        pytest.param({"defaults": {"temperature": 9}}, {}, "temperature is 9, and models of type openai take 0 to 2", id="a provider's"),
        pytest.param({"defaults": {"top_p": 2}}, {}, "top_p is 2, and models of type openai take 0 to 1", id="the nucleus"),
        pytest.param({}, {"temperature": -1}, "temperature is -1, and models of type openai take 0 to 2", id="the arena's"),
        pytest.param(
            {"type": "claude", "model": "claude-3"}, {"temperature": 1.5}, "temperature is 1.5, and models of type claude take 0 to 1", id="claude"
        ),
        pytest.param({"defaults": {"temperature": 9}}, {"temperature": 1}, "", id="the arena's wins"),
        pytest.param({"defaults": {"temperature": 9}, "unsupported_params": ["temperature"]}, {}, "", id="one that is not sent"),
        pytest.param({"type": "mock", "defaults": {"temperature": 9}}, {}, "", id="a mock"),
    ],
)
def test_a_bundle_is_warned_of(tmp_path: Path, provider: dict[str, Any], arena: dict[str, Any], said: str) -> None:
    """The format takes any number, so the bundle runs; `arena validate` and the plan name provider and value."""
    root = written(tmp_path, provider, arena)
    warnings = [text for text in make_plan(load_bundle(root), PlanRequest()).warnings if "will be refused" in text]
    assert [text.split("refused: ")[1] for text in warnings] == ([said] if said else [])
    told = [problem for problem in validate_bundle(root) if "will be refused" in problem.message]
    assert [(problem.severity, problem.file) for problem in told] == [(Severity.WARNING, "config.arena.yaml" if arena else "m.yaml")][: len(warnings)]


def test_a_limit_below_one_is_an_error(tmp_path: Path) -> None:
    """No reply has less than one token, in whoever's defaults."""
    for provider, arena in (({"defaults": {"max_tokens": -5}}, {}), ({}, {"max_tokens": 0})):
        with pytest.raises(BundleInvalid, match="'max_tokens': it must be at least 1"):
            load_bundle(written(tmp_path, provider, arena))


def test_a_jobs_provider_is_warned_of_with_the_arenas_defaults(tmp_path: Path) -> None:
    """Also where a job brings the models, the arena's defaults go before theirs; a mock in their place is asked at any temperature."""
    job = {"default": (ResolvedProvider("opus", {"type": "claude", "model": "claude-3", "from_job": True}),)}
    bundle = load_bundle(written(tmp_path, {}, {"temperature": 1.5}), own_providers=False)
    (warning, *_) = make_plan(bundle, PlanRequest(providers=job)).warnings
    assert "requests to provider 'opus' will be refused: temperature is 1.5" in warning
    assert make_plan(bundle, PlanRequest(providers=job, mock=MockOverride())).warnings == ()


@pytest.mark.parametrize(
    ("kind", "defaults", "path"),
    [
        pytest.param("openai", {"temperature": "9"}, "spec.defaults.temperature", id="temperature"),
        pytest.param("claude", {"temperature": "1.2"}, "spec.defaults.temperature", id="temperature of claude"),
        pytest.param("gemini", {"topP": "2"}, "spec.defaults.topP", id="topP"),
        pytest.param("openai", {"maxTokens": -1}, "spec.defaults.maxTokens", id="maxTokens"),
    ],
)
def test_a_provider_is_refused(kind: str, defaults: dict[str, Any], path: str) -> None:
    """Admission refuses the field by name; a run refuses an object that nobody admitted."""
    metadata = {"name": "m", "namespace": "default"}
    spec = {"type": kind, "model": "m", "defaults": defaults}
    with pytest.raises(Invalid) as caught:
        admit("Provider", {"apiVersion": "omnia.altairalabs.ai/v1alpha1", "kind": "Provider", "metadata": metadata, "spec": spec}, None)
    assert [error.path for error in caught.value.errors] == [path]
    if "maxTokens" not in defaults:
        with pytest.raises(ProviderUnreadable, match=f"^{path}: "):
            provider_spec("m", spec, 0)
