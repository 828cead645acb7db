"""Manifests as people write them (../shared/corpus/manifests/cases.yaml), as parameters of tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark.structures import ParameterSet

from reconcile.kinds.names import API_VERSION

CASES_FILE = Path(__file__).parents[2] / "../shared/corpus/manifests/cases.yaml"
Case = dict[str, Any]


def load_cases() -> list[Case]:
    """Read the corpus, or nothing where it is absent."""
    if not CASES_FILE.exists():
        return []
    cases: list[Case] = yaml.safe_load(CASES_FILE.read_text())["cases"]
    return cases


CASES = load_cases()


def selected(*verdicts: str, only: Callable[[Case], bool] = bool) -> list[ParameterSet]:
    """Return the cases of some verdicts as parameters with their names."""
    found = [case for case in CASES if case["verdict"] in verdicts and only(case)]
    if not found:
        return [pytest.param({}, marks=pytest.mark.skip(reason=f"no corpus at {CASES_FILE}"), id="no corpus")]
    return [pytest.param(case, id=f"{kind_of(case)}: {case['name']}") for case in found]


def is_job(case: Case) -> bool:
    """Say whether a case creates an ArenaJob."""
    return kind_of(case) == "ArenaJob" and "from" not in case


def kind_of(case: Case) -> str:
    """Return the kind that a case is about."""
    kind: str = case.get("kind", "ArenaJob")
    return kind


def manifest(case: Case, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the object that a person applies."""
    metadata = {"name": "x"} if kind_of(case) == "Workspace" else {"name": "x", "namespace": "arena"}
    return {"apiVersion": API_VERSION, "kind": kind_of(case), "metadata": metadata, "spec": spec}


def value_at(spec: Any, path: str) -> Any:
    """Return the value that a dotted path names."""
    for key in path.split("."):
        spec = spec[key]
    return spec
