"""Manifests as people write them (../shared/corpus/manifests/cases.yaml), and what admission must say to each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark.structures import ParameterSet

from reconcile.errors import Invalid
from reconcile.kinds.admission import Admitted, admit, spec_problems
from reconcile.kinds.job_checks import schedule_problems, threshold_problems
from reconcile.kinds.names import API_VERSION

CASES_FILE = Path(__file__).parents[2] / "../shared/corpus/manifests/cases.yaml"
CASE_COUNT = 114
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


def apply(case: Case) -> Admitted:
    """Admit what a case applies, over what it had before."""
    old = admit(kind_of(case), manifest(case, case["from"]), None).object if "from" in case else None
    return admit(kind_of(case), manifest(case, case["spec"]), old)


def value_at(spec: Any, path: str) -> Any:
    """Return the value that a dotted path names."""
    for key in path.split("."):
        spec = spec[key]
    return spec


def test_the_corpus_is_whole() -> None:
    """No case is lost on the way into this table."""
    if not CASES:
        pytest.skip(f"no corpus at {CASES_FILE}")
    assert len(CASES) == CASE_COUNT
    assert {case["verdict"] for case in CASES} == {"accept", "schema", "admission", "job", "run"}


@pytest.mark.parametrize("case", selected("accept"))
def test_accepted(case: Case) -> None:
    """A manifest that the specification shows is taken, and its defaults can be read."""
    spec = apply(case).object["spec"]
    assert {path: value_at(spec, path) for path in case.get("defaults", {})} == case.get("defaults", {})


@pytest.mark.parametrize("case", selected("accept", "run", "job"))
def test_admission_is_idempotent(case: Case) -> None:
    """What admission returns is taken again unchanged: defaulting twice is defaulting once."""
    once = apply(case).object
    assert admit(kind_of(case), once, once).object == once
    assert admit(kind_of(case), once, None).object == once


@pytest.mark.parametrize("case", selected("schema"))
def test_refused_by_the_schema(case: Case) -> None:
    """A manifest that breaks its schema or a rule is refused, and the answer names the field."""
    with pytest.raises(Invalid) as refusal:
        apply(case)
    assert case["field"] in [error.path for error in refusal.value.errors]
    assert case.get("message", "") in str(refusal.value)


@pytest.mark.parametrize("case", selected("admission"))
def test_refused_by_admission(case: Case) -> None:
    """A manifest that a webhook would refuse is refused in local mode always."""
    with pytest.raises(Invalid) as refusal:
        apply(case)
    assert case.get("field", "") in [*(error.path for error in refusal.value.errors), ""]
    assert case.get("message", "") in str(refusal.value)


@pytest.mark.parametrize("case", selected("admission"))
def test_refused_at_run_time_where_admission_does_not_run(case: Case) -> None:
    """The same checks give a run the reason that the corpus names."""
    problems = [*spec_problems(case["spec"], namespace="arena"), *threshold_problems(case["spec"])]
    assert case["reason"] in [problem.reason for problem in problems]
    assert case.get("message", "") in "; ".join(problem.message for problem in problems)
    assert case.get("field", "") in [*(problem.path for problem in problems), ""]


@pytest.mark.parametrize("case", selected("job"))
def test_taken_with_a_warning(case: Case) -> None:
    """A job that can never start a run is taken; its writer is warned, and its Ready condition gets the reason."""
    admitted = apply(case)
    assert any(case["reason"] in warning for warning in admitted.warnings)
    assert [problem.reason for problem in schedule_problems(case["spec"])] == [case["reason"]]


@pytest.mark.parametrize("case", selected("run"))
def test_taken_and_left_to_the_run(case: Case) -> None:
    """What only a repository can tell is none of admission's business."""
    assert apply(case).warnings == []
    assert spec_problems(case["spec"]) == []


@pytest.mark.parametrize("case", selected("schema", "admission", only=is_job))
def test_a_job_refused_on_apply_is_refused_as_a_template(case: Case) -> None:
    """A hand-written run's template meets the same schema and checks as a job's spec."""
    with pytest.raises(Invalid) as refusal:
        admit("ArenaRun", manifest({"kind": "ArenaRun"}, {"jobRef": {"name": "j"}, "template": case["spec"]}), None)
    assert all(error.path.startswith("spec.template") for error in refusal.value.errors)
    assert spec_problems(case["spec"], namespace="arena") or threshold_problems(case["spec"])
