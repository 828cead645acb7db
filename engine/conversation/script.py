"""A scenario made ready to be held many times: prompts assembled, tools, guardrails and checks compiled, once.

Owns the step from a bundle's values to what a conversation needs at each turn. A script is immutable and shared by all conversations. Must not
know providers' protocols, nor what becomes of results.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.bundle.model import Assertion, Bundle, Scenario, Turn
from engine.checks.compiled import Bounds, CompiledCheck, condition
from engine.checks.registry import prepare_check
from engine.conversation.brief import Brief, Setting, compile_brief
from engine.conversation.faculties import Enable
from engine.errors import BundleInvalid

if TYPE_CHECKING:
    from engine.conversation.selfplay import SimulatedUser


@dataclass(frozen=True, slots=True)
class ScriptTurn:
    """An entry of the script and the checks after each of its answers.

    `content` is what the user says, in which `{key}` of a perturbation may stand; with a `user` it is that one who speaks.
    """

    content: str
    streaming: bool
    checks: tuple[CompiledCheck, ...]
    user: "SimulatedUser | None" = None


@dataclass(frozen=True, slots=True)
class Script:
    """Everything of a scenario that does not depend on the item."""

    scenario: str
    brief: Brief
    turns: tuple[ScriptTurn, ...]
    checks: tuple[CompiledCheck, ...]
    faculties: tuple[Enable, ...] = ()


def compile_script(bundle: Bundle, scenario: Scenario, model: str = "") -> Script:
    """Compile a scenario for a model ("" for one that no prompt treats differently).

    Raises:
        BundleInvalid: a prompt is missing or keeps a placeholder without a value, a tool's schema or template is none, or a check is not
            what the loader let pass.
    """
    try:
        return Script(
            scenario=scenario.id,
            brief=compile_brief(Setting(bundle, scenario, model), scenario.task_type, scenario.location),
            turns=tuple(_turn(turn, scenario, bundle) for turn in scenario.turns),
            checks=compile_checks(scenario.conversation_assertions),
        )
    except ValueError as error:
        raise BundleInvalid(f"{scenario.location}: cannot hold scenario '{scenario.id}': {error}") from error


def _turn(turn: Turn, scenario: Scenario, bundle: Bundle) -> ScriptTurn:
    texts = [part.text for part in turn.parts if part.type == "text"]
    if len(texts) != len(turn.parts):
        raise BundleInvalid(f"{turn.location}: cannot say a message with media: media are not built yet")
    user = None
    if turn.role != "user":
        from engine.conversation.selfplay import compile_user  # noqa: PLC0415 - only scenarios with self-play pay for it

        user = compile_user(turn, scenario, bundle)
    return ScriptTurn(
        content="\n".join(texts) if texts else turn.content,
        streaming=scenario.streaming if turn.streaming is None else turn.streaming,
        checks=compile_checks(turn.assertions),
        user=user,
    )


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
    when = assertion.when
    applies = None
    if when is not None:
        applies = condition(
            tool_called=when.tool_called,
            tool_called_pattern=when.tool_called_pattern,
            any_tool_called=when.any_tool_called,
            min_tool_calls=when.min_tool_calls,
        )
    return CompiledCheck(
        type=assertion.type,
        evaluate=prepare_check(assertion.check, assertion.params),
        bounds=Bounds(assertion.min_score, assertion.max_score),
        message=assertion.message,
        applies=applies,
        name=assertion.check if assertion.type == "assertion" else "",
    )
