"""The controller process of the bench of a real API server: does what it is told on stdin, a command a line, and answers with a line of JSON.

Owns nothing but the commands. It is put together as a controller in a cluster is: signed in as a pod, its writes fenced by a Lease, the webhook beside it.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import uvloop

from arena.http_protocol import BoundedProtocol
from arena.large_blocks import return_large_blocks
from arena.logging import LogLevel, configure_logging
from bench.store_objects import NAMESPACE
from bench.store_plane import INSTALLATION, InterruptedWatches, Plane, memory_mb, timed, until
from foundation.clock import SystemClock
from hooks.admission_registration import Registration
from hooks.admission_server import AdmissionServer
from hooks.certificate_sources import SecretCertificates
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.kube_access import Access, in_cluster
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, ObjectKey, ResourceKind
from reconcile.errors import LeadershipLost, StoreUnavailable
from reconcile.runtime.fence import FencedCluster
from reconcile.runtime.leader import Leadership
from reconcile.worker_job import ClusterPods

CLAIM: Final = "arena-content"
LEASE: Final = ObjectKey(NAMESPACE, "arena-controller")
MARK: Final = "bench.arena.test/mark"
LAGS = 100
Command = Callable[[], Awaitable[Any]]


class InterruptedKube(InterruptedWatches, KubeCluster):
    """The store of a real API server."""


@dataclass(frozen=True, slots=True)
class Process:
    """What the commands work on. `beside` is a client whose writes the controllers hear of by their watches alone."""

    plane: Plane
    cluster: InterruptedKube
    beside: KubeCluster

    @classmethod
    @asynccontextmanager
    async def running(cls, access: Access, folder: Path, queue_url: str) -> AsyncGenerator[Self, None]:
        """Run the controllers and the webhook."""
        clock = SystemClock()
        async with AsyncExitStack() as stack:
            cluster, beside = InterruptedKube(access, clock), KubeCluster(access, clock)
            stack.push_async_callback(beside.close)
            stack.push_async_callback(cluster.close)
            leadership = Leadership(cluster, LEASE, clock)
            pods = ClusterPods(INSTALLATION, CLAIM)
            plane = await stack.enter_async_context(Plane.over(FencedCluster(cluster, leadership, clock), folder, queue_url, pods))
            certificates = SecretCertificates(cluster, ObjectKey(NAMESPACE, "arena-webhook"), ["127.0.0.1"], clock)
            webhook = AdmissionServer(certificates, Registration(cluster, "arena"), clock, BoundedProtocol)
            duties = [
                asyncio.create_task(webhook.run(socket.create_server(("127.0.0.1", 0)))),
                asyncio.create_task(_stand(leadership, plane.plane.run)),
            ]
            try:
                yield cls(plane, cluster, beside)
            finally:
                for duty in duties:
                    duty.cancel()
                await asyncio.gather(*duties, return_exceptions=True)

    async def start(self) -> Any:
        """Wait until everything is listed and looked at, and written as far as it must be."""
        base = memory_mb("VmRSS")
        synced = await timed(self.plane.plane.informers.synced)
        idle = await timed(self.plane.idle)
        return {"base_mb": base, "synced": synced, "looked": idle}

    async def warm(self) -> Any:
        """Do passes over everything."""
        rounds, keys = await self.plane.warm()
        return {"warm": rounds, "keys": keys}

    async def relist(self) -> Any:
        """List every kind anew."""
        return {"relist": await timed(lambda: self.plane.relisted(self.cluster))}

    async def lag(self) -> Any:
        """Change an object behind the controllers' backs, again and again, and see when they know."""
        name = self._live(ARENA_RUN)  # of which nobody else hears: a project's change would wake a thousand jobs
        lags = [await self._told(ARENA_RUN, name, f"lag-{number}") for number in range(LAGS)]
        return {"lag_ms": {"median": 1000 * statistics.median(lags), "most": 1000 * max(lags)}}

    async def catch_up(self) -> Any:
        """Wait until a change of each kind arrives: the controllers know again what happens."""
        began, mark = time.perf_counter(), str(time.time_ns())
        for kind in (ARENA_PROJECT, ARENA_JOB, ARENA_RUN):
            await self._told(kind, self._live(kind), mark)
        await self.plane.idle()
        return {"caught_up_s": time.perf_counter() - began}

    async def memory(self) -> Any:
        """Return the memory of this process."""
        return {"live_mb": memory_mb("VmRSS"), "peak_mb": memory_mb("VmHWM")}

    def _live(self, kind: ResourceKind) -> str:
        informers = self.plane.plane.informers
        return next(key.name for key in informers.all_keys(kind) if not informers.is_final(kind, key))

    async def _told(self, kind: ResourceKind, name: str, mark: str) -> float:
        """Mark an object that is remembered whole; return the seconds from the write's answer until the controllers know."""
        while True:
            try:
                await self.beside.patch(kind, NAMESPACE, name, {"metadata": {"annotations": {MARK: mark}}})
                break
            except StoreUnavailable:
                await asyncio.sleep(0.1)
        written = time.perf_counter()

        def is_known() -> bool:
            known = self.plane.plane.informers.find(kind, ObjectKey(NAMESPACE, name))
            return known is not None and (known["metadata"].get("annotations") or {}).get(MARK) == mark

        await until(is_known)
        return time.perf_counter() - written


async def _stand(leadership: Leadership, lead: Command) -> None:
    """Lead, and be a candidate again when a machine that is too busy has cost us the lead."""
    while True:
        with contextlib.suppress(LeadershipLost):
            await leadership.run(lead)


async def obey(access: Access, folder: Path, queue_url: str) -> None:
    """Carry out commands until stdin ends."""
    loop = asyncio.get_running_loop()
    async with Process.running(access, folder, queue_url) as process:
        commands: dict[str, Command] = {name: getattr(process, name) for name in ("start", "warm", "relist", "lag", "catch_up", "memory")}
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(await commands[line.strip()]()), flush=True)


def main() -> None:
    """Run the process."""
    parser = argparse.ArgumentParser(prog="bench cluster_controllers", description=__doc__)
    for name in ("server", "mount", "folder", "queue"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    configure_logging(LogLevel.ERROR)
    return_large_blocks()
    host, port = options.server.removeprefix("https://").split(":")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(obey(in_cluster(host, port, Path(options.mount)), Path(options.folder), options.queue))


if __name__ == "__main__":
    main()
