"""Problems of a bundle: collected while reading, reported together, bounded.

Owns what a problem is, how several become one error, and near misses. Must not know any key of the format.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.bundle.model import Location
from engine.errors import BundleInvalid

MAX_PROBLEMS = 200
"""Problems of each severity that are kept: the rest are the first ones' echoes. Warnings never crowd out an error."""

MAX_REPORTED = 20
"""Problems in one error; `arena validate` shows all that were collected."""

MAX_SHOWN_CHARACTERS = 80


class Severity(StrEnum):
    """How bad a problem is: an error stops a run, a warning says that a key has no effect, a note that something will not run yet."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to say about a bundle. `file` is relative to its root, `line` counts from 1 (0: the file as a whole)."""

    severity: Severity
    file: str
    line: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.message}"


class Problems:
    """What was found so far, in the order of finding. Equal problems are kept once."""

    def __init__(self) -> None:
        self._found: dict[Severity, dict[Problem, None]] = {severity: {} for severity in Severity}

    def error(self, at: Location, message: str, hint: str = "") -> None:
        """Add an error."""
        self._add(Problem(Severity.ERROR, at.file, at.line, message, hint))

    def warning(self, at: Location, message: str, hint: str = "") -> None:
        """Add a warning."""
        self._add(Problem(Severity.WARNING, at.file, at.line, message, hint))

    def note(self, at: Location, message: str, hint: str = "") -> None:
        """Add a note."""
        self._add(Problem(Severity.NOTE, at.file, at.line, message, hint))

    @property
    def all(self) -> list[Problem]:
        """Every problem, by file and line."""
        return sorted((problem for kept in self._found.values() for problem in kept), key=lambda p: (p.file, p.line))

    @property
    def has_errors(self) -> bool:
        """Whether any of them is an error."""
        return bool(self._found[Severity.ERROR])

    def files_with_errors(self) -> set[str]:
        """Return the files that have an error."""
        return {problem.file for problem in self._found[Severity.ERROR]}

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings as sentences, `file:line: …`."""
        return tuple(str(p) for p in self.all if p.severity is Severity.WARNING)

    def raise_errors(self) -> None:
        """Raise what was found as one error, if any error was.

        Raises:
            BundleInvalid: a single error with its hint, or one line an error, the first 20.
        """
        if self.has_errors:
            raise invalid([p for p in self.all if p.severity is Severity.ERROR])

    def _add(self, problem: Problem) -> None:
        kept = self._found[problem.severity]
        if len(kept) < MAX_PROBLEMS:
            kept[problem] = None


def invalid(problems: Sequence[Problem]) -> BundleInvalid:
    """Return one error for several problems (at least one)."""
    if len(problems) == 1:
        return BundleInvalid(str(problems[0]), hint=problems[0].hint)
    lines = [f"{p}; {p.hint}" if p.hint else str(p) for p in problems[:MAX_REPORTED]]
    if len(problems) > MAX_REPORTED:
        lines.append(f"and {len(problems) - MAX_REPORTED} more")
    return BundleInvalid("\n".join(lines), hint=f"{len(problems)} problems; `arena validate` lists them all")


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the one of `words` that `word` was most likely meant to be, or ""."""
    from difflib import get_close_matches  # noqa: PLC0415 - only when something is wrong, so that good bundles start faster

    choices = list(words)
    folded = {w.lower().replace("-", "_"): w for w in choices}
    exact = folded.get(word.lower().replace("-", "_"))
    if exact is not None:
        return exact
    close = get_close_matches(word, choices, n=1, cutoff=0.6)
    return close[0] if close else ""


def did_you_mean(word: str, words: Iterable[str], *, otherwise: str = "") -> str:
    """Return the hint for a name that is not among `words`: the nearest one, or `otherwise` followed by the names."""
    choices = list(words)
    near = nearest(word, choices)
    if near:
        return f"did you mean '{near}'?"
    return f"{otherwise or 'there are'}: {', '.join(choices)}" if choices else ""


def shown(text: str) -> str:
    """Return `text` fit for a message: one line, bounded."""
    line = text.replace("\n", "\\n")
    return line if len(line) <= MAX_SHOWN_CHARACTERS else line[: MAX_SHOWN_CHARACTERS - 1] + "…"
