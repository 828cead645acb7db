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
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import structlog

from bench.mock_bundle import bundle
from bench.store_objects import EMPTY, NAMESPACE, READY, evaluation, make_ended_run, make_waiting_run, named
from engine.queue.embedded import EmbeddedServer
from engine.queue.redis import RedisWorkQueue
from foundation.clock import SystemClock
from gitops.content import ContentVolume
from gitops.mirrors import Mirrors
from gitops.repositories import Repositories
from gitops.snapshots import Snapshots
from reconcile.cluster.listing import every
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, CONFIG_MAP, Labels, Listing, ObjectKey, ResourceKind, WatchEvent
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.control_plane import ControlPlane, Reconcilers
from reconcile.errors import Gone
from reconcile.job import JobReconciler
from reconcile.kinds.admission import admit, admit_status
from reconcile.kinds.names import REQUESTED_SYNC
from reconcile.project import ProjectReconciler, ProjectWorld
from reconcile.run import RunReconciler, RunWorld
from reconcile.sync_requests import SyncRequests

WARM_BAR_S, RELIST_BAR_S, MEMORY_BAR_MB = 1.0, 5.0, 120.0
ROUNDS = 5
BATCH = 500


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much there is: `runs` altogether, of which so many wait and run."""

    runs: int
    jobs: int
    waiting: int
    running: int


class InterruptedCluster(SqliteCluster):
    """The embedded store, whose watches can be refused as a store refuses them that has compacted its log.

    `listings` counts the long listings that were read to their end.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.listings = 0
        self._interruptions: set[asyncio.Event] = set()

    def interrupt(self) -> int:
        """Refuse every watch that is open; return how many."""
        for interruption in self._interruptions:
            interruption.set()
        return len(self._interruptions)

    async def pages(self, kind: ResourceKind, namespace: str | None = None) -> AsyncGenerator[Listing, None]:
        """Yield the pages, and count the listing at its end."""
        async for page in super().pages(kind, namespace):
            yield page
        self.listings += 1

    async def watch(
        self, kind: ResourceKind, namespace: str | None, resource_version: str, *, labels: Labels | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """Watch until interrupted."""
        interruption = asyncio.Event()
        self._interruptions.add(interruption)
        waiting = asyncio.ensure_future(interruption.wait())
        try:
            async with aclosing(super().watch(kind, namespace, resource_version, labels=labels)) as events:
                while True:
                    event = asyncio.ensure_future(anext(events, None))
                    await asyncio.wait({event, waiting}, return_when=asyncio.FIRST_COMPLETED)
                    if not event.done():
                        event.cancel()
                        await asyncio.gather(event, return_exceptions=True)
                        raise Gone("cannot watch: the log has been compacted")
                    found = event.result()
                    if found is None:
                        return  # the store has been closed
                    yield found
        finally:
            waiting.cancel()
            self._interruptions.discard(interruption)


@dataclass(frozen=True, slots=True)
class Bench:
    """One control plane over the store of a folder."""

    cluster: InterruptedCluster
    plane: ControlPlane

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path, queue_url: str) -> "AsyncGenerator[Bench, None]":
        """Open the store and put the control plane together as `arena up` does."""
        clock = SystemClock()
        async with AsyncExitStack() as stack:
            cluster = InterruptedCluster(folder / "cluster.db", clock, admit=admit, admit_status=admit_status)
            stack.push_async_callback(cluster.close)
            queue = RedisWorkQueue(queue_url, installation="bench")
            stack.push_async_callback(queue.close)
            volume = ContentVolume(folder / "content")
            repositories, snapshots = Repositories(volume, clock), Snapshots(volume, clock)
            mirrors = Mirrors(repositories, clock)
            stack.callback(mirrors.close)
            runs = RunWorld(repositories, snapshots, mirrors, SyncRequests(cluster), volume, queue, image="arena:bench", installation="bench")
            project = ProjectReconciler(ProjectWorld(repositories, snapshots, mirrors, "http://bench/git"))
            yield cls(cluster, ControlPlane(cluster, Reconcilers(project, JobReconciler(repositories, volume), RunReconciler(runs)), clock))

    async def idle(self) -> None:
        """Wait until nothing waits for a pass."""
        await _until(lambda: self.plane.is_idle)

    def enqueue_all(self) -> int:
        """Ask every controller for a pass over each of its keys; return how many."""
        count = 0
        for kind, controller in self.plane.controllers.items():
            for key in self.plane.informers.all_keys(kind):
                controller.enqueue(key)
                count += 1
        return count

    async def version(self) -> str:
        """Return the store's version, which every write moves."""
        return (await self.cluster.list(CONFIG_MAP, "nowhere")).resource_version


async def fill(folder: Path, queue_url: str, sizes: Sizes) -> None:
    """Make the objects: what lives through the controllers themselves, what has ended as they would have left it."""
    async with Bench.open(folder, queue_url) as bench:
        cluster = bench.cluster
        data = {path.replace("/", "__"): text for path, text in bundle(scenarios=2, trials=2).items()}
        await cluster.create({**named(CONFIG_MAP, "starter"), "data": data})
        await cluster.create({**named(ARENA_PROJECT, READY), "spec": {"hosted": {"seed": {"configMap": {"name": "starter"}}}}})
        await cluster.create({**named(ARENA_PROJECT, EMPTY), "spec": {"hosted": {}}})
        jobs = [await cluster.create(evaluation(number, EMPTY if number >= sizes.jobs * 9 // 10 else READY)) for number in range(sizes.jobs)]
        looks = [(ARENA_PROJECT, READY), (ARENA_PROJECT, EMPTY), *((ARENA_JOB, job["metadata"]["name"]) for job in jobs[: sizes.running])]
        for kind, name in looks:
            await bench.plane.controllers[kind].pass_over(ObjectKey(NAMESPACE, name))
        idle = [job for job in jobs if job["spec"]["sourceRef"]["name"] == EMPTY]
        await _at_once(partial(make_waiting_run, cluster, idle[n % len(idle)], n) for n in range(sizes.waiting))
        for _ in range(3):
            async for run in every(cluster, ARENA_RUN):
                await bench.plane.controllers[ARENA_RUN].pass_over(ObjectKey.of(run))
        commit = (await cluster.get(ARENA_PROJECT, NAMESPACE, READY))["status"]["head"]["commit"]
        ended = sizes.runs - sizes.waiting - sizes.running
        await _at_once(partial(make_ended_run, cluster, jobs[n % sizes.jobs], n, commit) for n in range(ended))
        for job in jobs:
            await bench.plane.controllers[ARENA_JOB].pass_over(ObjectKey.of(job))


async def measure(folder: Path, queue_url: str) -> dict[str, Any]:
    """Run the control plane over what is there, and return the figures: seconds of wall clock and CPU, megabytes."""
    async with Bench.open(folder, queue_url) as bench:
        figures: dict[str, Any] = {"base_mb": memory_mb("VmRSS")}
        running = asyncio.create_task(bench.plane.run())
        try:
            figures["start"] = await timed(lambda: _started(bench))
            await asyncio.sleep(5)  # what the first passes wrote is told, and looked at
            figures["warm"], figures["keys"], figures["writes"] = await _warm(bench)
            figures["relist"] = await timed(lambda: _relisted(bench))
            figures["push"] = await timed(lambda: _pushed(bench))
            figures["live_mb"], figures["peak_mb"] = memory_mb("VmRSS"), memory_mb("VmHWM")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return figures


async def floor(folder: Path) -> tuple[float, float]:
    """Return wall and CPU seconds of reading and decoding every run, and nothing else."""
    cluster = SqliteCluster(folder / "cluster.db", SystemClock())

    async def read() -> None:
        async for _ in every(cluster, ARENA_RUN):
            pass

    try:
        return await timed(read)
    finally:
        await cluster.close()


async def _started(bench: Bench) -> None:
    await bench.plane.informers.synced()
    await bench.idle()


async def _warm(bench: Bench) -> tuple[list[tuple[float, float]], int, int]:
    """Do some passes over everything; return what each took, its keys, and how many writes there were altogether."""
    before, rounds, keys = await bench.version(), [], 0
    for _ in range(ROUNDS):
        keys = bench.enqueue_all()
        rounds.append(await timed(bench.idle))
    return rounds, keys, int(await bench.version()) - int(before)


async def _relisted(bench: Bench) -> None:
    """Refuse every watch, and wait until every kind was listed anew and what was found was looked at."""
    wanted = bench.cluster.listings + bench.cluster.interrupt()
    await _until(lambda: bench.cluster.listings >= wanted)
    await bench.idle()


async def _pushed(bench: Bench) -> None:
    """Stamp the project as a push does, and let all be looked at that this concerns."""
    await bench.cluster.patch(ARENA_PROJECT, NAMESPACE, READY, {"metadata": {"annotations": {REQUESTED_SYNC: "bench"}}})
    await asyncio.sleep(0.01)
    await bench.idle()


async def _at_once(writes: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Do many writes, some hundreds at once, so that they share the store's commits."""
    for batch in batched(writes):
        await asyncio.gather(*(write() for write in batch))


def batched(writes: Iterable[Callable[[], Awaitable[object]]]) -> Iterator[Sequence[Callable[[], Awaitable[object]]]]:
    """Yield the writes in portions."""
    rest = iter(writes)
    while portion := tuple(islice(rest, BATCH)):
        yield portion


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - the product tells nobody when it has nothing to do
        await asyncio.sleep(0.001)


async def timed(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return seconds of wall clock and of CPU that some work took."""
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return time.perf_counter() - wall, time.process_time() - cpu


def memory_mb(field: str) -> float:
    """Return a memory figure of this process from /proc."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(f"{field}:"))


def report(figures: dict[str, Any], sizes: Sizes, floor_s: tuple[float, float]) -> bool:
    """Print the figures; say whether the bars are kept."""
    print(f"{sizes.runs} ArenaRuns of {sizes.jobs} ArenaJobs: {sizes.waiting} wait, {sizes.running} run; seconds of wall clock (CPU)")
    for name, (wall, cpu) in (("start: list all, first passes", figures["start"]), ("what a push concerns", figures["push"])):
        print(f"  {name:<40} {wall:6.2f} ({cpu:.2f})")
    print(f"  {'floor: read and decode the runs alone':<40} {floor_s[0]:6.2f} ({floor_s[1]:.2f})")
    print(f"  memory {figures['live_mb']:.0f} MB, before the store was read {figures['base_mb']:.0f} MB")
    warm = statistics.median(wall for wall, _ in figures["warm"])
    cpu = statistics.median(cpu for _, cpu in figures["warm"])
    bars = [
        (f"pass over a warm memory, {figures['keys']} keys, median of {ROUNDS} ({cpu:.2f} CPU)", warm, WARM_BAR_S, "s"),
        (f"relist of every kind ({figures['relist'][1]:.2f} CPU)", figures["relist"][0], RELIST_BAR_S, "s"),
        ("peak memory of the process", figures["peak_mb"], MEMORY_BAR_MB, "MB"),
        (f"writes of {ROUNDS} passes", figures["writes"], 0, ""),
    ]
    for name, value, bar, unit in bars:
        print(f"{'ok    ' if value <= bar else 'MISSED'} {name}: {value:.2f} {unit} (at most {bar:g})")
    return all(value <= bar for _, value, bar, _ in bars)


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
