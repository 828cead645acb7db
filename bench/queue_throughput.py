"""Items a second of the work queue by the server's CPU time, beside arq and dramatiq: lease + complete with record, totals, cell and sketch counters.

    python -m bench queue_throughput [--items 20000] [--peer-items 4000] [--repeat 5] [--only NAME]

Each queue has a server of its own, started as `arena up` starts it, with the append-only file on. Queues take turns, `--repeat` passes each. Of a
queue's passes the best counts, for all alike: a neighbour on the machine can only add to CPU time (caches, shared cores); medians are printed too. Ours
leases and completes in batches with one client, which comes as the user of its run, as workers do; a peer has as many jobs in flight, and keeps a
result as large as our record, but no sums. Putting is not measured. Peers install themselves into bench/out/; one that cannot be had is named and left
out. Exit 1 when a bar is missed: items a second of server CPU at batch 10 and at batch 100.
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import redis.asyncio
import structlog

from bench.peers.installing import obtainable
from bench.peers.measure import CommandFailed
from bench.peers.queues import QueuePeer, arq, dramatiq
from engine.items import RunUID, Scope, Usage, Verdict
from engine.outcomes import CheckOutcome, Outcome
from engine.queue.embedded import EmbeddedServer
from engine.queue.port import Lease, RunMeta
from engine.queue.redis import RedisWorkQueue
from engine.records import Record

BARS = {10: 15_000, 100: 30_000}
PUT_CHUNK = 500
LEASE_S = 30.0
AT = datetime(2026, 1, 1, tzinfo=UTC)
SCENARIOS, PROVIDERS = 10, 3
OUT = Path(__file__).parent / "out"


@dataclass(frozen=True, slots=True)
class Measured:
    """One pass: items, seconds of server CPU, seconds of wall clock."""

    items: int
    cpu_s: float
    wall_s: float


async def server_cpu_s(client: "redis.asyncio.Redis") -> float:
    """Return the CPU seconds that the server has used, user and system."""
    info = await client.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


async def measure(url: str, items: int, work: Callable[[], Awaitable[None]]) -> Measured:
    """Return what `work` on `items` items costs the server."""
    client = redis.asyncio.Redis.from_url(url)
    cpu, wall = await server_cpu_s(client), time.perf_counter()
    await work()
    measured = Measured(items, await server_cpu_s(client) - cpu, time.perf_counter() - wall)
    await client.aclose()
    return measured


def item_name(index: int) -> str:
    """Return the id of an item, so that cells are filled evenly."""
    return f"scenario-{index % SCENARIOS}/provider-{index % PROVIDERS}/{index + 1}"


def record_of(lease: Lease) -> Record:
    """Return a record of about 700 bytes, as an item with three checks has."""
    outcomes = tuple(CheckOutcome(Scope.TURN, turn, 0, "content_includes", "", Outcome.PASS) for turn in range(3))
    return Record(
        lease.item,
        lease.index,
        Verdict.PASS if lease.index % 10 else Verdict.FAIL,
        AT,
        AT,
        checks_passed=3,
        checks_total=3,
        outcomes=outcomes,
        usage=Usage(120, 80),
        cost_usd=0.000123,
        duration_ms=100.0 + lease.index % 500,
        digest="sha256:" + "0" * 64,
        part="worker-0-0123456789abcdef.jsonl",
        offset=lease.index * 2000,
        length=2000,
        sha256="0" * 64,
        worker=lease.worker,
        entry=lease.entry,
        deliveries=lease.deliveries,
    )


async def our_pass(url: str, items: int, batch: int) -> Measured:
    """Put `items`, then measure lease + complete at `batch`.

    Raises:
        CommandFailed: not every item was counted.
    """
    queue, run = RedisWorkQueue(url, installation="bench"), RunUID(str(uuid4()))
    users, password = queue.users(url), uuid4().hex
    await users.make(run, password)
    worker = RedisWorkQueue(users.url(run, password), installation="bench")
    await queue.pin(run, RunMeta("sha256:bench", items))
    pairs = [(i, item_name(i)) for i in range(items)]
    for at in range(0, items, PUT_CHUNK):
        await queue.put(run, at, pairs[at : at + PUT_CHUNK], last=at + PUT_CHUNK >= items)

    async def work() -> None:
        while leases := await worker.lease(run, worker="bench", limit=batch, seconds=LEASE_S):
            await worker.complete(run, [(lease, record_of(lease)) for lease in leases])

    measured = await measure(url, items, work)
    state = await queue.state(run)
    if not state.drained:
        raise CommandFailed(f"cannot measure arena: {state.recorded} of {items} items were counted")
    await queue.drop(run)
    await users.drop(run)
    for each in (worker, queue):
        await each.close()
    return measured


@dataclass(frozen=True, slots=True)
class Contender:
    """A queue under trial: its name, and a pass of so many items at a batch size."""

    name: str
    items: int
    work: Callable[[int, int], Awaitable[Measured]]


def ours(url: str, items: int) -> Contender:
    """Return our queue over the server at `url`."""
    return Contender("arena", items, lambda count, batch: our_pass(url, count, batch))


def theirs(peer: QueuePeer, url: str, items: int) -> Contender:
    """Return a peer over the server at `url`."""
    lease = Lease(RunUID(str(uuid4())), 0, item_name(0), "bench", "0-1", 1)
    result = "r" * len(record_of(lease).to_bytes())

    async def work(count: int, batch: int) -> Measured:
        return Measured(count, *await asyncio.to_thread(peer.consume, url, count, batch, result))

    return Contender(peer.name, items, work)


async def measure_all(contenders: Sequence[Contender], batch: int, repeat: int) -> dict[str, list[Measured]]:
    """Let all take turns, so that a noisy minute hits all alike; a peer that fails is named and left out.

    Raises:
        CommandFailed: our own queue cannot be measured.
    """
    passes: dict[str, list[Measured]] = {each.name: [] for each in contenders}
    for _ in range(repeat):
        for each in contenders:
            if each.name in passes:
                try:
                    passes[each.name].append(await each.work(each.items, batch))
                except CommandFailed as error:
                    if each is contenders[0]:
                        raise
                    print(f"skipped: {error}")
                    del passes[each.name]
    return passes


def report(passes: dict[str, list[Measured]], batch: int) -> bool:
    """Print each queue's rates and what ours is of each peer's; say whether the bar is kept."""
    by_cpu = {name: [each.items / max(each.cpu_s, 1e-9) for each in done] for name, done in passes.items()}
    by_wall = {name: max(each.items / each.wall_s for each in done) for name, done in passes.items()}
    best = {name: max(rates) for name, rates in by_cpu.items()}
    first = next(iter(passes))
    for name, rates in by_cpu.items():
        cpu, wall = best[first] / best[name], by_wall[first] / by_wall[name]
        ratio = "" if name == first else f"   arena is {cpu:.1f} times as fast by CPU, {wall:.1f} by wall clock"
        figures = f"{best[name]:>8,.0f} items/s by server CPU (median {statistics.median(rates):,.0f}) {by_wall[name]:>7,.0f} by wall clock"
        print(f"batch {batch:<3} {name:<14} {figures}{ratio}")
    kept = best[first] >= BARS[batch]
    print(f"{'ok    ' if kept else 'MISSED'} batch {batch}: {best[first]:,.0f} items/s by server CPU (at least {BARS[batch]:,})")
    return kept


async def carry_out(folder: Path, options: argparse.Namespace) -> bool:
    """Start a server for each queue and measure all; say whether the bars are kept."""
    async with contextlib.AsyncExitStack() as stack:

        async def server(name: str) -> str:
            started = EmbeddedServer(folder / name)
            stack.push_async_callback(started.stop)
            return await started.start()

        contenders = [ours(await server("arena"), options.items)]
        for number, peer in enumerate(obtainable((arq, dramatiq), OUT, options.only)):
            contenders.append(theirs(peer, await server(f"peer-{number}"), options.peer_items))
        kept = [report(await measure_all(contenders, batch, options.repeat), batch) for batch in BARS]
        return all(kept)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench queue_throughput", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--peer-items", type=int, default=4_000, help="jobs of a pass of a peer, which takes longer (default: 4000)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", help="only peers whose name contains this; 'none' for no peer")
    options = parser.parse_args(arguments)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with tempfile.TemporaryDirectory(prefix="arena-queue-") as folder:
        try:
            return 0 if asyncio.run(carry_out(Path(folder), options)) else 1
        except CommandFailed as error:
            print(f"error: {error}")
            return 1


if __name__ == "__main__":
    sys.exit(main())
