"""Checks of the arguments that tools were called with.

Arguments are compared as text, the way the format's engines print values, so that "15" and 15 are the same argument.
"""

from collections.abc import Mapping
from typing import Any

from engine.checks.evidence import CallRecord, Evaluate, Evidence, Outcome, verdict
from engine.checks.params import Param, Values, flag, mapping, pattern, patterns_by_name, text, texts
from engine.checks.registry import CheckType
from engine.checks.shown import listed, shown, visible
from engine.providers.messages import json_text
from foundation.patterns import Pattern


def argument_text(value: Any) -> str:
    """Return an argument as it is compared: true and false, no trailing zeros, nothing as `<nil>`."""
    if isinstance(value, str):
        return value
    return "<nil>" if value is None else json_text(value)


def differing(arguments: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Return the names in `expected` that `arguments` lack or hold with another value; an expected null asks for presence only."""
    return [
        name
        for name, value in expected.items()
        if name not in arguments or (value is not None and argument_text(arguments[name]) != argument_text(value))
    ]


def not_matching(arguments: Mapping[str, Any], patterns: Mapping[str, Pattern]) -> list[str]:
    """Return the names in `patterns` that `arguments` lack or hold with a value that the pattern does not match."""
    return [name for name, compiled in patterns.items() if name not in arguments or compiled.search(argument_text(arguments[name])) is None]


def violations(record: CallRecord, values: Values) -> list[str]:
    """Return, as phrases, which of the demands in `values` a call does not meet (keys of `DEMANDS` and `expected_args`)."""
    expected = values.get("expected_args") or {}
    found = [f"argument {_difference(record.arguments, name, expected[name])}" for name in differing(record.arguments, expected)]
    patterns = values["args_match"]
    found += [
        f"argument {shown(name)} is {_held(record.arguments, name)}, which does not match {shown(patterns[name].pattern)}"
        for name in not_matching(record.arguments, patterns)
    ]
    if values["no_error"] and record.result.error:
        found.append(f"it failed: {visible(record.result.error)}")
    content = record.result.content
    missing = [entry for entry in values["result_includes"] if entry.lower() not in content.lower()]
    if missing:
        found.append(f"the result {shown(content)} lacks {listed(missing)}")
    if values["result_matches"] is not None and values["result_matches"].search(content) is None:
        found.append(f"the result {shown(content)} does not match {shown(values['result_matches'].pattern)}")
    return found


def _held(arguments: Mapping[str, Any], name: str) -> str:
    return shown(argument_text(arguments[name])) if name in arguments else "not there"


def _difference(arguments: Mapping[str, Any], name: str, expected: Any) -> str:
    wanted = "any value" if expected is None else shown(argument_text(expected))
    return f"{shown(name)} is {_held(arguments, name)}, {wanted} wanted"


def _tool_args(values: Values) -> Evaluate:
    tool, expected = values["tool_name"], values["expected_args"]

    def evaluate(evidence: Evidence) -> Outcome:
        calls = [record for record in evidence.calls if record.name == tool]
        if any(not differing(record.arguments, expected) for record in calls):
            return Outcome(1.0, f"{shown(tool)} was called with these arguments")
        nearest = (
            min((len(names), names, place) for place, record in enumerate(calls) if (names := differing(record.arguments, expected)))
            if calls
            else None
        )
        if nearest is None:
            return Outcome(0.0, f"{shown(tool)} was not called; {_called_instead(evidence)}")
        _, names, place = nearest
        differences = "; ".join(_difference(calls[place].arguments, name, expected[name]) for name in names)
        return Outcome(0.0, f"{shown(tool)} was called {len(calls)} times, never with these arguments; call {place + 1}: {differences}")

    return evaluate


def _tool_calls_with_args(values: Values) -> Evaluate:
    tool = values["tool_name"]

    def evaluate(evidence: Evidence) -> Outcome:
        calls = [record for record in evidence.calls if not tool or record.name == tool]
        if tool and not calls:
            return Outcome(0.0, f"{shown(tool)} was not called; {_called_instead(evidence)}")
        found = [f"call {place + 1}: {phrase}" for place, record in enumerate(calls) for phrase in violations(record, values)]
        return verdict(holds=not found, explanation="; ".join(found) or f"all {len(calls)} calls are as wanted", value={"calls": len(calls)})

    return evaluate


def _called_instead(evidence: Evidence) -> str:
    return f"called was {listed(list(dict.fromkeys(record.name for record in evidence.calls)))}"


DEMANDS = (
    Param("args_match", patterns_by_name, default={}),
    Param("result_includes", texts, default=()),
    Param("result_matches", pattern),
    Param("no_error", flag, default=False),
)
"""What a call can be asked for besides its exact arguments."""

_TOOL = Param("tool_name", text, required=True, aliases=("tool",))

CHECKS = (
    CheckType("tool_args", (_TOOL, Param("expected_args", mapping, default={})), _tool_args, spans=True),
    CheckType("tool_args_session", (_TOOL, Param("expected_args", mapping, default={})), _tool_args),
    CheckType(
        "tool_calls_with_args",
        (Param("tool_name", text, default="", aliases=("tool",)), Param("expected_args", mapping, default={}), *DEMANDS),
        _tool_calls_with_args,
        spans=True,
    ),
)
