"""Files that are there whole or not at all.

A file is written under a temporary name in its own directory, synced, renamed, and the directory is synced: a kill between any two
steps leaves the old file or the new one.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

TEMPORARY_PREFIX = ".tmp-"


def write_file(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write `content` to `path` in one visible step, durable when this returns.

    Raises:
        OSError: nothing at `path` has changed.
    """
    with replace_file(path, mode=mode) as stream:
        stream.write(content)


@contextmanager
def replace_file(path: Path, *, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Open a temporary file that becomes `path` when the block ends without an error, and is removed when it does not."""
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(4)}-{path.name}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in the directory `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
