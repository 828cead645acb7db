"""Items per second of the work queue, by the server's CPU time: lease + complete with record, totals, cell and sketch counters.

    python bench/queue_throughput.py [--items 20000] [--repeat 3]

Starts its own server with the append-only file on, as `arena up` does. Prints one line a queue and batch size: items per second of server CPU
(the bar: 30,000 at batch 100, 15,000 at batch 10) and per second of wall clock with one client.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import redis.asyncio

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
    """Put `items`, then measure lease + complete at `batch`."""
    queue, run = RedisWorkQueue(url, installation="bench"), RunUID(str(uuid4()))
    await queue.pin(run, RunMeta("sha256:bench", items))
    pairs = [(i, f"scenario-{i % SCENARIOS}/provider-{i % PROVIDERS}/{i + 1}") for i in range(items)]
    for at in range(0, items, PUT_CHUNK):
        await queue.put(run, at, pairs[at : at + PUT_CHUNK], last=at + PUT_CHUNK >= items)

    async def work() -> None:
        while leases := await queue.lease(run, worker="bench", limit=batch, seconds=LEASE_S):
            await queue.complete(run, [(lease, record_of(lease)) for lease in leases])

    measured = await measure(url, items, work)
    state = await queue.state(run)
    if not state.drained:
        raise SystemExit(f"error: {state.recorded} of {items} items were counted")
    await queue.drop(run)
    await queue.close()
    return measured


def report(name: str, passes: list[Measured], bar: int = 0) -> bool:
    """Print the medians; say whether the bar is reached."""
    by_cpu = statistics.median(each.items / max(each.cpu_s, 1e-9) for each in passes)
    by_wall = statistics.median(each.items / each.wall_s for each in passes)
    verdict = "" if not bar else f"   bar {bar:,}: {'reached' if by_cpu >= bar else 'MISSED'}"
    print(f"{name:<24} {by_cpu:>10,.0f} items/s by server CPU   {by_wall:>9,.0f} items/s by wall clock{verdict}")
    return by_cpu >= bar


async def main() -> int:
    """Measure; return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    reached = True
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(Path(folder))
        url = await server.start()
        try:
            for batch, bar in BARS.items():
                passes = [await our_pass(url, options.items, batch) for _ in range(options.repeat)]
                reached = report(f"arena, batch {batch}", passes, bar) and reached
        finally:
            await server.stop()
    return 0 if reached else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
