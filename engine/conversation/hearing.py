"""One item's questions to judges and classifiers: who answers them, and what that costs.

A hearing is as good as free until the first question: only then is the bench built that all items of a runner share. Must not know what is asked.
"""

from typing import TYPE_CHECKING

from engine.checks.evidence import Outcome
from engine.checks.questions import Question
from engine.errors import ProviderError
from engine.providers.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.judging.bench import Bench


class Hearing:
    """The questions of one item's checks and guardrails (`engine.checks.questions.Answers`).

    `ledger` has what judges and classifiers spent and how often they had to be asked again; it is no part of the conversation's own.
    `transient` says that an answer failed to come that may come another time; `retry_after_s` is the longest wish of who failed.
    """

    __slots__ = ("_bench", "ledger", "retry_after_s", "transient")

    def __init__(self, bench: "Callable[[], Bench]") -> None:
        self._bench = bench
        self.ledger = Ledger()
        self.transient = False
        self.retry_after_s: float | None = None

    async def answer(self, question: Question) -> Outcome:
        """Answer `question`, as the port says, and count its cost here."""
        try:
            return await self._bench().answer(question, self.ledger)
        except ProviderError as error:
            self.ledger.fail(error)
            self.transient |= error.transient
            self.retry_after_s = max((wish for wish in (self.retry_after_s, error.retry_after_s) if wish is not None), default=None)
            raise
