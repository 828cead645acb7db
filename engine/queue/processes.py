"""Processes that are not our children: whether one runs, and what it is.

Reads /proc where there is one, `ps` elsewhere. Must not end anything.
"""

import os
import subprocess
from pathlib import Path


def is_running(pid: int) -> bool:
    """Say whether process `pid` exists and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return not Path("/proc/self").exists()


def command_line(pid: int) -> str:
    """Return the words with which process `pid` was started, "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        if Path("/proc/self").exists():
            return ""
    answer = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607 - fixed words
    return answer.stdout.strip()
