"""`arena git-credential`: git asks here for the token of the local server, so that a push needs no pasted password."""

import sys
import urllib.parse
from typing import Annotated

import typer

from arena.cli.options import DEFAULT_STATE, State, state_directory
from arena.errors import ServerUnreachable

USERNAME = "arena"


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("git-credential")(git_credential)


def git_credential(
    operation: Annotated[str, typer.Argument(help="What git wants: get, store or erase.")],
    state: State = DEFAULT_STATE,
) -> None:
    """Answer git's credential protocol for the local server, and for no other host."""
    wanted = dict(line.rstrip("\n").split("=", 1) for line in sys.stdin if "=" in line)
    if operation != "get":
        return
    directory = state_directory(state)
    try:
        address = urllib.parse.urlsplit(directory.address().url)
        token = directory.read_token()
    except ServerUnreachable:
        return  # git asks the next helper, and says itself that it cannot log in
    if (wanted.get("protocol"), wanted.get("host")) == (address.scheme, address.netloc):
        sys.stdout.write(f"username={USERNAME}\npassword={token}\n")
