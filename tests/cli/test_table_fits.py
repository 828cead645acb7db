"""A table on a terminal: no line of it wraps because of one long message."""

import pytest

from arena.cli.printing import fitted

ROWS = [["NAME", "READY", "STATUS", "AGE"], ["prompts", "False", "cannot fetch " + "x" * 200, "5m"], ["other", "True", "main is 1", "5m"]]


@pytest.mark.parametrize("columns", [80, 120])
def test_the_widest_column_gives_way(columns: int) -> None:
    """The message is cut to what the terminal has room for; all else stays whole."""
    header, long, short = fitted(ROWS, columns)
    assert (header, short) == (ROWS[0], ROWS[2])
    assert (long[0], long[1], long[3]) == ("prompts", "False", "5m")
    assert long[2].endswith("…")
    assert len("   ".join([long[0], long[1], long[2], long[3].ljust(3)])) == columns


def test_what_fits_is_not_touched() -> None:
    """A terminal that is wide enough shows every cell whole."""
    assert fitted(ROWS, 300) == ROWS


def test_a_column_keeps_enough_to_read() -> None:
    """However narrow the terminal is, twenty characters stay."""
    assert len(fitted(ROWS, 10)[1][2]) == 20


def test_a_name_stays_whole() -> None:
    """A name is there to be copied."""
    rows = [["NAME", "AGE"], ["n" * 100, "5m"]]
    assert fitted(rows, 80) == rows
