"""Regular expressions that others write: RE2 syntax, linear time, loaded only when there is one.

A bundle and a spec are not trusted, and Python's own engine can be made to run for ever.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol


class Pattern(Protocol):
    """A compiled pattern; `pattern` is its text."""

    @property
    def pattern(self) -> str:
        """Return the text it was compiled from."""
        ...

    def search(self, text: str) -> Any:
        """Return a match, or None. Half a surrogate pair, which a model's JSON may hold and UTF-8 has not, matches as a question mark."""
        ...


@dataclass(frozen=True, slots=True)
class _Compiled:
    """An RE2 pattern that takes any text."""

    pattern: str
    found: Callable[[str], Any]

    def search(self, text: str) -> Any:
        """Return a match, or None."""
        try:
            return self.found(text)
        except UnicodeEncodeError:
            return self.found(text.encode("utf-8", "replace").decode())


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Pattern:
    """Compile an RE2 pattern; the last few thousand of a process are kept.

    Raises:
        ValueError: RE2 does not know this syntax; the message is RE2's own. Look-around and back-references are not part of it.
    """
    import re2  # noqa: PLC0415 - 10 ms that most commands never need

    options = re2.Options()
    options.log_errors = False
    try:
        return _Compiled(pattern, re2.compile(pattern, options).search)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        raise ValueError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None
