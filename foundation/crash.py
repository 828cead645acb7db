"""Crash points: named places where a test may kill the process.

`crash_point("put.after")` does nothing unless the process was armed with that name. Settings arm it from `ARENA_CRASH_AT`; this
module never reads the environment.
"""

import os
import signal


class _Armed:
    """The crash point that this process dies at, and how many passes it survives first."""

    name: str = ""
    passes_left: int = 0


def arm(spec: str) -> None:
    """Make this process kill itself at a crash point.

    `spec` is `name` (the first pass) or `name:N` (the N-th pass, from 1); the empty string disarms.
    """
    name, _, count = spec.partition(":")
    _Armed.name = name
    _Armed.passes_left = int(count) if count else 1


def crash_point(name: str) -> None:
    """Die here by SIGKILL, without any clean-up, if the process is armed with `name`."""
    if name != _Armed.name:
        return
    _Armed.passes_left -= 1
    if _Armed.passes_left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
