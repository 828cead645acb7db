"""Failed logins: how many one address and all together may have, in bounded memory, and the line that each leaves in the log.

Must not know what a credential is, so that no line can hold one. What succeeds is never counted.
"""

import math
from dataclasses import dataclass

import structlog

from arena.authorization.errors import NotAuthenticated, TooManyFailures
from arena.authorization.port import Action
from foundation.clock import Clock
from hooks.payload import printable
from hooks.rate_limit import Rate, RateLimit
from hooks.sources import site

_SOURCE, _ALL, _FIRST = Rate(burst=20, every_s=2.0), Rate(burst=200, every_s=0.1), Rate(burst=1, every_s=60.0)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FailureLimits:
    """How many logins may fail: of one address (an IPv6 site), and of all addresses together.

    Where those of all are used up, one failure within `once` is enough to make an address suspect; one that has had none is as good as ever, so that nobody
    can lock out others.
    """

    source: Rate = _SOURCE
    all: Rate = _ALL
    once: Rate = _FIRST


class Failures:
    """Counts failed logins. Remembers 4,096 addresses; one that is forgotten is no longer suspect."""

    def __init__(self, clock: Clock, limits: FailureLimits | None = None) -> None:
        limits = limits or FailureLimits()
        self._by_source = RateLimit(limits.source, clock)
        self._of_all = RateLimit(limits.all, clock)
        self._once = RateLimit(limits.once, clock)
        self._told = RateLimit(limits.once, clock)

    def is_suspect(self, source: str) -> bool:
        """Say whether so many logins from there have failed that no stranger should be asked about the next."""
        return self._wait_s(site(source)) > 0

    def refuse(self, error: NotAuthenticated, source: str, action: Action) -> NotAuthenticated | TooManyFailures:
        """Count and log a failed login; return what it is answered."""
        place = site(source)
        wait_s = self._wait_s(place)
        if wait_s:
            if not self._told.take(place):
                _log.warning("logins limited", source=source, action=printable(str(action)), wait_s=math.ceil(wait_s))
            return TooManyFailures(
                "cannot log in: too many logins from this address have failed",
                retry_after_s=math.ceil(wait_s),
                hint="correct the token first; one that is known here still works",
            )
        self._by_source.take(place)
        self._of_all.take(None)
        self._once.take(place)
        _log.warning("login failed", source=source, action=printable(str(action)), cause=printable(error.cause))
        return error

    def _wait_s(self, place: str) -> float:
        """Return for how long a place is suspect; 0 when it is not."""
        return self._by_source.wait_s(place) or (self._of_all.wait_s(None) and self._once.wait_s(place))
