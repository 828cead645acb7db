"""One rule in two languages: CEL for the API server, a predicate for local mode."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Predicate = Callable[[Any, Any], bool]
"""`holds(value, old)`: whether the rule holds; `old` is None unless the rule is a transition."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold of the value at `scope`.

    `scope` is a path from the object's root: `spec.services[*].redis`; "" is the root. A rule says nothing of an absent value.
    `is_transition`: the rule compares with the stored value (`oldSelf` in CEL), and says nothing when there is none.
    `field` is the key below the scope that the message is about, "" for the value itself.
    """

    scope: str
    cel: str
    message: str
    holds: Predicate
    is_transition: bool = False
    field: str = ""

    def to_validation(self) -> dict[str, Any]:
        """Return the rule as an entry of `x-kubernetes-validations`."""
        validation = {"rule": self.cel, "message": self.message}
        return {**validation, "fieldPath": f".{self.field}"} if self.field else validation


def count_of(value: Mapping[str, Any], *fields: str) -> int:
    """Return how many of the fields are given."""
    return sum(field in value for field in fields)


def matches(scope: str, new: object, old: object) -> Iterator[tuple[str, Any, Any]]:
    """Yield path, value and old value (None when there is none) of everything that `scope` names in an object.

    Items of a list are compared by place: no transition rule stands below one.
    """
    found: list[tuple[str, Any, Any]] = [("", new, old)]
    for step in scope.split(".") if scope else ():
        key, is_list = step.removesuffix("[*]"), step.endswith("[*]")
        found = [
            (f"{path}.{key}" if path else key, value[key], before.get(key) if isinstance(before, Mapping) else None)
            for path, value, before in found
            if isinstance(value, Mapping) and key in value
        ]
        if is_list:
            found = [(f"{path}[{place}]", item, None) for path, value, _ in found for place, item in enumerate(value)]
    yield from found
