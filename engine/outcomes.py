"""Outcomes of checks, and their short form in an item's record: a letter and a number each, so that hundreds fit into 4 KiB.

Must not know what else a record holds.
"""

import string
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from engine.items import Scope

_SCOPE_LETTERS = {Scope.TURN: "t", Scope.CONVERSATION: "c", Scope.SESSION: "s"}
_SCOPES = {letter: scope for scope, letter in _SCOPE_LETTERS.items()}
_DIGITS = string.digits + string.ascii_letters

Title = tuple[str, str, float | None]
"""A check's type, name and tolerance."""


class Outcome(StrEnum):
    """What became of one check, as a letter. `ERROR`: it could not be evaluated. `SKIPPED`: its condition did not hold."""

    PASS = "p"  # noqa: S105 - an outcome, not a credential
    FAIL = "f"
    ERROR = "e"
    SKIPPED = "s"


class CheckOutcome(NamedTuple):
    """One check's outcome. Scope, turn and `ordinal` (from 0 within scope and turn) identify the check within its scenario; its type alone does not.

    `tolerance` is as in `CheckResult`.
    """

    scope: Scope
    turn: int | None
    ordinal: int
    type: str
    name: str
    outcome: Outcome
    tolerance: float | None = None


def pack_place(scope: Scope, turn: int | None) -> str:
    """Return scope and turn as a letter and a number."""
    return _SCOPE_LETTERS[scope] + ("" if turn is None else str(turn))


def unpack_place(place: str) -> tuple[Scope, int | None]:
    """Return what `pack_place` was given."""
    return _SCOPES[place[0]], int(place[1:]) if place[1:] else None


def titles_of(outcomes: Iterable[CheckOutcome]) -> dict[Title, int]:
    """Return each title once, with its number: checks of one scenario mostly share a few."""
    titles: dict[Title, int] = {}
    for outcome in outcomes:
        titles.setdefault((outcome.type, outcome.name, outcome.tolerance), len(titles))
    return titles


def pack_outcomes(outcomes: Iterable[CheckOutcome], titles: dict[Title, int]) -> list[list[str]]:
    """Return a triple for each scope and turn: the place, its outcomes as letters, and the numbers of its checks' titles, one or two digits each."""
    digits = _digits(len(titles))
    places: dict[str, list[str]] = {}
    for outcome in outcomes:
        place = pack_place(outcome.scope, outcome.turn)
        entry = places.setdefault(place, [place, "", ""])
        entry[1] += outcome.outcome
        high, low = divmod(titles[outcome.type, outcome.name, outcome.tolerance], len(_DIGITS))
        entry[2] += f"{_DIGITS[high]}{_DIGITS[low]}"[-digits:]
    return list(places.values())


def _digits(titles: int) -> int:
    return 1 if titles <= len(_DIGITS) else 2


def unpack_outcomes(wire: list[list[str]], titles: list[list[Any]]) -> Iterator[CheckOutcome]:
    """Yield what `pack_outcomes` was given, without the last ones of a place that were cut. Raises: ValueError, IndexError: it is no such form."""
    digits = _digits(len(titles))
    for place, letters, numbers in wire:
        scope, turn = unpack_place(place)
        for ordinal, letter in enumerate(letters):
            number = 0
            for digit in numbers[ordinal * digits : (ordinal + 1) * digits]:
                number = number * len(_DIGITS) + _DIGITS.index(digit)
            kind, name, tolerance = titles[number]
            yield CheckOutcome(scope, turn, ordinal, kind, name, Outcome(letter), tolerance)
