"""Names on a volume that other machines change too, looked up afresh.

A network file system's client remembers which names a directory has, and has not, for up to a minute (NFS: acdirmin, 30 s): a ref that another
replica has just made would be missing, a repository that it has moved would still be there. Opening a directory asks the server whether it has
changed (close-to-open consistency), and every name in it is then looked up anew. On a local file system that is one cheap call. Content needs no
such care: opening a file asks the server too. Must not know what the names mean. Blocking.
"""

import contextlib
import errno
import os
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_GONE = frozenset({errno.ENOENT, errno.ESTALE, errno.ENOTDIR})
_LOOKED_UP_BY_NAME = ("", "refs/heads")  # main, packed-refs; what else there is, git and we find by listing directories, which asks too


def look_at(directory: Path) -> None:
    """Have the names in `directory` looked up afresh; when it seems not to be there, those above it first. What is not there is no error."""
    if not _is_open_to_look(directory) and directory.parent != directory:
        look_at(directory.parent)
        _is_open_to_look(directory)


def look_at_repository(repository: Path) -> None:
    """Have a bare repository and its branches looked up afresh: git, and we, then see what was there when this was called, or later."""
    look_at(repository.parent)
    for name in _LOOKED_UP_BY_NAME:
        if not _is_open_to_look(repository / name):
            return


def is_gone(error: OSError) -> bool:
    """Say whether an error means that the thing is not there any more; ESTALE: another machine has removed it."""
    return error.errno in _GONE


def _is_open_to_look(directory: Path) -> bool:
    try:
        descriptor = os.open(directory, _FLAGS)
    except OSError as error:
        return not is_gone(error)
    with contextlib.suppress(OSError):
        os.close(descriptor)
    return True
