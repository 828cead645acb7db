"""Checks that compare a conversation with a baseline: same tools, same state, similar words, fields that are never lost."""

from itertools import pairwise

from engine.checks.evidence import Evaluate, Evidence, Outcome, ratio, verdict
from engine.checks.params import Param, Values, number, one_of, text, texts
from engine.checks.registry import CheckType
from engine.checks.shown import listed, shown
from engine.checks.workflow import trace_of


def _directional(values: Values) -> Evaluate:
    match values["check"]:
        case "same_tool_calls":
            return _same_tools(values["baseline_tools"])
        case "same_outcome":
            return _same_state(values["baseline_state"])
        case _:
            return _similar(values["baseline_content"], values["threshold"])


def _outcome_equivalent(values: Values) -> Evaluate:
    match values["metric"]:
        case "tool_calls":
            return _same_tools(values["expected_tools"])
        case "final_state":
            return _same_state(values["expected_state"])
        case _:
            return _same_content(values["expected_content"])


def _same_tools(expected: tuple[str, ...]) -> Evaluate:
    wanted = sorted(set(expected))

    def evaluate(evidence: Evidence) -> Outcome:
        if not wanted:
            return Outcome(1.0, "no tools to compare with were given")
        called = sorted({record.name for record in evidence.calls})
        explanation = f"called {listed(called)}, expected {listed(wanted)}"
        return verdict(holds=called == wanted, explanation=explanation, value={"called": called})

    return evaluate


def _same_state(expected: str) -> Evaluate:
    def evaluate(evidence: Evidence) -> Outcome:
        if not expected:
            return Outcome(1.0, "no state to compare with was given")
        state = trace_of(evidence).state
        return verdict(holds=state == expected, explanation=f"the state is {shown(state)}, {shown(expected)} wanted", value={"state": state})

    return evaluate


def _same_content(expected: str) -> Evaluate:
    def evaluate(evidence: Evidence) -> Outcome:
        if not expected:
            return Outcome(1.0, "no content to compare with was given")
        if evidence.reply == expected:
            return Outcome(1.0, "the reply is the expected one")
        place = next((place for place, pair in enumerate(zip(evidence.reply, expected, strict=False)) if pair[0] != pair[1]), None)
        where = f"from character {place + 1} on" if place is not None else "by its length"
        return Outcome(0.0, f"the reply {shown(evidence.reply)} differs {where} from the expected {shown(expected)}")

    return evaluate


def _similar(baseline: str, threshold: float) -> Evaluate:
    wanted = set(baseline.lower().split())

    def evaluate(evidence: Evidence) -> Outcome:
        if not wanted:
            return Outcome(1.0, "no content to compare with was given")
        words = set(evidence.reply.lower().split())
        overlap = len(words & wanted) / len(words | wanted)
        relation = "at least" if overlap >= threshold else "less than"
        return Outcome(overlap, f"{overlap:.4g} of the words are shared, {relation} the threshold {threshold:g}", {"overlap": overlap})

    return evaluate


def _invariant_fields(values: Values) -> Evaluate:
    tool, fields = values["tool"], values["fields"]

    def evaluate(evidence: Evidence) -> Outcome:
        calls = [record.arguments for record in evidence.calls if record.name == tool]
        lost = [name for name in fields if any(name in before and name not in after for before, after in pairwise(calls))]
        explanation = f"lost between calls of {shown(tool)}: {listed(lost)}" if lost else f"no field was lost in {len(calls)} calls of {shown(tool)}"
        return Outcome(ratio(len(fields) - len(lost), len(fields)), explanation, {"lost": lost})

    return evaluate


CHECKS = (
    CheckType(
        "directional",
        (
            Param("check", one_of("same_tool_calls", "same_outcome", "similar_content"), required=True),
            Param("baseline_tools", texts, default=()),
            Param("baseline_state", text, default=""),
            Param("baseline_content", text, default=""),
            Param("threshold", number, default=0.5),
        ),
        _directional,
        asks=("baseline_tools", "baseline_state", "baseline_content"),
        falls_short=lambda values: "only the very same words score 1, and `threshold` decides nothing" if values["baseline_content"] else "",
    ),
    CheckType(
        "outcome_equivalent",
        (
            Param("metric", one_of("tool_calls", "final_state", "content_hash"), required=True),
            Param("expected_tools", texts, default=()),
            Param("expected_state", text, default=""),
            Param("expected_content", text, default=""),
        ),
        _outcome_equivalent,
        asks=("expected_tools", "expected_state", "expected_content"),
    ),
    CheckType(
        "invariant_fields_preserved", (Param("tool", text, required=True), Param("fields", texts, required=True)), _invariant_fields, asks=("fields",)
    ),
)
