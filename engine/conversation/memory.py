"""A conversation's memory: what is remembered, and what a query finds (promptkit-format.md 5.6).

Owns the search: by words, each weighed by how rare it is, so that a question finds what shares some of its words; the reference looks for the whole
question as one text. Pure. Must not know tools.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_MEMORIES = 10_000

_WORD = re.compile(r"\w+")
_COMMON = frozenset(
    (
        *("a", "an", "the", "is", "are", "was", "be", "to", "of", "in", "on", "at", "for", "and", "or", "with", "about", "it", "that", "this", "s"),
        *("my", "me", "i", "you", "your", "user", "users", "what", "which", "who", "how", "do", "does", "did"),
    )
)
_ENDINGS = ("ing", "ies", "es", "ed", "s")
_LEAST_STEM = 3
_LEAST_PREFIX = 4
_PREFIX_WEIGHT = 0.6


@dataclass(frozen=True, slots=True)
class Memory:
    """Something remembered; `confidence` is 0 to 1. Ids count from `mem-1` in each conversation."""

    id: str
    content: str
    type: str = "general"
    confidence: float = 0.8
    metadata: Mapping[str, Any] = field(default_factory=dict)


class MemoryStore:
    """The memories of one conversation, in the order they came."""

    def __init__(self) -> None:
        self._memories: dict[str, Memory] = {}
        self._made = 0

    def remember(self, content: str, kind: str = "general", confidence: float = 0.8, metadata: Mapping[str, Any] | None = None) -> Memory:
        """Remember `content`; what is remembered in the same words already is taken anew, under its id.

        Raises:
            ValueError: there are too many memories.
        """
        known = next((memory.id for memory in self._memories.values() if memory.content == content and memory.type == kind), None)
        if known is None and len(self._memories) >= MAX_MEMORIES:
            raise ValueError(f"there are {MAX_MEMORIES:,} memories already")
        if known is None:
            self._made += 1
            known = f"mem-{self._made}"
        memory = self._memories[known] = Memory(known, content, kind, confidence, dict(metadata or {}))
        return memory

    def forget(self, ident: str) -> bool:
        """Forget a memory; False when there is none of this id."""
        return self._memories.pop(ident, None) is not None

    def of_types(self, kinds: Iterable[str] = ()) -> list[Memory]:
        """Return the memories of these types, of all types when none is given, oldest first."""
        wanted = frozenset(kinds)
        return [memory for memory in self._memories.values() if not wanted or memory.type in wanted]

    def recall(self, query: str, kinds: Iterable[str] = ()) -> list[Memory]:
        """Return what `query` finds, best first; everything for a query without words, nothing when no word is shared."""
        memories = self.of_types(kinds)
        words = _stems(query)
        if not words:
            return memories[::-1]
        bags = [_stems(f"{memory.content} {' '.join(str(value) for value in memory.metadata.values())}") for memory in memories]
        spread = Counter(word for bag in bags for word in bag)
        weights = {word: 1.0 + math.log((1 + len(bags)) / (1 + spread[word])) for word in words}
        scored = [
            (_score(weights, bag) * (0.5 + memory.confidence / 2), place, memory)
            for place, (bag, memory) in enumerate(zip(bags, memories, strict=True))
        ]
        return [memory for score, _, memory in sorted(scored, key=lambda entry: (-entry[0], -entry[1])) if score > 0]


def _stems(text: str) -> frozenset[str]:
    words = [word.casefold() for word in _WORD.findall(text)]
    telling = [word for word in words if word not in _COMMON]
    return frozenset(_stem(word) for word in (telling or words))


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST_STEM:
            return word.removesuffix(ending)
    return word


def _score(weights: Mapping[str, float], bag: frozenset[str]) -> float:
    found = 0.0
    for word, weight in weights.items():
        if word in bag:
            found += weight
        elif len(word) >= _LEAST_PREFIX and any(_begins(word, other) for other in bag):
            found += weight * _PREFIX_WEIGHT
    return found / sum(weights.values())


def _begins(word: str, other: str) -> bool:
    return len(other) >= _LEAST_PREFIX and (other.startswith(word) or word.startswith(other))
