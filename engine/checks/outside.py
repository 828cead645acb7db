"""Checks that somebody outside decides: a web service, an agent, a program of the bundle, a tool that is run at the end (promptkit-format.md 3.4, 3.6).

Owns what they are shown. How they are reached, and what their answer counts, is `engine.judging.outside`'s.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from engine.checks.evidence import CallRecord, Evaluate, Evidence, Outcome
from engine.checks.params import Param, Values, flag, mapping, number, pattern, text
from engine.checks.questions import AgentQuestion, ProgramQuestion, Question, ServiceQuestion, ToolQuestion
from engine.checks.registry import CheckType

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
MAX_TIMEOUT_S = 600.0


def _duration(value: Any) -> float:
    """Read a duration in Go's spelling; returns seconds."""
    if not isinstance(value, str) or _DURATION.fullmatch(value) is None:
        raise ValueError("must be a duration, such as 30s or 500ms")
    seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in _DURATION_PART.findall(value))
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise ValueError(f"must be above 0 and at most {MAX_TIMEOUT_S:g}s")
    return seconds


def _address(value: Any) -> str:
    if not text(value).startswith(("http://", "https://")):
        raise ValueError("must be an address of http or https")
    return str(value)


def _method(value: Any) -> str:
    if text(value).upper() not in ("GET", "POST", "PUT", "PATCH"):
        raise ValueError("must be one of GET, POST, PUT, PATCH")
    return str(value).upper()


def _headers(value: Any) -> dict[str, str]:
    return {name: text(content) for name, content in mapping(value).items()}


def messages_of(evidence: Evidence) -> list[dict[str, str]]:
    """Return what was said, as an evaluator outside reads it."""
    return [{"role": message.role, "content": message.content} for message in evidence.messages]


def calls_of(evidence: Evidence) -> list[dict[str, Any]]:
    """Return the tool calls, as an evaluator outside reads them."""
    return [_call(record) for record in evidence.calls]


def _call(record: CallRecord) -> dict[str, Any]:
    found = {"index": record.turn, "name": record.name, "args": dict(record.arguments), "result": record.result.content}
    return found | ({"error": record.result.error} if record.result.error else {})


def _shown(evidence: Evidence, values: Values, *, whole: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"current_output": "\n".join(evidence.replies) if whole else evidence.reply}
    if values["include_messages"]:
        shown["messages"] = messages_of(evidence)
    if values["include_tool_calls"]:
        shown["tool_calls"] = calls_of(evidence)
    return shown | {key: values[key] for key in ("criteria", "extra") if values[key]}


def _service(*, whole: bool) -> Callable[[Values], Evaluate]:
    def prepare(values: Values) -> Evaluate:
        def evaluate(evidence: Evidence) -> Outcome | Question:
            shown = _shown(evidence, values, whole=whole)
            return ServiceQuestion(values["url"], values["method"], values["headers"], shown, values["timeout"])

        return evaluate

    return prepare


def _agent(*, whole: bool) -> Callable[[Values], Evaluate]:
    def prepare(values: Values) -> Evaluate:
        def evaluate(evidence: Evidence) -> Outcome | Question:
            shown = _shown(evidence, values, whole=whole)
            return AgentQuestion(values["agent_url"], values["auth_token"], shown, values["timeout"])

        return evaluate

    return prepare


def program_shown(evidence: Evidence, kind: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a program that evaluates reads."""
    context = {"messages": messages_of(evidence), "turn_index": evidence.turn, "tool_calls": calls_of(evidence), "variables": {}, "metadata": {}}
    return {"type": kind, "params": dict(params), "content": evidence.reply, "context": context}


def _program(values: Values) -> Evaluate:
    name = values["eval"]

    def evaluate(evidence: Evidence) -> Outcome | Question:
        return ProgramQuestion(name, program_shown(evidence, name, values["params"]))

    return evaluate


def _tool(values: Values) -> Evaluate:
    def evaluate(evidence: Evidence) -> Outcome | Question:
        del evidence
        return ToolQuestion(values["tool"], values["args"], values["timeout_seconds"], values["success_pattern"], values["failure_pattern"])

    return evaluate


def _seconds(value: Any) -> float:
    if not 0 < number(value) <= MAX_TIMEOUT_S:
        raise ValueError(f"must be above 0 and at most {MAX_TIMEOUT_S:g}")
    return float(value)


_SHOWING = (
    Param("include_messages", flag, default=True),
    Param("include_tool_calls", flag, default=False),
    Param("criteria", text, default=""),
    Param("extra", mapping, default={}),
)
_SERVICE = (
    Param("url", _address, required=True),
    Param("method", _method, default="POST"),
    Param("headers", _headers, default={}),
    Param("timeout", _duration, default=30.0),
    *_SHOWING,
)
_AGENT = (
    Param("agent_url", _address, required=True),
    Param("auth_token", text, default=""),
    Param("timeout", _duration, default=60.0),
    *_SHOWING,
)

CHECKS = (
    CheckType("rest_eval", _SERVICE, _service(whole=False)),
    CheckType("rest_eval_session", _SERVICE, _service(whole=True)),
    CheckType("a2a_eval", _AGENT, _agent(whole=False)),
    CheckType("a2a_eval_session", _AGENT, _agent(whole=True)),
    CheckType("exec", (Param("eval", text, required=True), Param("params", mapping, default={})), _program),
    CheckType(
        "tool_exec",
        (
            Param("tool", text, required=True),
            Param("args", mapping, default={}),
            Param("timeout_seconds", _seconds, default=120.0),
            Param("success_pattern", pattern),
            Param("failure_pattern", pattern),
        ),
        _tool,
    ),
)
