"""What the operating system says of the content volume, in words for a person."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from gitops.errors import StorageFailed

_CAUSES = {
    errno.ENOSPC: ("the content volume is full", "free space on the content volume, or lower spec.snapshots.retain"),
    errno.EDQUOT: ("the quota of the content volume is used up", "raise the quota, or lower spec.snapshots.retain"),
    errno.EROFS: ("the content volume is read-only", "mount the content volume writable"),
    errno.EACCES: ("the content volume refuses access", "let the user of this process write to the content volume"),
    errno.EPERM: ("the content volume refuses access", "let the user of this process write to the content volume"),
    errno.EIO: ("the content volume cannot be read or written (input/output error)", "check the disk of the content volume"),
    errno.EMFILE: ("too many files are open", "raise the limit of open files (ulimit -n)"),
}


def storage_failure(cannot: str, error: OSError) -> StorageFailed:
    """Turn an operating system's error into one that names the cause and the remedy; `cannot` is the message up to its colon."""
    cause, hint = _CAUSES.get(error.errno or 0, (error.strerror or str(error), ""))
    name = f" ({error.filename})" if isinstance(error.filename, str) else ""
    return StorageFailed(f"{cannot}: {cause.lower() if not hint else cause}{name}", hint=hint)


@contextmanager
def storage(what: str) -> Iterator[None]:
    """Raise StorageFailed `cannot <what>: …` for an operating system's error in the block."""
    try:
        yield
    except OSError as error:
        raise storage_failure(f"cannot {what}", error) from error
