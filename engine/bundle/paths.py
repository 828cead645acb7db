"""Paths inside a bundle: relative to the file that names them, and never outside the root, not even by a symlink.

Must not know what the files are.
"""

import os
import posixpath
from pathlib import Path

from engine.errors import BundleInvalid

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4000


def join(directory: str, reference: str) -> str | None:
    """Return `reference`, written in a file of `directory`, relative to the bundle's root; None when it leaves the bundle or is no plain name.

    Purely textual: it looks at no disk. Absolute paths, backslashes and NUL are refused.
    """
    if not reference or reference.startswith("/") or "\\" in reference or "\0" in reference:
        return None
    path = posixpath.normpath(posixpath.join(directory, reference))
    return None if path == ".." or path.startswith("../") else path


def resolve_inside(root: Path, file: str) -> Path:
    """Return where `file`, relative to `root`, is on disk, symlinks resolved.

    A file that does not exist resolves as well. Raises:
        BundleInvalid: it leaves the bundle, or is no path.
    """
    relative = join("", file)
    if relative is None:
        raise BundleInvalid(
            f"cannot read '{file}': the path leaves the bundle", hint="name a file inside the bundle, relative to the file that names it"
        )
    if len(os.fsencode(relative)) > MAX_PATH_BYTES or any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in relative.split("/")):
        raise BundleInvalid(f"cannot read '{file[:60]}…': the name is too long", hint="no file system has such a file")
    base = os.path.realpath(root)
    real = os.path.realpath(os.path.join(base, relative))  # noqa: PTH118 - os.path resolves in a third of pathlib's time
    if real != base and not real.startswith(base.rstrip("/") + "/"):
        raise BundleInvalid(f"cannot read '{file}': a symlink leads out of the bundle", hint="put the file itself into the bundle")
    return Path(real)
