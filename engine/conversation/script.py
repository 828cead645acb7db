"""A scenario made ready to be held many times: prompts assembled, tools, guardrails and checks compiled, once.

Owns the step from a bundle's values to what a conversation needs at each turn. A script is immutable and shared by all conversations. Must not
know providers' protocols, nor what becomes of results.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.bundle.model import Bundle, Scenario, Turn
from engine.bundle.parts import JsonPart, written_part
from engine.checks.compiled import CompiledCheck
from engine.conversation.asked import compile_checks
from engine.conversation.brief import NO_BRIEF, Brief, Setting, compile_brief
from engine.conversation.evals import SessionEval, compile_evals
from engine.conversation.faculties import Enable
from engine.conversation.interference import Interference, interference_of
from engine.errors import BundleInvalid

if TYPE_CHECKING:
    from engine.bundle.contexts import ContextPolicy
    from engine.conversation.selfplay import SimulatedUser
    from engine.conversation.window import OpenWindow


@dataclass(frozen=True, slots=True)
class ScriptTurn:
    """An entry of the script and the checks after each of its answers.

    `content` is what the user says, in which `{key}` of a perturbation may stand, and `parts` are all parts of a message that is more than text; with a
    `user` it is that one who speaks. `interference` is what happens to the turn's tool calls.
    """

    content: str
    streaming: bool
    checks: tuple[CompiledCheck, ...]
    user: "SimulatedUser | None" = None
    parts: tuple[JsonPart, ...] = ()
    interference: Interference | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """Everything of a scenario that does not depend on the item. `window` opens what limits its context; `cache` asks for prompt caching."""

    scenario: str
    brief: Brief
    turns: tuple[ScriptTurn, ...]
    checks: tuple[CompiledCheck, ...]
    faculties: tuple[Enable, ...] = ()
    window: "OpenWindow | None" = None
    cache: bool = False
    evals: tuple[SessionEval, ...] = ()


def compile_script(bundle: Bundle, scenario: Scenario, model: str = "", *, bare: bool = False) -> Script:
    """Compile a scenario for a model ("" for one that no prompt treats differently).

    `bare` is for whoever brings a prompt and everything that goes with one, as an agent does: it is told nothing but what users say.

    Raises:
        BundleInvalid: a prompt is missing or keeps a placeholder without a value, a tool's schema or template is none, or a check is not
            what the loader let pass.
    """
    try:
        faculties, brief = ((), NO_BRIEF) if bare else _equip(bundle, scenario, model)
        policy = None if bare else scenario.context_policy
        return Script(
            scenario=scenario.id,
            brief=brief,
            faculties=faculties,
            window=_window(bundle, policy, model),
            cache=policy is not None and bool(policy.cache_breakpoints),
            turns=tuple(_turn(turn, scenario, bundle) for turn in scenario.turns),
            checks=compile_checks(scenario.conversation_assertions),
            evals=compile_evals(bundle, scenario),
        )
    except ValueError as error:
        raise BundleInvalid(f"{scenario.location}: cannot hold scenario '{scenario.id}': {error}") from error


def _equip(bundle: Bundle, scenario: Scenario, model: str) -> tuple[tuple[Enable, ...], Brief]:
    """Return what conversations of a scenario have besides a prompt, and the brief that they start with."""
    arena = bundle.arena
    plain = arena.workflow is None and not arena.compositions and not arena.skills and not arena.memory and not scenario.seed_memories
    if plain:
        return (), compile_brief(Setting(bundle, scenario, model), scenario.task_type, scenario.location)
    from engine.conversation.equipment import equip  # noqa: PLC0415 - only arenas that have more than prompts pay for it

    return equip(bundle, scenario, model)


def _window(bundle: Bundle, policy: "ContextPolicy | None", model: str) -> "OpenWindow | None":
    if policy is None:
        return None
    from engine.conversation.window import window_for  # noqa: PLC0415 - only scenarios with a context policy pay for it

    return window_for(bundle, policy, model)


def _turn(turn: Turn, scenario: Scenario, bundle: Bundle) -> ScriptTurn:
    texts = [part.text for part in turn.parts if part.type == "text"]
    user = None
    if turn.role != "user":
        from engine.conversation.selfplay import compile_user  # noqa: PLC0415 - only scenarios with self-play pay for it

        user = compile_user(turn, scenario, bundle)
    return ScriptTurn(
        content="\n".join(texts) if turn.parts else turn.content,
        streaming=scenario.streaming if turn.streaming is None else turn.streaming,
        checks=compile_checks(turn.assertions),
        user=user,
        parts=tuple(written_part(part) for part in turn.parts) if len(texts) < len(turn.parts) else (),
        interference=interference_of(turn, bundle),
    )
