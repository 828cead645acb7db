"""When a process started: with its pid, what tells it from any other that gets the same pid later.

Standard library only and small: `arena git-credential` loads it at every fetch and push.
"""

from pathlib import Path


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when there is none of that pid or it is a zombie.

    Source: field 22 of /proc/[pid]/stat (proc(5)); field 2 may hold spaces and parentheses, so fields are counted from its end.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
