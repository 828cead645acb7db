"""A check ready to run: its evaluation, when it applies, and when its score passes.

Owns the pass rule (promptkit-format.md 3.1): pass when score >= min_score (1 when neither bound is given) and <= max_score; no score passes.
A check needs no time limit of its own: its evaluation is CPU-only, over RE2 and bounded texts, so there is nothing that could be interrupted; what it
asks others is bounded by who answers, and the worker's item timeout bounds the conversation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.checks.evidence import CallRecord, Evaluate, Evidence, Outcome
from engine.items import CheckResult, Scope
from foundation.errors import ArenaError

if TYPE_CHECKING:
    from engine.checks.questions import Answers, Question

Applies = Callable[[Evidence], bool]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The scores that pass; None where the author set no bound."""

    least: float | None = None
    most: float | None = None

    @property
    def lowest(self) -> float | None:
        """Return the least score that passes: 1 when neither bound is given."""
        return 1.0 if self.least is None and self.most is None else self.least

    def __str__(self) -> str:
        least = None if self.lowest is None else f"at least {self.lowest:g}"
        most = None if self.most is None else f"at most {self.most:g}"
        return " and ".join(words for words in (least, most) if words)

    def pass_score(self, score: float | None) -> bool:
        """Say whether a score passes."""
        if score is None:
            return True
        return (self.lowest is None or score >= self.lowest) and (self.most is None or score <= self.most)


@dataclass(frozen=True, slots=True)
class CompiledCheck:
    """A check of a scenario, compiled once and run in every conversation that needs it.

    `type` is what the author wrote, and for the wrapper `assertion` `name` is the type inside; `message` is the author's sentence for results;
    `tolerance` is its pass_threshold.
    """

    type: str
    evaluate: Evaluate
    bounds: Bounds = Bounds()
    message: str = ""
    applies: Applies | None = None
    name: str = ""
    tolerance: float | None = None

    def begin(self, evidence: Evidence, scope: Scope, turn: int | None) -> "CheckResult | Question":
        """Evaluate against `evidence` as far as that can be done without asking anybody; what is to be asked goes to `finish`.

        Never raises: a check that breaks is a result with `error`. Unmet conditions skip it, which passes.
        """
        try:
            if self.applies is not None and not self.applies(evidence):
                return CheckResult(
                    scope, turn, self.type, passed=True, name=self.name, message=self.message, explanation="its `when` is not met", skipped=True
                )
            outcome = self.evaluate(evidence)
        except Exception as error:  # noqa: BLE001 - one broken check must not take the conversation with it
            return self._broken(error, scope, turn)
        return self._result(outcome, scope, turn) if isinstance(outcome, Outcome) else outcome

    async def finish(self, question: "Question", answers: "Answers", scope: Scope, turn: int | None) -> CheckResult:
        """Return the result once `question` is answered. Never raises: a question that gets no answer is a result with `error`, not a score."""
        try:
            outcome = await answers.answer(question)
        except Exception as error:  # noqa: BLE001 - as above
            return self._broken(error, scope, turn)
        return self._result(outcome, scope, turn)

    def _broken(self, error: Exception, scope: Scope, turn: int | None) -> CheckResult:
        said = str(error) if isinstance(error, ArenaError) else f"{type(error).__name__}: {error}"
        return CheckResult(scope, turn, self.type, passed=False, name=self.name, message=self.message, error=said, tolerance=self.tolerance)

    def _explained(self, outcome: Outcome, *, passed: bool) -> str:
        """Return the explanation; of a score that fails by its bounds it says so, since what was found may sound like a pass."""
        if passed or not outcome.score:
            return outcome.explanation
        return f"{outcome.explanation}; score {outcome.score:.4g}, {self.bounds} wanted"

    def _result(self, outcome: Outcome, scope: Scope, turn: int | None) -> CheckResult:
        passed = outcome.skipped or self.bounds.pass_score(outcome.score)
        return CheckResult(
            scope,
            turn,
            self.type,
            passed=passed,
            name=self.name,
            score=outcome.score,
            value=outcome.value,
            message=self.message,
            explanation=self._explained(outcome, passed=passed),
            skipped=outcome.skipped,
            tolerance=self.tolerance,
        )


def condition(
    *, tool_called: str = "", tool_called_pattern: str = "", any_tool_called: bool = False, min_tool_calls: int | None = None
) -> Applies | None:
    """Compile a `when`: all given conditions must hold over the tool calls so far; None when none is given.

    Raises:
        ValueError: the pattern is no RE2 pattern.
    """
    tests: list[Callable[[list[str]], bool]] = []
    if tool_called:
        tests.append(lambda names: tool_called in names)
    if tool_called_pattern:
        from foundation.patterns import compile_pattern  # noqa: PLC0415 - RE2 only where there is a pattern

        compiled = compile_pattern(tool_called_pattern)
        tests.append(lambda names: any(compiled.search(name) is not None for name in names))
    if any_tool_called:
        tests.append(bool)
    if min_tool_calls is not None:
        tests.append(lambda names: len(names) >= min_tool_calls)
    if not tests:
        return None
    return lambda evidence: all(test(_names(evidence.calls)) for test in tests)


def _names(calls: Sequence[CallRecord]) -> list[str]:
    return [record.name for record in calls]
