"""Whose a run directory is: the marker `.owner` with the run's uid and the installation's id.

Owns `arena/runs/<run>/.owner` and the `.trash` beside the runs. Source: survival.md, "Names and causes".
"""

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from foundation.files import write_file

TRASH = ".trash"
_MARKER = ".owner"


@dataclass(frozen=True, slots=True)
class Owner:
    """The run that a directory belongs to, and the installation that the run belongs to."""

    uid: str
    installation: str


def read_owner(directory: Path) -> Owner | None:
    """Return whose a directory is; None when nothing says so."""
    try:
        uid, _, installation = (directory / _MARKER).read_text(encoding="ascii").strip().partition(" ")
    except (OSError, UnicodeDecodeError):
        return None
    return Owner(uid, installation)


def claim(directory: Path, owner: Owner) -> Owner:
    """Make the directory `owner`'s unless it is somebody's already; return whose it is now.

    Raises:
        OSError: it cannot be made or marked.
    """
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    if read_owner(directory) is None:
        write_file(directory / _MARKER, f"{owner.uid} {owner.installation}\n".encode())
    return read_owner(directory) or owner


def hand_over(directory: Path, old: str, new: str) -> None:
    """Make a directory of installation `old` one of installation `new`; another's stays.

    Raises:
        OSError: it cannot be marked.
    """
    owner = read_owner(directory)
    if owner is not None and owner.installation == old:
        write_file(directory / _MARKER, f"{owner.uid} {new}\n".encode())


def move_aside(directory: Path, owner: Owner) -> None:
    """Move a dead run's directory into `.trash`, where nothing uses it."""
    trash = directory.parent / TRASH
    trash.mkdir(exist_ok=True)
    directory.rename(trash / f"{directory.name}-{owner.uid}")


def discard(directory: Path, uid: str) -> None:
    """Remove a directory if it belongs to the run `uid`; another's stays.

    The marker goes last: after a kill, or where something cannot be removed, what is left still says whose it is, and the sweep tries again.
    """
    owner = read_owner(directory)
    if owner is None or owner.uid != uid:
        return
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != _MARKER:
            with contextlib.suppress(OSError):
                entry.unlink()
    if [entry.name for entry in directory.iterdir()] == [_MARKER]:
        (directory / _MARKER).unlink()
        directory.rmdir()
