"""The control plane that the benches of the stores measure: over any store, with a real queue and real repositories.

Owns how the objects come to be, and how passes, listings and memory are measured. Must not know which store it is.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

from bench.mock_bundle import bundle
from bench.store_objects import EMPTY, NAMESPACE, READY, evaluation, make_ended_run, make_waiting_run, named
from engine.queue.redis import RedisWorkQueue
from foundation.clock import SystemClock
from gitops.content import ContentVolume
from gitops.mirrors import Mirrors
from gitops.repositories import Repositories
from gitops.snapshots import Snapshots
from reconcile.cluster.listing import every
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, CONFIG_MAP, Cluster, Labels, Listing, ObjectKey, ResourceKind, WatchEvent
from reconcile.control_plane import ControlPlane, Reconcilers
from reconcile.errors import Gone
from reconcile.job import JobReconciler
from reconcile.kinds.names import REQUESTED_SYNC
from reconcile.project import ProjectReconciler, ProjectWorld
from reconcile.run import RunReconciler, RunWorld
from reconcile.sync_requests import SyncRequests
from reconcile.worker_job import ClusterPods

WARM_BAR_S, RELIST_BAR_S, MEMORY_BAR_MB = 1.0, 5.0, 120.0
ROUNDS = 5
INSTALLATION = "bench"
BATCH = 500


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much there is: `runs` altogether, of which so many wait and run."""

    runs: int
    jobs: int
    waiting: int
    running: int


class InterruptedWatches:
    """A store, to be put before its class, whose watches can be refused as a store refuses them that has compacted its log.

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
        async for page in super().pages(kind, namespace):  # type: ignore[misc]
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
            async with aclosing(super().watch(kind, namespace, resource_version, labels=labels)) as events:  # type: ignore[misc]
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
class Plane:
    """One control plane over a store, with what belongs to it in a folder. The store is the caller's to close."""

    cluster: Cluster
    plane: ControlPlane

    @classmethod
    @asynccontextmanager
    async def over(cls, cluster: Cluster, folder: Path, queue_url: str, pods: ClusterPods | None = None) -> AsyncGenerator[Self, None]:
        """Put the control plane together as `arena up`, or with `pods` as a controller in a cluster does."""
        clock = SystemClock()
        async with AsyncExitStack() as stack:
            queue = RedisWorkQueue(queue_url, installation=INSTALLATION)
            stack.push_async_callback(queue.close)
            volume = ContentVolume(folder / "content")
            repositories, snapshots = Repositories(volume, clock), Snapshots(volume, clock)
            mirrors = Mirrors(repositories, clock)
            stack.callback(mirrors.close)
            syncs = SyncRequests(cluster)
            runs = RunWorld(
                repositories,
                snapshots,
                mirrors,
                syncs,
                volume,
                queue,
                image="arena:bench",
                installation=INSTALLATION,
                pods=pods,
                users=queue.users(queue_url) if pods else None,
            )
            project = ProjectReconciler(ProjectWorld(repositories, snapshots, mirrors, "http://bench/git"))
            yield cls(cluster, ControlPlane(cluster, Reconcilers(project, JobReconciler(repositories, volume), RunReconciler(runs)), clock))

    async def idle(self) -> None:
        """Wait until nothing waits for a pass."""
        await until(lambda: self.plane.is_idle)

    async def started(self) -> None:
        """Wait until every kind is listed, and what was found has been looked at."""
        await self.plane.informers.synced()
        await self.idle()

    def enqueue_all(self) -> int:
        """Ask every controller for a pass over each of its keys; return how many."""
        count = 0
        for kind, controller in self.plane.controllers.items():
            for key in self.plane.informers.all_keys(kind):
                controller.enqueue(key)
                count += 1
        return count

    async def warm(self) -> tuple[list[tuple[float, float]], int]:
        """Do some passes over everything; return what each took, and its keys."""
        rounds, keys = [], 0
        for _ in range(ROUNDS):
            keys = self.enqueue_all()
            rounds.append(await timed(self.idle))
        return rounds, keys

    async def relisted(self, watches: InterruptedWatches) -> None:
        """Refuse every watch, and wait until every kind was listed anew and what was found was looked at."""
        wanted = watches.listings + watches.interrupt()
        await until(lambda: watches.listings >= wanted)
        await self.idle()

    async def pushed(self) -> None:
        """Stamp the project as a push does, and let all be looked at that this concerns."""
        await self.cluster.patch(ARENA_PROJECT, NAMESPACE, READY, {"metadata": {"annotations": {REQUESTED_SYNC: "bench"}}})
        await asyncio.sleep(0.01)
        await self.idle()

    async def fill(self, sizes: Sizes) -> None:
        """Make the objects: what lives through the controllers themselves, what has ended as they would have left it."""
        cluster, controllers = self.cluster, self.plane.controllers
        data = {path.replace("/", "__"): text for path, text in bundle(scenarios=2, trials=2).items()}
        await cluster.create({**named(CONFIG_MAP, "starter"), "data": data})
        await cluster.create({**named(ARENA_PROJECT, READY), "spec": {"hosted": {"seed": {"configMap": {"name": "starter"}}}}})
        await cluster.create({**named(ARENA_PROJECT, EMPTY), "spec": {"hosted": {}}})
        jobs: list[Any] = []
        await _at_once(partial(_keep, jobs, cluster.create(evaluation(n, EMPTY if n >= sizes.jobs * 9 // 10 else READY))) for n in range(sizes.jobs))
        jobs.sort(key=lambda job: str(job["metadata"]["name"]))
        looks = [(ARENA_PROJECT, READY), (ARENA_PROJECT, EMPTY), *((ARENA_JOB, job["metadata"]["name"]) for job in jobs[: sizes.running])]
        for kind, name in looks:
            await controllers[kind].pass_over(ObjectKey(NAMESPACE, name))
        idle = [job for job in jobs if job["spec"]["sourceRef"]["name"] == EMPTY]
        await _at_once(partial(make_waiting_run, cluster, idle[n % len(idle)], n) for n in range(sizes.waiting))
        for _ in range(3):
            async for run in every(cluster, ARENA_RUN):
                await controllers[ARENA_RUN].pass_over(ObjectKey.of(run))
        commit = (await cluster.get(ARENA_PROJECT, NAMESPACE, READY))["status"]["head"]["commit"]
        ended = sizes.runs - sizes.waiting - sizes.running
        await _at_once(partial(make_ended_run, cluster, jobs[n % sizes.jobs], n, commit) for n in range(ended))
        await _at_once(partial(controllers[ARENA_JOB].pass_over, ObjectKey.of(job)) for job in jobs)


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure, and the most that it may be."""

    name: str
    value: float
    most: float
    unit: str = ""


def kept(bars: Iterable[Bar]) -> bool:
    """Print each bar; say whether all are kept."""
    is_kept = True
    for bar in bars:
        is_kept &= bar.value <= bar.most
        print(f"{'ok    ' if bar.value <= bar.most else 'MISSED'} {bar.name}: {bar.value:.2f} {bar.unit} (at most {bar.most:g})")
    return is_kept


def common_bars(figures: dict[str, Any]) -> list[Bar]:
    """Return the bars that every store has: warm passes, relist, memory."""
    warm, cpu = (statistics.median(taken) for taken in zip(*figures["warm"], strict=True))
    return [
        Bar(f"pass over a warm memory, {figures['keys']} keys, median of {ROUNDS} ({cpu:.2f} CPU)", warm, WARM_BAR_S, "s"),
        Bar(f"relist of every kind ({figures['relist'][1]:.2f} CPU)", figures["relist"][0], RELIST_BAR_S, "s"),
        Bar("peak memory of the process", figures["peak_mb"], MEMORY_BAR_MB, "MB"),
    ]


async def _keep(into: list[Any], write: Awaitable[Any]) -> None:
    into.append(await write)


async def _at_once(writes: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Do many writes, some hundreds at once, so that they share the store's commits or connections."""
    for batch in _batched(writes):
        await asyncio.gather(*(write() for write in batch))


def _batched(writes: Iterable[Callable[[], Awaitable[object]]]) -> Iterator[Sequence[Callable[[], Awaitable[object]]]]:
    rest = iter(writes)
    while portion := tuple(islice(rest, BATCH)):
        yield portion


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds of which the product tells nobody."""
    while not holds():  # noqa: ASYNC110 - see above
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
