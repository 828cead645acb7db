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


def find_banned(text: str, words: Sequence[Word], *, whole: bool) -> list[str]:
    """Return the words that occur in `text`, in the order of `words`."""
    lowered = text.lower()
    haystacks = ((word, text if word.case_sensitive else lowered) for word in words)
    return [word.text for word, haystack in haystacks if _occurs(haystack, word.folded, whole=whole)]


def begins_banned(text: str, known: int, words: Sequence[Word], *, whole: bool) -> bool:
    """Say whether a word occurs in `text`, which may go on and whose first `known` characters were judged before: only what is new is looked at.

    A whole word that ends where the text ends is not found yet, since the next letter may make it another word.
    """
    longest = max((len(word.folded) for word in words), default=0)
    start = max(0, known - longest - 1)
    tail = text[start:]
    lowered = tail.lower()
    haystacks = ((word.folded, tail if word.case_sensitive else lowered) for word in words)
    return any(_occurs(haystack, word, whole=whole, open_ended=True, after=min(start, 1)) for word, haystack in haystacks)


def _occurs(haystack: str, word: str, *, whole: bool, open_ended: bool = False, after: int = 0) -> bool:
    """Say whether a word begins anywhere from `after` on; what stands before is only its neighbour."""
    start = haystack.find(word, after)
    if not whole:
        return start >= 0
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
