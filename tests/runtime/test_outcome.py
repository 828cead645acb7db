"""The reduction of a pass to conditions: a table that covers it whole."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from foundation.errors import ArenaError
from reconcile.errors import InvariantBroken, Stalled, Waiting
from reconcile.runtime import invariants
from reconcile.runtime.conditions import MAX_MESSAGE_BYTES, Finding, find_condition, set_condition, shorten
from reconcile.runtime.outcome import reduce
from reconcile.runtime.reconciler import Done, Failed, Progressing, Result, Silent

T0 = datetime(2026, 1, 1, tzinfo=UTC)
T1 = T0 + timedelta(hours=1)
TICK = T0 + timedelta(days=1)

OUTCOMES: list[tuple[Result | Exception, tuple[str, str, str], str, str]] = [
    (Done(), ("True", "False", "False"), "Succeeded", ""),
    (Done("Scheduled", "next at noon"), ("True", "False", "False"), "Scheduled", "next at noon"),
    (Progressing(message="12 of 40"), ("False", "True", "False"), "Progressing", "12 of 40"),
    (Failed("TestsFailed", "3 items"), ("False", "False", "True"), "TestsFailed", "3 items"),
    (Waiting("ProjectNotReady", "no commit yet"), ("False", "True", "False"), "ProjectNotReady", "no commit yet"),
    (Stalled("InvalidSchedule", "bad cron", hint="use five fields"), ("False", "False", "True"), "InvalidSchedule", "bad cron; use five fields"),
    (ArenaError("cannot export", hint="free space"), ("False", "True", "False"), "ProgressingWithRetry", "cannot export; free space"),
    (OSError(28, "No space left on device"), ("False", "True", "False"), "ProgressingWithRetry", "OSError: No space left on device"),
    (
        ValueError("token=hunter2"),
        ("False", "True", "False"),
        "ProgressingWithRetry",
        "unexpected ValueError; the log of the controller has the details",
    ),
]

PAIRS = list(product([outcome for outcome, *_ in OUTCOMES], repeat=2))


def conditions_after(*outcomes: Result | Exception) -> list[dict[str, Any]]:
    """Return the conditions after these outcomes, one an hour."""
    conditions: list[dict[str, Any]] = []
    for hours, outcome in enumerate(outcomes):
        conditions = reduce(conditions, outcome, 1, T0 + timedelta(hours=hours)).conditions or conditions
    return conditions


@pytest.mark.parametrize(("outcome", "statuses", "reason", "message"), OUTCOMES)
def test_outcome_to_conditions(outcome: Result | Exception, statuses: tuple[str, str, str], reason: str, message: str) -> None:
    """Each outcome has its Ready, Reconciling and Stalled, its reason on all three and its message where it says something."""
    conditions = reduce([], outcome, 7, T0).conditions
    assert conditions is not None
    assert [condition["type"] for condition in conditions] == ["Ready", "Reconciling", "Stalled"]
    assert tuple(condition["status"] for condition in conditions) == statuses
    assert {condition["reason"] for condition in conditions} == {reason}
    assert conditions[0]["message"] == message
    assert [condition["message"] for condition in conditions[1:]] == [message if status == "True" else "" for status in statuses[1:]]


@pytest.mark.parametrize("outcome", [outcome for outcome, *_ in OUTCOMES])
def test_observed_generation_is_that_of_the_object_seen(outcome: Result | Exception) -> None:
    """Status and all three conditions say the generation of the object that the pass saw."""
    reduced = reduce([], outcome, 7, T0)
    assert reduced.observed_generation == 7
    assert reduced.conditions is not None
    assert {condition["observedGeneration"] for condition in reduced.conditions} == {7}


@pytest.mark.parametrize(
    ("outcome", "look_again", "retry", "final"),
    [
        pytest.param(Done(), None, False, False, id="done waits for a change or the interval"),
        pytest.param(Done(look_again=TICK), TICK, False, False, id="done until the next tick"),
        pytest.param(Done(final=True), None, False, True, id="done for good"),
        pytest.param(Progressing(look_again=timedelta(seconds=2)), timedelta(seconds=2), False, False, id="progress is looked at again"),
        pytest.param(Failed("TestsFailed"), None, False, True, id="failed is final"),
        pytest.param(Failed("Cancelled", look_again=timedelta(hours=1)), timedelta(hours=1), False, True, id="failed may expire later"),
        pytest.param(Waiting("ProjectNotReady", "", timedelta(seconds=30)), timedelta(seconds=30), False, False, id="waiting says for how long"),
        pytest.param(Stalled("InvalidSpec", ""), None, False, False, id="stalled waits for a person"),
        pytest.param(RuntimeError(), None, True, False, id="anything else is retried with backoff"),
        pytest.param(Silent(look_again=timedelta(seconds=5), final=True), timedelta(seconds=5), False, True, id="silence may look again"),
    ],
)
def test_next_look(outcome: Result | Exception, look_again: object, *, retry: bool, final: bool) -> None:
    """Each outcome says when to look again, whether with growing delays, and whether the interval may skip the object."""
    reduced = reduce([], outcome, 1, T0)
    assert (reduced.look_again, reduced.retry, reduced.final) == (look_again, retry, final)


def test_silence_writes_nothing() -> None:
    """Silent leaves conditions and observedGeneration as they are stored."""
    reduced = reduce(conditions_after(Done()), Silent(), 9, T1)
    assert reduced.conditions is None
    assert reduced.observed_generation is None


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_any_outcome_after_any_other_keeps_the_invariants(before: Result | Exception, after: Result | Exception) -> None:
    """Whatever follows whatever, the status does not contradict itself."""
    invariants.check({"conditions": conditions_after(before, after), "observedGeneration": 1}, 1)


@pytest.mark.parametrize("outcome", [outcome for outcome, *_ in OUTCOMES])
def test_reducing_an_unchanged_world_again_gives_equal_bytes(outcome: Result | Exception) -> None:
    """The same outcome an hour later changes not one byte."""
    assert conditions_after(outcome, outcome) == conditions_after(outcome)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_transition_time_moves_with_the_status_only(before: Result | Exception, after: Result | Exception) -> None:
    """LastTransitionTime is that of the last change of the condition's status."""
    old, new = conditions_after(before), conditions_after(before, after)
    for one, other in zip(old, new, strict=True):
        moved = one["status"] != other["status"]
        assert other["lastTransitionTime"] == ("2026-01-01T01:00:00Z" if moved else "2026-01-01T00:00:00Z")


def test_other_conditions_are_kept_in_order() -> None:
    """A reconciler's own conditions are kept as they are, after the three."""
    own = [
        {"type": name, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name in ("SourceValid", "JobCreated")
    ]
    conditions = reduce([own[0], *conditions_after(Done()), own[1]], Done(), 1, T1).conditions
    assert conditions is not None
    assert conditions[3:] == own
    assert conditions[:3] == conditions_after(Done())


def test_reduce_changes_no_input() -> None:
    """The list that goes in stays as it is: the function is pure."""
    before = conditions_after(Done())
    reduce(before, Stalled("X", "y"), 2, T1)
    assert before == conditions_after(Done())


@pytest.mark.parametrize("message", ["x" * 5000, "é" * 5000, "😀" * 5000, "\ud800" * 5000], ids=["ascii", "two bytes", "four bytes", "no unicode"])
def test_messages_are_at_most_one_kibibyte(message: str) -> None:
    """A long message is cut to 1 KiB of valid UTF-8 that ends in an ellipsis."""
    short = shorten(message)
    assert MAX_MESSAGE_BYTES - 3 <= len(short.encode()) <= MAX_MESSAGE_BYTES
    assert short.endswith("…")


@pytest.mark.parametrize("condition_type", ["Ready", "Reconciling", "Stalled"])
def test_reconcilers_cannot_set_the_three(condition_type: str) -> None:
    """Only the reducer writes Ready, Reconciling and Stalled."""
    with pytest.raises(InvariantBroken, match=condition_type):
        set_condition([], Finding(condition_type, "True", "Mine"), 1, T0)


def test_own_condition_keeps_its_place_and_time() -> None:
    """Setting a condition again replaces it in place; its time moves with its status."""
    conditions: list[dict[str, Any]] = []
    set_condition(conditions, Finding("SourceValid", "True", "Pinned"), 1, T0)
    set_condition(conditions, Finding("JobCreated", "False", "Waiting"), 1, T0)
    set_condition(conditions, Finding("SourceValid", "True", "PinnedAgain"), 2, T1)
    set_condition(conditions, Finding("JobCreated", "True", "Created"), 2, T1)
    assert [(c["type"], c["reason"], c["observedGeneration"], c["lastTransitionTime"]) for c in conditions] == [
        ("SourceValid", "PinnedAgain", 2, "2026-01-01T00:00:00Z"),
        ("JobCreated", "Created", 2, "2026-01-01T01:00:00Z"),
    ]


GOOD = {"conditions": conditions_after(Done()), "observedGeneration": 1}


def spoiled(condition_type: str, **fields: Any) -> dict[str, Any]:
    """Return a good status with one condition's fields changed."""
    conditions = [{**condition, **(fields if condition["type"] == condition_type else {})} for condition in GOOD["conditions"]]  # type: ignore[attr-defined]
    return {**GOOD, "conditions": conditions}


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        pytest.param({"observedGeneration": 1}, "Ready is missing", id="no conditions"),
        pytest.param(spoiled("Stalled", status="True"), "Ready is True beside", id="ready and stalled"),
        pytest.param(spoiled("Ready", status="False"), "neither Reconciling nor Stalled", id="not ready, and nobody says why"),
        pytest.param(spoiled("Ready", reason="two words"), "reason 'two words'", id="a reason with a space"),
        pytest.param(spoiled("Ready", status="Maybe"), "status 'Maybe'", id="an unknown status"),
        pytest.param(spoiled("Ready", lastTransitionTime=""), "lastTransitionTime ''", id="no time"),
        pytest.param(spoiled("Ready", message="x" * 1025), "over 1024 bytes", id="a long message"),
        pytest.param(spoiled("Ready", observedGeneration=3), "Ready was observed at generation 3", id="another generation"),
        pytest.param({**GOOD, "observedGeneration": 4}, "observedGeneration is 4", id="not the generation seen"),
        pytest.param({**GOOD, "conditions": [*GOOD["conditions"], GOOD["conditions"][0]]}, "Ready is there twice", id="twice"),  # type: ignore[misc, index]
    ],
)
def test_invariants_find_contradictions(status: dict[str, Any], problem: str) -> None:
    """A status that contradicts itself is named as such."""
    with pytest.raises(InvariantBroken, match=problem):
        invariants.check(status, 1)


def test_find_condition() -> None:
    """A condition is found by its type; there may be none."""
    assert find_condition(conditions_after(Done()), "Ready") is not None
    assert find_condition([], "Ready") is None
