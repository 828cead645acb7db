"""What the processes of this machine say of themselves, as Linux tells it. One that ends while it is looked at says nothing."""

from collections.abc import Iterator
from pathlib import Path


def told(file: str) -> Iterator[tuple[int, bytes]]:
    """Yield each process with what its file of that name in /proc holds: `cmdline`, `stat`."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            content = (process / file).read_bytes()
        except OSError:  # gone
            continue
        yield int(process.name), content
