"""`arena worker`: one process's part in one run. Started by the job runner or a cluster, not by hand."""

import asyncio
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import uvloop

from arena.local.spare import follow_order
from arena.logging import LogLevel, configure_logging
from arena.settings import process_environment, replace_environment
from engine.bundle import load_bundle
from engine.conversation import ItemRunner
from engine.plan import Plan
from engine.providers.connections import Connections
from engine.queue.redis import RedisWorkQueue
from engine.worker import Worker
from engine.worker_settings import WorkerSettings, from_environment, unpacked
from foundation import many_at_once
from foundation.clock import SystemClock
from foundation.crash import arm

if TYPE_CHECKING:
    import typer


def register(app: "typer.Typer") -> None:
    """Add this module's commands."""
    app.command("worker")(worker)


def worker() -> int:
    """Work a run's queue until it is drained; the environment, which a Job sets, says which run."""
    return _run(from_environment(process_environment()))


def spare_worker() -> int:
    """Wait to be told what to work at; end when nobody tells."""
    return follow_order(_work_with)


def _work_with(environment: Mapping[str, str]) -> int:
    replace_environment(environment)
    return _run(from_environment(environment))


def _run(settings: WorkerSettings) -> int:
    configure_logging(LogLevel.DEBUG if settings.verbose else LogLevel.INFO)
    arm(settings.crash_at)
    many_at_once.prepare()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_work(settings))


async def _work(settings: WorkerSettings) -> int:
    clock = SystemClock()
    queue = RedisWorkQueue(settings.redis_url, installation=settings.installation)

    def build(plan: Plan) -> ItemRunner:
        connections = Connections(unpacked(process_environment()), workers=settings.workers, media_cache=settings.media)
        return ItemRunner(load_bundle(settings.content, plan.arena_file, own_providers=plan.own_providers), plan, clock, connections)

    working = Worker(queue, settings.run, build, settings.output, settings.options, clock)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, working.stop)
    try:
        ended = await working.work()
    finally:
        await queue.close()
    if ended.message:
        sys.stderr.write(f"worker left: {ended.message}\n")
    return ended.code
