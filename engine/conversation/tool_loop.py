"""The limits of a turn's tool loop: how often a model may call tools before the turn ends as an error (promptkit-format.md 6.3).

Owns the counting; pure. What a call answers is the toolbox's business.
"""

from dataclasses import dataclass

from engine.errors import EngineError
from engine.providers.messages import ToolCall, json_text

NUDGE = "this call was made before with the same arguments and its answer will not change; use the earlier answer or try something else"
"""What a model reads instead of a result, once, when it repeats itself."""


class ToolLoopStopped(EngineError):
    """A turn's tool loop ran into one of its limits; the turn and its conversation end here."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a turn may go: model calls, money, and equal calls (same tool, same arguments)."""

    max_rounds: int = 50
    max_cost_usd: float = 2.00
    max_identical_calls: int = 3


class TurnLoop:
    """Counts one turn."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rounds = 0
        self._spent_usd = 0.0
        self._calls: dict[tuple[str, str], int] = {}
        self._nudged = False

    def begin_round(self) -> None:
        """Count a model call that is about to be made.

        Raises:
            ToolLoopStopped: it is one too many, or too much money is spent already.
        """
        if self._spent_usd > self._limits.max_cost_usd:
            raise ToolLoopStopped(
                f"cannot go on with the turn: it spent {self._spent_usd:.4g} USD, {self._limits.max_cost_usd:.4g} allowed",
                hint="raise max_cost_usd in the scenario's tool_policy",
            )
        if self._rounds >= self._limits.max_rounds:
            raise ToolLoopStopped(
                f"cannot go on with the turn: the model still calls tools after {self._rounds} rounds",
                hint="raise max_rounds in the scenario's tool_policy",
            )
        self._rounds += 1

    def spend(self, cost_usd: float | None) -> None:
        """Add what a model call cost; None adds nothing."""
        self._spent_usd += cost_usd or 0.0

    def repeats(self, call: ToolCall) -> bool:
        """Count a tool call; True when the model is to be nudged instead of answered.

        Raises:
            ToolLoopStopped: it was nudged before in this turn and repeats itself again.
        """
        key = (call.name, json_text(call.arguments) if call.arguments is not None else call.raw)
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._calls[key] < self._limits.max_identical_calls:
            return False
        if self._nudged:
            raise ToolLoopStopped(
                f"cannot go on with the turn: the model called '{call.name}' {self._calls[key]} times with the same arguments",
                hint="raise max_identical_tool_calls in the scenario's tool_policy",
            )
        self._nudged = True
        return True

    def forget(self) -> None:
        """Start counting equal calls anew: somebody else took over, to whom they are no repetition."""
        self._calls.clear()
