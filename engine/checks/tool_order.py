"""Checks of the order in which tools were called."""

from collections.abc import Sequence
from itertools import groupby

from engine.checks.evidence import Evaluate, Evidence, Outcome, ratio, verdict
from engine.checks.params import Param, Values, count, objects, text, texts
from engine.checks.registry import CheckType
from engine.checks.shown import listed, shown
from engine.checks.tool_arguments import DEMANDS, violations


def subsequence_length(names: Sequence[str], wanted: Sequence[str]) -> int:
    """Return how many of `wanted`, from its start, occur in `names` in this order, with gaps allowed."""
    matched = 0
    for name in names:
        if matched < len(wanted) and name == wanted[matched]:
            matched += 1
    return matched


def _sequence(values: Values) -> Evaluate:
    wanted = values["sequence"]

    def evaluate(evidence: Evidence) -> Outcome:
        matched = subsequence_length([record.name for record in evidence.calls], wanted)
        explanation = "called in this order"
        if matched < len(wanted):
            names = [record.name for record in evidence.calls]
            explanation = f"{shown(wanted[matched])} was not called after the first {matched} steps; called was {listed(names)}"
        return Outcome(ratio(matched, len(wanted)), explanation, {"matched": matched})

    return evaluate


def _chain(values: Values) -> Evaluate:
    steps = values["steps"]

    def evaluate(evidence: Evidence) -> Outcome:
        done = 0
        for record in evidence.calls:
            if done == len(steps) or record.name != steps[done]["tool"]:
                continue
            faults = violations(record, steps[done])
            if faults:
                return Outcome(ratio(done, len(steps)), f"step {done + 1} ({shown(record.name)}): {'; '.join(faults)}", {"completed": done})
            done += 1
        explanation = "all steps were taken" if done == len(steps) else f"step {done + 1} ({shown(steps[done]['tool'])}) was not taken"
        return Outcome(ratio(done, len(steps)), explanation, {"completed": done})

    return evaluate


def _no_repeat(values: Values) -> Evaluate:
    tools, most = values["tools"], values["max_repeats"]

    def evaluate(evidence: Evidence) -> Outcome:
        runs = [(name, len(list(group))) for name, group in groupby(record.name for record in evidence.calls)]
        bad = [f"{shown(name)} {length} times in a row" for name, length in runs if length > most and (not tools or name in tools)]
        return verdict(holds=not bad, explanation=f"called {', '.join(bad)}" if bad else "no tool was repeated")

    return evaluate


def _anti_pattern(values: Values) -> Evaluate:
    def evaluate(evidence: Evidence) -> Outcome:
        names = [record.name for record in evidence.calls]
        bad = [
            entry["message"] or " -> ".join(entry["sequence"])
            for entry in values["patterns"]
            if entry["sequence"] and subsequence_length(names, entry["sequence"]) == len(entry["sequence"])
        ]
        return verdict(holds=not bad, explanation="; ".join(bad) or "none of the patterns occurred")

    return evaluate


_STEP = objects(Param("tool", text, required=True), *DEMANDS)
_ANTI = objects(Param("sequence", texts, required=True), Param("message", text, default=""))

CHECKS = (
    CheckType("tool_call_sequence", (Param("sequence", texts, required=True),), _sequence, asks=("sequence",), spans=True),
    CheckType("tool_call_chain", (Param("steps", _STEP, required=True),), _chain, asks=("steps",), spans=True),
    CheckType("tool_no_repeat", (Param("tools", texts, default=()), Param("max_repeats", count, default=1)), _no_repeat, spans=True),
    CheckType("tool_anti_pattern", (Param("patterns", _ANTI, required=True),), _anti_pattern, asks=("patterns",), spans=True),
)
