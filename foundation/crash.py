"""Crash points: named places where a test may kill the process.

`crash_point("put.after")` does nothing unless the process was armed with that name. Settings arm it from `ARENA_CRASH_AT`; this
module never reads the environment. A name is `<subject>.<what_has_just_happened>`; all of them stand in `tests/survival/crash_table.py`.
"""

import os
import signal
from pathlib import Path

FROM_FILE = "@"
HALT = "halt"
MET_SUFFIX = ".met"


class _Armed:
    """The crash point that this process dies at, and how many passes it survives first; or the file that says so."""

    name: str = ""
    passes_left: int = 0
    order: Path | None = None


def arm(spec: str) -> None:
    """Make this process kill itself at a crash point.

    `spec` is `name` (the first pass) or `name:N` (the N-th pass, from 1); the empty string disarms. `@FILE` names a file that holds such specs, a
    line each, and is asked at every crash point: whoever writes it arms all the processes that were told of it, at any time. The first spec is in
    force: the first process that comes there takes it away, adds a line `name pid` to `FILE.met`, and dies, and from then on the next one is. So no
    process passes a crash point while somebody is told of the one before. A spec in a file may end in ` halt`: that process stops (SIGSTOP).
    """
    if spec.startswith(FROM_FILE):
        _Armed.name, _Armed.order = "", Path(spec.removeprefix(FROM_FILE))
        return
    _Armed.order = None
    _Armed.name, _Armed.passes_left = _parsed(spec)


def crash_point(name: str) -> None:
    """Die here by SIGKILL, without any clean-up, if the process is armed with `name`."""
    if _Armed.order is not None:
        _obey(_Armed.order, name)
    elif name == _Armed.name:
        _Armed.passes_left -= 1
        if _Armed.passes_left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _obey(order: Path, name: str) -> None:
    taken = order.with_name(f"{order.name}.{os.getpid()}")
    try:
        first, *others = order.read_text(encoding="ascii").splitlines() or [""]
        spec, _, action = first.strip().partition(" ")
        wanted, passes = _parsed(spec)
        if name != wanted:
            return
        if passes > 1:
            order.write_text("\n".join([f"{wanted}:{passes - 1} {action}", *others]), encoding="ascii")
            return
        order.rename(taken)  # of several processes that come here at once, one dies
    except FileNotFoundError:
        return
    with order.with_name(order.name + MET_SUFFIX).open("a", encoding="ascii") as met:
        met.write(f"{name} {os.getpid()}\n")
    if others:
        taken.write_text("\n".join(others), encoding="ascii")
        taken.rename(order)
    else:
        taken.unlink()
    os.kill(os.getpid(), signal.SIGSTOP if action == HALT else signal.SIGKILL)


def _parsed(spec: str) -> tuple[str, int]:
    name, _, count = spec.partition(":")
    return name, int(count) if count else 1
