"""What a process and all that it started use together, as Linux tells it.

Resource limits of the kernel are one process's, and the one on the number of processes does not bind root. Must not know why it is asked.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_PROC: Final = Path("/proc")


class Usage(NamedTuple):
    """How many processes there are, and how much memory is theirs alone, in bytes."""

    processes: int
    memory_bytes: int


def usage_of(pid: int, most: int) -> Usage:
    """Return what a process and its descendants use; it counts no further than one beyond `most` processes. What has ended meanwhile counts nothing."""
    waiting, processes, memory = [pid], 0, 0
    while waiting and processes <= most:
        folder = _PROC / str(waiting.pop())
        try:
            _, resident, shared, *_ = (folder / "statm").read_text().split()
            children = (folder / "task" / folder.name / "children").read_text().split()
        except OSError:
            continue
        processes += 1
        memory += (int(resident) - int(shared)) * _PAGE_BYTES
        waiting += [int(child) for child in children]
    return Usage(processes, memory)
