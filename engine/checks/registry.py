"""The table of checks: which types there are, by which other names, with which parameters.

A family module declares its checks with `CheckType`; this module gathers them. Must not know scenarios or files.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from engine.checks.evidence import Evaluate, of_last_turn
from engine.checks.params import Param, Values, one_of, read_params
from engine.checks.problems import ParamProblem, nearest


@dataclass(frozen=True, slots=True)
class CheckType:
    """A type of check.

    `prepare` turns read parameters into the evaluation, once a check of a bundle; it raises ValueError for combinations that make no sense.
    With none of the parameters in `asks` given, or all of them empty, it passes whatever was said; () when it always asks for something.
    `judge` says whether a judge decides: `needed`, `welcome` (it does without when the arena has none), or "". `asks_model` names the slot of
    `defaults.inference` of a check that a classifier or an embedding model decides. `falls_short` says why a good conversation scores below 1, and so
    fails where the author sets no min_score; "" when it does not. One that `spans` the conversation so far takes `scope: turn` to look at the last turn
    alone.
    """

    name: str
    params: tuple[Param, ...]
    prepare: Callable[[Values], Evaluate]
    asks: tuple[str, ...] = ()
    judge: Literal["", "needed", "welcome"] = ""
    asks_model: str = ""
    falls_short: Callable[[Values], str] | None = None
    spans: bool = False

    @property
    def declared(self) -> tuple[Param, ...]:
        """Return all parameters, `scope` included."""
        return (*self.params, _SCOPE) if self.spans else self.params


_SCOPE = Param("scope", one_of("conversation", "turn"), default="conversation")

ALIASES: Mapping[str, str] = {
    "content_includes": "contains",
    "content_includes_any": "contains_any",
    "content_matches": "regex",
    "content_not_includes": "content_excludes",
    "is_valid_json": "json_valid",
    "valid_json": "json_valid",
    "tool_called": "tools_called",
    "tools_not_called_with_args": "tool_args_excluded_session",
    "llm_judge_conversation": "llm_judge_session",
    "length": "max_length",
    "max_sentences": "sentence_count",
    "required_fields": "field_presence",
}
"""Other names of check types (promptkit-format.md 3.2). `banned_words` is a type of its own: it matches whole words."""


@cache
def check_types() -> Mapping[str, CheckType]:
    """Return every type that is built, by its first name."""
    from engine.checks import (  # noqa: PLC0415 - families import this module
        behaviour,
        budget,
        classified,
        composition,
        content,
        guardrail,
        json_content,
        judged,
        length,
        media,
        outside,
        skills,
        tool_arguments,
        tool_calls,
        tool_order,
        tool_results,
        workflow,
    )

    text = (content, length, json_content, budget, behaviour, guardrail)
    families = (*text, judged, classified, tool_calls, tool_arguments, tool_order, tool_results, media, workflow, skills, composition, outside)
    return {check.name: check for family in families for check in family.CHECKS}


def known_types() -> frozenset[str]:
    """Return every name that a check's `type` may have: built or not, aliases and the `assertion` wrapper included."""
    return frozenset((*check_types(), *ALIASES, "assertion"))


def validate_check(check: str, params: Mapping[str, Any]) -> list[ParamProblem]:
    """Return everything that is wrong with a check, [] when nothing is.

    `check` is any known name; for the wrapper `assertion` the inner type and its parameters are judged. `min_score`, `max_score` and `message` may stand among `params`. Pure and idempotent.
    """
    if check == "assertion":
        return _validate_wrapper(params)
    name = ALIASES.get(check, check)
    found = check_types().get(name)
    if found is None:
        close = nearest(check, known_types())
        return [ParamProblem("", f"unknown check '{check}'", f"did you mean '{close}'?" if close else "")]
    values, problems = read_params(found.declared, params)
    problems.extend(_validate_scores(params))
    if not problems:
        try:
            found.prepare(values)
        except ValueError as error:
            problems.append(ParamProblem("", str(error)))
    return problems


def judge_of(check: str) -> str:
    """Return whether a check needs a judge: `needed`, `welcome` (where the arena has judges, one decides), or "" (never, or unknown)."""
    found = check_types().get(ALIASES.get(check, check))
    return "" if found is None else found.judge


def model_slot_of(check: str) -> str:
    """Return the slot of `defaults.inference` whose model decides a check, "" for none (or an unknown check)."""
    found = check_types().get(ALIASES.get(check, check))
    return "" if found is None else found.asks_model


def idle_check(check: str, params: Mapping[str, Any]) -> str:
    """Return why a check that `validate_check` finds nothing wrong with can only pass, "" when it can fail."""
    found = check_types().get(ALIASES.get(check, check))
    if found is None or not found.asks:
        return ""
    given = [params[name] for param in found.params if param.key in found.asks for name in param.names if name in params]
    if any(value is not None and value not in ([], {}, "", [""]) for value in given):
        return ""
    return f"nothing is given in {', '.join(repr(key) for key in found.asks)}"


def short_check(check: str, params: Mapping[str, Any]) -> str:
    """Return why a check that `validate_check` finds nothing wrong with hardly ever passes without a min_score, "" when it does."""
    found = check_types().get(ALIASES.get(check, check))
    return "" if found is None or found.falls_short is None else found.falls_short(read_params(found.declared, params)[0])


def prepare_check(check: str, params: Mapping[str, Any]) -> Evaluate:
    """Compile a check that `validate_check` finds nothing wrong with.

    Raises:
        ValueError: there is something wrong, or the type is unknown; the message names it.
    """
    name = ALIASES.get(check, check)
    found = check_types().get(name)
    if found is None:
        raise ValueError(f"cannot evaluate check '{check}': unknown type")
    values, problems = read_params(found.declared, params)
    if problems:
        raise ValueError(f"cannot evaluate check '{check}': {problems[0].message}")
    evaluate = found.prepare(values)
    return _of_last_turn(evaluate) if values.get("scope") == "turn" else evaluate


def _of_last_turn(evaluate: Evaluate) -> Evaluate:
    return lambda evidence: evaluate(of_last_turn(evidence))


def _validate_wrapper(params: Mapping[str, Any]) -> list[ParamProblem]:
    inner = params.get("eval_type")
    if not isinstance(inner, str) or inner == "assertion":
        return [ParamProblem("eval_type", "'eval_type' must name a check", "the wrapper 'assertion' takes eval_type and eval_params")]
    inner_params = params.get("eval_params", {})
    if not isinstance(inner_params, Mapping):
        return [ParamProblem("eval_params", "'eval_params' must be an object")]
    known = ("eval_type", "eval_params", "min_score", "max_score", "message")
    unknown = [ParamProblem(key, f"unknown parameter '{key}'", f"known: {', '.join(known)}") for key in params if key not in known]
    return [*unknown, *_validate_scores(params), *validate_check(inner, inner_params)]


def _validate_scores(params: Mapping[str, Any]) -> list[ParamProblem]:
    problems = []
    for key in ("min_score", "max_score"):
        value = params.get(key)
        if key in params and (isinstance(value, bool) or not isinstance(value, int | float)):
            problems.append(ParamProblem(key, f"'{key}' must be a number"))
    if "message" in params and not isinstance(params["message"], str):
        problems.append(ParamProblem("message", "'message' must be a string"))
    return problems
