"""The rules that every Cluster adapter keeps for deletion, finalizers and ownership."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, CONFIG_MAP, Cluster, Object, ResourceKind
from reconcile.errors import Conflict, Invalid, NotFound
from tests.contracts.cluster_objects import NS, job, make, run


def run_of(owner: Object, name: str, **metadata: Any) -> Object:
    """Return an ArenaRun that `owner` owns."""
    return run(name, metadata={"ownerReferences": [owner_of(owner)], **metadata})


def owner_of(owner: Object) -> Object:
    """Return an owner reference to an object, with the blockOwnerDeletion that controllers set."""
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return reference | {"controller": True, "blockOwnerDeletion": True}


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds: garbage collection is in the background on a real server."""
    async with asyncio.timeout(20):
        while not await check():  # noqa: ASYNC110 - a store tells nobody that it has collected its garbage
            await asyncio.sleep(0.02)


async def is_gone(cluster: Cluster, kind: ResourceKind, name: str) -> bool:
    """Say whether an object no longer exists."""
    try:
        await cluster.get(kind, NS, name)
    except NotFound:
        return True
    return False


async def test_delete(cluster: Cluster) -> None:
    """Without finalizers an object is gone at once; deleting it again is NotFound."""
    await cluster.create(job("a"))
    assert await cluster.delete(ARENA_JOB, NS, "a") is None
    with pytest.raises(NotFound):
        await cluster.delete(ARENA_JOB, NS, "a")


async def test_delete_with_another_uid(cluster: Cluster) -> None:
    """A delete meant for another object of the name is a Conflict."""
    await cluster.create(job("a"))
    with pytest.raises(Conflict):
        await cluster.delete(ARENA_JOB, NS, "a", uid="00000000-0000-0000-0000-000000000000")
    assert not await is_gone(cluster, ARENA_JOB, "a")


async def test_finalizers_hold_an_object(cluster: Cluster) -> None:
    """A deleted object with finalizers stays, marked, with the next generation; the mark does not move when it is deleted again."""
    await cluster.create(job("a", metadata={"finalizers": ["arena.test/hold"]}))
    held = await cluster.delete(ARENA_JOB, NS, "a")
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]
    assert held["metadata"]["generation"] == 2
    assert await cluster.delete(ARENA_JOB, NS, "a") == held
    assert await cluster.get(ARENA_JOB, NS, "a") == held


@pytest.mark.parametrize("way", ["update", "patch"])
async def test_last_finalizer_frees_a_deleted_object(cluster: Cluster, way: str) -> None:
    """When the last finalizer goes, a deleted object goes; one that is not deleted stays."""
    obj = await cluster.create(job("a", metadata={"finalizers": ["arena.test/one", "arena.test/two"]}))
    await cluster.delete(ARENA_JOB, NS, "a")
    obj = await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"finalizers": ["arena.test/two"]}})
    assert not await is_gone(cluster, ARENA_JOB, "a")
    if way == "update":
        del obj["metadata"]["finalizers"]
        await cluster.update(obj)
    else:
        await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"finalizers": None}})
    assert await is_gone(cluster, ARENA_JOB, "a")


async def test_no_new_finalizer_while_deleted(cluster: Cluster) -> None:
    """An object that is being deleted takes no new finalizer."""
    await cluster.create(job("a", metadata={"finalizers": ["arena.test/one"]}))
    await cluster.delete(ARENA_JOB, NS, "a")
    with pytest.raises(Invalid, match="finalizers"):
        await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"finalizers": ["arena.test/one", "arena.test/two"]}})


async def test_status_of_a_deleted_object(cluster: Cluster) -> None:
    """An object that finalizers hold still takes status writes."""
    await cluster.create(job("a", metadata={"finalizers": ["arena.test/one"]}))
    await cluster.delete(ARENA_JOB, NS, "a")
    assert (await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": 1}))["status"] == {"activeCount": 1}


async def test_owned_objects_follow(cluster: Cluster) -> None:
    """Deleting an owner deletes what it owns, and what that owns; blockOwnerDeletion is ignored."""
    owner = await cluster.create(job("a"))
    owned = await cluster.create(run_of(owner, "r"))
    await cluster.create(make(CONFIG_MAP, "c", metadata={"ownerReferences": [owner_of(owned)]}))
    await cluster.delete(ARENA_JOB, NS, "a")
    await eventually(lambda: is_gone(cluster, ARENA_RUN, "r"))
    await eventually(lambda: is_gone(cluster, CONFIG_MAP, "c"))


async def test_owner_held_by_finalizers_keeps_its_own(cluster: Cluster) -> None:
    """What an object owns goes only when the owner itself is gone."""
    owner = await cluster.create(job("a", metadata={"finalizers": ["arena.test/hold"]}))
    await cluster.create(run_of(owner, "r"))
    await cluster.delete(ARENA_JOB, NS, "a")
    assert not await is_gone(cluster, ARENA_RUN, "r")
    await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"finalizers": None}})
    await eventually(lambda: is_gone(cluster, ARENA_RUN, "r"))


async def test_owned_object_with_finalizers_is_marked(cluster: Cluster) -> None:
    """An owned object with finalizers is marked, not removed."""
    owner = await cluster.create(job("a"))
    await cluster.create(run_of(owner, "r", finalizers=["arena.test/hold"]))
    await cluster.delete(ARENA_JOB, NS, "a")

    async def is_marked() -> bool:
        return "deletionTimestamp" in (await cluster.get(ARENA_RUN, NS, "r"))["metadata"]

    await eventually(is_marked)


async def test_one_living_owner_suffices(cluster: Cluster) -> None:
    """An object with two owners goes with the last of them."""
    one, two = await cluster.create(job("one")), await cluster.create(job("two"))
    second = owner_of(two) | {"controller": False}
    await cluster.create(make(CONFIG_MAP, "c", metadata={"ownerReferences": [owner_of(one), second]}))
    await cluster.delete(ARENA_JOB, NS, "one")

    async def only_two_is_named() -> bool:
        return [owner["name"] for owner in (await cluster.get(CONFIG_MAP, NS, "c"))["metadata"]["ownerReferences"]] == ["two"]

    await eventually(only_two_is_named)
    await cluster.delete(ARENA_JOB, NS, "two")
    await eventually(lambda: is_gone(cluster, CONFIG_MAP, "c"))


@pytest.mark.parametrize("owner_is_there", [False, True], ids=["no owner of that name", "the name belongs to another uid"])
async def test_orphan_from_the_start(cluster: Cluster, *, owner_is_there: bool) -> None:
    """An object whose owner, by uid, does not exist is taken and then removed."""
    owner = await cluster.create(job("a"))
    await cluster.delete(ARENA_JOB, NS, "a")
    if owner_is_there:
        await cluster.create(job("a"))
    assert (await cluster.create(run_of(owner, "r")))["metadata"]["uid"]
    await eventually(lambda: is_gone(cluster, ARENA_RUN, "r"))


async def test_recreated_owner_does_not_adopt(cluster: Cluster) -> None:
    """A new object under an old owner's name owns nothing of the old one's."""
    owner = await cluster.create(job("a"))
    await cluster.create(run_of(owner, "r"))
    await cluster.delete(ARENA_JOB, NS, "a")
    await cluster.create(job("a"))
    await eventually(lambda: is_gone(cluster, ARENA_RUN, "r"))
