"""What a process has open that leads to others."""

import contextlib
from pathlib import Path


def open_ends() -> int:
    """Return how many sockets and ends of pipes this process has open."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            found += str(descriptor.readlink()).startswith(("pipe:", "socket:"))
    return found
