"""What one look found: a thing, and either nothing wrong, or a cause and its remedy."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "bad", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A thing that was looked at. `info` is worth knowing and nothing wrong; `bad` has a cause, and a remedy where there is one."""

    state: State
    thing: str
    cause: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        """Return `thing: cause; remedy`."""
        return f"{self.thing}{f': {self.cause}' if self.cause else ''}{f'; {self.remedy}' if self.remedy else ''}"


def ok(thing: str) -> Finding:
    """Return that a thing is as it must be."""
    return Finding("ok", thing)


def info(thing: str, text: str = "", remedy: str = "") -> Finding:
    """Return something worth knowing."""
    return Finding("info", thing, text, remedy)


def bad(thing: str, cause: str, remedy: str = "") -> Finding:
    """Return that a thing is not as it must be."""
    return Finding("bad", thing, cause, remedy)
