"""Values and functions of mock templates, as Go's text/template has them: truth, printing, comparisons, printf."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from engine.providers.messages import json_text

NO_VALUE = "<no value>"
MAX_TEXT_CHARACTERS = 1024 * 1024
"""What one rendering may print, and any function return."""
MAX_WIDTH = 1000


def field_of(value: Any, name: str) -> Any:
    """Return a field of an object; None when there is no such field, or no object."""
    return value.get(name) if isinstance(value, Mapping) else None


def is_true(value: Any) -> bool:
    """Say whether a value counts as true: not empty, not zero, not nil, not false."""
    return bool(value)


def go_text(value: Any) -> str:
    """Return a value as an action prints it."""
    if value is None:
        return NO_VALUE
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return f"[{' '.join(go_text(entry) for entry in value)}]"
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    return json_text(value)


def _equal(first: Any, second: Any, *others: Any) -> bool:
    return any(isinstance(first, bool) == isinstance(other, bool) and first == other for other in (second, *others))


def _ordered(name: str, holds: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    def compare(left: Any, right: Any) -> bool:
        texts = isinstance(left, str) and isinstance(right, str)
        numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right))
        if not texts and not numbers:
            raise ValueError(f"{name} compares two numbers or two strings, not {go_text(left)} and {go_text(right)}")
        return holds(left, right)

    return compare


def _and(first: Any, *others: Any) -> Any:
    operands = (first, *others)
    return next((value for value in operands if not is_true(value)), operands[-1])


def _or(first: Any, *others: Any) -> Any:
    operands = (first, *others)
    return next((value for value in operands if is_true(value)), operands[-1])


def _not(value: Any) -> bool:
    return not is_true(value)


def _not_equal(left: Any, right: Any) -> bool:
    return not _equal(left, right)


def _len(value: Any) -> int:
    if not isinstance(value, str | list | Mapping):
        raise ValueError(f"len takes a string, a list or an object, not {go_text(value)}")  # noqa: TRY004 - a template's faults are ValueErrors
    return len(value.encode()) if isinstance(value, str) else len(value)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, list):
            if not isinstance(key, int) or not 0 <= key < len(value):
                raise ValueError(f"index {key} is out of range")
            value = value[key]
        else:
            value = field_of(value, str(key))
    return value


def _print(*operands: Any) -> str:
    return _joined("print", (go_text(operand) for operand in operands))


def _joined(name: str, texts: Iterable[str]) -> str:
    kept, characters = [], 0
    for text in texts:
        characters += len(text)
        if characters > MAX_TEXT_CHARACTERS:
            raise ValueError(f"{name} makes more than {MAX_TEXT_CHARACTERS:,} characters")
        kept.append(text)
    return "".join(kept)


_VERB = re.compile(r"%(?:%|([-+0]*)(\d*)(?:\.(\d+))?([sdvqft]))")


def _printf(layout: Any, *operands: Any) -> str:
    return _joined("printf", _filled(go_text(layout), list(operands)))


def _filled(layout: str, remaining: list[Any]) -> Iterator[str]:
    place = 0
    for match in _VERB.finditer(layout):
        yield layout[place : match.start()]
        place = match.end()
        if match[0] == "%%":
            yield "%"
            continue
        if not remaining:
            raise ValueError(f"printf: no operand for {match[0]}")
        if any(len(size or "") > len(str(MAX_WIDTH)) or int(size or 0) > MAX_WIDTH for size in (match[2], match[3])):
            raise ValueError(f"printf: {match[0][:40]} is wider than {MAX_WIDTH} characters")
        yield _format(match[0][1:-1], match[4], remaining.pop(0))
    yield layout[place:]


def _format(flags: str, verb: str, value: Any) -> str:
    if verb in "df":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"printf: %{verb} takes a number, not {go_text(value)}")
        return f"%{flags}{verb}" % (int(value) if verb == "d" else value)
    printed = json_text(value) if verb == "q" else go_text(value)
    return f"%{flags}s" % printed


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "eq": _equal,
    "ne": _not_equal,
    "lt": _ordered("lt", lambda left, right: left < right),
    "le": _ordered("le", lambda left, right: left <= right),
    "gt": _ordered("gt", lambda left, right: left > right),
    "ge": _ordered("ge", lambda left, right: left >= right),
    "and": _and,
    "or": _or,
    "not": _not,
    "len": _len,
    "index": _index,
    "printf": _printf,
    "print": _print,
}
"""Every function that a mock template may call."""
