"""pass_threshold: a check may fail in some trials of its scenario, and the run passes all the same (weakness 1 of the reference)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.items import CheckResult, Scope, Verdict
from engine.records import Record, record_of
from engine.results.summary import RunIdentity, Summary, SummaryBuilder
from tests.results.conftest import PlanOf, ResultOf

Settle = Callable[..., Summary]


def check(*, passes: bool, tolerance: float | None = 0.6, scope: Scope = Scope.TURN, kind: str = "contains") -> CheckResult:
    """Return the result of a check that must pass in six of ten trials."""
    return CheckResult(scope, 0 if scope is Scope.TURN else None, kind, passed=passes, score=float(passes), tolerance=tolerance)


@pytest.fixture
def settle(plan_of: PlanOf, result_of: ResultOf) -> Settle:
    """Return the summary of one scenario whose trials have these checks; an item whose check failed has failed."""

    def build(*trials: list[CheckResult], min_pass_rate: float | None = None) -> Summary:
        plan = plan_of(["a"], trials=len(trials))
        builder = SummaryBuilder(RunIdentity(), plan, min_pass_rate=min_pass_rate)
        for item, checks in zip(plan.items, trials, strict=True):
            fails = any(not found.passed and found.scope is not Scope.SESSION for found in checks)
            result = replace(result_of(item, Verdict.FAIL if fails else Verdict.PASS), checks=checks)
            builder.add(Record.from_bytes(record_of(result).to_bytes()))
        return builder.build()

    return build


PASS, FAIL = [check(passes=True)], [check(passes=False)]


@pytest.mark.parametrize(
    ("trials", "verdict"),
    [
        pytest.param((PASS, PASS, PASS, FAIL, FAIL), "pass", id="as often as it may"),
        pytest.param((PASS, PASS, FAIL, FAIL, FAIL), "fail", id="once more"),
        pytest.param((FAIL,), "fail", id="a single trial"),
        pytest.param(([check(passes=False, tolerance=0.0)],), "pass", id="a check that need never pass"),
        pytest.param(([check(passes=True, tolerance=None)], [check(passes=False, tolerance=None)]), "fail", id="without a threshold"),
        pytest.param((PASS, PASS, [*FAIL, check(passes=False, tolerance=None, scope=Scope.CONVERSATION)]), "fail", id="another check failed too"),
        pytest.param((PASS, PASS, [*FAIL, check(passes=False, tolerance=None, scope=Scope.SESSION)]), "pass", id="session evals never decide"),
        pytest.param(
            ([*PASS, check(passes=False, kind="contains")], [*PASS, check(passes=True, kind="contains")]),
            "fail",
            id="two checks of one type are not merged",
        ),
    ],
)
def test_a_threshold_holds_across_trials(settle: Settle, trials: tuple[list[CheckResult], ...], verdict: str) -> None:
    """The run passes when every check that failed passed in at least its share of the trials; items stay failed."""
    summary = settle(*trials)
    assert summary.verdict == verdict
    assert summary.total.counts.failed == sum(any(not found.passed and found.scope is not Scope.SESSION for found in checks) for checks in trials)


def test_a_threshold_is_shown(settle: Settle) -> None:
    """The summary names the threshold and whether it holds, only where there is one."""
    [entry] = settle(PASS, PASS, FAIL).to_json()["assertions"]
    assert (entry["passThreshold"], entry["holds"], entry["passRate"]) == (0.6, True, pytest.approx(2 / 3, abs=1e-6))
    [plain] = settle([check(passes=True, tolerance=None)]).to_json()["assertions"]
    assert "passThreshold" not in plain


def test_a_jobs_minimum_goes_before(settle: Settle) -> None:
    """With minPassRate the job's rule decides, whatever checks tolerate."""
    assert settle(PASS, PASS, FAIL, min_pass_rate=0.9).verdict == "fail"


def test_an_error_is_not_tolerated(plan_of: PlanOf, result_of: ResultOf) -> None:
    """An item that could not be run to its end is no failure of a check."""
    plan = plan_of(["a"], trials=2)
    builder = SummaryBuilder(RunIdentity(), plan)
    builder.add(record_of(replace(result_of(plan.items[0], Verdict.FAIL), checks=[check(passes=False, tolerance=0.0)])))
    builder.add(record_of(result_of(plan.items[1], Verdict.ERROR)))
    assert builder.build().verdict != "pass"


@pytest.mark.parametrize(
    "checks",
    [
        [],
        [check(passes=True)],
        [check(passes=False, tolerance=0.0), CheckResult(Scope.CONVERSATION, None, "judge", passed=False, error="out", tolerance=0.0)],
    ],
    ids=["no check is known", "no check failed", "a check could not be evaluated"],
)
def test_what_failed_for_another_reason_is_not_tolerated(plan_of: PlanOf, result_of: ResultOf, checks: list[CheckResult]) -> None:
    """An item that failed must have failed by checks that may fail, and by nothing else: what nobody knows is not tolerated."""
    plan = plan_of(["a"])
    builder = SummaryBuilder(RunIdentity(), plan)
    builder.add(record_of(replace(result_of(plan.items[0], Verdict.FAIL), checks=checks)))
    assert builder.build().verdict == "fail"
