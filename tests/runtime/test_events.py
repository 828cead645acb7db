"""Events: counted, bounded, never fatal."""

from collections.abc import AsyncIterator

import pytest

from foundation.clock import FakeClock
from reconcile.cluster.port import ARENA_JOB, EVENT, WORKSPACE, Object
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.runtime import events


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that the test moves."""
    return FakeClock()


@pytest.fixture
async def cluster(clock: FakeClock) -> AsyncIterator[SqliteCluster]:
    """Give a store in memory."""
    store = SqliteCluster(":memory:", clock)
    yield store
    await store.close()


@pytest.fixture
async def job(cluster: SqliteCluster) -> Object:
    """Give an object to which things happen."""
    return await cluster.create(
        {"apiVersion": ARENA_JOB.api_version, "kind": "ArenaJob", "metadata": {"name": "a", "namespace": "arena"}, "spec": {}}
    )


async def test_an_event_says_what_kubectl_describe_asks(cluster: SqliteCluster, clock: FakeClock, job: Object) -> None:
    """An event names its object by kind, namespace, name and uid, and when it happened."""
    await events.record(cluster, job, "Warning", "RunSkipped", "two runs are active", clock=clock)
    [event] = (await cluster.list(EVENT, "arena")).items
    assert event["involvedObject"] == {
        "apiVersion": ARENA_JOB.api_version,
        "kind": "ArenaJob",
        "namespace": "arena",
        "name": "a",
        "uid": job["metadata"]["uid"],
    }
    assert (event["type"], event["reason"], event["message"], event["count"]) == ("Warning", "RunSkipped", "two runs are active", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"


async def test_equal_events_are_counted(cluster: SqliteCluster, clock: FakeClock, job: Object) -> None:
    """The same event again raises the count and the last time."""
    for _ in range(3):
        await events.record(cluster, job, "Normal", "Created", "run a-x", clock=clock)
        await clock.advance(60)
    [event] = (await cluster.list(EVENT, "arena")).items
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (3, "2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z")


async def test_events_of_an_object_are_bounded(cluster: SqliteCluster, clock: FakeClock, job: Object) -> None:
    """Of more than 50 different events of one object the oldest go."""
    for number in range(55):
        await events.record(cluster, job, "Normal", "Created", f"run {number}", clock=clock)
        await clock.advance(1)
    messages = {event["message"] for event in (await cluster.list(EVENT, "arena")).items}
    assert messages == {f"run {number}" for number in range(5, 55)}


async def test_an_event_of_a_cluster_scoped_object(cluster: SqliteCluster, clock: FakeClock) -> None:
    """An event about a cluster-scoped object lives in `default`, as in Kubernetes."""
    workspace = await cluster.create({"apiVersion": WORKSPACE.api_version, "kind": "Workspace", "metadata": {"name": "team"}, "spec": {}})
    await events.record(cluster, workspace, "Normal", "Ready", "", clock=clock)
    [event] = (await cluster.list(EVENT)).items
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["involvedObject"]


async def test_long_names_and_messages(cluster: SqliteCluster, clock: FakeClock, job: Object) -> None:
    """A name at the limit and a long message still make an event."""
    obj = {**job, "metadata": {**job["metadata"], "name": "x" * 253}}
    await events.record(cluster, obj, "Normal", "Created", "m" * 5000, clock=clock)
    [event] = (await cluster.list(EVENT)).items
    assert len(event["message"].encode()) <= 1024


async def test_a_store_that_refuses_is_not_fatal(cluster: SqliteCluster, clock: FakeClock, job: Object) -> None:
    """An event that cannot be written is lost without an error."""
    await cluster.close()
    await events.record(cluster, job, "Normal", "Created", "run", clock=clock)
