"""Directories on the content volume, handled through file descriptors.

Owns opening directories relative to one another without following symlinks, making a whole file system durable, and removing trees that
are read-only. Must not know what a snapshot is.
"""

import contextlib
import ctypes
import functools
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_directory(path: Path) -> Iterator[int]:
    """Open a directory, not through a symlink, for the length of the block."""
    descriptor = os.open(path, DIRECTORY_FLAGS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class DirectoryCursor:
    """A place in a tree of directories, moved from one directory to the next with as few opens as possible.

    Every step opens one component relative to the descriptor above it and follows no symlink, so no name can lead outside the root.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._path = ""
        self._here = root
        self._names: list[str] = []
        self._descriptors: list[int] = []

    def at(self, path: str) -> int:
        """Move to the directory at `path` (empty: the root) and return its descriptor, valid until the next move."""
        if path == self._path:
            return self._here
        names = path.split("/") if path else []
        shared = 0
        while shared < len(names) and shared < len(self._names) and names[shared] == self._names[shared]:
            shared += 1
        while len(self._names) > shared:
            os.close(self._descriptors.pop())
            self._names.pop()
        for name in names[shared:]:
            above = self._descriptors[-1] if self._descriptors else self._root
            self._descriptors.append(os.open(name, DIRECTORY_FLAGS, dir_fd=above))
            self._names.append(name)
        self._path, self._here = path, self._descriptors[-1] if self._descriptors else self._root
        return self._here

    def close(self) -> None:
        """Close every descriptor but the root's. Idempotent."""
        while self._descriptors:
            os.close(self._descriptors.pop())
        self._names.clear()
        self._path, self._here = "", self._root


def sync_file_system(descriptor: int) -> None:
    """Make everything written to the file system of `descriptor` durable, in one call where the platform has it.

    Raises:
        OSError: some write did not reach the disk.
    """
    syncfs = _syncfs()
    if syncfs is None:
        os.sync()
    elif syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@functools.cache
def _syncfs() -> Callable[[int], int] | None:
    try:
        function = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int]
    function.restype = ctypes.c_int
    return function


def set_aside(path: Path, directory: Path) -> Path:
    """Move the directory `path` under a new name into `directory` (made if missing) and return where it is now.

    A read-only directory is made writable first: a plain user cannot give it another parent otherwise.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    target = directory / f"{path.name}-{secrets.token_hex(4)}"
    with contextlib.suppress(OSError), open_directory(path) as descriptor:
        os.fchmod(descriptor, 0o700)
    path.rename(target)
    return target


def remove_tree(path: Path) -> None:
    """Remove a file or a directory with all it holds, read-only directories included. Idempotent; follows no symlink.

    Only directories are made writable: a file's inode may be shared with another snapshot.
    """
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISDIR(mode):
            path.unlink(missing_ok=True)
            return
        with open_directory(path) as descriptor:
            _empty(descriptor)
        path.rmdir()
    except FileNotFoundError:
        return


def _empty(directory: int) -> None:
    os.fchmod(directory, 0o700)
    with os.scandir(directory) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_directory in entries:
        try:
            if is_directory:
                inner = os.open(name, DIRECTORY_FLAGS, dir_fd=directory)
                try:
                    _empty(inner)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=directory)
            else:
                os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            continue  # another process empties the same trash
