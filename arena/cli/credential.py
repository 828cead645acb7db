"""`arena git-credential`: git asks here for the token of the local server."""

import sys
from typing import Annotated

import typer

from arena.cli.options import DEFAULT_STATE, State, state_directory
from arena.local.git_credential import answer


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("git-credential")(git_credential)


def git_credential(
    operation: Annotated[str, typer.Argument(help="What git wants: get, store or erase.", metavar="OPERATION")],
    *,
    state: State = DEFAULT_STATE,
) -> None:
    """Answer git's credential protocol for the local server, and for no other host."""
    sys.stdout.write(answer(operation, state_directory(state), sys.stdin))
