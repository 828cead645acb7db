"""`arena show RUN --failed`: how what failed is run again."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arena.cli.outcome import exit_code, verdict_lines
from arena.cli.showing import show_run
from arena.evaluation import Evaluation, EvaluationRequest
from engine.bundle.starter import starter_files

COMMIT = "c0ffee" * 6 + "abcd"
RUN: dict[str, Any] = {
    "metadata": {"name": "nightly-x"},
    "spec": {"jobRef": {"name": "nightly"}},
    "status": {"source": {"ref": "main", "commit": COMMIT}, "result": {"summary": {"totalItems": "2"}}},
}


def shown(folder: Path, capsys: pytest.CaptureFixture[str], *, own_providers: bool) -> str:
    """Return what is shown of a run in which one of two items fails."""
    for name, content in starter_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.replace(b"30 days", b"a month") if name == "mock/brisk.yaml" else content)
    with Evaluation(EvaluationRequest(folder, "config.arena.yaml", scenarios=("refund-window",))) as evaluation:
        asyncio.run(evaluation.run())
        evaluation.results.write_files(folder / "out")
        (folder / "out" / "plan-0.json").write_bytes(replace(evaluation.plan, own_providers=own_providers).to_bytes())
    show_run(RUN, folder / "out", transcripts=True)
    return capsys.readouterr().out


def test_an_item_of_the_bundles_models_has_its_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkout of the commit is all it takes."""
    said = shown(tmp_path, capsys, own_providers=True)
    assert "  arena eval . --scenario refund-window --provider brisk\n" in said
    assert "arena run" not in said


def test_models_of_a_job_are_asked_again_by_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No checkout knows them, and only the installation has their keys."""
    said = shown(tmp_path, capsys, own_providers=False)
    assert f"  again arena run nightly --ref {COMMIT} --wait\n" in said
    assert "arena eval" not in said


def test_a_run_without_items_has_no_rate(tmp_path: Path) -> None:
    """Nothing of nothing is no rate of 0 percent: a missing key says nothing about a model."""
    summary = {"verdict": "error", "passRate": "0.0", "passedItems": "0", "totalItems": "0"}
    status = {"phase": "Failed", "source": {"commit": COMMIT}, "result": {"summary": summary}}
    first = next(verdict_lines({"metadata": {"name": "nightly-x", "namespace": "default"}, "status": status}, tmp_path))
    assert first == f"error  nightly-x  commit {COMMIT[:12]}  no item was run"


@pytest.mark.parametrize(
    ("reason", "executed", "code"),
    [
        pytest.param("CredentialMissing", "0", 2, id="a worker has no key"),
        pytest.param("NotSupported", "0", 2, id="a worker cannot do it"),
        pytest.param("CredentialMissing", "3", 3, id="items ran already"),
        pytest.param("WorkersFailed", "0", 3, id="no worker lived"),
    ],
)
def test_what_was_refused_before_the_first_item_exits_2(reason: str, executed: str, code: int) -> None:
    """A refusal is one wherever it was found: in planning, or by the first worker."""
    summary = {"verdict": "error", "passRate": "0.0", "passedItems": "0", "totalItems": executed}
    conditions = [{"type": "Ready", "status": "False", "reason": reason}]
    assert exit_code({"status": {"phase": "Failed", "conditions": conditions, "result": {"summary": summary}}}) == code
