"""A store of Leases that a test can take down, and time that moves in steps while it works."""

import asyncio
from dataclasses import dataclass

from foundation.clock import Clock, FakeClock
from reconcile.cluster.port import LEASE, Object, ObjectKey, ResourceKind
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.errors import LeadershipLost, StoreUnavailable
from reconcile.runtime.fence import FencedCluster
from reconcile.runtime.leader import Leadership

KEY = ObjectKey("arena", "arena-controller")
STEP_S = 0.5


class PausableClock(FakeClock):
    """A clock that can go on while everybody stands still, as the clock of a stopped process does."""

    def skip(self, seconds: float) -> None:
        """Move on without waking anybody."""
        self._elapsed += seconds


class LeaseStore(SqliteCluster):
    """A store that answers, fails or stays silent, as a test has it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(":memory:", clock)
        self.asked = 0
        self.reads = 0
        self.is_down = False
        self.silence: asyncio.Event | None = None

    async def get(self, kind: ResourceKind, namespace: str | None, name: str) -> Object:
        """Return a Lease, or fail as told."""
        self.asked += 1
        self.reads += 1
        try:
            if self.is_down:
                raise StoreUnavailable("cannot reach the store: a test has taken it down")
            return await super().get(kind, namespace, name)
        finally:
            self.asked -= 1

    async def update(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Replace a Lease; in a silence, wait for its end first."""
        if self.silence is not None:
            await self.silence.wait()
        self.asked += 1
        try:
            if self.is_down:
                raise StoreUnavailable("cannot reach the store: a test has taken it down")
            return await super().update(obj, dry_run=dry_run)
        finally:
            self.asked -= 1

    async def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Create a Lease."""
        self.asked += 1
        try:
            return await super().create(obj, dry_run=dry_run)
        finally:
            self.asked -= 1

    async def spec(self) -> Object:
        """Return what the Lease says."""
        spec: Object = (await super().get(LEASE, KEY.namespace, KEY.name))["spec"]
        return spec


@dataclass
class Candidate:
    """One process that wants to lead; its lead goes on until it is cancelled or `done` is set."""

    leadership: Leadership
    cluster: FencedCluster
    done: asyncio.Event
    leads: bool = False
    lost: bool = False
    task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, store: LeaseStore, clock: Clock) -> "Candidate":
        """Return a candidate that has not begun."""
        leadership = Leadership(store, KEY, clock)
        return cls(leadership, FencedCluster(store, leadership, clock), asyncio.Event())

    def start(self) -> None:
        """Begin the candidacy."""
        self.task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End as a process does that is told to."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait({self.task})

    async def _run(self) -> None:
        try:
            await self.leadership.run(self._lead)
        except LeadershipLost:
            self.lost = True

    async def _lead(self) -> None:
        self.leads = True
        try:
            await self.done.wait()
        finally:
            self.leads = False


async def pass_time(store: LeaseStore, clock: FakeClock, seconds: float) -> None:
    """Let time pass in steps, after each of which everybody has done what was due."""
    for _ in range(int(seconds / STEP_S)):
        await clock.advance(STEP_S)
        await quiet(store)


async def quiet(store: LeaseStore) -> None:
    """Wait until nobody waits for the store's answer."""
    calm = 0
    while calm < 3:
        await asyncio.sleep(0.0005)
        for _ in range(10):
            await asyncio.sleep(0)
        calm = 0 if store.asked else calm + 1
