"""Texts in explanations: quoted, cut to a width, and with what nobody can see made visible.

A reader must see what was compared: a zero-width space, a direction mark or a tab in a reply is written as an escape, so that two texts that look
alike and are not do not look alike here.
"""

import unicodedata
from collections.abc import Sequence

MAX_SHOWN = 200
MAX_LISTED = 10

_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"))
"""Unicode categories of characters that are invisible or look like a plain space."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def shown(text: str, limit: int = MAX_SHOWN) -> str:
    """Return `text` between single quotes, every character visible, and of more than `limit` characters the beginning and how many there are."""
    inside = visible(text[:limit]).replace("'", "\\'")
    return f"'{inside}'" if len(text) <= limit else f"'{inside}…' ({len(text)} characters)"


def visible(text: str) -> str:
    """Return `text` with control, format and odd space characters and backslashes written as escapes."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(_SHORT.get(character) or escaped(character) for character in text)


def listed(texts: Sequence[str], limit: int = MAX_LISTED) -> str:
    """Return the texts quoted and separated by commas, "nothing" without any; of more than `limit` the first ones and how many more."""
    if not texts:
        return "nothing"
    words = ", ".join(shown(text) for text in texts[:limit])
    return words if len(texts) <= limit else f"{words} and {len(texts) - limit} more"


def bare(text: str) -> str:
    """Return `text` without its invisible characters, odd spaces as plain ones and compatible forms folded: what a reader takes it for."""
    folded = unicodedata.normalize("NFKC", text)
    spaced = (" " if unicodedata.category(character) in ("Zs", "Zl", "Zp") else character for character in folded)
    return "".join(character for character in spaced if unicodedata.category(character) != "Cf")


def escaped(character: str) -> str:
    """Return a character as it is or, when nobody could see it, as an escape."""
    if character == " " or unicodedata.category(character) not in _UNSEEN:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - widths of escapes
