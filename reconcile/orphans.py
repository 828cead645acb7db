"""Leftovers that nobody owns: how long they have been without an owner, and when somebody looks. Must not know what they are."""

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, TypeVar

import structlog

from foundation.clock import Clock

GONE_FOR_S = 3600.0
EVERY_S = 600.0

K = TypeVar("K", bound=Hashable)
_log = structlog.get_logger(__name__)


class Orphans(Generic[K]):
    """Remembers since when each orphan has been one; an owner that comes back starts the hour again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gone_since: dict[K, float] = {}

    def due(self, orphans: Iterable[K]) -> set[K]:
        """Take what is an orphan now; return those that have been one for an hour without interruption."""
        now = self._clock.monotonic()
        self._gone_since = {orphan: self._gone_since.get(orphan, now) for orphan in orphans}
        return {orphan for orphan, since in self._gone_since.items() if now - since >= GONE_FOR_S}


async def sweep_regularly(sweep: Callable[[], Awaitable[object]], clock: Clock) -> None:
    """Sweep every ten minutes until cancelled. An error of one sweep is logged; the next one finds the same work."""
    while True:
        await clock.sleep(EVERY_S)
        try:
            await sweep()
        except Exception:  # noqa: BLE001 - one failed sweep must not end the next
            _log.exception("sweep.failed")
