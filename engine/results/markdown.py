"""Markdown that says what it is given: foreign text cannot become markup.

Owns escaping only. Foreign text goes into code spans, where neither HTML nor links nor mentions mean anything.
"""

import re
import unicodedata

_LONGEST = 200
_SPACES = re.compile(r"\s+")
_BACKTICKS = re.compile(r"`+")


def code(text: str, limit: int = _LONGEST) -> str:
    """Return `text` as one code span on one line, cut at `limit` characters.

    Control, format (such as bidirectional overrides) and surrogate characters are left out; runs of white space become one space.
    """
    plain = _SPACES.sub(" ", "".join(c for c in text[: 4 * limit] if c.isspace() or unicodedata.category(c)[0] != "C")).strip()
    if not plain:
        return "–"
    if len(plain) > limit:
        plain = plain[: limit - 1] + "…"
    longest = max((len(run) for run in _BACKTICKS.findall(plain)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a table; cells are markdown on one line, such as `code` returns.

    A `|` in a cell becomes `∣`: the escape that tables want ends early after a backslash, and what follows would be markup.
    """
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |\n" for line in lines)
