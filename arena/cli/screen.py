"""What a person sees: errors, tables, colours. Standard library only, so that it costs nothing at start-up."""

import os
import sys
from collections.abc import Sequence
from typing import TextIO

from arena.settings import colours_wanted
from foundation.errors import ArenaError

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "grey": "90", "bold": "1"}
_BAR = 28


def print_error(error: ArenaError) -> None:
    """Write `error: …`, and `hint: …` when there is a remedy, to stderr."""
    sys.stderr.write(f"{paint('error:', 'red', sys.stderr)} {_printable_lines(error.message)}\n")
    if error.hint:
        sys.stderr.write(f"{paint('hint:', 'blue', sys.stderr)} {_printable_lines(error.hint)}\n")


def print_warning(text: str) -> None:
    """Write `warning: …` to stderr."""
    sys.stderr.write(f"{paint('warning:', 'yellow', sys.stderr)} {printable(text)}\n")


def drop_output() -> None:
    """Let what is still written to stdout vanish: whoever read it has gone. The interpreter's last flush must find a place, too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def paint(text: str, colour: str, stream: TextIO = sys.stdout) -> str:
    """Return the text in a colour when the stream is a terminal and NO_COLOR is not set."""
    if not stream.isatty() or not colours_wanted():
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines in columns three spaces apart, as kubectl prints them."""
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    lines = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (columns, *rows)]
    return "\n".join(lines) + "\n"


def bar(done: int, total: int) -> str:
    """Return a bar of 28 characters that is filled as far as a work is done."""
    filled = _BAR * done // max(1, total)
    return "█" * filled + "░" * (_BAR - filled)


def counted(number: int, thing: str) -> str:
    """Return `1 item`, `2 items`."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


def printable(text: str) -> str:
    """Return the text without control characters, which could rewrite a terminal; newlines and tabs become spaces."""
    return "".join(c if c.isprintable() else " " for c in text)


def _printable_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))
