"""Accounting records: at most 4 KiB, whole again after a round trip, enough for every statistic."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.items import MAX_RECORD_BYTES, CheckResult, Item, ItemError, ItemResult, Scope, Usage, Verdict
from engine.outcomes import Outcome
from engine.records import PlacedLine, Record, bare_record, record_of

AT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


@dataclass(frozen=True)
class Lease:
    """The facts of a lease that a record keeps."""

    worker: str = "w-0-ab12"
    entry: str = "1-0"
    deliveries: int = 2
    crashes: int = 1


def result_with(checks: list[CheckResult], error: ItemError | None = None) -> ItemResult:
    """Return a failed result with these checks."""
    return ItemResult(
        Item(7, "refund", "claude", 2),
        Verdict.FAIL,
        AT,
        AT,
        attempt=2,
        error=error,
        checks=checks,
        usage=Usage(3, 4, 1, 0),
        cost_usd=0.00015,
        provider_latency_ms=12.5,
        ttft_ms=3.25,
        duration_ms=20.0,
    )


def any_checks() -> st.SearchStrategy[list[CheckResult]]:
    """Draw checks with texts of any length and content."""
    text = st.text(max_size=3000)
    check = st.builds(
        CheckResult,
        scope=st.sampled_from(Scope),
        turn=st.none() | st.integers(0, 50),
        type=st.text(max_size=200),
        passed=st.booleans(),
        name=st.text(max_size=200),
        score=st.none() | st.floats(0, 1),
        message=text,
        explanation=text,
        error=text,
        skipped=st.booleans(),
        value=st.none(),
        tolerance=st.none() | st.floats(0, 1),
    )
    return st.lists(check, max_size=60)


@settings(max_examples=60)
@given(checks=any_checks(), message=st.text(st.characters(), max_size=5000), repeat=st.integers(1, 40))
def test_a_record_fits_whatever_a_model_says(checks: list[CheckResult], message: str, repeat: int) -> None:
    """A record has at most 4096 bytes, and its counts stay exact however much text was cut."""
    result = result_with(checks * repeat, ItemError("provider.protocol", message))
    data = record_of(result, line=PlacedLine("w.jsonl", 5, 10, "a" * 64), lease=Lease()).to_bytes()
    record = Record.from_bytes(data)
    assert len(data) <= MAX_RECORD_BYTES
    assert record.checks_total == len(checks) * repeat
    assert len(record.outcomes) + record.outcomes_cut == record.checks_total
    assert len(record.failed) + record.failed_cut == sum(not c.passed and not c.skipped for c in checks) * repeat


@settings(max_examples=60)
@given(checks=any_checks())
def test_a_record_survives_a_round_trip(checks: list[CheckResult]) -> None:
    """What `to_bytes` kept, `from_bytes` returns, and writing it again gives the same bytes."""
    data = record_of(result_with(checks)).to_bytes()
    assert Record.from_bytes(data).to_bytes() == data


def test_a_small_record_loses_nothing() -> None:
    """A record that fits is equal after a round trip, to the microsecond."""
    checks = [
        CheckResult(Scope.TURN, 0, "content_includes", passed=False, name="says sorry", score=0.5, message="expected 'sorry'"),
        CheckResult(Scope.CONVERSATION, None, "tools_called", passed=True),
    ]
    record = record_of(result_with(checks), line=PlacedLine("w.jsonl", 5, 10, "a" * 64), lease=Lease())
    assert Record.from_bytes(record.to_bytes()) == record


def test_explanations_go_before_messages() -> None:
    """When a record is too long, explanations are cut first and the messages stay whole."""
    checks = [CheckResult(Scope.TURN, n, "regex", passed=False, message="m" * 100, explanation="e" * 900) for n in range(6)]
    record = Record.from_bytes(record_of(result_with(checks)).to_bytes())
    assert [len(check.message) for check in record.failed] == [100] * 6
    assert all(len(check.explanation) < 900 for check in record.failed)


@pytest.mark.parametrize("types", [pytest.param(5, id="few types"), pytest.param(100, id="more types than a digit has values")])
def test_many_checks_keep_their_outcomes(types: int) -> None:
    """A long scenario's statistics lose nothing: hundreds of checks fit, each under its own type."""
    checks = [CheckResult(Scope.CONVERSATION, None, f"c{n % types}", passed=n % 3 > 0, explanation="e" * 50) for n in range(500)]
    record = Record.from_bytes(record_of(result_with(checks)).to_bytes())
    assert record.outcomes_cut == 0
    assert [outcome.type for outcome in record.outcomes] == [check.type for check in checks]
    assert [outcome.outcome is Outcome.PASS for outcome in record.outcomes] == [check.passed for check in checks]


def test_two_checks_of_one_type_stay_apart() -> None:
    """Checks are told apart by their ordinal within scope and turn, so equal types are never merged."""
    checks = [
        CheckResult(Scope.TURN, 0, "regex", passed=True),
        CheckResult(Scope.TURN, 0, "regex", passed=False),
        CheckResult(Scope.TURN, 1, "regex", passed=False, error="bad pattern"),
        CheckResult(Scope.TURN, 1, "regex", passed=True, skipped=True),
    ]
    outcomes = Record.from_bytes(record_of(result_with(checks)).to_bytes()).outcomes
    assert [(o.turn, o.ordinal, o.outcome) for o in outcomes] == [
        (0, 0, Outcome.PASS),
        (0, 1, Outcome.FAIL),
        (1, 0, Outcome.ERROR),
        (1, 1, Outcome.SKIPPED),
    ]


def test_a_bare_record_has_no_line() -> None:
    """An item that was skipped or whose worker was lost has a record without a line."""
    record = Record.from_bytes(bare_record(3, "a/b/1", Verdict.SKIPPED, at=AT).to_bytes())
    assert (record.verdict, record.line, record.started_at) == (Verdict.SKIPPED, None, AT)


@pytest.mark.parametrize("data", [pytest.param(b"{}", id="no keys"), pytest.param(b"[]", id="not an object"), pytest.param(b"x", id="not JSON")])
def test_what_is_no_record_is_refused(data: bytes) -> None:
    """Bytes that are not a record raise ValueError, whatever they are."""
    with pytest.raises(ValueError, match=r".+"):
        Record.from_bytes(data)
