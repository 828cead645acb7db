"""Session evals: measurements of the arena and its prompts, made beside a conversation's checks (promptkit-format.md 3.7).

They never decide what becomes of an item: their results have the scope `session`, and one that breaks is a result with an error. Owns when each is
made. Which cases a sample takes depends on ids alone, so that two runs measure the same ones. Must not know how a conversation is held.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.bundle.evaluations import EvalDef
from engine.bundle.model import Bundle, Scenario
from engine.checks.compiled import Bounds, CompiledCheck
from engine.checks.registry import prepare_check
from engine.conversation.asked import compile_when

AT_THE_END = frozenset(("on_session_complete", "on_conversation_complete", "sample_sessions"))
AFTER_A_TURN = frozenset(("every_turn", "sample_turns"))
AFTER_A_STEP = AFTER_A_TURN | {"on_workflow_step"}
SAMPLING = frozenset(("sample_turns", "sample_sessions"))

"""Triggers that hold once a conversation is over, after any turn, after one in which the workflow moved, and those that take a share of cases."""

_FNV_OFFSET, _FNV_PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, 0xFFFFFFFFFFFFFFFF
_SLICES = 10_000


@dataclass(frozen=True, slots=True)
class SessionEval:
    """A session eval, compiled: `check` is what it measures; `percentage` is of 100 cases, for triggers that sample."""

    id: str
    trigger: str
    percentage: float
    check: CompiledCheck

    def takes(self, case: str) -> bool:
        """Say whether the sample holds `case`; always, for a trigger that does not sample."""
        return self.trigger not in SAMPLING or share_of(f"{self.id}\0{case}") < self.percentage / 100


def compile_evals(bundle: Bundle, scenario: Scenario) -> tuple[SessionEval, ...]:
    """Compile the enabled session evals of the arena and of the prompts that a scenario may speak with.

    Raises:
        ValueError: one is not what the loader let pass.
    """
    declared = (*bundle.arena.pack_evals, *(found for name in _task_types(bundle, scenario) for found in bundle.prompts[name].evals))
    return tuple(_compile(found) for found in declared if found.enabled)


def due(evals: Sequence[SessionEval], triggers: Collection[str], case: str) -> list[CompiledCheck]:
    """Return what is to be measured when one of `triggers` holds in `case` (an item's id, and the turn's number after a turn), in their order."""
    return [found.check for found in evals if found.trigger in triggers and found.takes(case)]


def share_of(text: str) -> float:
    """Return where a text falls between 0 and 1, by the 64-bit FNV-1a hash of its UTF-8."""
    found = _FNV_OFFSET
    for byte in text.encode("utf-8", "surrogatepass"):
        found = ((found ^ byte) * _FNV_PRIME) & _MASK
    return (found % _SLICES) / _SLICES


def _task_types(bundle: Bundle, scenario: Scenario) -> list[str]:
    states = bundle.arena.workflow.states.values() if bundle.arena.workflow is not None else ()
    named = dict.fromkeys((scenario.task_type, *(state.prompt_task for state in states)))
    return [name for name in named if name in bundle.prompts]


def _compile(found: EvalDef) -> SessionEval:
    bounds = Bounds(found.min_score, found.max_score) if found.thresholded else Bounds(least=0.0)
    check = CompiledCheck(
        type=found.type,
        evaluate=prepare_check(found.check, found.params),
        bounds=bounds,
        message=found.message,
        applies=compile_when(found.when),
        name=found.id,
    )
    return SessionEval(found.id, found.trigger, found.percentage, check)
