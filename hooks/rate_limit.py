"""How often something may happen: token buckets by key, in bounded memory.

Must not know what a key is or what is refused.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from foundation.clock import Clock

MAX_KEYS = 4096


@dataclass(frozen=True, slots=True)
class Rate:
    """`burst` at once, then one every `every_s` seconds."""

    burst: int
    every_s: float


class RateLimit:
    """One bucket a key. Of more than `max_keys` the one that was used longest ago is forgotten, and is full when it comes again."""

    def __init__(self, rate: Rate, clock: Clock, *, max_keys: int = MAX_KEYS) -> None:
        self._rate = rate
        self._clock = clock
        self._max_keys = max_keys
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def wait_s(self, key: Hashable) -> float:
        """Return the seconds until there is one to take; 0 when there is one now."""
        allowance = self._rate.every_s * (self._rate.burst - 1)
        return max(0.0, self._full_at.get(key, 0.0) - self._clock.monotonic() - allowance)

    def take(self, key: Hashable) -> float:
        """Take one and return 0; when there is none, take nothing and return the seconds until there is one."""
        wait = self.wait_s(key)
        if not wait:
            now = self._clock.monotonic()
            self._full_at[key] = max(now, self._full_at.get(key, 0.0)) + self._rate.every_s
            self._full_at.move_to_end(key)
            if len(self._full_at) > self._max_keys:
                self._full_at.popitem(last=False)
        return wait
