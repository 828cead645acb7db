"""Public bundles give the reference engine's verdicts, pushed with git and run from disk.

What the reference says stands in the shared corpus (`expected/*.json`); nothing of it is copied here.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.installation import ARENA, Namespace, clean_environment, run_command

pytestmark = pytest.mark.e2e
WITHOUT_SELF_PLAY = ("json-validation", "scripted-turns", "tool-usage")


@dataclass(frozen=True)
class Case:
    """One of the reference's commands, and the scenarios of it that are compared (none: all)."""

    bundle: str
    command: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()

    @property
    def mock_config(self) -> str | None:
        """Return the file of the mock's answers; None when the bundle's own providers run."""
        return self.command[self.command.index("--mock-config") + 1] if "--mock-config" in self.command else None


CASES = [
    pytest.param(Case("guardrails-test"), id="guardrails-test"),
    pytest.param(Case("model-migration"), id="model-migration"),
    pytest.param(Case("resilience-testing"), id="resilience-testing, all 13 runs"),
    pytest.param(
        Case(
            "customer-support",
            ("--mock-provider", "--mock-config", "mock-responses.yaml", "--scenario", "customer-support-scenarios"),
            ("customer-support-scenarios",),
        ),
        id="customer-support, its first command",
    ),
    pytest.param(
        Case("assertions-test", ("--mock-provider", "--mock-config", "mock-responses.yaml"), WITHOUT_SELF_PLAY), id="assertions-test under a mock"
    ),
    pytest.param(
        Case("assertions-test", ("--mock-provider", "--mock-config", "mock-responses-selfplay.yaml"), WITHOUT_SELF_PLAY),
        id="assertions-test under another mock",
    ),
]

Facts = tuple[Any, ...]


def expected_facts(corpus: Path, case: Case) -> list[Facts]:
    """Return what the reference says of each item: names, verdict, checks with scores and outcomes, tokens, cost, tool calls."""
    records = json.loads((corpus / "expected" / f"{case.bundle}.json").read_text(encoding="utf-8"))
    records = records if isinstance(records, list) else [records]
    record = next(record for record in records if tuple(record["command"]) == case.command)
    items = [item for item in record["items"] if not case.scenarios or item["scenario"] in case.scenarios]
    assert items, "the corpus lists no item of this command"
    return _ordered(
        (
            item["scenario"],
            item["provider"],
            item["verdict"],
            (item["turn_checks"][0] + item["conversation_checks"][0], item["turn_checks"][1] + item["conversation_checks"][1]),
            tuple(item["tokens"]),
            f"{item['cost_usd']:.6f}",
            item["tool_calls"],
            item["messages"],
            tuple((check["where"], check["type"], f"{check['score']:.4f}", check["passed"]) for check in item["checks"]),
        )
        for item in items
    )


def facts(items: Iterable[Mapping[str, Any]]) -> list[Facts]:
    """Return the same of our own result items."""
    return _ordered(
        (
            item["scenario"],
            item["provider"],
            item["verdict"],
            (item["checks"]["passed"], item["checks"]["total"]),
            (item["usage"]["inputTokens"], item["usage"]["outputTokens"]),
            f"{item['costUsd']:.6f}",
            sum(len(message.get("toolCalls") or []) for message in item["messages"]),
            sum(message["role"] != "system" for message in item["messages"]),
            tuple(_check(result) for result in item["checks"]["results"]),
        )
        for item in items
    )


def _check(result: Mapping[str, Any]) -> tuple[str, str, str, bool]:
    where = f"turn {result['turn']}" if result["scope"] == "turn" else str(result["scope"])
    return where, str(result["type"]), f"{result['score']:.4f}", bool(result["passed"])


def _ordered(found: Iterable[Facts]) -> list[Facts]:
    return sorted(found, key=repr)


@pytest.mark.parametrize("case", CASES)
def test_pushed_bundle_gives_the_references_results(namespace: Namespace, corpus: Path, case: Case) -> None:
    """A bundle pushed with git and run by a worker gives the reference's verdicts, checks, scores, tokens and costs, item by item."""
    checkout = namespace.project()
    commit = checkout.commit({str(path.relative_to(corpus / "promptkit" / case.bundle)): path.read_bytes() for path in _files(corpus, case)})
    assert checkout.push().code == 0
    namespace.job(
        annotations={} if case.mock_config is None else _mock_annotations(case.mock_config),
        spec={"scenarios": {"include": list(case.scenarios)}} if case.scenarios else None,
    )
    run = namespace.ended_run()
    lines = (namespace.output(run) / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert facts(json.loads(line) for line in lines) == expected_facts(corpus, case)
    assert run["status"]["source"]["commit"] == commit
    wanted = "Succeeded" if all(item[2] == "pass" for item in expected_facts(corpus, case)) else "Failed"
    assert run["status"]["phase"] == wanted


@pytest.mark.parametrize("case", CASES)
def test_evaluated_bundle_gives_the_references_results(corpus: Path, tmp_path: Path, case: Case) -> None:
    """`arena eval -o json` of the same bundle gives the same items, and exits 0 exactly when all of them pass."""
    bundle = corpus / "promptkit" / case.bundle
    words = [str(bundle / word) if word.endswith(".yaml") else word for word in case.command]
    if case.scenarios and "--scenario" not in words:
        words += ["--scenario", ",".join(case.scenarios)]
    done = run_command([*ARENA, "eval", str(bundle), "-o", "json", *words], environment=clean_environment(tmp_path), cwd=tmp_path)
    document = json.loads(done.out)
    expected = expected_facts(corpus, case)
    assert facts(document["items"]) == expected
    assert done.code == (0 if all(item[2] == "pass" for item in expected) else 1)


@pytest.mark.parametrize(
    ("bundles", "words"),
    [
        pytest.param(("guardrails-test", "model-migration", "resilience-testing"), "3 passed, 0 failed", id="three bundles"),
        pytest.param((), "24 passed, 0 failed", id="every command", marks=pytest.mark.slow),
    ],
)
def test_the_corpus_own_comparison_passes(corpus: Path, tmp_path: Path, bundles: tuple[str, ...], words: str) -> None:
    """The corpus' comparison finds no difference beyond those that it lists itself, with the reason."""
    wrapper = tmp_path / "arena"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m arena "$@"\n')
    wrapper.chmod(0o755)
    done = subprocess.run(
        [
            sys.executable,
            str(corpus / "expected" / "compare.py"),
            "--arena",
            str(wrapper),
            *bundles,
        ],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(tmp_path),
    )
    assert done.stdout.splitlines()[-1] == words, done.stdout + done.stderr


def test_guardrails_bundle_costs_234_tokens(corpus: Path, tmp_path: Path) -> None:
    """The guardrails bundle uses exactly 234 mock tokens, as the reference counts them."""
    done = run_command(
        [*ARENA, "eval", str(corpus / "promptkit" / "guardrails-test"), "-o", "json"], environment=clean_environment(tmp_path), cwd=tmp_path
    )
    usage = json.loads(done.out)["summary"]["usage"]
    assert usage["inputTokens"] + usage["outputTokens"] == 234


def _files(corpus: Path, case: Case) -> list[Path]:
    return [path for path in (corpus / "promptkit" / case.bundle).rglob("*") if path.is_file()]


def _mock_annotations(mock_config: str) -> dict[str, str]:
    return {"arena.omnia.altairalabs.ai/mock-provider": "true", "arena.omnia.altairalabs.ai/mock-config": mock_config}
