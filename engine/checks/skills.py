"""Checks of skills: which were activated, and in which order (promptkit-format.md 3.5)."""

from collections import Counter

from engine.checks.evidence import Evaluate, Evidence, Outcome, ratio, verdict
from engine.checks.params import Param, Values, count, names, texts
from engine.checks.registry import CheckType
from engine.checks.shown import listed, shown
from engine.checks.tool_order import subsequence_length


def _activated(values: Values) -> Evaluate:
    wanted, least = values["skill_names"], values["min_calls"]

    def evaluate(evidence: Evidence) -> Outcome:
        counts = Counter(evidence.skills)
        missing = [f"{shown(name)} {counts[name]} times, at least {least} wanted" for name in wanted if counts[name] < least]
        explanation = f"activated {', '.join(missing)}" if missing else f"activated {listed(list(counts))}"
        return Outcome(ratio(len(wanted) - len(missing), len(wanted)), explanation, {"activated": dict(counts)})

    return evaluate


def _not_activated(values: Values) -> Evaluate:
    forbidden = values["skill_names"]

    def evaluate(evidence: Evidence) -> Outcome:
        found = [name for name in dict.fromkeys(evidence.skills) if name in forbidden]
        return verdict(holds=not found, explanation=f"activated {listed(found)}" if found else "none of the skills was activated")

    return evaluate


def _order(values: Values) -> Evaluate:
    wanted = values["sequence"]

    def evaluate(evidence: Evidence) -> Outcome:
        matched = subsequence_length(evidence.skills, wanted)
        missing = "" if matched == len(wanted) else f"; {shown(wanted[matched])} did not follow"
        return Outcome(ratio(matched, len(wanted)), f"activated {listed(evidence.skills)}{missing}", {"matched": matched})

    return evaluate


_NAMES = Param("skill_names", names, required=True, aliases=("skills", "skill_name"))

CHECKS = (
    CheckType("skill_activated", (_NAMES, Param("min_calls", count, default=1)), _activated, asks=("skill_names",)),
    CheckType("skill_not_activated", (_NAMES,), _not_activated, asks=("skill_names",)),
    CheckType("skill_activation_order", (Param("sequence", texts, required=True),), _order, asks=("sequence",)),
)
