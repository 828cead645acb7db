"""What a bundle's author asks of a conversation, compiled: checks with their bounds and conditions."""

from collections.abc import Sequence

from engine.bundle.model import Assertion, When
from engine.checks.compiled import Applies, Bounds, CompiledCheck, condition
from engine.checks.registry import prepare_check


def compile_checks(assertions: Sequence[Assertion]) -> tuple[CompiledCheck, ...]:
    """Compile checks in their order.

    Raises:
        ValueError: one is not what the loader let pass.
    """
    return tuple(compile_check(assertion) for assertion in assertions)


def compile_check(assertion: Assertion) -> CompiledCheck:
    """Compile one check.

    Raises:
        ValueError: it is not what the loader let pass.
    """
    return CompiledCheck(
        type=assertion.type,
        evaluate=prepare_check(assertion.check, assertion.params),
        bounds=Bounds(assertion.min_score, assertion.max_score),
        message=assertion.message,
        applies=compile_when(assertion.when),
        name=assertion.check if assertion.type == "assertion" else "",
        tolerance=assertion.pass_threshold,
    )


def compile_when(when: When | None) -> Applies | None:
    """Compile a condition; None when there is none.

    Raises:
        ValueError: its pattern is no RE2 pattern.
    """
    if when is None:
        return None
    return condition(
        tool_called=when.tool_called,
        tool_called_pattern=when.tool_called_pattern,
        any_tool_called=when.any_tool_called,
        min_tool_calls=when.min_tool_calls,
    )
