"""Perturbations: a scenario's variants, one for each combination of its values.

Owns their order and their labels, which are parts of item ids. Pure.
"""

import hashlib
import itertools
import math
import re
from dataclasses import dataclass

from engine.bundle.model import Scenario

MAX_LABEL_CHARACTERS = 100
_DIGEST_CHARACTERS = 16
"""Enough that no two of 10,000 long labels ever meet: with 8 it happens in one of a hundred such runs."""
_ESCAPED = re.compile(r"[/,=%\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Variant:
    """One combination of values. `label` is `key=value,…`, "" for a scenario without perturbations."""

    label: str = ""
    values: tuple[tuple[str, str], ...] = ()


PLAIN = (Variant(),)


def variants_of(scenario: Scenario) -> tuple[Variant, ...]:
    """Return the variants of a scenario in the order its author wrote the values, the last key varying fastest; one plain variant without any."""
    choices = _choices(scenario)
    if not choices:
        return PLAIN
    combinations = itertools.product(*choices.values())
    return tuple(variant(tuple(zip(choices, values, strict=True))) for values in combinations)


def count_variants(scenario: Scenario) -> int:
    """Return how many variants there would be, without making them: a few keys can multiply beyond any memory."""
    return math.prod(len(values) for values in _choices(scenario).values())


def _choices(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    choices: dict[str, tuple[str, ...]] = {}
    for turn in scenario.turns:
        choices.update(turn.perturbations)
    return choices


def variant(values: tuple[tuple[str, str], ...]) -> Variant:
    """Return the variant of these values, with the label that items bear."""
    label = ",".join(f"{_escape(key)}={_escape(value)}" for key, value in values)
    if len(label) > MAX_LABEL_CHARACTERS:
        digest = hashlib.sha256(label.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        label = f"{label[: MAX_LABEL_CHARACTERS - _DIGEST_CHARACTERS - 1]}~{digest}"
    return Variant(label, values)


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match.group()):02X}", text)
