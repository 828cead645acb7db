"""The public bundles load, and what of them runs is planned as the reference engine plans it."""

import json
from collections import Counter
from pathlib import Path

import pytest

from engine.bundle import check_supported, load_bundle
from engine.errors import CodeNotAllowed
from engine.plan import MockOverride, PlanRequest, make_plan
from engine.validate import Severity, validate_bundle

BUNDLES = [
    *("assertions-test", "capability-matrix", "client-tools", "context-management", "customer-support", "document-analysis", "eval-test"),
    *("guardrails-test", "live-http-tools", "llm-judge", "load-testing", "mcp-filesystem-test", "model-migration", "multimodal-tool-results"),
    *("rag-agent", "resilience-testing", "variables-demo", "voice-bake-off", "voice-ivr", "workflow-order-processing", "workflow-support"),
]
OFFLINE = ["guardrails-test", "model-migration", "resilience-testing", "voice-bake-off"]


@pytest.mark.parametrize("name", BUNDLES)
def test_bundle_loads(corpus: Path, name: str) -> None:
    """Every public bundle loads without an error."""
    bundle = load_bundle(corpus / name)
    assert bundle.scenarios or bundle.evals


@pytest.mark.parametrize("name", BUNDLES)
def test_bundle_validates(corpus: Path, name: str) -> None:
    """Validation finds no error in a public bundle; what is not built is a note."""
    assert [str(p) for p in validate_bundle(corpus / name) if p.severity is Severity.ERROR] == []


def test_whole_corpus_is_covered(corpus: Path) -> None:
    """No bundle of the corpus is left out of the tables above."""
    assert sorted(path.name for path in corpus.iterdir()) == BUNDLES


NO_MATRIX = {"eval-test", "capability-matrix", "mcp-filesystem-test"}
"""Bundles of which the reference gives no list of runs: an eval, a summary by scenario, a server that cannot start."""


@pytest.mark.parametrize("name", [name for name in BUNDLES if name not in NO_MATRIX])
def test_matrix_is_the_reference_s(corpus: Path, name: str) -> None:
    """The matrix of a bundle without filters has the pairs, and as many runs of each, as the reference engine's."""
    record = json.loads((corpus.parent / "expected" / f"{name}.json").read_text())
    records = record if isinstance(record, list) else [record]
    whole = [r for r in records if not {"--scenario", "--provider"} & set(r["command"])]
    if not whole:
        pytest.skip("the reference was only measured with filters")
    plan = make_plan(load_bundle(corpus / name), PlanRequest())
    expected = Counter((item["scenario"], item["provider"]) for item in whole[0]["items"])
    assert Counter((item.scenario, item.provider) for item in plan.items) == expected


@pytest.mark.parametrize("name", OFFLINE)
def test_mock_bundles_are_supported(corpus: Path, name: str) -> None:
    """Bundles of mocks, tools and guardrails are not refused."""
    bundle = load_bundle(corpus / name)
    check_supported(bundle, make_plan(bundle, PlanRequest()))


@pytest.mark.parametrize(
    ("name", "mock", "scenarios", "items"),
    [
        pytest.param(
            "assertions-test", "mock-responses.yaml", ("json-validation", "scripted-turns", "tool-usage"), 9, id="assertions-test without self-play"
        ),
        pytest.param("customer-support", "mock-responses.yaml", ("customer-support-scenarios",), 3, id="customer-support's conversations"),
        pytest.param("customer-support", "mock-responses.yaml", (), 18, id="the whole of customer-support"),
        pytest.param("load-testing", None, ("simple-qa",), 10, id="load-testing without self-play"),
    ],
)
def test_override_makes_scenarios_runnable(corpus: Path, name: str, mock: str | None, scenarios: tuple[str, ...], items: int) -> None:
    """With mocks in place of models, the scenarios that need nothing else run, whatever the rest of the bundle needs."""
    bundle = load_bundle(corpus / name)
    plan = make_plan(bundle, PlanRequest(mock=MockOverride(mock), only_scenarios=scenarios))
    check_supported(bundle, plan)
    assert len(plan.items) == items


def test_programs_are_refused_by_name(corpus: Path) -> None:
    """A server that is a program is refused with file, line, scenario and command, until an operator lets it run."""
    bundle = load_bundle(corpus / "mcp-filesystem-test")
    plan = make_plan(bundle, PlanRequest(mock=MockOverride()))
    with pytest.raises(CodeNotAllowed) as caught:
        check_supported(bundle, plan)
    assert caught.value.message.splitlines()[0] == (
        "config.arena.yaml:12: cannot run scenario 'error-recovery': MCP server 'filesystem' is the command "
        "'npx -y @modelcontextprotocol/server-filesystem .', and programs of this bundle are not allowed to run"
    )


def test_keys_without_effect_are_warned_of(corpus: Path) -> None:
    """A key that nothing reads gives a warning with its line."""
    warnings = load_bundle(corpus / "customer-support").warnings
    assert "config.arena.yaml:34: 'fail_on' of the arena's defaults has no effect: a run fails on every failed check and every error" in warnings
    assert (
        "scenarios/support-conversations.scenario.yaml:77: 'constraints' of a scenario's spec has no effect: the format's reference engine never reads it either"
        in warnings
    )


def test_pass_threshold_is_read(corpus: Path) -> None:
    """pass_threshold takes effect, so nothing is said of it."""
    bundle = load_bundle(corpus / "resilience-testing")
    checks = [check for turn in bundle.scenarios["statistical-trials"].turns for check in turn.assertions]
    assert any(check.pass_threshold for check in (*checks, *bundle.scenarios["statistical-trials"].conversation_assertions))
    assert not any("pass_threshold" in warning for warning in bundle.warnings)
