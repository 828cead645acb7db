"""Failures that are alike are told once: a wrong key ends every item of its provider in the same words."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from engine.items import Verdict

Failure = TypeVar("Failure")


def told_once(failures: Callable[[], Iterable[Failure]], likeness: Callable[[Failure], Hashable]) -> Iterator[tuple[Failure, int]]:
    """Yield each failure that is like no earlier one, and how many later ones are like it; where `likeness` is None, nothing is like it.

    `failures` is called twice, so that none is kept in memory; it gives the same ones in the same order.
    """
    alike = Counter(kind for failure in failures() if (kind := likeness(failure)) is not None)
    for failure in failures():
        kind = likeness(failure)
        if kind is None:
            yield failure, 0
        elif number := alike.pop(kind, 0):
            yield failure, number - 1


def likeness_of(verdict: str, provider: str, causes: Sequence[str]) -> Hashable:
    """Return what makes items alike: the same errors with the same provider. Failed checks are each a conversation's own."""
    return (provider, *causes) if verdict == Verdict.ERROR else None


def more_like_it(number: int) -> list[str]:
    """Return the line that stands for the others, none where there are none."""
    return [f"  … and {number:,} more like this"] if number else []
