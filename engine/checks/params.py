"""The parameters of checks: which keys a check knows, how a value is read, and what is said of one that cannot be.

A parameter is read once, when its bundle is loaded; what a check then holds is already compiled. Must not know what the checks do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.checks.problems import ParamProblem, nearest
from foundation.patterns import Pattern, compile_pattern

Values = dict[str, Any]
"""A check's parameters by their first names, read and with defaults filled in."""

Reader = Callable[[Any], Any]
"""Turns a JSON value into what the check holds; raises ValueError with a phrase that continues "must …" or explains."""

UNIVERSAL_KEYS = ("min_score", "max_score", "message")
"""Keys that every check's `params` may hold: the first two belong to the wrapper, and many files put the entry's message there."""


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter. `aliases` are other spellings of `key`; a `required` one that is missing makes the check meaningless, so it is refused."""

    key: str
    read: Reader
    default: Any = None
    aliases: tuple[str, ...] = ()
    required: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Return every spelling, the first one first."""
        return (self.key, *self.aliases)


def read_params(declared: Sequence[Param], given: Mapping[str, Any]) -> tuple[Values, list[ParamProblem]]:
    """Read `given` against the declared parameters.

    Returns the values (complete only when there are no problems) and all problems: unknown keys with the nearest known one, a parameter given
    twice under two names, values of a wrong type, missing required parameters.
    """
    known = [*(name for param in declared for name in param.names), *UNIVERSAL_KEYS]
    problems = [_unknown(key, known) for key in given if key not in known]
    values: Values = {}
    for param in declared:
        present = [name for name in param.names if name in given]
        values[param.key] = param.default
        if len(present) > 1:
            problems.append(ParamProblem(present[1], f"'{present[1]}' and '{present[0]}' are the same parameter", f"keep '{present[0]}'"))
        elif present:
            try:
                values[param.key] = param.read(given[present[0]])
            except ValueError as error:
                problems.append(ParamProblem(present[0], f"'{present[0]}' {error}"))
        elif param.required and not problems:
            problems.append(ParamProblem(param.key, f"missing parameter '{param.key}'"))
    return values, problems


def _unknown(key: str, known: Sequence[str]) -> ParamProblem:
    close = nearest(key, known)
    if close:
        return ParamProblem(key, f"unknown parameter '{key}'", f"did you mean '{close}'?")
    return ParamProblem(key, f"unknown parameter '{key}'", f"known: {', '.join(sorted(known))}")


def anything(value: Any) -> Any:
    """Read any JSON value."""
    return value


def text(value: Any) -> str:
    """Read a string."""
    if not isinstance(value, str):
        raise ValueError(f"must be a string, not {describe(value)}")  # noqa: TRY004 - a reader's one error type is ValueError
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Read a list of strings."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"must be a list of strings, not {describe(value)}")  # noqa: TRY004
    for entry in value:
        if not isinstance(entry, str):
            raise ValueError(f"must be a list of strings, but holds {describe(entry)}")  # noqa: TRY004
    return tuple(value)


def names(value: Any) -> tuple[str, ...]:
    """Read a list of names, or a single one."""
    if isinstance(value, str):
        return (value,)
    return texts(value)


def flag(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {describe(value)}")  # noqa: TRY004
    return value


def number(value: Any) -> float:
    """Read a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a number, not {describe(value)}")  # noqa: TRY004
    return float(value)


def count(value: Any) -> int:
    """Read a whole number that is 0 or more."""
    result = whole(value)
    if result < 0:
        raise ValueError("must not be negative")
    return result


def whole(value: Any) -> int:
    """Read a whole number."""
    if number(value) != int(value):
        raise ValueError("must be a whole number")
    return int(value)


def mapping(value: Any) -> dict[str, Any]:
    """Read an object."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be an object, not {describe(value)}")  # noqa: TRY004
    return dict(value)


def pattern(value: Any) -> Pattern:
    """Read an RE2 pattern."""
    try:
        return compile_pattern(text(value))
    except ValueError as error:
        raise ValueError(f"is not an RE2 pattern: {error}" if isinstance(value, str) else str(error)) from None


def patterns_by_name(value: Any) -> dict[str, Pattern]:
    """Read an object whose values are RE2 patterns."""
    return {key: pattern(entry) for key, entry in mapping(value).items()}


@dataclass(frozen=True, slots=True)
class OneOf:
    """A reader of one of some words."""

    choices: tuple[str, ...]

    def __call__(self, value: Any) -> str:
        """Read a word."""
        if value not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}")
        return str(value)


def one_of(*choices: str) -> OneOf:
    """Return a reader of one of the given words."""
    return OneOf(choices)


@dataclass(frozen=True, slots=True)
class Objects:
    """A reader of a list of objects with declared keys."""

    declared: tuple[Param, ...]

    def __call__(self, value: Any) -> tuple[Values, ...]:
        """Read the list."""
        if not isinstance(value, list | tuple):
            raise ValueError(f"must be a list of objects, not {describe(value)}")  # noqa: TRY004 - as above
        result = []
        for place, entry in enumerate(value):
            values, problems = read_params(self.declared, mapping(entry))
            if problems:
                remedy = f"; {problems[0].suggestion}" if problems[0].suggestion else ""
                raise ValueError(f"entry {place + 1}: {problems[0].message}{remedy}")
            result.append(values)
        return tuple(result)


def objects(*declared: Param) -> Objects:
    """Return a reader of a list of objects with the declared keys."""
    return Objects(declared)


def describe(value: Any) -> str:
    """Say what kind of JSON value this is, in words for a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"'{str(value).lower()}'"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the string '{value[:40]}'"
    return "a list" if isinstance(value, list | tuple) else "an object"
