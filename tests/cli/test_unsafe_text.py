"""What screens do with text that others wrote: secrets stay covered, and no text takes over the terminal."""

import base64

import pytest

from arena.cli.describing import describe_object
from arena.cli.listing import cells
from arena.cli.screen import print_error
from foundation.errors import ArenaError
from reconcile.kinds.columns import Column

TAKE_OVER = "\x1b]0;owned\x07\r"


def test_describe_covers_what_a_secret_holds() -> None:
    """A Secret is described by its keys and sizes; its values are shown to those alone who ask for its YAML."""
    value = base64.b64encode(b"sk-very-secret").decode()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": {"api-key": value, "empty": ""}}
    text = describe_object(secret, [])
    assert value not in text
    assert "14 bytes" in text
    assert "0 bytes" in text


def test_errors_cannot_rewrite_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Names in messages are printed without control characters; the lines of a message stay lines."""
    print_error(ArenaError(f"cannot read '{TAKE_OVER}'\nsecond", hint=f"rename {TAKE_OVER}"))
    printed = capsys.readouterr().err
    assert "\x1b]" not in printed
    assert "\r" not in printed
    assert printed.count("\n") == 3


def test_cells_cannot_rewrite_the_terminal() -> None:
    """A column shows a field that anybody may have written, in one line of plain characters."""
    (cell,) = cells([Column("Ref", ".spec.ref", "A ref.")], {"spec": {"ref": f"main{TAKE_OVER}\nx"}})
    assert cell.isprintable()
