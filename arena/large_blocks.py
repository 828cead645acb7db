"""Memory of a process that lives for months: what is freed in large blocks goes back to the system. Must not know what is kept in them."""

import contextlib
import ctypes

LARGE_BYTES = 128 * 1024
_M_MMAP_THRESHOLD = -3


def return_large_blocks() -> None:
    """Let the C library map each block of 128 KiB and more by itself, so that freeing it gives it back. Does nothing where that library is not glibc.

    glibc begins like that, but raises the limit to the size of the largest block freed so far (mallopt(3), M_MMAP_THRESHOLD). The tables that are
    rebuilt now and then, the interpreter's own of interned strings (1.8 MiB) first of all, then lie in the heap among small blocks: what a rebuilding
    frees is filled with small ones before the next, which takes new memory again.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
