"""How many pushes several replicas of the git server take, to one repository and to many, and what a competing push costs.

Owns the rounds and their figures. Every round has a volume of its own. The clients run on the same machine as the servers, so more replicas than cores
show what sharing a volume costs, not what more machines would bring.
"""

import asyncio
import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from bench.replica_pods import NAMESPACE, Push, Pusher, Replicas
from foundation.clock import SystemClock
from gitops.content import ContentVolume, ProjectKey
from gitops.locks import acquire
from gitops.repositories import Repositories

PUSHERS = 4
LOCKS = 500


@dataclass(frozen=True, slots=True)
class Rate:
    """What one round gave: accepted pushes a second, the share that others had overtaken, seconds of an accepted push, and the servers' CPU a push."""

    a_second: float
    overtaken: float
    p50_s: float
    p95_s: float
    cpu_s: float


def rate_of(folder: Path, replicas: int, *, projects: int, pushes: int) -> Rate:
    """Let four people push so many times each, spread over the replicas and the projects."""
    folder.mkdir()
    root, names = folder / "content", [f"project-{number}" for number in range(projects)]
    asyncio.run(_create(root, names))
    done: list[Push] = []
    with Replicas(root, replicas, controller=False) as pods:

        def work(number: int) -> None:
            url = pods.url(number % replicas, names[number % projects])
            pusher = Pusher(folder, f"pusher-{number}")
            for _ in range(pushes):
                pusher.follow(url)
                done.append(pusher.push(url))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(PUSHERS)]
        before, begun = pods.account.cpu_s(), time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds, cpu_s = time.monotonic() - begun, pods.account.cpu_s() - before
    accepted = sorted(push.seconds for push in done if push.accepted)
    p95_s = accepted[int(0.95 * (len(accepted) - 1))]
    return Rate(len(accepted) / seconds, 1 - len(accepted) / len(done), statistics.median(accepted), p95_s, cpu_s / len(done))


async def lock_ms(root: Path) -> float:
    """Return the milliseconds that taking and giving back a repository's lock takes, as each push does."""
    await _create(root, ["locks"])
    repository, clock = ContentVolume(root).repository(ProjectKey(NAMESPACE, "locks")), SystemClock()
    begun = time.process_time()
    for _ in range(LOCKS):
        lock = await acquire(repository, clock, exclusive=False, wait_s=0.0)
        if lock is not None:
            lock.close()
    return (time.process_time() - begun) * 1000 / LOCKS


async def _create(root: Path, names: list[str]) -> None:
    repositories = Repositories(ContentVolume(root), SystemClock())
    for name in names:
        await repositories.create(ProjectKey(NAMESPACE, name))
