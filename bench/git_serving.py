"""Clone, fetch and push beside nginx with git http-backend: server CPU, time and memory, small and at 200 MB, one client and 64.

    python -m bench git_serving [--rounds 7] [--big-rounds 3]

Both servers have the same repositories and the same settings of git (fsck on receive, fsync of everything, one pack thread), stand in cgroups of their
own, and take turns inside every round, so that a busy machine disturbs both alike. Server CPU is the cgroup's: fcgiwrap reaps no child, so times by
process would flatter nginx. The peer is tuned in its favour: request and response buffering to disk are off. It checks no tree, no size and no ref
policy; ours does, and its price is in the pushes. Client CPU is in no figure. Bars: CPU of ours to the peer's, by the smaller of the ratio of medians
and the ratio of minima; and the peak memory of our server, which must not grow with packs. Exit 1 when a bar is missed. Needs Linux, nginx, fcgiwrap
and a cgroup that it may make (as root, or within `systemd-run --user --scope -p Delegate=yes`).
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.git_servers import Peer, Product, Server, ServerFailed, git

SMALL_BAR, BIG_BAR = 1.5, 1.0
RSS_BAR_MIB = 20.0
BATCH = 5
"""How many times a small operation is done between two looks at the clock and the cgroup."""

Operation = Callable[[Server, Path], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One row: what a client does with a repository. `prepare` is not measured; `times` is how often it is done in one measurement."""

    name: str
    bar: float
    run: Operation
    prepare: Operation | None = None
    times: int = 1


@dataclass(slots=True)
class Figures:
    """What one server took for one case, a measurement each: seconds of its CPU and of the clock, for one operation."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def make_small(path: Path) -> None:
    """Make a bare repository of 200 files and 300 commits; `main~1` is what a fetch of one commit starts from."""
    git("init", "-q", "--bare", "-b", "main", str(path))
    lines = []
    for number in range(300):
        lines.append(f"commit refs/heads/main\ncommitter bench <b@example.com> {1_700_000_000 + number} +0000\ndata 1\nx\n")
        for at in range(200) if number == 0 else (number % 200, number * 7 % 200):
            text = f"key: {number}-{at}\n" * (10 + at % 50)
            lines.append(f"M 100644 inline area{at % 20}/file{at}.yaml\ndata {len(text)}\n{text}\n")
    _import(path, "".join(lines).encode())


def make_big(path: Path, files: int = 20, size_bytes: int = 10_000_000) -> None:
    """Make a bare repository of random files, and a second commit of a small one."""
    git("init", "-q", "--bare", "-b", "main", str(path))
    for key, value in (("core.compression", "0"), ("core.bigFileThreshold", "1m")):
        git("-C", str(path), "config", key, value)
    parts = [b"commit refs/heads/main\ncommitter bench <b@example.com> 1700000000 +0000\ndata 1\nx\n"]
    parts.extend(b"M 100644 inline noise%d.bin\ndata %d\n%s\n" % (number, size_bytes, os.urandom(size_bytes)) for number in range(files))
    parts.append(b"commit refs/heads/main\ncommitter bench <b@example.com> 1700000001 +0000\ndata 1\nx\nM 100644 inline a.txt\ndata 2\na\n\n")
    _import(path, b"".join(parts))


def _import(path: Path, stream: bytes) -> None:
    git("-C", str(path), "fast-import", "--quiet", stdin=stream)
    git("-C", str(path), "repack", "-adq")


class Repository:
    """One repository under trial: where clients push it from, and what they fetch into."""

    def __init__(self, name: str, source: Path, scratch: Path) -> None:
        self.name = name
        self._source = source
        self._behind = scratch / f"{name}-behind.git"
        self._chain = _make_chain(source, length=400)
        self._pushed: Counter[str] = Counter()
        git("init", "-q", "--bare", "-b", "main", str(self._behind))
        git("-C", str(source), "branch", "behind", "main~1")
        git("-C", str(self._behind), "-c", "fetch.unpackLimit=1", "fetch", "-q", f"file://{source}", "behind:refs/heads/main")

    def install(self, server: Server) -> None:
        """Give a server its copies: one to read, one to push single commits to."""
        for name in (self.name, f"{self.name}-pushed"):
            server.create(name)
            git("-C", str(server.repository(name)), "-c", "fetch.unpackLimit=1", "fetch", "-q", f"file://{self._source}", "main:refs/heads/main")
            git("-C", str(server.repository(name)), "repack", "-adq")

    def clone(self, server: Server, target: Path) -> None:
        """Clone all of it."""
        git("clone", "-q", "--bare", server.url(self.name), str(target))

    def clone_many(self, clients: int) -> Operation:
        """Return what clones it with so many clients at once."""

        def run(server: Server, target: Path) -> None:
            with ThreadPoolExecutor(clients) as pool:
                list(pool.map(lambda number: self.clone(server, target / str(number)), range(clients)))

        return run

    def prepare_fetch(self, _: Server, target: Path) -> None:
        """Make a clone that lacks the newest commit."""
        shutil.copytree(self._behind, target)

    def fetch(self, server: Server, target: Path) -> None:
        """Fetch the newest commit."""
        git("-C", str(target), "fetch", "-q", server.url(self.name), "+refs/heads/main:refs/heads/main")

    def push_one(self, server: Server, _: Path) -> None:
        """Push one more commit, on top of all that was pushed."""
        commit = self._chain[self._pushed[server.name]]
        self._pushed[server.name] += 1
        git("-C", str(self._source), "push", "-q", server.url(f"{self.name}-pushed"), f"{commit}:refs/heads/main")

    def prepare_push(self, server: Server, _: Path) -> None:
        """Empty the repository that a whole push goes to."""
        server.create(f"{self.name}-target")

    def push_all(self, server: Server, _: Path) -> None:
        """Push all of it."""
        git("-C", str(self._source), "push", "-q", server.url(f"{self.name}-target"), "main:refs/heads/main")


def _make_chain(source: Path, *, length: int) -> list[str]:
    """Grow commits on top of main, each with one changed file, and return them, oldest first."""
    lines = ["reset refs/heads/next\nfrom refs/heads/main\n\n"]
    for number in range(length):
        lines.append(f"commit refs/heads/next\ncommitter bench <b@example.com> {1_800_000_000 + number} +0000\ndata 1\nx\n")
        text = f"pushed: {number}\n" * 20
        lines.append(f"M 100644 inline area1/pushed.yaml\ndata {len(text)}\n{text}\n")
    git("-C", str(source), "fast-import", "--quiet", stdin="".join(lines).encode())
    return git("-C", str(source), "rev-list", "--reverse", "main..next").split()


def small_cases(repository: Repository) -> list[Case]:
    """Return the rows of a small repository."""
    return [
        Case("clone", SMALL_BAR, repository.clone, times=BATCH),
        Case("fetch of one commit", SMALL_BAR, repository.fetch, repository.prepare_fetch, times=BATCH),
        Case("push of one commit", SMALL_BAR, repository.push_one, times=BATCH),
        Case("push of everything", SMALL_BAR, repository.push_all, repository.prepare_push),
        Case("8 clones at once", SMALL_BAR, repository.clone_many(8)),
        Case("64 clones at once", SMALL_BAR, repository.clone_many(64)),
    ]


def big_cases(repository: Repository) -> list[Case]:
    """Return the rows of the large one."""
    return [
        Case("clone", BIG_BAR, repository.clone),
        Case("fetch of one commit", SMALL_BAR, repository.fetch, repository.prepare_fetch),
        Case("push of everything", BIG_BAR, repository.push_all, repository.prepare_push),
        Case("8 clones at once", BIG_BAR, repository.clone_many(8)),
    ]


def measure(server: Server, case: Case, scratch: Path) -> tuple[float, float]:
    """Do a case once; return the CPU seconds of the server and those of the clock, for one operation."""
    targets = [scratch / f"client{number}" for number in range(case.times)]
    try:
        for target in targets:
            if case.prepare is not None:
                case.prepare(server, target)
        server.rest()
        cpu, started = server.cpu_s(), time.perf_counter()
        for target in targets:
            case.run(server, target)
        wall = time.perf_counter() - started
        server.rest()
        return (server.cpu_s() - cpu) / case.times, wall / case.times
    finally:
        for target in targets:
            shutil.rmtree(target, ignore_errors=True)


def compare(servers: Sequence[Server], cases: Sequence[Case], rounds: int, scratch: Path) -> dict[str, dict[str, Figures]]:
    """Run every case once a round on each server in turn, after one round that is not counted; return the figures by case and server."""
    figures = {case.name: {server.name: Figures() for server in servers} for case in cases}
    for number in range(rounds + 1):
        for case in cases:
            for server in servers if number % 2 else reversed(servers):
                cpu, wall = measure(server, case, scratch)
                if number:
                    figures[case.name][server.name].cpu.append(cpu)
                    figures[case.name][server.name].wall.append(wall)
    return figures


def report(title: str, cases: Sequence[Case], figures: dict[str, dict[str, Figures]]) -> list[tuple[str, float, float]]:
    """Print a table; return (what, ratio, bar) of each row."""
    print(f"\n{title}")
    print(
        f"{'milliseconds of one operation':<30} {'CPU ours':>9} {'min':>7} {'CPU peer':>9} {'min':>7} {'ratio':>6} {'of min':>6}   {'wall ours':>9} {'peer':>7}"
    )
    bars = []
    for case in cases:
        ours, peer = figures[case.name][Product.name], figures[case.name][Peer.name]
        medians = [1000 * statistics.median(values) for values in (ours.cpu, peer.cpu, ours.wall, peer.wall)]
        least = 1000 * min(ours.cpu), 1000 * min(peer.cpu)
        ratio, of_min = medians[0] / medians[1], least[0] / least[1]
        print(
            f"{case.name:<30} {medians[0]:>9.1f} {least[0]:>7.1f} {medians[1]:>9.1f} {least[1]:>7.1f} {ratio:>6.2f} {of_min:>6.2f}"
            f"   {medians[2]:>9.1f} {medians[3]:>7.1f}"
        )
        bars.append((f"server CPU, {title.partition(':')[0]}, {case.name}", min(ratio, of_min), case.bar))
    return bars


def carry_out(folder: Path, options: argparse.Namespace) -> bool:
    """Do the whole bench in `folder`; say whether the bars are kept."""
    client = folder / "client"
    client.mkdir()
    make_small(folder / "small.git")
    small = Repository("small", folder / "small.git", folder)
    with Product(folder) as product, Peer(folder) as peer:
        servers = (product, peer)
        print(f"CPU by {product.account}; {options.rounds} rounds small, {options.big_rounds} big; load {os.getloadavg()[0]:.1f}")
        for server in servers:
            small.install(server)
        cases = small_cases(small)
        bars = report("small: 200 files, 300 commits", cases, compare(servers, cases, options.rounds, client))
        before = product.peak_mib()
        if options.big_rounds:
            make_big(folder / "big.git")
            big = Repository("big", folder / "big.git", folder)
            for server in servers:
                big.install(server)
            cases = big_cases(big)
            bars += report("200 MB: 20 files of 10 MB", cases, compare(servers, cases, options.big_rounds, client))
        after = product.peak_mib()
    print(f"\npeak memory of our server process: {before:.0f} MiB after the small operations, {after:.0f} MiB after all")
    bars.append(("growth of its peak memory, MiB", after - before, RSS_BAR_MIB))
    for name, value, bar in bars:
        print(f"{'ok    ' if value <= bar else 'MISSED'} {name}: {value:.2f} (at most {bar})")
    return all(value <= bar for _, value, bar in bars)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench git_serving", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--big-rounds", type=int, default=3, help="0 leaves the large repository out")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="arena-git-"))
    try:
        return 0 if carry_out(folder, options) else 1
    except ServerFailed as error:
        print(f"error: {error}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
