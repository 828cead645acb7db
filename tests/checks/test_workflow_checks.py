"""Checks of workflows, skills and compositions: a table each, their edges, and what holds for all of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.checks import prepare_check
from engine.checks.evidence import CompositionTrace, Evidence, Outcome, WorkflowTrace
from tests.checks.conftest import Ask, Called

COURSE = WorkflowTrace("closed", terminal=True, entered=("specialist", "closed"), speakers=("intake", "specialist", "closed"))
REPLIES = ("Hello", "Let me see", " \n")
STEPS = CompositionTrace(
    outputs={"classify": '{"type":"paper"}', "empty": ""}, branches={"route": "extract"}, completed=("meta",), output="Deep learning"
)


@pytest.mark.parametrize(
    ("check", "params", "score"),
    [
        pytest.param("state_is", {"state": "closed"}, 1, id="where it stands"),
        pytest.param("state_is", {"state": "Closed"}, 0, id="states are spelled as they are"),
        pytest.param("state_is", {"state": "specialist"}, 0, id="where it stood"),
        pytest.param("transitioned_to", {"state": "specialist"}, 1, id="where it went"),
        pytest.param("transitioned_to", {"state": "intake"}, 0, id="the entry was never gone to"),
        pytest.param("workflow_complete", {}, 1, id="it is over"),
        pytest.param("spoke_in_state", {"state": "specialist"}, 1, id="who spoke"),
        pytest.param("spoke_in_state", {"state": "closed"}, 0, id="blanks are no words"),
        pytest.param("workflow_transition_order", {"sequence": ["specialist", "closed"]}, 1, id="in this order"),
        pytest.param("workflow_transition_order", {"sequence": ["closed", "specialist"]}, 0.5, id="in the other order"),
        pytest.param("workflow_transition_order", {"sequence": ["specialist", "nowhere", "closed"]}, 1 / 3, id="with a state that was not entered"),
        pytest.param("outcome_equivalent", {"metric": "final_state", "expected_state": "closed"}, 1, id="the outcome is the state"),
        pytest.param("directional", {"check": "same_outcome", "baseline_state": "open"}, 0, id="another outcome"),
    ],
)
def test_workflow_checks(ask: Ask, check: str, params: dict[str, Any], score: float) -> None:
    """What the workflow did is what the check says."""
    assert ask(check, params, replies=REPLIES, workflow=COURSE).score == pytest.approx(score)


@pytest.mark.parametrize("check", [("state_is", {"state": "billing"}), ("transitioned_to", {"state": "billing"}), ("workflow_complete", {})])
def test_a_refused_transition_explains_where_the_workflow_stands(ask: Ask, called: Called, check: tuple[str, dict[str, Any]]) -> None:
    """Where the last transition was refused, the explanation says why; a refusal that was made good is no news."""
    stands = WorkflowTrace("intake", terminal=False, entered=(), speakers=("intake",))
    refused, made = called("workflow__transition", error="no event 'Invoce'"), called("workflow__transition")
    assert "the last transition failed: 'no event \\'Invoce\\''" in ask(*check, reply="x", workflow=stands, calls=[refused]).explanation.replace(
        '"', "'"
    )
    assert "failed" not in ask(*check, reply="x", workflow=stands, calls=[refused, made]).explanation


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(("state_is", {"state": "a"}), id="state_is"),
        pytest.param(("transitioned_to", {"state": "a"}), id="transitioned_to"),
        pytest.param(("workflow_complete", {}), id="workflow_complete"),
        pytest.param(("spoke_in_state", {"state": "a"}), id="spoke_in_state"),
        pytest.param(("workflow_transition_order", {"sequence": ["a"]}), id="workflow_transition_order"),
        pytest.param(("workflow_tool_access", {"rules": [{"state": "a", "allowed": []}]}), id="workflow_tool_access"),
        pytest.param(("outcome_equivalent", {"metric": "final_state", "expected_state": "a"}), id="final_state"),
        pytest.param(("composition_output", {}), id="composition_output"),
        pytest.param(("composition_step_output", {"step": "a"}), id="composition_step_output"),
        pytest.param(("composition_branch_taken", {"branch": "a", "expected": "b"}), id="composition_branch_taken"),
        pytest.param(("composition_parallel_complete", {"parallel": "a"}), id="composition_parallel_complete"),
    ],
)
def test_what_is_not_there_has_no_score(check: tuple[str, dict[str, Any]]) -> None:
    """A conversation without a workflow or a composition is an error of such a check, neither a pass nor a fail."""
    with pytest.raises(ValueError, match=r"the conversation has no (workflow|composition)"):
        prepare_check(*check)(Evidence(reply="x", replies=("x",)))


def test_tool_access_is_by_the_state_of_the_call(ask: Ask, called: Called) -> None:
    """Each call is judged by the state it was made in; a state without a rule allows every tool, two rules of a state add up."""
    params = {"rules": [{"state": "intake", "allowed": ["search"]}, {"state": "intake", "allowed": ["greet"]}]}
    calls = [called("search", state="intake"), called("greet", state="intake"), called("refund", state="specialist")]
    assert ask("workflow_tool_access", params, calls=calls, workflow=COURSE).score == 1
    outcome = ask("workflow_tool_access", params, calls=[*calls, called("refund", state="intake")], workflow=COURSE)
    assert (outcome.score, outcome.explanation) == (0, "called 'refund' in state 'intake'")


@pytest.mark.parametrize(
    ("check", "params", "score"),
    [
        pytest.param("skill_activated", {"skill_names": ["a"]}, 1, id="one of them"),
        pytest.param("skill_activated", {"skill_names": ["a", "z"]}, 0.5, id="half of them"),
        pytest.param("skill_activated", {"skill_names": ["a"], "min_calls": 3}, 0, id="too rarely"),
        pytest.param("skill_activated", {"skill_name": "b"}, 1, id="by the singular name"),
        pytest.param("skill_not_activated", {"skill_names": ["z"]}, 1, id="not activated"),
        pytest.param("skill_not_activated", {"skill_names": ["z", "b"]}, 0, id="activated"),
        pytest.param("skill_activation_order", {"sequence": ["a", "b"]}, 1, id="in order"),
        pytest.param("skill_activation_order", {"sequence": ["b", "b"]}, 0.5, id="once only"),
    ],
)
def test_skill_checks(ask: Ask, check: str, params: dict[str, Any], score: float) -> None:
    """Activations count each time, in their order."""
    assert ask(check, params, skills=("a", "b", "a")).score == score


@pytest.mark.parametrize(
    ("check", "params", "score"),
    [
        pytest.param("composition_output", {"contains": "learning"}, 1, id="a part of the output"),
        pytest.param("composition_output", {"contains": "deep"}, 0, id="case counts"),
        pytest.param("composition_output", {"equals": "Deep learning"}, 1, id="the whole output"),
        pytest.param("composition_output", {}, 1, id="any output"),
        pytest.param("composition_step_output", {"step": "classify", "contains": "paper"}, 1, id="a step's output"),
        pytest.param("composition_step_output", {"step": "empty"}, 0, id="a step that gave nothing"),
        pytest.param("composition_step_output", {"step": "other", "contains": ""}, 0, id="a step that did not run"),
        pytest.param("composition_branch_taken", {"branch": "route", "expected": "extract"}, 1, id="the way it went"),
        pytest.param("composition_branch_taken", {"branch": "route", "expected": "skip"}, 0, id="the other way"),
        pytest.param("composition_branch_taken", {"branch": "fork", "expected": "extract"}, 0, id="a branch that did not run"),
        pytest.param("composition_parallel_complete", {"parallel": "meta"}, 1, id="completed"),
        pytest.param("composition_parallel_complete", {"parallel": "other"}, 0, id="not completed"),
    ],
)
def test_composition_checks(ask: Ask, check: str, params: dict[str, Any], score: float) -> None:
    """What the composition recorded is what the check says."""
    assert ask(check, params, composition=STEPS).score == score


STATES = st.sampled_from(["a", "b", "c"])


@given(st.lists(STATES, max_size=8), st.lists(STATES, min_size=1, max_size=5))
def test_order_is_a_subsequence(entered: list[str], wanted: list[str]) -> None:
    """The score is 1 exactly when the sequence can be had by leaving out states, and it never falls when more states follow."""

    def score(states: list[str]) -> float:
        outcome = prepare_check("workflow_transition_order", {"sequence": wanted})(Evidence(workflow=WorkflowTrace("a", entered=states)))
        assert isinstance(outcome, Outcome)
        assert outcome.score is not None
        return outcome.score

    rest = iter(entered)
    assert (score(entered) == 1) is all(state in rest for state in wanted)
    assert score(entered) <= score([*entered, *wanted]) == 1
