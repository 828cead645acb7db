"""Refs as their files say: loose ones before packed ones, symbolic ones followed, as git's own files backend reads them.

dulwich is not asked: it knows no ref of two parts (`refs/stash`), takes an unreadable file for a missing one, and an empty one (as a power loss leaves
it) for the older value that was packed. Must not know which refs may answer a user.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

from gitops.freshness import look_at

_DEEPEST_SYMBOLIC = 5  # git: SYMREF_MAXDEPTH
_LONGEST_BYTES = 4096
_OBJECT_IDS = {digits: re.compile(rb"(?!0+\b)([0-9a-fA-F]{%d})(?:\s|\Z)" % digits) for digits in (40, 64)}
_SYMBOLIC = re.compile(rb"ref:\s*(\S+)\s*\Z")


def read_ref(repository: Path, name: str, *, digits: int, may_follow: Callable[[str], bool]) -> str | None:
    """Return the object id that the ref of this full name holds in the end; None when there is no such ref, or it is broken.

    `digits` is the length of an object id. `may_follow` is asked before each name is read, the first included, so that no content of a file leads
    outside of the repository.

    Raises:
        OSError: a file is there and cannot be read.
    """
    for _ in range(_DEEPEST_SYMBOLIC):
        if not may_follow(name):
            return None
        content = _loose(repository / name)
        if content is None:
            content = _packed(repository / "packed-refs", name, digits)
        symbolic = _SYMBOLIC.match(content)
        if symbolic is None:
            found = _OBJECT_IDS[digits].match(content)
            return found[1].decode().lower() if found is not None else None
        name = symbolic[1].decode("utf-8", "replace")
    return None


def _loose(path: Path) -> bytes | None:
    look_at(path.parent)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_LONGEST_BYTES)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _packed(path: Path, name: str, digits: int) -> bytes:
    """Return the object id in the line that ends in the name; a search, since a file of 10,000 refs takes long to parse."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return b""
    end = content.find(f" {name}\n".encode())
    return content[end - digits : end] if end >= digits else b""
