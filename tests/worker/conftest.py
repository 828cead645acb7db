"""A run on a real queue, workers for it, and an engine that a test steers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from engine.bundle.perturbations import PLAIN
from engine.items import Item, ItemError, ItemResult, RunUID, Verdict
from engine.permissions import NO_PERMISSIONS
from engine.plan import Cell, Plan
from engine.queue.embedded import EmbeddedServer
from engine.queue.port import RunMeta
from engine.queue.redis import RedisWorkQueue
from engine.records import Record
from engine.version import ENGINE_VERSION
from engine.worker import Worker, WorkerOptions
from foundation.clock import SystemClock

LEASE_S = 0.3
DEADLINE_S = 60.0
OPTIONS = WorkerOptions("w", run_name="demo", lease_s=LEASE_S, renew_s=LEASE_S / 3, grace_s=DEADLINE_S, patience_s=DEADLINE_S)
Behaviour = Callable[[Item, int], Awaitable[ItemResult]]


def plan_of(count: int, *, version: str = ENGINE_VERSION, attempts: int = 3, timeout_s: float = DEADLINE_S) -> Plan:
    """Return a plan of one scenario, one provider and `count` trials."""
    return Plan(
        engine_version=version,
        arena_file="config.arena.yaml",
        mocked=None,
        cells=(Cell("s", "p", count, PLAIN),),
        providers={},
        serving={},
        scenarios=("s",),
        trials=count,
        item_timeout_s=timeout_s,
        max_attempts=attempts,
        retry_backoff_s=0.01,
        concurrency=4,
        image="",
        confidence=0.95,
        permissions=NO_PERMISSIONS,
    )


def result_of(item: Item, attempt: int, *, error: ItemError | None = None, retryable: bool = False) -> ItemResult:
    """Return a result that passes, or fails with `error`."""
    now = datetime.now(UTC)
    verdict = Verdict.ERROR if error else Verdict.PASS
    return ItemResult(item, verdict, now, now, attempt=attempt, error=error, cost_usd=0.01, duration_ms=1.0, retryable=retryable)


class RecordingRunner:
    """Runs items by a function, and keeps what ran, what was cut short, and how many ran at once."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.began: list[tuple[int, int]] = []
        self.cut_short: list[int] = []
        self.now_running: set[int] = set()
        self.together: dict[int, int] = {}
        self.closed = False
        self.troubles: dict[str, str] = {}

    async def run(self, item: Item, *, attempt: int = 1) -> ItemResult:
        """Run one item."""
        self.began.append((item.index, attempt))
        self.now_running.add(item.index)
        for index in self.now_running:
            self.together[index] = max(self.together.get(index, 0), len(self.now_running))
        try:
            return await self.behaviour(item, attempt)
        except asyncio.CancelledError:
            self.cut_short.append(item.index)
            raise
        finally:
            self.now_running.discard(item.index)

    async def close(self) -> None:
        """Note the end."""
        self.closed = True


class Scene:
    """A run on a real queue, and workers for it."""

    def __init__(self, queue: RedisWorkQueue, output: Path) -> None:
        self.queue = queue
        self.output = output
        self.run = RunUID(str(uuid4()))

    async def put(self, count: int, *, version: str = ENGINE_VERSION, attempts: int = 3, timeout_s: float = DEADLINE_S) -> None:
        """Pin, publish and put a run of `count` items."""
        plan = plan_of(count, version=version, attempts=attempts, timeout_s=timeout_s)
        await self.queue.pin(self.run, RunMeta(plan.digest, count))
        await self.queue.publish_plan(self.run, plan.to_bytes())
        await self.queue.put(self.run, 0, [(item.index, item.id) for item in plan.items], last=True)

    def worker(self, runner: RecordingRunner, options: WorkerOptions = OPTIONS) -> Worker:
        """Return a worker; its leases are short."""
        return Worker(self.queue, self.run, lambda _plan: runner, self.output, options, SystemClock())

    async def records(self) -> list[Record]:
        """Return all records in item order."""
        return sorted([record async for record in self.queue.records(self.run)], key=lambda record: record.index)

    async def crash(self, times: int) -> None:
        """Let `times` workers die with the first item in hand."""
        for number in range(times):
            await eventually(partial(self._is_held_by, f"dead-{number}"))

    async def _is_held_by(self, worker: str) -> bool:
        leases = await self.queue.lease(self.run, worker=worker, limit=100, seconds=0.05)
        await self.queue.hand_back(self.run, [lease for lease in leases if lease.index])
        return any(lease.index == 0 for lease in leases)


async def eventually(look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `look` says yes, within the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if await look():
                return
            await asyncio.sleep(0.005)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until `holds`, within the deadline."""

    async def look() -> bool:
        return holds()

    await eventually(look)


async def passes(item: Item, attempt: int) -> ItemResult:
    """Pass at once."""
    return result_of(item, attempt)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def redis_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Start a real server and return its URL."""
    server = EmbeddedServer(tmp_path_factory.mktemp("queue"))
    yield await server.start()
    await server.stop()


@pytest.fixture
async def scene(redis_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    """Return a run that nobody else uses."""
    queue = RedisWorkQueue(redis_url, installation=uuid4().hex)
    yield Scene(queue, tmp_path)
    await queue.close()
