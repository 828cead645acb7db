"""Checks of what tools answered."""

from collections.abc import Callable

from engine.checks.evidence import CallRecord, Evaluate, Evidence, Outcome, verdict
from engine.checks.params import Param, Values, count, pattern, text, texts
from engine.checks.registry import CheckType
from engine.checks.shown import listed, shown


def _includes(values: Values) -> Evaluate:
    folded = [entry.lower() for entry in values["patterns"]]

    def holds(record: CallRecord) -> bool:
        lowered = record.result.content.lower()
        return all(entry in lowered for entry in folded)

    return _occurrences(values, holds, listed(values["patterns"]))


def _matches(values: Values) -> Evaluate:
    compiled = values["pattern"]
    return _occurrences(values, lambda record: compiled.search(record.result.content) is not None, shown(compiled.pattern))


def _occurrences(values: Values, holds: Callable[[CallRecord], bool], wanted: str) -> Evaluate:
    tool, least = values["tool"], values["occurrence"]

    def evaluate(evidence: Evidence) -> Outcome:
        results = [record for record in evidence.calls if not tool or record.name == tool]
        found = sum(map(holds, results))
        explanation = f"{found} results are as wanted, at least {least} needed"
        if found < least:
            explanation += f": {wanted} wanted in {listed([record.result.content for record in results])}"
        return verdict(holds=found >= least, explanation=explanation, value={"matching": found})

    return evaluate


def _agent_response(values: Values) -> Evaluate:
    agent, wanted = values["agent"], values["contains"]

    def evaluate(evidence: Evidence) -> Outcome:
        answers = [record.result.content for record in evidence.calls if record.name == agent]
        if any(wanted in answer for answer in answers):
            return Outcome(1.0, f"an answer of {shown(agent)} contains the text")
        return Outcome(0.0, f"{shown(agent)} answered {listed(answers)}, {shown(wanted)} wanted")

    return evaluate


_TOOL = Param("tool", text, default="", aliases=("tool_name",))
_OCCURRENCE = Param("occurrence", count, default=1)

CHECKS = (
    CheckType("tool_result_includes", (_TOOL, Param("patterns", texts, required=True), _OCCURRENCE), _includes, spans=True),
    CheckType("tool_result_matches", (_TOOL, Param("pattern", pattern, required=True), _OCCURRENCE), _matches, spans=True),
    CheckType("agent_response_contains", (Param("agent", text, required=True), Param("contains", text, required=True)), _agent_response, spans=True),
)
