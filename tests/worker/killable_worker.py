"""A worker process for tests that kill it: every item passes, after its index was appended to the log file named first."""

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from engine.items import Item, ItemResult, Verdict
from engine.queue.redis import RedisWorkQueue
from engine.worker import Worker
from engine.worker_settings import from_environment
from foundation.clock import SystemClock
from foundation.crash import arm


class LoggingRunner:
    """Passes every item."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.troubles: dict[str, str] = {}

    async def run(self, item: Item, *, attempt: int = 1) -> ItemResult:
        """Note the item, then pass."""
        with self._log.open("a") as stream:
            stream.write(f"{item.index}\n")
        now = datetime.now(UTC)
        return ItemResult(item, Verdict.PASS, now, now, attempt=attempt, cost_usd=0.01, duration_ms=1.0)

    async def close(self) -> None:
        """Nothing is open."""


async def main() -> int:
    """Work as the environment says; return the worker's exit code."""
    settings = from_environment(os.environ)
    arm(settings.crash_at)
    queue = RedisWorkQueue(settings.redis_url, installation=settings.installation)
    runner = LoggingRunner(Path(sys.argv[1]))
    left = await Worker(queue, settings.run, lambda _plan: runner, settings.output, settings.options, SystemClock()).work()
    await queue.close()
    return left.code


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
