"""Asking for a look at a repository: who shares a stamp with whom, and who must not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from foundation.clock import FakeClock
from reconcile.cluster.port import ARENA_PROJECT, Object, ObjectKey, ResourceKind
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.errors import NotFound, StoreUnavailable
from reconcile.kinds.names import REQUESTED_SYNC
from reconcile.sync_requests import SyncRequests
from tests.hooks.sender import project

KEY = ObjectKey("team", "prompts")
DEADLINE_S = 20


class GatedCluster(SqliteCluster):
    """A store whose writes wait until they are let through, or fail."""

    def __init__(self) -> None:
        super().__init__(":memory:", FakeClock())
        self.gate = asyncio.Event()
        self.begun = asyncio.Event()
        self.patches = 0
        self.fails = False

    async def patch(
        self, kind: ResourceKind, namespace: str | None, name: str, merge_patch: Object, *, resource_version: str | None = None, dry_run: bool = False
    ) -> Object:
        """Wait, then patch or fail."""
        self.patches += 1
        self.begun.set()
        await self.gate.wait()
        if self.fails:
            raise StoreUnavailable("cannot write", kind=kind.kind, name=name)
        return await super().patch(kind, namespace, name, merge_patch, resource_version=resource_version, dry_run=dry_run)

    async def stamp(self) -> str:
        """Return what the project bears."""
        found = await self.get(ARENA_PROJECT, KEY.namespace, KEY.name)
        return str(found["metadata"]["annotations"][REQUESTED_SYNC])


@pytest.fixture
async def cluster() -> AsyncIterator[GatedCluster]:
    """Give a store with a project."""
    found = GatedCluster()
    await found.create(project(KEY.namespace, KEY.name, {"hosted": {}}))
    yield found
    await found.close()


async def test_a_request_during_a_write_gets_a_later_one(cluster: GatedCluster) -> None:
    """Whoever asks while a stamp is being written may have pushed after it, so he and all who come with him share the next."""
    syncs = SyncRequests(cluster)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        first = group.create_task(syncs.request(KEY, "push"))
        await cluster.begun.wait()
        later = [group.create_task(syncs.request(KEY, "webhook")) for _ in range(9)]
        await asyncio.sleep(0)
        cluster.gate.set()
    values = {task.result() for task in later}
    assert first.result().startswith("push-")
    assert values == {await cluster.stamp()}
    assert first.result() not in values
    assert cluster.patches == 2


async def test_requests_one_after_the_other_are_each_a_stamp(cluster: GatedCluster) -> None:
    """A request that comes when nothing is being written is always a new value."""
    syncs = SyncRequests(cluster)
    cluster.gate.set()
    assert len({await syncs.request(KEY, "push") for _ in range(3)}) == 3


async def test_a_write_that_fails_is_told_all_who_shared_it(cluster: GatedCluster) -> None:
    """Those who wait behind a write that failed try once more together, and none of them is told of a stamp that is not there."""
    syncs = SyncRequests(cluster)
    cluster.fails = True
    async with asyncio.timeout(DEADLINE_S):
        asked = [asyncio.ensure_future(syncs.request(KEY, "webhook")) for _ in range(3)]
        await cluster.begun.wait()
        cluster.gate.set()
        done = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(result) for result in done] == [StoreUnavailable] * 3
    assert cluster.patches == 2
    cluster.fails = False
    assert await syncs.request(KEY, "webhook") == await cluster.stamp()


async def test_one_who_gives_up_keeps_nobody_waiting(cluster: GatedCluster) -> None:
    """A caller who is cancelled while he writes or waits leaves the others their turn."""
    syncs = SyncRequests(cluster)
    async with asyncio.timeout(DEADLINE_S):
        writer = asyncio.ensure_future(syncs.request(KEY, "push"))
        await cluster.begun.wait()
        waiter, other = (asyncio.ensure_future(syncs.request(KEY, "webhook")) for _ in range(2))
        await asyncio.sleep(0)
        writer.cancel()
        waiter.cancel()
        cluster.gate.set()
        assert await other == await cluster.stamp()


async def test_a_project_that_is_gone(cluster: GatedCluster) -> None:
    """There is nothing to ask of a project that is not there."""
    cluster.gate.set()
    with pytest.raises(NotFound):
        await SyncRequests(cluster).request(ObjectKey("team", "gone"), "push")
