"""What is wrong with a check as an author wrote it: a key, a sentence, and the remedy.

Must not know files and lines: the bundle's loader adds them.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ParamProblem:
    """One fault of a check.

    `key` is the faulty key of `params` ("" when the check's type itself is at fault); `message` is lower case without a full stop;
    `suggestion` is the remedy as a sentence without a full stop, "" when there is none to give.
    """

    key: str
    message: str
    suggestion: str = ""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that `word` is most likely a slip of, or ""."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else ""
