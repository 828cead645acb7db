"""Finding words in text, whole or as parts of others, in a reply that is complete or still streaming.

A whole word is one that no letter, digit or underscore continues on either side, in any script; an end of the pattern that is itself
punctuation ("100%") has no such neighbour to respect.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Word(NamedTuple):
    """A word to look for: as its author wrote it, and as it is compared."""

    text: str
    folded: str
    case_sensitive: bool


def normal_words(words: Sequence[str], *, case_sensitive: bool) -> tuple[Word, ...]:
    """Return the words ready to be looked for; empty ones, which every text would contain, are left out."""
    return tuple(Word(word, word if case_sensitive else word.lower(), case_sensitive) for word in words if word)


def find_banned(text: str, words: Sequence[Word], *, whole: bool, open_ended: bool = False) -> list[str]:
    """Return the words that occur in `text`, in the order of `words`.

    `open_ended` text may go on: a whole word that ends where it ends is not found yet, since the next letter may make it another word.
    """
    lowered = text.lower()
    found = []
    for word in words:
        haystack = text if word.case_sensitive else lowered
        if word.folded in haystack and (not whole or _stands_alone(haystack, word.folded, open_ended=open_ended)):
            found.append(word.text)
    return found


def _stands_alone(haystack: str, word: str, *, open_ended: bool) -> bool:
    start = haystack.find(word)
    while start >= 0:
        end = start + len(word)
        begins = start == 0 or not (_continues(haystack[start - 1]) and _continues(word[0]))
        ends = not _continues(word[-1]) or (not open_ended if end == len(haystack) else not _continues(haystack[end]))
        if begins and ends:
            return True
        start = haystack.find(word, start + 1)
    return False


def _continues(character: str) -> bool:
    return character.isalnum() or character == "_"
