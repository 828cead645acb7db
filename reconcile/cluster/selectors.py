"""Label selectors, as kubectl spells them.

Pure: parsing and matching only.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from reconcile.errors import FieldError, Invalid

Operator = Literal["in", "notin", "exists", "absent"]

_TERM = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<absent_key>[^\s=!,()]+)"
    r"|(?P<key>[^\s=!,()]+)(?:\s*(?P<equal>==|=|!=)\s*(?P<value>[^\s=!,()]*)|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*"
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a selector: a key and what must hold of its value."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether the labels meet this term. As in Kubernetes, `notin` and `!=` are met where the key is absent."""
        match self.operator:
            case "exists":
                return self.key in labels
            case "absent":
                return self.key not in labels
            case "in":
                return labels.get(self.key) in self.values
            case "notin":
                return labels.get(self.key) not in self.values


@dataclass(frozen=True, slots=True)
class Selector:
    """Terms that must all hold; none selects everything."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def equal(cls, labels: Mapping[str, str]) -> "Selector":
        """Return the selector of objects that carry all of `labels`."""
        return cls(tuple(Requirement(key, "in", frozenset((value,))) for key, value in labels.items()))

    @classmethod
    def parse(cls, text: str) -> "Selector":
        """Read kubectl's spelling: `a=b`, `a==b`, `a!=b`, `a in (b, c)`, `a notin (b)`, `a`, `!a`, joined by commas.

        Raises:
            Invalid: the text is no selector.
        """
        if not text.strip():
            return cls()
        terms, position = [], 0
        while True:
            found = _TERM.match(text, position)
            if found is None or (found.end() < len(text) and text[found.end()] != ","):
                raise Invalid([FieldError("labelSelector", f"unable to parse requirement at {text[position:]!r}")])
            terms.append(_requirement(found))
            if found.end() == len(text):
                return cls(tuple(terms))
            position = found.end() + 1

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def exact(self) -> dict[str, str]:
        """Return the labels that every selected object certainly carries, for an index to narrow the search."""
        return {term.key: next(iter(term.values)) for term in self.requirements if term.operator == "in" and len(term.values) == 1}


def _requirement(found: re.Match[str]) -> Requirement:
    if found["absent"]:
        return Requirement(found["absent_key"], "absent")
    if found["equal"]:
        return Requirement(found["key"], "notin" if found["equal"] == "!=" else "in", frozenset((found["value"],)))
    if found["set"]:
        return Requirement(found["key"], "in" if found["set"] == "in" else "notin", _values(found["values"]))
    return Requirement(found["key"], "exists")


def _values(text: str) -> frozenset[str]:
    values: Collection[str] = [value.strip() for value in text.split(",")]
    return frozenset(values)
