"""Which of those that are waited for are worth a word, and when: what lasts, and not again at once.

Must not know who is waited for, nor where the words go.
"""

import math
from collections.abc import Iterator, Mapping

SILENCE_S = 10.0
"""What is over sooner was no outage."""

AGAIN_S = 60.0


class Outages:
    """What was said of whom, on one monotonic clock."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}
        self._told_s: dict[str, float] = {}

    def news(self, now_s: float, troubles: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield name and cause of each that has had the trouble of `troubles` for ten seconds, and of which nothing was said for a minute."""
        self._since_s = {name: self._since_s.get(name, now_s) for name in troubles}
        for name, why in troubles.items():
            if now_s - self._since_s[name] >= SILENCE_S and now_s - self._told_s.get(name, -math.inf) >= AGAIN_S:
                self._told_s[name] = now_s
                yield name, why
