"""What a call's arguments and its result must be: a tool's two schemas, and how long it may take (promptkit-format.md 6.3)."""

from collections.abc import Mapping
from typing import Any

from engine.tools.port import CallFailed
from engine.tools.schema import Schema


def check_arguments(arguments: Mapping[str, Any], schema: Schema | None) -> None:
    """Let arguments pass that fit; all do without a schema.

    Raises:
        CallFailed: they do not (`validation`).
    """
    if fault := schema.fault(arguments) if schema else "":
        raise CallFailed("validation", f"the arguments do not fit the tool's schema: {fault}")


def check_result(value: Any, schema: Schema | None) -> None:
    """Let a result pass that fits; all do without a schema.

    Raises:
        CallFailed: it does not (`execution`).
    """
    if fault := result_fault(value, schema):
        raise CallFailed("execution", fault)


def result_fault(value: Any, schema: Schema | None) -> str:
    """Return why a result does not fit, "" when it does."""
    fault = schema.fault(value) if schema else ""
    return fault and f"the result does not fit the tool's output schema: {fault}"


def shortest_s(*limits_ms: int, default_s: float) -> float:
    """Return the shortest of the limits that are set, in seconds; 0 sets none."""
    return min((limit / 1000 for limit in limits_ms if limit), default=default_s)
