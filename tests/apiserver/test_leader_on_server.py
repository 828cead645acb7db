"""Leader election on a real API server, with times a fifth of the real ones."""

import asyncio
import time
from dataclasses import dataclass, field

import pytest

from foundation.clock import SystemClock
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.kube_access import by_kubeconfig
from reconcile.cluster.port import CONFIG_MAP, LEASE, ObjectKey
from reconcile.errors import LeadershipLost, NotFound, NotLeading
from reconcile.runtime.fence import FencedCluster
from reconcile.runtime.leader import Leadership, LeaseTimes
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.server_fixture import REAL
from tests.contracts.cluster_objects import NS, make

pytestmark = REAL
TIMES = LeaseTimes(lease_s=3, renew_s=2.0, retry_s=0.3, seek_s=0.3)
LONG = LeaseTimes(lease_s=30, renew_s=20.0, retry_s=0.3, seek_s=0.3)


@dataclass
class Process:
    """One candidate with a connection of its own."""

    plane: ControlPlane
    lease: ObjectKey
    times: LeaseTimes = TIMES
    leads: asyncio.Event = field(default_factory=asyncio.Event)
    is_lost: bool = False

    def __post_init__(self) -> None:
        self.store = KubeCluster(by_kubeconfig(str(self.plane.kubeconfig)), SystemClock())
        self.leadership = Leadership(self.store, self.lease, SystemClock(), times=self.times)
        self.cluster = FencedCluster(self.store, self.leadership, SystemClock())
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self.leadership.run(self._lead)
        except LeadershipLost:
            self.is_lost = True

    async def _lead(self) -> None:
        self.leads.set()
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """End as told."""
        self.task.cancel()
        await asyncio.wait({self.task})
        await self.store.close()


async def test_hand_over(control_plane: ControlPlane) -> None:
    """A leader that ends gives the Lease back, and the standby leads at its next try, long before the Lease would have run out."""
    key = ObjectKey(NS, "hand-over")
    async with asyncio.timeout(60):
        leader = Process(control_plane, key, LONG)
        await leader.leads.wait()
        standby = Process(control_plane, key, LONG)
        await asyncio.sleep(1)
        assert not standby.leads.is_set()
        began = time.monotonic()
        await leader.stop()
        await standby.leads.wait()
        assert time.monotonic() - began < LONG.lease_s
        spec = (await standby.store.get(LEASE, NS, key.name))["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == (standby.leadership.identity, 1)
        await standby.stop()


async def test_a_leader_that_is_cut_off(control_plane: ControlPlane, cluster: KubeCluster) -> None:
    """A leader that can no longer reach the server is deposed, knows it first, and writes nothing more, even when it reaches the server again."""
    assert (await cluster.list(CONFIG_MAP, NS)).items == []
    key = ObjectKey(NS, "cut-off")
    async with asyncio.timeout(60):
        leader = Process(control_plane, key)
        await leader.leads.wait()
        standby = Process(control_plane, key)
        await asyncio.sleep(1)
        await leader.store.close()
        await standby.leads.wait()
        assert leader.is_lost
        assert leader.leadership.remaining_s() == 0
        again = FencedCluster(standby.store, leader.leadership, SystemClock())
        with pytest.raises(NotLeading):
            await again.create(make(CONFIG_MAP, "deposed"))
        await standby.cluster.create(make(CONFIG_MAP, "crowned"))
        with pytest.raises(NotFound):
            await standby.store.get(CONFIG_MAP, NS, "deposed")
        await leader.stop()
        await standby.stop()


async def test_a_server_that_is_away(fragile: ControlPlane) -> None:
    """When the server is away for longer than the Lease lasts nobody leads, and one does again soon after it is back."""
    key = ObjectKey(NS, "away")
    async with asyncio.timeout(90):
        first = Process(fragile, key)
        await first.leads.wait()
        fragile.kill("kube-apiserver")
        await asyncio.wait({first.task})
        assert first.is_lost
        second = Process(fragile, key)
        await asyncio.to_thread(fragile.start_api_server)
        await second.leads.wait()
        await first.stop()
        await second.stop()
