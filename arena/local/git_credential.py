"""git's credential protocol: the token of the local server for git, so that a push needs no pasted password.

Standard library only: git asks at every fetch and push.
"""

import urllib.parse
from collections.abc import Iterable

from arena.errors import ServerUnreachable
from arena.local.state import StateDirectory

USERNAME = "arena"


def answer(operation: str, state: StateDirectory, asked: Iterable[str]) -> str:
    """Return what git reads in answer to its lines; "" for another host, another operation than `get`, or when no server runs.

    Source: git-credential(1), gitcredentials(7).
    """
    wanted = dict(line.rstrip("\n").split("=", 1) for line in asked if "=" in line)
    if operation != "get":
        return ""
    try:
        address = urllib.parse.urlsplit(state.address().url)
        token = state.read_token()
    except ServerUnreachable:
        return ""  # git asks the next helper, and says itself that it cannot log in
    if (wanted.get("protocol"), wanted.get("host")) != (address.scheme, address.netloc):
        return ""
    return f"username={USERNAME}\npassword={token}\n"
