"""Checks of a workflow: where it stands, where it went, who spoke, which tools were called where (promptkit-format.md 3.5)."""

from engine.checks.evidence import Evaluate, Evidence, Outcome, WorkflowTrace, ratio, verdict
from engine.checks.params import Param, Values, objects, text, texts
from engine.checks.registry import CheckType
from engine.checks.shown import listed, shown
from engine.checks.tool_order import subsequence_length

TRANSITION = "workflow__transition"


def trace_of(evidence: Evidence) -> WorkflowTrace:
    """Return the workflow so far.

    Raises:
        ValueError: there is none, so that nothing can be said of it.
    """
    if evidence.workflow is None:
        raise ValueError("the conversation has no workflow")
    return evidence.workflow


def _last_refusal(evidence: Evidence) -> str:
    """Return why the last transition that was asked for was not made, as the end of an explanation; "" when it was made."""
    asked = [record for record in evidence.calls if record.call.name == TRANSITION]
    refused = asked[-1].result.error if asked else ""
    return f"; the last transition failed: {shown(refused)}" if refused else ""


def _state_is(values: Values) -> Evaluate:
    wanted = values["state"]

    def evaluate(evidence: Evidence) -> Outcome:
        state = trace_of(evidence).state
        return verdict(
            holds=state == wanted, explanation=f"the state is {shown(state)}, {shown(wanted)} wanted{_last_refusal(evidence)}", value={"state": state}
        )

    return evaluate


def _transitioned_to(values: Values) -> Evaluate:
    wanted = values["state"]

    def evaluate(evidence: Evidence) -> Outcome:
        entered = trace_of(evidence).entered
        return verdict(
            holds=wanted in entered,
            explanation=f"went to {listed(entered)}, {shown(wanted)} wanted{_last_refusal(evidence)}",
            value={"entered": list(entered)},
        )

    return evaluate


def _complete(_: Values) -> Evaluate:
    def evaluate(evidence: Evidence) -> Outcome:
        trace = trace_of(evidence)
        ends = "ends the workflow" if trace.terminal else "does not end the workflow"
        return verdict(
            holds=trace.terminal, explanation=f"the state {shown(trace.state)} {ends}{_last_refusal(evidence)}", value={"state": trace.state}
        )

    return evaluate


def _spoke_in_state(values: Values) -> Evaluate:
    wanted = values["state"]

    def evaluate(evidence: Evidence) -> Outcome:
        spoke = [state for state, reply in zip(trace_of(evidence).speakers, evidence.replies, strict=False) if reply.strip()]
        states = list(dict.fromkeys(spoke))
        return verdict(holds=wanted in spoke, explanation=f"replies were given in {listed(states)}, {shown(wanted)} wanted", value={"spoke": states})

    return evaluate


def _transition_order(values: Values) -> Evaluate:
    wanted = values["sequence"]

    def evaluate(evidence: Evidence) -> Outcome:
        entered = trace_of(evidence).entered
        matched = subsequence_length(entered, wanted)
        missing = "" if matched == len(wanted) else f"; {shown(wanted[matched])} did not follow"
        return Outcome(ratio(matched, len(wanted)), f"went to {listed(entered)}{missing}", {"matched": matched, "entered": list(entered)})

    return evaluate


def _tool_access(values: Values) -> Evaluate:
    allowed: dict[str, set[str]] = {}
    for rule in values["rules"]:
        allowed.setdefault(rule["state"], set()).update(rule["allowed"])

    def evaluate(evidence: Evidence) -> Outcome:
        trace_of(evidence)
        bad = [record for record in evidence.calls if record.state in allowed and record.name not in allowed[record.state]]
        phrases = [f"{shown(record.name)} in state {shown(record.state)}" for record in bad]
        return verdict(holds=not bad, explanation=f"called {', '.join(phrases)}" if bad else "every call was allowed where it was made")

    return evaluate


_STATE = (Param("state", text, required=True),)
_RULES = objects(Param("state", text, required=True), Param("allowed", texts, required=True))

CHECKS = (
    CheckType("state_is", _STATE, _state_is),
    CheckType("transitioned_to", _STATE, _transitioned_to),
    CheckType("workflow_complete", (), _complete),
    CheckType("spoke_in_state", _STATE, _spoke_in_state),
    CheckType("workflow_transition_order", (Param("sequence", texts, required=True),), _transition_order, asks=("sequence",)),
    CheckType("workflow_tool_access", (Param("rules", _RULES, required=True),), _tool_access, asks=("rules",)),
)
