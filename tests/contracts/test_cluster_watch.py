"""The rules that every Cluster adapter keeps for watches."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from reconcile.cluster.port import ARENA_JOB, Cluster, Object, WatchEvent
from reconcile.cluster.selectors import Selector
from tests.contracts.cluster_objects import NS, run


def job(name: str, namespace: str = NS, **metadata: Any) -> Object:
    """Return an ArenaJob."""
    metadata = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": ARENA_JOB.api_version, "kind": "ArenaJob", "metadata": metadata, "spec": {"sourceRef": {"name": "src"}}}


async def take(watch: AsyncIterator[WatchEvent], count: int) -> list[WatchEvent]:
    """Return the next events of a watch."""
    async with asyncio.timeout(60):
        return [await anext(watch) for _ in range(count)]


def told(events: list[WatchEvent]) -> list[tuple[str, str]]:
    """Return type and name of each event."""
    return [(event.type, event.object["metadata"]["name"]) for event in events]


async def test_watch_from_a_listing_misses_nothing(cluster: Cluster) -> None:
    """A watch from a listing's version yields every later change once, in order, each with its own version."""
    await cluster.create(job("before"))
    version = (await cluster.list(ARENA_JOB, NS)).resource_version
    await cluster.create(job("a"))
    await cluster.patch(ARENA_JOB, NS, "a", {"spec": {"suspend": True}})
    await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": 1})
    await cluster.delete(ARENA_JOB, NS, "a")
    events = await take(cluster.watch(ARENA_JOB, NS, version), 4)
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert len({event.object["metadata"]["resourceVersion"] for event in events}) == 4
    assert events[3].object["status"] == {"activeCount": 1}


async def test_watch_waits_for_changes(cluster: Cluster) -> None:
    """A watch with nothing to tell waits, and hears of a change when it is made."""
    watch = cluster.watch(ARENA_JOB, NS, (await cluster.list(ARENA_JOB, NS)).resource_version)
    waiting = asyncio.create_task(take(watch, 1))
    for _ in range(3):
        await cluster.list(ARENA_JOB, NS)
    assert not waiting.done()
    await cluster.create(job("a"))
    assert told(await waiting) == [("ADDED", "a")]


async def test_watch_resumes_at_an_event(cluster: Cluster) -> None:
    """A watch from the version of an event goes on after it."""
    version = (await cluster.list(ARENA_JOB, NS)).resource_version
    for name in ("a", "b", "c"):
        await cluster.create(job(name))
    first = await take(cluster.watch(ARENA_JOB, NS, version), 1)
    rest = await take(cluster.watch(ARENA_JOB, NS, first[0].object["metadata"]["resourceVersion"]), 2)
    assert told(rest) == [("ADDED", "b"), ("ADDED", "c")]


@pytest.mark.parametrize("version", ["", "0"])
async def test_watch_from_nothing_begins_with_what_is_there(cluster: Cluster, version: str) -> None:
    """A watch from no version first tells of the present objects as ADDED."""
    await cluster.create(job("a"))
    watch = cluster.watch(ARENA_JOB, NS, version)
    assert told(await take(watch, 1)) == [("ADDED", "a")]
    await cluster.create(job("b"))
    assert told(await take(watch, 1)) == [("ADDED", "b")]


async def test_watch_is_scoped(cluster: Cluster) -> None:
    """A watch hears of its kind and namespace only; without a namespace, of all."""
    version = (await cluster.list(ARENA_JOB)).resource_version
    await cluster.create(run("r"))
    await cluster.create(job("other", "default"))
    await cluster.create(job("mine"))
    assert told(await take(cluster.watch(ARENA_JOB, NS, version), 1)) == [("ADDED", "mine")]
    assert told(await take(cluster.watch(ARENA_JOB, None, version), 2)) == [("ADDED", "other"), ("ADDED", "mine")]


async def test_a_write_of_nothing_is_not_told(cluster: Cluster) -> None:
    """A write that changes nothing makes no event."""
    await cluster.create(job("a"))
    version = (await cluster.list(ARENA_JOB, NS)).resource_version
    await cluster.patch(ARENA_JOB, NS, "a", {"spec": {"sourceRef": {"name": "src"}}})
    await cluster.create(job("b"))
    assert told(await take(cluster.watch(ARENA_JOB, NS, version), 1)) == [("ADDED", "b")]


async def test_deletion_with_finalizers_is_told_twice(cluster: Cluster) -> None:
    """A deletion that finalizers hold is MODIFIED first and DELETED when they are gone."""
    await cluster.create(job("a", finalizers=["arena.test/hold"]))
    version = (await cluster.list(ARENA_JOB, NS)).resource_version
    await cluster.delete(ARENA_JOB, NS, "a")
    await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"finalizers": None}})
    assert told(await take(cluster.watch(ARENA_JOB, NS, version), 2)) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_watch_by_labels(cluster: Cluster) -> None:
    """Entering a selection is ADDED, leaving it is DELETED, what is outside is not told."""
    version = (await cluster.list(ARENA_JOB, NS)).resource_version
    await cluster.create(job("outside"))
    await cluster.create(job("a"))
    await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"labels": {"tier": "1"}}})
    await cluster.patch(ARENA_JOB, NS, "a", {"spec": {"suspend": True}})
    await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"labels": {"tier": "2"}}})
    await cluster.create(job("b", labels={"tier": "1"}))
    expected = [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    assert told(await take(cluster.watch(ARENA_JOB, NS, version, labels={"tier": "1"}), 4)) == expected
    assert told(await take(cluster.watch(ARENA_JOB, NS, version, labels=Selector.parse("tier in (1)")), 4)) == expected


@pytest.mark.parametrize(("before", "after"), [("1", "2"), ("2", "1")], ids=["was selected", "was not"])
async def test_removal_by_an_update_that_changes_labels(cluster: Cluster, before: str, after: str) -> None:
    """Who selects by labels hears of a removal if the object was in the selection, whatever the update that removed it made of its labels."""
    await cluster.create(job("a", finalizers=["arena.test/hold"], labels={"tier": before}))
    await cluster.delete(ARENA_JOB, NS, "a")
    version = (await cluster.list(ARENA_JOB, NS)).resource_version
    await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"finalizers": None, "labels": {"tier": after}}})
    await cluster.create(job("b", labels={"tier": "1"}))
    expected = [("DELETED", "a"), ("ADDED", "b")] if before == "1" else [("ADDED", "b")]
    assert told(await take(cluster.watch(ARENA_JOB, NS, version, labels={"tier": "1"}), len(expected))) == expected


async def test_many_watches_hear_the_same(cluster: Cluster) -> None:
    """Every watch hears of every change, however many writers there are."""
    version = (await cluster.list(ARENA_JOB, NS)).resource_version
    watches = [asyncio.create_task(take(cluster.watch(ARENA_JOB, NS, version), 300)) for _ in range(3)]
    await asyncio.gather(*(cluster.create(job(f"j{n}")) for n in range(300)))
    heard = [told(await watch) for watch in watches]
    assert heard[0] == heard[1] == heard[2]
    assert len(set(heard[0])) == 300


async def test_a_listing_of_nothing_can_be_watched_from(cluster: Cluster) -> None:
    """The version of an empty listing is not "from nothing": what was created since is told in its order, with its deletion."""
    version = (await cluster.list(ARENA_JOB)).resource_version
    await cluster.create(job("b"))
    await cluster.create(job("a"))
    await cluster.delete(ARENA_JOB, NS, "b")
    assert told(await take(cluster.watch(ARENA_JOB, None, version), 3)) == [("ADDED", "b"), ("ADDED", "a"), ("DELETED", "b")]
