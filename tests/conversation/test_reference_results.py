"""The reference engine's measured results, item by item and check by check (../shared/corpus/expected)."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.bundle.loader import load_bundle
from engine.conversation import ItemRunner
from engine.items import ItemResult, Scope
from engine.plan import MockOverride, PlanRequest, make_plan
from foundation.clock import SystemClock

CORPUS = Path(__file__).parents[2] / "../shared/corpus"
MOCKED = ["--mock-provider", "--mock-config", "mock-responses.yaml"]

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the reference's results (../shared/corpus) are not here")

CASES = [
    pytest.param("guardrails-test", [], (), id="guardrails-test"),
    pytest.param("model-migration", [], (), id="model-migration"),
    pytest.param("resilience-testing", [], (), id="resilience-testing"),
    pytest.param("customer-support", [*MOCKED, "--scenario", "customer-support-scenarios"], ("customer-support-scenarios",), id="customer-support"),
    pytest.param("customer-support", MOCKED[:1], (), id="customer-support with generic replies"),
    pytest.param("customer-support", MOCKED, (), id="customer-support, where whole words make a difference"),
    pytest.param("voice-bake-off", [], (), id="voice-bake-off"),
    pytest.param("variables-demo", [*MOCKED[:2], "mock-config.yaml"], (), id="variables-demo"),
    pytest.param("workflow-support", [], (), id="workflow-support"),
    pytest.param("workflow-order-processing", [], (), id="workflow-order-processing"),
    pytest.param("voice-ivr", [], (), id="voice-ivr"),
    pytest.param("load-testing", MOCKED[:1], ("simple-qa",), id="load-testing, without self-play"),
    pytest.param("assertions-test", MOCKED, (), id="assertions-test"),
    pytest.param("assertions-test", [*MOCKED[:2], "mock-responses-selfplay.yaml"], (), id="assertions-test, generic replies"),
]


@pytest.mark.parametrize(("bundle", "command", "scenarios"), CASES)
async def test_results_are_the_reference_results(bundle: str, command: list[str], scenarios: tuple[str, ...]) -> None:
    """Verdicts, check counts, scores, tokens, costs, messages and roles are the reference's, but where differences.json says why not."""
    wanted = sorted((_wanted(item) for item in _record(bundle, command)["items"] if not scenarios or item["scenario"] in scenarios), key=_key)
    got = sorted(map(_got, await _run(bundle, command, scenarios)), key=_key)
    freed = _freed(bundle, command)
    assert [_compared(item, freed) for item in got] == [_compared(item, freed) for item in wanted]


async def test_guardrails_test_uses_234_tokens() -> None:
    """The four items of guardrails-test count 234 mock tokens, those of replies before they are replaced or cut."""
    usage = [result.usage for result in await _run("guardrails-test", [], ())]
    assert sum(entry.input_tokens + entry.output_tokens for entry in usage) == 234


def _record(bundle: str, command: list[str]) -> dict[str, Any]:
    records = json.loads((CORPUS / "expected" / f"{bundle}.json").read_text())
    listed: list[dict[str, Any]] = records if isinstance(records, list) else [records]
    return next(record for record in listed if record["command"] == command)


def _freed(bundle: str, command: list[str]) -> set[str]:
    """Return the scenarios whose check counts, and so all that follows from them, may differ."""
    rules = json.loads((CORPUS / "expected" / "differences.json").read_text())
    return {
        rule["scenario"] for rule in rules if rule["bundle"] == bundle and rule.get("command", command) == command and rule.get("checks", 0) is None
    }


async def _run(bundle: str, command: list[str], scenarios: tuple[str, ...]) -> list[ItemResult]:
    loaded = load_bundle(CORPUS / "promptkit" / bundle)
    config = command[command.index("--mock-config") + 1] if "--mock-config" in command else None
    mock = MockOverride(config) if "--mock-provider" in command else None
    plan = make_plan(loaded, PlanRequest(mock=mock, only_scenarios=scenarios))
    runner = ItemRunner(loaded, plan, SystemClock())
    return [await runner.run(item) for item in plan.items]


def _wanted(item: dict[str, Any]) -> dict[str, Any]:
    keys = ("scenario", "provider", "verdict", "messages", "roles", "tool_calls", "turn_checks", "conversation_checks", "tokens")
    checks = [(check["where"], check["type"], round(float(check["score"]), 9), check["passed"]) for check in item["checks"]]
    fired = item.get("guardrails_fired", [])
    return {key: item[key] for key in keys} | {"cost": round(item["cost_usd"], 9), "checks": checks, "fired": fired}


def _spent(result: ItemResult) -> tuple[int, int, float]:
    """Return input tokens, output tokens and cost as the reference adds them up.

    A simulated user's message carries, besides its own, what all earlier ones carry, again and again: with this fault our numbers are its numbers.
    """
    total = added((result.usage.input_tokens, result.usage.output_tokens, result.cost_usd or 0.0))
    carried = (0, 0, 0.0)
    for message in result.messages:
        if message["role"] == "user" and "usage" in message:
            own = (message["usage"]["inputTokens"], message["usage"]["outputTokens"], message["costUsd"])
            message_total = added(own, carried)
            carried, total = added(carried, message_total), added(total, message_total)
    return total


def added(*triples: tuple[int, int, float]) -> tuple[int, int, float]:
    """Add triples place by place."""
    return sum(t[0] for t in triples), sum(t[1] for t in triples), sum(t[2] for t in triples)


def _got(result: ItemResult) -> dict[str, Any]:
    *tokens, cost = _spent(result)
    roles = Counter(message["role"] for message in result.messages)
    return {
        "scenario": result.item.scenario,
        "provider": result.item.provider,
        "verdict": str(result.verdict),
        "messages": len(result.messages) - roles["system"],
        "roles": dict(roles),
        "tool_calls": sum(len(message.get("toolCalls", ())) for message in result.messages),
        "turn_checks": _counts(result, Scope.TURN),
        "conversation_checks": _counts(result, Scope.CONVERSATION),
        "tokens": tokens,
        "cost": round(cost, 9),
        "checks": [
            (f"turn {check.turn}" if check.scope is Scope.TURN else "conversation", check.type, round(check.score or 0.0, 9), check.passed)
            for check in result.checks
        ],
        "fired": [fired["type"] for message in result.messages for fired in message.get("validations", ())],
    }


def _counts(result: ItemResult, scope: Scope) -> list[int]:
    passed = [check.passed for check in result.checks if check.scope is scope]
    return [sum(passed), len(passed)]


def _key(item: dict[str, Any]) -> tuple[str, str]:
    return item["scenario"], item["provider"]


def _compared(item: dict[str, Any], freed: set[str]) -> dict[str, Any]:
    return {key: item[key] for key in ("scenario", "provider", "verdict")} if item["scenario"] in freed else item
