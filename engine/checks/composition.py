"""Checks of a composition: what its steps gave, which way its branches went, and its output (promptkit-format.md 3.5)."""

from collections.abc import Callable

from engine.checks.evidence import CompositionTrace, Evaluate, Evidence, Outcome, verdict
from engine.checks.params import Param, Values, text
from engine.checks.registry import CheckType
from engine.checks.shown import listed, shown


def trace_of(evidence: Evidence) -> CompositionTrace:
    """Return what the composition did.

    Raises:
        ValueError: there was none, so that nothing can be said of it.
    """
    if evidence.composition is None:
        raise ValueError("the conversation has no composition")
    return evidence.composition


def _step_output(values: Values) -> Evaluate:
    step, compare = values["step"], _comparison(values)

    def evaluate(evidence: Evidence) -> Outcome:
        outputs = trace_of(evidence).outputs
        if step not in outputs:
            return Outcome(0.0, f"the step {shown(step)} gave nothing; those that did: {listed(list(outputs))}")
        return compare(outputs[step], f"the output of {shown(step)}")

    return evaluate


def _output(values: Values) -> Evaluate:
    compare = _comparison(values)
    return lambda evidence: compare(trace_of(evidence).output, "the output")


def _branch_taken(values: Values) -> Evaluate:
    branch, wanted = values["branch"], values["expected"]

    def evaluate(evidence: Evidence) -> Outcome:
        branches = trace_of(evidence).branches
        if branch not in branches:
            return Outcome(0.0, f"the branch {shown(branch)} did not run; those that did: {listed(list(branches))}")
        taken = branches[branch]
        return verdict(holds=taken == wanted, explanation=f"{shown(branch)} went to {shown(taken)}, {shown(wanted)} wanted", value={"taken": taken})

    return evaluate


def _parallel_complete(values: Values) -> Evaluate:
    step = values["parallel"]

    def evaluate(evidence: Evidence) -> Outcome:
        done = step in trace_of(evidence).completed
        return verdict(holds=done, explanation=f"the parallel step {shown(step)} {'completed' if done else 'did not complete'}")

    return evaluate


def _comparison(values: Values) -> Callable[[str, str], Outcome]:
    contains, equals = values["contains"], values["equals"]
    if contains is not None and equals is not None:
        raise ValueError("'contains' and 'equals' exclude each other")

    def compare(found: str, what: str) -> Outcome:
        if equals is not None:
            return verdict(holds=found == equals, explanation=f"{what} is {shown(found)}, {shown(equals)} wanted")
        if contains is not None:
            return verdict(holds=contains in found, explanation=f"{what} is {shown(found)}, {shown(contains)} wanted in it")
        return verdict(holds=bool(found), explanation=f"{what} is {shown(found)}")

    return compare


_CONTENT = (Param("contains", text), Param("equals", text))

CHECKS = (
    CheckType("composition_step_output", (Param("step", text, required=True), *_CONTENT), _step_output),
    CheckType("composition_branch_taken", (Param("branch", text, required=True), Param("expected", text, required=True)), _branch_taken),
    CheckType("composition_parallel_complete", (Param("parallel", text, required=True),), _parallel_complete),
    CheckType("composition_output", _CONTENT, _output),
)
