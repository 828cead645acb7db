"""What one installation takes up at a moment: its processes, its disk, its Redis and its store.

Owns how each quantity is read; every value is in bytes, counts or seconds. Linux only: it reads /proc. Must not know what counts as flat.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from bench.installation import Installation, parent_of

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_KINDS = {"runs": "ArenaRun", "jobs": "Job", "events": "Event"}


@dataclass(frozen=True, slots=True)
class Sample:
    """All quantities at one moment, by name; every sample of a probe has the same names in the same order."""

    values: Mapping[str, float]


class Probe:
    """Takes samples of one installation that runs."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._redis = redis.Redis.from_url(installation.state.address().queue)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        """Close what is open."""
        self._redis.close()

    def sample(self, account: Mapping[str, float]) -> Sample:
        """Return what there is now, after what the caller itself has counted."""
        values = {**account, **self._processes()}
        values |= {f"disk.{part}": float(size) for part, size in disk_use(self._installation.state.root).items()}
        values |= self._of_redis()
        values |= self._of_store()
        return Sample(values)

    def _processes(self) -> dict[str, float]:
        server, queue = self._installation.state.address().pid, self._installation.queue_server()
        others = [pid for pid in descendants(server) if pid != queue and parent_of(pid) != queue]
        return {
            **{f"server.{name}": value for name, value in process_use(server).items()},
            **{f"queue.{name}": value for name, value in process_use(queue).items()},
            "waiting.processes": float(len(others)),
            "waiting.pss": sum(process_use(pid)["pss"] for pid in others),
            "waiting.files": sum(process_use(pid)["files"] for pid in others),
        }

    def _of_redis(self) -> dict[str, float]:
        keyspace = self._redis.info("keyspace").get("db0", {"keys": 0, "expires": 0})
        return {
            "redis.keys": float(keyspace["keys"] - keyspace["expires"]),
            "redis.marks": float(keyspace["expires"]),
            "redis.memory": float(self._redis.info("memory")["used_memory"]),
        }

    def _of_store(self) -> dict[str, float]:
        with contextlib.closing(sqlite3.connect(f"file:{self._installation.state.database}?mode=ro", uri=True)) as database:
            counts = dict(database.execute("SELECT kind, count(*) FROM objects GROUP BY kind"))
            (changes,) = database.execute("SELECT count(*) FROM log").fetchone()
        named = {f"store.{name}": float(counts.pop(kind, 0)) for name, kind in _KINDS.items()}
        return {**named, "store.others": float(sum(counts.values())), "store.changes": float(changes)}


def process_use(pid: int) -> dict[str, float]:
    """Return the memory in bytes, open files, threads and CPU seconds of a process; zeros when it is gone."""
    use = {"rss": 0.0, "pss": 0.0, "files": 0.0, "threads": 0.0, "cpu": 0.0}
    proc = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):
        fields = (proc / "stat").read_text(errors="replace").rpartition(")")[2].split()
        use["cpu"] = (int(fields[11]) + int(fields[12])) / _TICKS
        use["threads"] = float(fields[17])
        use["rss"] = float(int(fields[21]) * _PAGE_BYTES)
        use["files"] = float(sum(1 for _ in (proc / "fd").iterdir()))
        use["pss"] = next(float(line.split()[1]) * 1024 for line in (proc / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
    return use


def worker_peak_bytes(installation: Installation) -> int:
    """Return the resident bytes of the largest worker at work now, 0 when there is none."""
    return max((int(process_use(worker.pid)["rss"]) for worker in installation.workers()), default=0)


def descendants(pid: int) -> list[int]:
    """Return the processes below `pid`, ended ones that nobody has waited for among them."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        children.setdefault(parent_of(int(entry.name)), []).append(int(entry.name))
    found, ahead = [], [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def disk_use(root: Path) -> dict[str, int]:
    """Return the allocated bytes of each part of a state directory; a file with many names is counted where it is met first."""
    use = dict.fromkeys(("repositories", "snapshots", "runs", "summaries", "queue", "store", "logs", "processes", "other"), 0)
    seen: set[int] = set()
    for path in _walk(root):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if found.st_ino not in seen:
                seen.add(found.st_ino)
                use[_part_of(path.relative_to(root).parts)] += found.st_blocks * 512
    return use


def _walk(root: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(root):
        yield from (Path(folder, name) for name in (*names, *files))


def _part_of(parts: tuple[str, ...]) -> str:
    """Name the part that a path below the state directory belongs to."""
    if parts[0] == "content":
        inner = parts[4] if len(parts) > 4 else ""  # content/<workspace>/<namespace>/arena/<part>
        return {"repos": "repositories", "sources": "snapshots", "runs": "runs", "history": "summaries"}.get(inner, "other")
    if parts[0].startswith("cluster.db"):
        return "store"
    return parts[0] if parts[0] in ("queue", "logs", "processes") else "other"
