"""Snapshot export beside `git archive | tar x`: how long a commit of 5,000 files takes, in full and again with 10 files changed.

Run: `.venv/bin/python -m bench.snapshot_export`. Every round measures each way once, in turn, in fresh directories on one file system, so that a busy
machine disturbs all alike; read the ratios of the medians. It writes below `bench/out`, on the disk of the checkout, and says which file system that is:
the bars are for ext4, where making a file costs something; on tmpfs a ratio shows the method alone. `git archive | tar x` is neither durable, verified nor byte-exact; the second peer adds
`sync -f`, as our export is durable when it returns. Exits with 1 when a bar is missed.
"""

import argparse
import asyncio
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from gitops.content import ContentVolume, ProjectKey
from gitops.snapshot_disk import remove_tree
from gitops.snapshots import Snapshot, Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = ProjectKey("bench", "bundle")
CHANGED_FILES = 10
SCRATCH = Path(__file__).parent / "out"
FULL_BAR = 2.0  # of `git archive | tar x`
AGAIN_BAR = 0.6  # of our own full export


@dataclass(frozen=True)
class Bench:
    """A repository with two commits, the second with a few files changed, and a place to export to."""

    scratch: Path
    repository: Path
    first: str
    second: str

    def archive(self, *, durable: bool) -> float:
        """Time `git archive | tar x` of the first commit."""
        target = self.scratch / "archive"
        target.mkdir()
        started = time.perf_counter()
        with subprocess.Popen(["git", "-C", str(self.repository), "archive", self.first], stdout=subprocess.PIPE) as archive:
            subprocess.run(["tar", "x", "-C", str(target)], stdin=archive.stdout, check=True)
        if durable:
            subprocess.run(["sync", "-f", str(target)], check=True)
        taken = time.perf_counter() - started
        shutil.rmtree(target)
        return taken

    def export(self) -> tuple[float, float, Snapshot]:
        """Time a full export of the first commit, then the export of the second; return both and the second snapshot."""
        volume = ContentVolume(self.scratch / "volume")
        volume.repository(PROJECT).parent.mkdir(parents=True)
        volume.repository(PROJECT).symlink_to(self.repository)
        try:
            return asyncio.run(_export_twice(Snapshots(volume), self.first, self.second))
        finally:
            remove_tree(volume.root)


async def _export_twice(snapshots: Snapshots, first: str, second: str) -> tuple[float, float, Snapshot]:
    started = time.perf_counter()
    await snapshots.export(PROJECT, first)
    between = time.perf_counter()
    snapshot = await snapshots.export(PROJECT, second)
    return between - started, time.perf_counter() - between, snapshot


def make_repository(path: Path, files: int, object_format: str) -> tuple[str, str]:
    """Make a packed repository of small YAML files in 200 directories; return its two commits."""
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", f"--object-format={object_format}", str(path)], check=True)
    randomness = random.Random(3)  # noqa: S311 - file contents
    lines = [b"commit refs/heads/main\ncommitter bench <b@example.com> 1700000000 +0000\ndata 5\nfirst\n"]
    lines.extend(_file(number, _yaml(randomness)) for number in range(files))
    lines.append(b"commit refs/heads/main\ncommitter bench <b@example.com> 1700000001 +0000\ndata 6\nsecond\n")
    lines.extend(_file(number * (files // CHANGED_FILES), b"changed: %d\n" % number) for number in range(CHANGED_FILES))
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet"], input=b"".join(lines), check=True)
    subprocess.run(["git", "-C", str(path), "repack", "-adq"], check=True)
    commits = subprocess.run(["git", "-C", str(path), "rev-list", "main"], check=True, capture_output=True, text=True).stdout.split()
    return commits[1], commits[0]


def _yaml(randomness: random.Random) -> bytes:
    return b"".join(b"key%d: %016x\n" % (row, randomness.getrandbits(64)) for row in range(randomness.randint(10, 80)))


def _file(number: int, content: bytes) -> bytes:
    path = b"area%02d/group%d/file%05d.yaml" % (number % 40, number // 40 % 5, number)
    return b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(content), content)


def main() -> int:
    """Measure, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--object-format", choices=["sha1", "sha256"], default="sha1")
    parser.add_argument("--directory", type=Path, default=SCRATCH, help="where to write (default: bench/out)")
    arguments = parser.parse_args()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    arguments.directory.mkdir(parents=True, exist_ok=True)
    print(f"in {arguments.directory.resolve()} on {file_system_of(arguments.directory)}")
    with tempfile.TemporaryDirectory(prefix="snapshot-export-", dir=arguments.directory) as scratch:
        repository = Path(scratch) / "repository.git"
        first, second = make_repository(repository, arguments.files, arguments.object_format)
        times, snapshot = measure(Bench(Path(scratch), repository, first, second), arguments.rounds)
    return report(times, snapshot)


def file_system_of(directory: Path) -> str:
    """Return the type of the file system that holds a directory: of the mounts above it, the longest; the last of equal ones lies on top.

    Source: proc(5), /proc/self/mounts.
    """
    place = directory.resolve()
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
    above = [(len(Path(mount).parts), number, kind) for number, (_, mount, kind, *_) in enumerate(mounts) if place.is_relative_to(mount)]
    return max(above)[2]


def measure(bench: Bench, rounds: int) -> tuple[dict[str, list[float]], Snapshot]:
    """Run every way once a round, after one round that is not counted; return the seconds of each and the last snapshot."""
    times: dict[str, list[float]] = {}
    peers: dict[str, Callable[[], float]] = {
        "git archive | tar x": lambda: bench.archive(durable=False),
        "git archive | tar x, sync -f": lambda: bench.archive(durable=True),
    }
    for number in range(rounds + 1):
        measured = {name: run() for name, run in peers.items()}
        measured["export, full"], measured["export, 10 files changed"], snapshot = bench.export()
        for name, seconds in measured.items() if number else ():
            times.setdefault(name, []).append(seconds)
    return times, snapshot


def report(times: dict[str, list[float]], snapshot: Snapshot) -> int:
    """Print medians, minima and ratios; return 0 when the bars are kept."""
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    peer = medians["git archive | tar x"]
    print(f"{snapshot.files} files, {snapshot.bytes / 1e6:.1f} MB; {len(times['export, full'])} rounds")
    for name, median in medians.items():
        print(f"{name:30} median {median * 1000:7.0f} ms   min {min(times[name]) * 1000:7.0f} ms   {median / peer:5.2f} of git archive | tar x")
    full, again = medians["export, full"] / peer, medians["export, 10 files changed"] / medians["export, full"]
    bars = [
        (full <= FULL_BAR, f"full export of git archive | tar x: {full:.2f} (at most {FULL_BAR})"),
        (again <= AGAIN_BAR, f"{CHANGED_FILES} changed of full export: {again:.2f} (at most {AGAIN_BAR})"),
        (snapshot.written == CHANGED_FILES, f"files written of {CHANGED_FILES} changed: {snapshot.written} (exactly {CHANGED_FILES})"),
    ]
    for kept, words in bars:
        print(f"{'ok    ' if kept else 'MISSED'} {words}")
    return 0 if all(kept for kept, _ in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
