"""Which failed requests are made again, and when.

Owns the patience with a provider. Must not know protocols; how many requests are under way is limits.py's, what a provider asks for retry_after.py's.
"""

import asyncio
import random
from collections.abc import Callable

from engine.backoff import delay_s
from engine.errors import ProviderError
from engine.providers.port import Attempt
from foundation.clock import Clock

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
RETRIES = 3
"""How often a request is made again while others are answered (promptkit-format.md 4.7)."""

PROBE_S = 5.0
"""How often one request, for all that wait, looks whether a provider that answered nobody is back."""

PATIENCE_S = 120.0
"""How long one request may take with all its attempts and the waits between them; what it waits for its turn is no part of that."""

_SHARE_OF_ITEM = 1 / 3
_LIMITED = "rate_limit"


def patience_of(item_timeout_s: float) -> float:
    """Return the patience with one request, in seconds, of an item that may take so long: never more than a part of its time."""
    return min(PATIENCE_S, item_timeout_s * _SHARE_OF_ITEM)


class Retries:
    """Decides for one provider. `chance` gives numbers from 0 to 1 that spread what failed together."""

    def __init__(self, clock: Clock, *, patience_s: float = PATIENCE_S, chance: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._patience_s = patience_s
        self._chance = chance
        self._answers = 0
        self._out_since: float | None = None
        self._back: asyncio.Future[None] | None = None
        self._probed = False
        self._trouble = ""

    def begin(self) -> "Tries":
        """Return the tries of one request."""
        return Tries(self)

    @property
    def answers(self) -> int:
        """Return how many requests were answered."""
        return self._answers

    @property
    def trouble(self) -> str:
        """Return why a request was last made to wait, "" once another was answered."""
        return self._trouble

    def note_answer(self) -> None:
        """Take note that a request was answered: an outage of the provider is over."""
        self._answers += 1
        self._trouble = ""
        self._out_since = None
        if self._back is not None:
            self._back.set_result(None)
            self._back = None

    async def pause(self, error: ProviderError, *, attempt: int, spent_s: float, alone: bool) -> float:
        """Wait after `attempt` (from 1) failed, `spent_s` after the request began, and return for how many seconds.

        `alone` says that others were answered since the attempt before, so that the request itself may be at fault.

        Raises:
            ProviderError: `error` itself, when no attempt follows.
        """
        wait_s = self._wait_s(error, attempt=attempt, spent_s=spent_s, alone=alone)
        if wait_s is None:
            raise error
        self._trouble = error.message
        began = self._clock.monotonic()
        if attempt > RETRIES and not alone and not error.retry_after_s and error.kind != _LIMITED:
            await self._sleep_until_back(wait_s)
        else:
            await self._clock.sleep(wait_s)
        return self._clock.monotonic() - began

    def _wait_s(self, error: ProviderError, *, attempt: int, spent_s: float, alone: bool) -> float | None:
        """Return how long to wait; None when no attempt follows.

        What is not transient is not tried again. Three retries follow, and more within the patience after a rate limit, or while nobody at all is answered.
        A provider that was out for longer than the patience is tried once a request.
        """
        now, limited = self._clock.monotonic(), error.kind == _LIMITED
        if not error.transient or (attempt > RETRIES and alone and not limited):
            return None
        if self._out_since is None and not limited:
            self._out_since = now - spent_s
        wait_s = delay_s(attempt, first_s=FIRST_WAIT_S, longest_s=LONGEST_WAIT_S, wish_s=error.retry_after_s or 0.0, chance=self._chance())
        out_too_long = not limited and self._out_since is not None and now - self._out_since > self._patience_s
        return None if out_too_long or spent_s + wait_s > self._patience_s else wait_s

    async def _sleep_until_back(self, seconds: float) -> None:
        """Wait, but not for long once somebody is answered: an outage of a minute would otherwise cost two. The first to wait is the one that looks."""
        if self._back is None:
            self._back = asyncio.get_running_loop().create_future()
        probing, self._probed = not self._probed, True
        back, sleeping = self._back, asyncio.ensure_future(self._clock.sleep(min(seconds, PROBE_S) if probing else seconds))
        try:
            await asyncio.wait((back, sleeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            self._probed = self._probed and not probing
        if back.done():
            await self._clock.sleep(FIRST_WAIT_S * self._chance())


class Tries:
    """The attempts of one request that brought no reply."""

    __slots__ = ("_answers_seen", "_retries", "_spent_s", "attempts")

    def __init__(self, retries: Retries) -> None:
        self._retries = retries
        self._answers_seen = retries.answers
        self._spent_s = 0.0
        self.attempts: tuple[Attempt, ...] = ()

    def answered(self) -> None:
        """Take note that this request was answered."""
        self._retries.note_answer()

    async def pause(self, error: ProviderError, *, latency_s: float) -> None:
        """Record an attempt that failed after `latency_s`, and wait until the next one may go out.

        Raises:
            ProviderError: `error` itself, when none follows; it has the attempts before.
        """
        self._spent_s += latency_s
        error.attempts = self.attempts
        alone, self._answers_seen = self._retries.answers > self._answers_seen, self._retries.answers
        waited_s = await self._retries.pause(error, attempt=len(self.attempts) + 1, spent_s=self._spent_s, alone=alone)
        self._spent_s += waited_s
        self.attempts += (Attempt(error.kind, error.message, latency_s * 1000, waited_s * 1000),)
