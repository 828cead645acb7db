"""What calls of models used and cost, and which requests had to be made again: one account for whoever spends.

Owns how calls add up, and what results keep of an attempt. A cost that is not known adds nothing and is never forgotten: the sum is then the least that
was spent. Must not know who asked, nor what for.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from engine.errors import ProviderError
from engine.items import Spending, Usage
from engine.providers.port import Attempt, Reply

MAX_ATTEMPTS: Final = 100
"""So many attempts are kept in one place, the first ones."""

MAX_MESSAGE: Final = 500
"""Characters that are kept of what an attempt met."""

_MAYBE_CHARGED: Final = frozenset(("timeout", "protocol"))
"""What went wrong with requests that the provider may have answered, and charged for, all the same."""


class Ledger:
    """The account of one who spends in one conversation; used by one task, or by tasks that take turns.

    `cost_usd` is None until a call of a known cost was made. `cost_is_partial` says that something was spent, or may have been, whose cost is not
    known, so that `cost_usd` lacks it. `attempts` are the requests that were made again, and that no message has told of yet.
    """

    __slots__ = ("attempts", "cost_is_partial", "cost_usd", "usage")

    def __init__(self) -> None:
        self.usage = Usage()
        self.cost_usd: float | None = None
        self.cost_is_partial = False
        self.attempts: list[Attempt] = []

    def charge(self, reply: Reply) -> None:
        """Count the call that brought `reply`."""
        self._add(reply.usage, reply.cost_usd)
        self.cost_is_partial |= reply.cost_usd is None
        self._keep(reply.attempts)

    def fail(self, error: ProviderError) -> None:
        """Count a call that failed for good, and take over its attempts, so that they are told once."""
        self._keep(error.attempts)
        self.cost_is_partial |= error.kind in _MAYBE_CHARGED
        error.attempts = ()

    def fail_and_retry(self, error: ProviderError) -> None:
        """Count a call that failed and is made again by whoever asked: its last request is an attempt too. How long that took is not known here."""
        self.fail(error)
        self.attempts.append(Attempt(error.kind, error.message, 0.0, 0.0))

    def merge(self, other: "Ledger") -> None:
        """Count all that `other` counted."""
        self._add(other.usage, other.cost_usd)
        self.cost_is_partial |= other.cost_is_partial
        self.attempts += other.attempts

    def tell(self) -> dict[str, Any]:
        """Return what a message's meta says of the attempts since the last one, {} without any, and forget them."""
        told, self.attempts = attempts_json(self.attempts), []
        return {"attempts": told} if told else {}

    @property
    def spending(self) -> Spending:
        """Return what is written here as results have it: the cost without the noise of adding, the attempts that no message has told of."""
        cost_usd = None if self.cost_usd is None else round(self.cost_usd, 10)
        return Spending(self.usage, cost_usd, self.cost_is_partial, tuple(attempts_json(self.attempts)))

    def _keep(self, attempts: Sequence[Attempt]) -> None:
        self.attempts += attempts
        self.cost_is_partial |= any(attempt.kind in _MAYBE_CHARGED for attempt in attempts)

    def _add(self, usage: Usage | None, cost_usd: float | None) -> None:
        if usage is not None:
            self.usage += usage
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd


def attempts_json(attempts: Iterable[Attempt]) -> list[dict[str, Any]]:
    """Return attempts as results keep them: the first 100, of each no more than 500 characters of its message."""
    return [
        {
            "kind": attempt.kind,
            "message": attempt.message[:MAX_MESSAGE],
            "latencyMs": round(attempt.latency_ms, 3),
            "waitedMs": round(attempt.waited_ms, 3),
        }
        for attempt in [*attempts][:MAX_ATTEMPTS]
    ]
