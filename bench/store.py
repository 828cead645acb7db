"""A store of 10,000 ArenaRuns: what a pass over everything costs when nothing has changed, what a relist costs, and how much memory it takes.

    python -m bench store [--runs 10000] [--jobs 100] [--waiting 90] [--running 10]

The control plane of `arena up` (three controllers, one memory of the store) works over the embedded store in a process of its own, with a real queue
server and real repositories. Most runs have ended; `waiting` ones wait for a project without a commit, `running` ones have a snapshot, a plan, items in
the queue and a worker Job. A pass over a warm memory is every key of every controller once; it must write nothing. A relist begins with every watch
refused as compacted. Memory is the peak of the whole process. There is no peer in Python that keeps this much apart; the floor printed beside it is what
it takes only to read and decode the same objects.
Exit 1 when a bar is missed.
"""

import argparse
import asyncio
import json
import logging
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog

from bench.store_plane import ROUNDS, Bar, InterruptedWatches, Plane, Sizes, common_bars, kept, memory_mb, timed
from engine.queue.embedded import EmbeddedServer
from foundation.clock import SystemClock
from reconcile.cluster.listing import every
from reconcile.cluster.port import ARENA_RUN, CONFIG_MAP
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.kinds.admission import admit, admit_status


class InterruptedCluster(InterruptedWatches, SqliteCluster):
    """The embedded store."""


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[InterruptedCluster, None]:
    """Open the store of a folder."""
    cluster = InterruptedCluster(folder / "cluster.db", SystemClock(), admit=admit, admit_status=admit_status)
    try:
        yield cluster
    finally:
        await cluster.close()


async def fill(folder: Path, queue_url: str, sizes: Sizes) -> None:
    """Make the objects."""
    async with opened(folder) as cluster, Plane.over(cluster, folder, queue_url) as plane:
        await plane.fill(sizes)


async def measure(folder: Path, queue_url: str) -> dict[str, Any]:
    """Run the control plane over what is there, and return the figures: seconds of wall clock and CPU, megabytes."""
    async with opened(folder) as cluster, Plane.over(cluster, folder, queue_url) as plane:
        figures: dict[str, Any] = {"base_mb": memory_mb("VmRSS")}
        running = asyncio.create_task(plane.plane.run())
        try:
            figures["start"] = await timed(plane.started)
            await asyncio.sleep(5)  # what the first passes wrote is told, and looked at
            before = await _version(cluster)
            figures["warm"], figures["keys"] = await plane.warm()
            figures["writes"] = await _version(cluster) - before
            figures["relist"] = await timed(lambda: plane.relisted(cluster))
            figures["push"] = await timed(plane.pushed)
            figures["live_mb"], figures["peak_mb"] = memory_mb("VmRSS"), memory_mb("VmHWM")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return figures


async def _version(cluster: SqliteCluster) -> int:
    """Return the store's version, which every write moves."""
    return int((await cluster.list(CONFIG_MAP, "nowhere")).resource_version)


async def floor(folder: Path) -> tuple[float, float]:
    """Return wall and CPU seconds of reading and decoding every run, and nothing else."""
    async with opened(folder) as cluster:

        async def read() -> None:
            async for _ in every(cluster, ARENA_RUN):
                pass

        return await timed(read)


def report(figures: dict[str, Any], sizes: Sizes, floor_s: tuple[float, float]) -> bool:
    """Print the figures; say whether the bars are kept."""
    print(f"{sizes.runs} ArenaRuns of {sizes.jobs} ArenaJobs: {sizes.waiting} wait, {sizes.running} run; seconds of wall clock (CPU)")
    for name, (wall, cpu) in (("start: list all, first passes", figures["start"]), ("what a push concerns", figures["push"])):
        print(f"  {name:<40} {wall:6.2f} ({cpu:.2f})")
    print(f"  {'floor: read and decode the runs alone':<40} {floor_s[0]:6.2f} ({floor_s[1]:.2f})")
    print(f"  memory {figures['live_mb']:.0f} MB, before the store was read {figures['base_mb']:.0f} MB")
    return kept([*common_bars(figures), Bar(f"writes of {ROUNDS} passes", figures["writes"], 0)])


async def carry_out(folder: Path, sizes: Sizes) -> bool:
    """Fill a store and measure it, each in a process of its own; say whether the bars are kept."""
    server = EmbeddedServer(folder)
    url = await server.start()
    try:
        await _in_a_process("fill", folder, url, sizes)
        figures = json.loads(await _in_a_process("measure", folder, url, sizes))
        return report(figures, sizes, await floor(folder))
    finally:
        await server.stop()


async def _in_a_process(step: str, folder: Path, url: str, sizes: Sizes) -> bytes:
    words = [sys.executable, "-m", "bench.store", "--step", step, "--folder", str(folder), "--queue", url]
    words += [f"--{name}={getattr(sizes, name)}" for name in ("runs", "jobs", "waiting", "running")]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"error: cannot {step} the store")
    return output


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench store", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("runs", 10_000), ("jobs", 100), ("waiting", 90), ("running", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("step", "folder", "queue"):
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    sizes = Sizes(options.runs, options.jobs, options.waiting, options.running)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if options.step == "fill":
        asyncio.run(fill(Path(options.folder), options.queue, sizes))
        return 0
    if options.step == "measure":
        print(json.dumps(asyncio.run(measure(Path(options.folder), options.queue))))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="arena-store-"))
    try:
        return 0 if asyncio.run(carry_out(folder, sizes)) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
