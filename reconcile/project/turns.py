"""Whose turn it is to fetch: fewer at once than passes, so that a pass which fetches nothing never waits for a remote, and no namespace has them all."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

TOTAL = 12
"""Of sixteen passes at once (`control_plane.py`)."""
PER_NAMESPACE = 8
NEXT_TURN = timedelta(seconds=3)
"""When to come again for one."""


class FetchTurns:
    """The turns of one process. Nobody queues: who gets none comes again."""

    def __init__(self, *, total: int = TOTAL, per_namespace: int = PER_NAMESPACE) -> None:
        self._total = total
        self._per_namespace = per_namespace
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, namespace: str) -> Iterator[bool]:
        """Hold a turn for the length of the block, if there is one: yields whether there is."""
        if self._taken.total() >= self._total or self._taken[namespace] >= self._per_namespace:
            yield False
            return
        self._taken[namespace] += 1
        try:
            yield True
        finally:
            self._taken[namespace] -= 1
            self._taken += Counter()  # forgets who has none
