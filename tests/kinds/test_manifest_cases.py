"""Manifests as people write them (../shared/corpus/manifests/cases.yaml), and what admission must say to each."""

import pytest

from reconcile.errors import Invalid
from reconcile.kinds.admission import Admitted, admit, spec_problems
from reconcile.kinds.job_checks import schedule_problems, threshold_problems
from tests.kinds.manifest_cases import CASES, CASES_FILE, Case, is_job, kind_of, manifest, selected, value_at


def apply(case: Case) -> Admitted:
    """Admit what a case applies, over what it had before."""
    old = admit(kind_of(case), manifest(case, case["from"]), None).object if "from" in case else None
    return admit(kind_of(case), manifest(case, case["spec"]), old)


def test_the_corpus_is_whole() -> None:
    """No case is lost on the way into this table."""
    if not CASES:
        pytest.skip(f"no corpus at {CASES_FILE}")
    assert len(CASES) == 114
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
