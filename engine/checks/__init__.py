"""Checks: what is asked of a conversation, deterministically, and what was found.

`validate_check` says at load time what is wrong with a check, `idle_check` that it cannot fail; `prepare_check` compiles it;
`CompiledCheck` evaluates it, and asks where it cannot tell. Knows neither files nor how a conversation is held.
"""

from engine.checks.problems import ParamProblem
from engine.checks.registry import (
    ALIASES,
    idle_check,
    judge_of,
    known_types,
    model_slot_of,
    prepare_check,
    short_check,
    validate_check,
)

__all__ = [
    "ALIASES",
    "ParamProblem",
    "idle_check",
    "judge_of",
    "known_types",
    "model_slot_of",
    "prepare_check",
    "short_check",
    "validate_check",
]
