"""Globs over paths and branch names: `*` and `?` stay within a segment, `**` crosses `/`."""

import re
from collections.abc import Iterable
from functools import lru_cache


def matches_any(globs: Iterable[str], text: str) -> bool:
    """Say whether any glob matches the whole text."""
    return any(_compiled(glob).fullmatch(text) for glob in globs)


@lru_cache(maxsize=512)
def _compiled(glob: str) -> re.Pattern[str]:
    parts, position = [], 0
    for match in re.finditer(r"\*\*/|\*\*|\*|\?|\[[!^]?[^\]/]+\]", glob):
        parts += [re.escape(glob[position : match.start()]), _translate(match.group())]
        position = match.end()
    return re.compile("".join([*parts, re.escape(glob[position:])]))


def _translate(token: str) -> str:
    match token:
        case "**/":
            return "(?:[^/]+/)*"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
        case _:
            negated = token[1] in "!^"
            body = token[2 if negated else 1 : -1].replace("\\", r"\\")
            return f"[{'^/' if negated else ''}{body}]"
