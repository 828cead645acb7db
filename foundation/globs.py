"""Globs over paths, refs and scenarios: what a pattern means, in one place.

`*` and `?` stay within a segment; `**/` is any number of whole directories and `**` anything at all; `[a-z]` and `[!a-z]` are classes; a backslash
takes the next character literally. A glob matches the whole text, and one that cannot be read is an error, never a literal. Pure. Must not know
what the texts are.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from foundation.errors import UnreadableGlob
from foundation.patterns import Pattern, compile_pattern

_WILDCARDS = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[|\\|[^*?\[\\]+")


def matches_any(globs: Iterable[str], text: str) -> bool:
    """Say whether any glob matches the whole text.

    Raises:
        UnreadableGlob: one of those tried cannot be read.
    """
    return any(compile_glob(glob).search(text) is not None for glob in globs)


@lru_cache(maxsize=1024)
def compile_glob(glob: str) -> Pattern:
    """Compile a glob to a pattern that finds nothing but the whole text, in time linear in it.

    Raises:
        UnreadableGlob: it is empty, a class is not closed, holds a slash or runs backwards, or it ends in a backslash.
    """
    if not glob:
        raise UnreadableGlob(glob, "it is empty")
    parts: list[str] = []
    position = 0
    while (token := _TOKEN.match(glob, position)) is not None:
        part, position = _translated(glob, token.group(), token.end())
        parts.append(part)
    try:
        return compile_pattern(rf"(?s)\A{''.join(parts)}\z")
    except ValueError as error:
        raise UnreadableGlob(glob, str(error)) from error


def glob_problem(glob: str) -> str:
    """Say why a glob cannot be read, or return ""."""
    try:
        compile_glob(glob)
    except UnreadableGlob as error:
        return error.cause
    return ""


def _translated(glob: str, word: str, end: int) -> tuple[str, int]:
    """Return the pattern of the word that ends at `end`, and where the next one begins."""
    if word == "[":
        return _class(glob, end)
    if word != "\\":
        return _WILDCARDS.get(word) or re.escape(word), end
    if end == len(glob):
        raise UnreadableGlob(glob, "it ends in a backslash")
    return re.escape(glob[end]), end + 1


def _class(glob: str, start: int) -> tuple[str, int]:
    negated = glob[start : start + 1] in ("!", "^")
    first = start + negated
    end = glob.find("]", first + 1)  # a bracket that comes first is a member
    if end < 0:
        raise UnreadableGlob(glob, f"the bracket at character {start} is not closed")
    members = glob[first:end]
    ranges = re.findall(r"(.)-(.)", members, re.DOTALL)
    if "/" in members or any(low <= "/" <= high for low, high in ranges):
        raise UnreadableGlob(glob, f"the class [{members}] holds a /")
    if any(low > high for low, high in ranges):
        raise UnreadableGlob(glob, f"the class [{members}] has a range that runs backwards")
    escaped = "".join("-" if character == "-" else re.escape(character) for character in members)
    return f"[{'^/' if negated else ''}{escaped}]", end + 1
