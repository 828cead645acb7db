"""Checks of which tools were called, and how often. They see the whole conversation so far (promptkit-format.md 2.3, 3.4)."""

from collections import Counter
from collections.abc import Callable

from engine.checks.evidence import CallRecord, Evaluate, Evidence, Outcome, ratio, verdict
from engine.checks.params import Param, Values, count, flag, mapping, names, number, text, texts, whole
from engine.checks.registry import CheckType
from engine.checks.shown import listed, visible
from engine.checks.tool_arguments import differing


def _tools_called(values: Values) -> Evaluate:
    def counts(record: CallRecord) -> bool:
        kind = record.result.error_type
        # What a user declines, the model has called all the same: that is the user's doing.
        made = not record.result.error or kind == "approval" or (kind == "validation" and values["ignore_validation"])
        return made and (not values["require_args"] or bool(record.arguments))

    return _called(values, lambda evidence: Counter(record.name for record in evidence.calls if counts(record)))


def _tools_called_session(values: Values) -> Evaluate:
    def counts(record: CallRecord) -> bool:
        return not values["require_args"] or bool(record.arguments)

    return _called(values, lambda evidence: Counter(record.name for record in evidence.calls if counts(record)))


def _called(values: Values, tally: Callable[[Evidence], Counter[str]]) -> Evaluate:
    wanted, least, most = values["tool_names"], values["min_calls"], values["max_calls"]

    def evaluate(evidence: Evidence) -> Outcome:
        if not wanted:
            return Outcome(0.0, "no tools were given")
        calls = tally(evidence)
        missing = [f"{visible(name)} (called {calls[name]} times, at least {least} wanted)" for name in wanted if calls[name] < least]
        over = [f"{visible(name)} (called {calls[name]} times, at most {most} allowed)" for name in wanted if 0 <= most < calls[name]]
        explanation = "; ".join((*over, *missing)) or "all tools were called as wanted"
        return Outcome(
            0.0 if over else ratio(len(wanted) - len(missing), len(wanted)), explanation, {"calls": {name: calls[name] for name in wanted}}
        )

    return evaluate


def _tools_not_called(values: Values) -> Evaluate:
    forbidden = values["tool_names"]

    def evaluate(evidence: Evidence) -> Outcome:
        called = sorted({record.name for record in evidence.calls if record.name in forbidden})
        return verdict(
            holds=not called, explanation=f"called: {listed(called)}" if called else "none of the tools was called", value={"called": called}
        )

    return evaluate


def _tool_args_excluded(values: Values) -> Evaluate:
    tool, forbidden = values["tool_name"], values["excluded_args"]

    def evaluate(evidence: Evidence) -> Outcome:
        bad = [
            name
            for record in evidence.calls
            if record.name == tool
            for name in forbidden
            if name in record.arguments and not differing(record.arguments, {name: forbidden[name]})
        ]
        return verdict(holds=not bad, explanation=f"called with a forbidden value of: {', '.join(bad)}" if bad else "no forbidden argument was used")

    return evaluate


def _tool_call_count(values: Values) -> Evaluate:
    tool, least, most = values["tool"], values["min"], values["max"]

    def evaluate(evidence: Evidence) -> Outcome:
        calls = sum(1 for record in evidence.calls if not tool or record.name == tool)
        holds = (least is None or calls >= least) and (most is None or calls <= most)
        bounds = f"{least if least is not None else 0} to {most if most is not None else 'any number'}"
        return verdict(holds=holds, explanation=f"{calls} calls, {bounds} wanted", value={"calls": calls})

    return evaluate


def _tool_efficiency(values: Values) -> Evaluate:
    def evaluate(evidence: Evidence) -> Outcome:
        calls = len(evidence.calls)
        errors = sum(1 for record in evidence.calls if record.result.error)
        measured = {"max_calls": calls, "max_errors": errors, "max_error_rate": errors / calls if calls else 0.0}
        over = [f"{key[4:]} {found:g} exceeds {values[key]:g}" for key, found in measured.items() if values[key] is not None and found > values[key]]
        if over:
            return Outcome(0.0, "; ".join(over), {"calls": calls, "errors": errors})
        score = 1.0 - calls / values["max_calls"] if values["max_calls"] else 1.0
        return Outcome(score, f"{calls} calls, {errors} errors", {"calls": calls, "errors": errors})

    return evaluate


def _no_tool_errors(values: Values) -> Evaluate:
    tools = values["tools"]

    def evaluate(evidence: Evidence) -> Outcome:
        bad = [
            f"{visible(record.name)}: {visible(record.result.error)}"
            for record in evidence.calls
            if record.result.error and (not tools or record.name in tools)
        ]
        return verdict(holds=not bad, explanation="; ".join(bad) or "no tool call failed", value={"errors": len(bad)})

    return evaluate


def _agent_invoked(values: Values) -> Evaluate:
    agents = values["agents"]

    def evaluate(evidence: Evidence) -> Outcome:
        called = {record.name for record in evidence.calls}
        missing = [agent for agent in agents if agent not in called]
        explanation = f"not invoked: {listed(missing)}" if missing else "all agents were invoked"
        return Outcome(ratio(len(agents) - len(missing), len(agents)), explanation)

    return evaluate


def _agent_not_invoked(values: Values) -> Evaluate:
    return _tools_not_called({"tool_names": values["agents"]})


_NAMES = Param("tool_names", names, required=True, aliases=("tools", "tool_name"))
_CALLED = (
    _NAMES,
    Param("min_calls", count, default=1),
    Param("max_calls", whole, default=-1),
    Param("ignore_validation", flag, default=False),
    Param("require_args", flag, default=False),
)
_AGENTS = (Param("agents", texts, required=True),)

CHECKS = (
    CheckType("tools_called", _CALLED, _tools_called, spans=True),
    CheckType("tools_called_session", _CALLED, _tools_called_session),
    CheckType("tools_not_called", (_NAMES,), _tools_not_called, asks=("tool_names",), spans=True),
    CheckType("tools_not_called_session", (_NAMES,), _tools_not_called, asks=("tool_names",)),
    CheckType(
        "tool_args_excluded_session",
        (Param("tool_name", text, required=True), Param("excluded_args", mapping, required=True, aliases=("forbidden_args",))),
        _tool_args_excluded,
        asks=("excluded_args",),
    ),
    CheckType(
        "tool_call_count",
        (Param("tool", text, default="", aliases=("tool_name",)), Param("min", count), Param("max", count)),
        _tool_call_count,
        asks=("min", "max"),
        spans=True,
    ),
    CheckType(
        "tool_efficiency",
        (Param("max_calls", count), Param("max_errors", count), Param("max_error_rate", number)),
        _tool_efficiency,
        asks=("max_calls", "max_errors", "max_error_rate"),
        falls_short=lambda values: "with max_calls every call lowers the score below 1" if values["max_calls"] else "",
        spans=True,
    ),
    CheckType("no_tool_errors", (Param("tools", texts, default=()),), _no_tool_errors, spans=True),
    CheckType("agent_invoked", _AGENTS, _agent_invoked, asks=("agents",), spans=True),
    CheckType("agent_not_invoked", _AGENTS, _agent_not_invoked, asks=("agents",), spans=True),
)
