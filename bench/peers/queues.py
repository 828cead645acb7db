"""Task queues of others over Redis: arq and dramatiq, each consuming jobs whose result is as large as one of our records.

Owns how each enqueues and consumes, as its own documentation shows it, and what it is allowed: so many jobs in flight as our batch has items, the polling
turned up where it would only wait. Only consuming is measured: taking a job, keeping its result, acknowledging it. Neither keeps sums over its jobs.
"""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.installing import environment_with
from bench.peers.measure import CommandFailed

_TIMEOUT_S = 600

_HEAD = """
import json, os, sys, time
import redis

URL, ITEMS, BATCH, RESULT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.load(sys.stdin)
server = redis.Redis.from_url(URL)

def cpu_s():
    info = server.info("cpu")
    return info["used_cpu_user"] + info["used_cpu_sys"]

def tell(done, cpu, wall):
    print(json.dumps({"items": done, "cpu_s": cpu, "wall_s": wall}))
"""

_ARQ = """
import asyncio
from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker

SETTINGS = RedisSettings(unix_socket_path=URL.removeprefix("unix://"))

async def job(ctx, number):
    return RESULT

async def main():
    pool = await create_pool(SETTINGS)
    for number in range(ITEMS):
        await pool.enqueue_job("job", number)
    worker = Worker([job], redis_settings=SETTINGS, burst=True, max_jobs=BATCH, poll_delay=0.01, handle_signals=False, log_results=False)
    before, started = cpu_s(), time.perf_counter()
    done = await worker.run_check()
    tell(done, cpu_s() - before, time.perf_counter() - started)
    await worker.close()
    await pool.aclose()

asyncio.run(main())
"""

_DRAMATIQ = """
os.environ["dramatiq_queue_prefetch"] = str(BATCH)
import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

broker = RedisBroker(url=URL)
backend = RedisBackend(url=URL)
broker.add_middleware(Results(backend=backend))
dramatiq.set_broker(broker)

@dramatiq.actor(store_results=True)
def job(number):
    return RESULT

messages = [job.send(number) for number in range(ITEMS)]
worker = dramatiq.Worker(broker)
before, started = cpu_s(), time.perf_counter()
worker.start()
broker.join(job.queue_name)
worker.join()
cpu, wall = cpu_s() - before, time.perf_counter() - started
done = sum(backend.get_result(message) == RESULT for message in messages)
worker.stop()
tell(done, cpu, wall)
"""


@dataclass(frozen=True, slots=True)
class QueuePeer:
    """A task queue that can be measured: its name with its version, and the words that start a pass."""

    name: str
    words: Sequence[str]

    def consume(self, url: str, items: int, batch: int, result: object) -> tuple[float, float]:
        """Enqueue `items` jobs, then consume them, `batch` in flight; return the seconds of the server's CPU and of wall clock that consuming took.

        Raises:
            CommandFailed: it failed, or did not do all of them.
        """
        words = [*self.words, url, str(items), str(batch)]
        try:
            done = subprocess.run(words, input=json.dumps(result), capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
        except subprocess.SubprocessError as error:
            raise CommandFailed(f"cannot measure {self.name}: {str(getattr(error, 'stderr', '') or error)[-400:].strip()}") from error
        figures = json.loads(done.stdout.splitlines()[-1])
        if figures["items"] != items:
            raise CommandFailed(f"cannot measure {self.name}: {figures['items']} of {items} jobs were done")
        return figures["cpu_s"], figures["wall_s"]


def arq(out: Path) -> QueuePeer:
    """Return arq, installed once below `out`.

    Raises:
        Unavailable: it cannot be installed.
    """
    return _peer(out, "arq", "arq", _ARQ)


def dramatiq(out: Path) -> QueuePeer:
    """Return dramatiq with its Redis broker, installed once below `out`.

    Raises:
        Unavailable: it cannot be installed.
    """
    return _peer(out, "dramatiq", "dramatiq[redis]", _DRAMATIQ)


def _peer(out: Path, name: str, package: str, script: str) -> QueuePeer:
    python = str(environment_with(out / name, [package]) / "python")
    asked = [python, "-c", f"import importlib.metadata; print(importlib.metadata.version({name!r}))"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return QueuePeer(f"{name} {version}", [python, "-c", _HEAD + script])
