"""A scenario made ready to be held many times: prompts assembled, tools, guardrails and checks compiled, once.

Owns the step from a bundle's values to what a conversation needs at each turn. A script is immutable and shared by all conversations. Must not
know providers' protocols, nor what becomes of results.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.bundle.model import Bundle, Scenario, Turn
from engine.checks.compiled import CompiledCheck
from engine.conversation.asked import compile_checks
from engine.conversation.brief import Brief, Setting, compile_brief
from engine.conversation.evals import SessionEval, compile_evals
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
    evals: tuple[SessionEval, ...] = ()


def compile_script(bundle: Bundle, scenario: Scenario, model: str = "") -> Script:
    """Compile a scenario for a model ("" for one that no prompt treats differently).

    Raises:
        BundleInvalid: a prompt is missing or keeps a placeholder without a value, a tool's schema or template is none, or a check is not
            what the loader let pass.
    """
    try:
        faculties, brief = _equip(bundle, scenario, model)
        return Script(
            scenario=scenario.id,
            brief=brief,
            faculties=faculties,
            turns=tuple(_turn(turn, scenario, bundle) for turn in scenario.turns),
            checks=compile_checks(scenario.conversation_assertions),
            evals=compile_evals(bundle, scenario),
        )
    except ValueError as error:
        raise BundleInvalid(f"{scenario.location}: cannot hold scenario '{scenario.id}': {error}") from error


def _equip(bundle: Bundle, scenario: Scenario, model: str) -> tuple[tuple[Enable, ...], Brief]:
    """Return what conversations of a scenario have besides a prompt, and the brief that they start with."""
    arena = bundle.arena
    if arena.workflow is None:
        return (), compile_brief(Setting(bundle, scenario, model), scenario.task_type, scenario.location)
    from engine.conversation.equipment import equip  # noqa: PLC0415 - only arenas that have more than prompts pay for it

    return equip(bundle, scenario, model)


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
