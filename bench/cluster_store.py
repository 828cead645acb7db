"""10,000 ArenaRuns and 1,000 ArenaJobs on a real API server: what the controllers of a cluster cost it, and what it costs them.

    python -m bench cluster_store [--runs 10000] [--jobs 1000] [--waiting 90] [--running 10] [--idle-minutes 3]

etcd, API server and Job controller are those of the tests; the controllers run in a process of their own, signed in as a pod, with the webhook and the
queue client beside them, and its memory is the peak of all that. The rows are those of `bench store`, and besides: how late a change is known, how long
it takes until all is known again after the API server was killed and started anew, what is asked for and written while nothing happens, and every
request of one run from its creation to the end of its tidying, counted by a proxy. There is no peer in Python; the floor printed beside it is what it
takes to read the same runs and decode them, and nothing else. Exit 1 when a bar is missed.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from arena.logging import LogLevel, configure_logging
from bench.cluster_controllers import CLAIM
from bench.store_objects import NAMESPACE
from bench.store_plane import Bar, Plane, Sizes, common_bars, kept, timed
from engine.queue.embedded import EmbeddedServer
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.listing import every
from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, Object
from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.crds import crd
from reconcile.kinds.names import REQUESTED_RUN, TERMINAL_PHASES
from tests.apiserver.binary import BinaryMissing, programs
from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane, started
from tests.apiserver.kubelet import kubelet
from tests.apiserver.proxy import ApiProxy, proxied
from tests.apiserver.server_fixture import connected

SETTLED_S = 5.0
DEADLINE_S = 180.0
RUN_BAR = 40
"""Requests of one run."""
IDLE_BAR = 60
"""Requests of an idle minute: a Lease written every two seconds, and as many others."""
WAITING_RUN_BAR = 4
"""And for each run whose workers have not come (here nobody starts them): twice its pods, and what befell them."""
LEASES = ("get leases", "update leases")


@dataclass(frozen=True, slots=True)
class Controllers:
    """The process of `bench.cluster_controllers`."""

    process: asyncio.subprocess.Process
    commands: asyncio.StreamWriter
    answers: asyncio.StreamReader

    @classmethod
    @asynccontextmanager
    async def at(cls, server: str, mount: Path, folder: Path, queue: str) -> AsyncGenerator[Self, None]:
        """Run one against an address of the API server."""
        words = ("--server", server, "--mount", str(mount), "--folder", str(folder), "--queue", queue)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.cluster_controllers", *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        try:
            if process.stdin is None or process.stdout is None:
                raise AssertionError("its pipes are ours")
            yield cls(process, process.stdin, process.stdout)
            process.stdin.close()
        finally:
            try:
                await asyncio.wait_for(process.wait(), 20)
            except TimeoutError:
                process.kill()
                await process.wait()

    async def tell(self, command: str) -> dict[str, Any]:
        """Give a command and return its figures."""
        self.commands.write(f"{command}\n".encode())
        async with asyncio.timeout(DEADLINE_S):
            line = await self.answers.readline()
        if not line:
            raise SystemExit(f"error: the controllers ended during '{command}'")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass(frozen=True, slots=True)
class Cluster:
    """A control plane with our kinds, a queue, and what a controller's pod would find mounted."""

    plane: ControlPlane
    client: KubeCluster
    folder: Path
    queue: str

    @classmethod
    @asynccontextmanager
    async def made(cls, folder: Path) -> AsyncGenerator[Self, None]:
        """Start it all, empty."""
        async with AsyncExitStack() as stack:
            plane = started(programs(), folder)
            stack.callback(plane.stop)
            plane.install(*(crd(kind) for kind in CATALOG))
            queue = EmbeddedServer(folder / "queue")
            url = await queue.start()
            stack.push_async_callback(queue.stop)
            client = connected(plane)
            stack.push_async_callback(client.close)
            mount = folder / "account"
            mount.mkdir()
            (mount / "token").write_text(ADMIN_TOKEN)
            (mount / "ca.crt").write_bytes(plane.ca_file.read_bytes())
            yield cls(plane, client, folder, url)

    def controllers(self, server: str = "") -> Any:
        """Run controllers, against the API server itself unless another address is given."""
        return Controllers.at(server or self.plane.url, self.folder / "account", self.folder, self.queue)

    async def floor(self) -> None:
        """Read all runs, and do nothing with them."""
        async for _ in every(self.client, ARENA_RUN):
            pass


async def measure(cluster: Cluster) -> dict[str, Any]:
    """Measure passes, listings, lag and a restart of the API server."""
    figures: dict[str, Any] = {}
    async with cluster.controllers() as controllers:
        figures |= await controllers.tell("start")
        await asyncio.sleep(SETTLED_S)
        for command in ("warm", "relist", "lag", "memory"):
            figures |= await controllers.tell(command)
        figures["peak_before_mb"] = figures["peak_mb"]
        cluster.plane.kill("kube-apiserver")
        await asyncio.sleep(1)
        down_s = time.perf_counter()
        await asyncio.to_thread(cluster.plane.start_api_server)
        figures["server_ready_s"] = time.perf_counter() - down_s
        figures |= await controllers.tell("catch_up")
        figures["storm"] = requests_since_start(cluster.plane)
        figures |= await controllers.tell("memory")
    return figures


def requests_since_start(plane: ControlPlane) -> dict[str, int]:
    """Return what our kinds were asked for since the API server started, by verb and resource; watches that are open included."""
    counts: Counter[str] = Counter()
    with plane.ask("GET", "/metrics") as answer:
        for line in answer.read().decode().splitlines():
            name, _, rest = line.partition("{")
            if name not in ("apiserver_request_total", "apiserver_longrunning_requests") or 'group="omnia.altairalabs.ai"' not in rest:
                continue
            labels = dict(part.split("=", 1) for part in rest.partition("}")[0].replace('"', "").split(","))
            counts[f"{labels['verb'].lower()} {labels['resource']}"] += int(float(rest.rpartition(" ")[2]))
    return dict(counts)


async def count(cluster: Cluster, idle_minutes: float) -> dict[str, Any]:
    """Count the requests of idle minutes, and of one run."""
    async with proxied(cluster.plane) as proxy, cluster.controllers(proxy.url) as controllers:
        await controllers.tell("start")
        await asyncio.sleep(SETTLED_S)
        proxy.asked.clear()
        await asyncio.sleep(idle_minutes * 60)
        idle = Counter(proxy.asked)
        await asyncio.to_thread(cluster.plane.start_controllers)
        claims = {CLAIM: cluster.folder / "content"}
        async with kubelet(cluster.plane, cluster.client, cluster.folder / "node", namespaces=[NAMESPACE], claims=claims):
            await until_ended(cluster)
            await asyncio.sleep(SETTLED_S)
            return {"idle": idle, "run": await one_run(cluster, proxy)}


async def until_ended(cluster: Cluster) -> list[Object]:
    """Wait until every run that works has ended and was tidied, and return those that ended."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            runs = [run async for run in every(cluster.client, ARENA_RUN) if "source" in (run.get("status") or {})]
            if all(run["status"].get("phase") in TERMINAL_PHASES and run["status"].get("tidied") for run in runs):
                return runs
            await asyncio.sleep(1)


async def one_run(cluster: Cluster, proxy: ApiProxy) -> Counter[str]:
    """Ask a job for a run, wait until nothing is left to do for it, and return what was asked for meanwhile."""
    proxy.asked.clear()
    await cluster.client.patch(ARENA_JOB, NAMESPACE, "job-0000", {"metadata": {"annotations": {REQUESTED_RUN: "bench"}}})
    await asyncio.sleep(SETTLED_S)
    await until_ended(cluster)
    await asyncio.sleep(SETTLED_S)
    return Counter(proxy.asked)


def report(figures: dict[str, Any], sizes: Sizes, idle_minutes: float) -> bool:
    """Print the figures; say whether the bars are kept."""
    idle, run = figures["idle"], without_leases(figures["run"])
    print(f"{sizes.runs} ArenaRuns and {sizes.jobs} ArenaJobs: {sizes.waiting} wait, {sizes.running} run; seconds of wall clock (CPU of the process)")
    rows = {"start: everything is listed": "synced", "start: the first passes": "looked", "floor: read and decode the runs alone": "floor"}
    for name, figure in rows.items():
        wall, cpu = figures[figure]
        print(f"  {name:<44} {wall:6.2f} ({cpu:.2f})")
    print(f"  {'API server killed: ready again':<44} {figures['server_ready_s']:6.2f}")
    print(f"  {'then all is known and looked at':<44} {figures['caught_up_s']:6.2f}  requests: {table(figures['storm'])}")
    print(f"  a change is known after {figures['lag_ms']['median']:.1f} ms (median of 100; at most {figures['lag_ms']['most']:.1f})")
    print(
        f"  memory {figures['live_mb']:.0f} MB, at the start {figures['base_mb']:.0f} MB, peak before the restart {figures['peak_before_mb']:.0f} MB"
    )
    print(f"  {idle_minutes:g} idle minutes: {table(idle)}")
    print("  requests of one run from its creation to the end of its tidying:")
    for words, number in sorted(run.items()):
        print(f"    {number:4} {words}")
    written = sum(number for words, number in without_leases(idle).items() if words.split()[0] not in ("get", "list", "watch"))
    return kept(
        [
            *common_bars(figures),
            Bar("writes of idle minutes, the Lease aside", written, 0),
            Bar("requests of an idle minute", idle.total() / idle_minutes, IDLE_BAR + WAITING_RUN_BAR * sizes.running),
            Bar("requests of one run, the Lease aside", run.total(), RUN_BAR),
        ]
    )


def without_leases(asked: Counter[str]) -> Counter[str]:
    """Leave out what the lead costs, whatever else happens."""
    return Counter({words: number for words, number in asked.items() if words not in LEASES})


def table(asked: dict[str, int]) -> str:
    """Return counts as a line."""
    return ", ".join(f"{number} {words}" for words, number in sorted(asked.items())) or "none"


async def carry_out(folder: Path, sizes: Sizes, idle_minutes: float) -> bool:
    """Fill an API server and measure; say whether the bars are kept."""
    async with Cluster.made(folder) as cluster:
        async with Plane.over(cluster.client, folder, cluster.queue) as plane:
            await plane.fill(sizes)
        figures = {"floor": await timed(cluster.floor), **await measure(cluster), **await count(cluster, idle_minutes)}
        return report(figures, sizes, idle_minutes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench cluster_store", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("runs", 10_000), ("jobs", 1000), ("waiting", 90), ("running", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--idle-minutes", type=float, default=3.0)
    options = parser.parse_args(arguments)
    sizes = Sizes(options.runs, options.jobs, options.waiting, options.running)
    configure_logging(LogLevel.ERROR)
    folder = Path(tempfile.mkdtemp(prefix="arena-cluster-store-"))
    try:
        return 0 if asyncio.run(carry_out(folder, sizes, options.idle_minutes)) else 1
    except BinaryMissing as missing:
        print(f"skipped: {missing}")
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
