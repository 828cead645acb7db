"""The rules that every Cluster adapter keeps: objects, versions, status and lists. Deletion and watches have files of their own."""

import asyncio

import pytest

from reconcile.cluster.port import AGENT_RUNTIME, ARENA_JOB, CONFIG_MAP, WORKSPACE, Cluster, Object, ResourceKind
from reconcile.cluster.selectors import Selector
from reconcile.errors import AlreadyExists, Conflict, Invalid, NotFound, ObjectTooLarge
from tests.contracts.cluster_objects import NS, job, make


async def is_gone(cluster: Cluster, kind: ResourceKind, name: str) -> bool:
    """Say whether an object no longer exists."""
    try:
        await cluster.get(kind, NS, name)
    except NotFound:
        return True
    return False


async def test_get_of_nothing(cluster: Cluster) -> None:
    """Getting an absent object is NotFound, naming kind and object."""
    with pytest.raises(NotFound, match="cannot find ArenaJob 'arena/none'"):
        await cluster.get(ARENA_JOB, NS, "none")


async def test_create_stamps(cluster: Cluster) -> None:
    """A new object gets uid, creationTimestamp, resourceVersion and generation 1, whatever the caller wrote there."""
    given = job(
        "a", metadata={"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7, "deletionTimestamp": "2001-01-01T00:00:00Z"}
    )
    metadata = (await cluster.create(given))["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] > "2020"
    assert metadata["generation"] == 1
    assert metadata["resourceVersion"]
    assert "deletionTimestamp" not in metadata


async def test_create_returns_what_get_returns(cluster: Cluster) -> None:
    """What a write returns is what is stored."""
    created = await cluster.create(job("a"))
    assert await cluster.get(ARENA_JOB, NS, "a") == created


async def test_create_drops_status(cluster: Cluster) -> None:
    """A status given at creation is dropped: it is a subresource."""
    created = await cluster.create(job("a", status={"activeCount": 3}))
    assert not created.get("status")


async def test_create_twice(cluster: Cluster) -> None:
    """A name is taken once; the loser is told AlreadyExists and nothing changes."""
    first = await cluster.create(job("a"))
    with pytest.raises(AlreadyExists):
        await cluster.create(job("a", spec={"sourceRef": {"name": "other"}}))
    assert await cluster.get(ARENA_JOB, NS, "a") == first


async def test_racing_creates_have_one_winner(cluster: Cluster) -> None:
    """Of many who create one name at once exactly one succeeds."""
    results = await asyncio.gather(*(cluster.create(job("a")) for _ in range(10)), return_exceptions=True)
    assert sum(isinstance(result, dict) for result in results) == 1
    assert sum(isinstance(result, AlreadyExists) for result in results) == 9


async def test_same_name_in_two_namespaces_and_kinds(cluster: Cluster) -> None:
    """A name is unique within kind and namespace only; a namespace need not exist beforehand."""
    await cluster.create(job("a"))
    await cluster.create(job("a", metadata={"namespace": "default"}))
    await cluster.create(make(CONFIG_MAP, "a", data={}))
    assert len((await cluster.list(ARENA_JOB)).items) == 2


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"name": ""}, id="no name"),
        pytest.param({"name": "Upper"}, id="upper case"),
        pytest.param({"name": "a/b"}, id="a slash"),
        pytest.param({"name": "a\n"}, id="a trailing newline"),
        pytest.param({"name": "x" * 254}, id="over 253 characters"),
        pytest.param({"labels": {"a b": "x"}}, id="a label key with a space"),
        pytest.param({"labels": {"a": "-x"}}, id="a label value that starts with a dash"),
        pytest.param({"labels": {"a": "x" * 64}}, id="a label value over 63 characters"),
        pytest.param({"annotations": {"a": "x" * 262_145}}, id="annotations over 256 KiB"),
        pytest.param({"ownerReferences": [{"kind": "ArenaJob", "name": "x"}]}, id="an owner without uid"),
    ],
)
async def test_bad_metadata_is_invalid(cluster: Cluster, metadata: Object) -> None:
    """Metadata outside Kubernetes' limits is refused and nothing is stored."""
    with pytest.raises(Invalid):
        await cluster.create(job("a", metadata=metadata))
    assert (await cluster.list(ARENA_JOB)).items == []


@pytest.mark.parametrize("field", ["name", "namespace", "generateName"])
async def test_metadata_of_a_wrong_type_is_invalid(cluster: Cluster, field: str) -> None:
    """A name, a namespace or a generateName that is no string is refused."""
    with pytest.raises(Invalid, match=field):
        await cluster.create(job("a", metadata={field: {"not": "a string"}}))


async def test_empty_maps_are_none(cluster: Cluster) -> None:
    """Setting no labels, annotations, finalizers or owners where there are none changes nothing."""
    before = await cluster.create(job("a"))
    assert await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}}) == before


async def test_cluster_scoped(cluster: Cluster) -> None:
    """An object of a cluster-scoped kind has no namespace."""
    await cluster.create(make(WORKSPACE, "team", spec={"namespace": {"name": NS}}))
    assert "namespace" not in (await cluster.get(WORKSPACE, None, "team"))["metadata"]


async def test_generate_name(cluster: Cluster) -> None:
    """GenerateName gets five random characters, another five each time."""
    obj = job("x", metadata={"generateName": "nightly-"})
    del obj["metadata"]["name"]
    names = {(await cluster.create(obj))["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("nightly-") and len(name) == len("nightly-") + 5 for name in names)


async def test_generate_name_is_cut(cluster: Cluster) -> None:
    """A generated name has at most 63 characters."""
    obj = job("x", metadata={"generateName": "n" * 80})
    del obj["metadata"]["name"]
    assert len((await cluster.create(obj))["metadata"]["name"]) == 63


async def test_returned_objects_are_copies(cluster: Cluster) -> None:
    """Changing a returned object changes nothing in the store."""
    created = await cluster.create(job("a"))
    created["spec"]["sourceRef"]["name"] = "changed"
    (await cluster.list(ARENA_JOB)).items[0]["spec"].clear()
    assert (await cluster.get(ARENA_JOB, NS, "a"))["spec"]["sourceRef"] == {"name": "src"}


async def test_update_with_stale_version(cluster: Cluster) -> None:
    """An update from an old read is a Conflict and changes nothing."""
    old = await cluster.create(job("a"))
    await cluster.update({**old, "spec": {"sourceRef": {"name": "two"}}})
    with pytest.raises(Conflict):
        await cluster.update({**old, "spec": {"sourceRef": {"name": "three"}}})
    assert (await cluster.get(ARENA_JOB, NS, "a"))["spec"]["sourceRef"]["name"] == "two"


async def test_update_without_version(cluster: Cluster) -> None:
    """An update of a custom kind must say which version it replaces."""
    old = await cluster.create(job("a"))
    del old["metadata"]["resourceVersion"]
    with pytest.raises(Invalid, match=r"metadata\.resourceVersion"):
        await cluster.update(old)


async def test_update_of_nothing(cluster: Cluster) -> None:
    """Updating an absent object is NotFound."""
    with pytest.raises(NotFound):
        await cluster.update(job("a", metadata={"resourceVersion": "1"}))


async def test_update_of_a_recreated_object(cluster: Cluster) -> None:
    """An update of an object that was deleted and made again is refused by its uid or version."""
    old = await cluster.create(job("a"))
    await cluster.delete(ARENA_JOB, NS, "a")
    await cluster.create(job("a"))
    with pytest.raises(Conflict):
        await cluster.update(old)


async def test_generation_counts_spec_changes_only(cluster: Cluster) -> None:
    """Generation grows with the spec, not with labels, annotations or status."""
    obj = await cluster.create(job("a"))
    obj = await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"labels": {"team": "x"}}})
    assert obj["metadata"]["generation"] == 1
    obj = await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": 1})
    assert obj["metadata"]["generation"] == 1
    obj = await cluster.patch(ARENA_JOB, NS, "a", {"spec": {"suspend": True}})
    assert obj["metadata"]["generation"] == 2


async def test_every_change_has_a_new_version(cluster: Cluster) -> None:
    """ResourceVersion differs after every change of the object."""
    states = [await cluster.create(job("a")), *[await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": count}) for count in range(3)]]
    assert len({state["metadata"]["resourceVersion"] for state in states}) == 4


@pytest.mark.parametrize("way", ["update", "patch", "patch_status"])
async def test_a_write_of_nothing_keeps_the_version(cluster: Cluster, way: str) -> None:
    """A write that changes nothing keeps the resourceVersion."""
    await cluster.create(job("a"))
    before = await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": 1})
    match way:
        case "update":
            after = await cluster.update(before)
        case "patch":
            after = await cluster.patch(ARENA_JOB, NS, "a", {"spec": {"sourceRef": {"name": "src"}}})
        case _:
            after = await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": 1})
    assert after == before


async def test_update_ignores_status(cluster: Cluster) -> None:
    """Update and patch leave the status alone, whatever they carry."""
    await cluster.create(job("a"))
    obj = await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": 1})
    obj = await cluster.update({**obj, "status": {"activeCount": 9}})
    obj = await cluster.patch(ARENA_JOB, NS, "a", {"status": {"activeCount": 9}, "spec": {"suspend": True}})
    assert obj["status"] == {"activeCount": 1}


async def test_system_fields_are_kept(cluster: Cluster) -> None:
    """What a writer says of creationTimestamp and generation is ignored."""
    old = await cluster.create(job("a"))
    new = await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 99}})
    assert new["metadata"] == old["metadata"]


@pytest.mark.parametrize("way", ["update", "patch"])
async def test_a_write_cannot_begin_a_deletion(cluster: Cluster, way: str) -> None:
    """A deletionTimestamp that is not the stored one is refused; one that is left out stays."""
    old = await cluster.create(job("a", metadata={"finalizers": ["arena.test/hold"]}))
    marked = {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}
    write = (
        cluster.update({**old, "metadata": old["metadata"] | marked["metadata"]}) if way == "update" else cluster.patch(ARENA_JOB, NS, "a", marked)
    )
    with pytest.raises(Invalid, match="deletionTimestamp"):
        await write
    held = await cluster.delete(ARENA_JOB, NS, "a")
    assert held is not None
    kept = await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"deletionTimestamp": None, "labels": {"x": "y"}}})
    assert kept["metadata"]["deletionTimestamp"] == held["metadata"]["deletionTimestamp"]


async def test_patch_is_a_merge_patch(cluster: Cluster) -> None:
    """RFC 7386: objects merge, null removes, a list replaces a list."""
    await cluster.create(job("a", spec={"sourceRef": {"name": "src"}, "ref": "main", "scenarios": {"include": ["a", "b"]}}))
    obj = await cluster.patch(ARENA_JOB, NS, "a", {"spec": {"ref": None, "scenarios": {"include": ["c"]}, "verbose": True}})
    assert {key: obj["spec"].get(key) for key in ("sourceRef", "ref", "scenarios", "verbose")} == {
        "sourceRef": {"name": "src"},
        "ref": None,
        "scenarios": {"include": ["c"]},
        "verbose": True,
    }


@pytest.mark.parametrize("where", ["argument", "patch"])
async def test_patch_with_stale_version(cluster: Cluster, where: str) -> None:
    """A resourceVersion, beside or inside the patch, is a precondition."""
    old = (await cluster.create(job("a")))["metadata"]["resourceVersion"]
    await cluster.patch(ARENA_JOB, NS, "a", {"spec": {"suspend": True}})
    inside = {"metadata": {"resourceVersion": old}} if where == "patch" else {}
    with pytest.raises(Conflict):
        await cluster.patch(ARENA_JOB, NS, "a", {"spec": {"suspend": False}, **inside}, resource_version=old if where == "argument" else None)


async def test_patch_cannot_rename(cluster: Cluster) -> None:
    """A patch cannot change name or namespace."""
    await cluster.create(job("a"))
    with pytest.raises(Invalid):
        await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"name": "b"}})


async def test_patch_with_another_uid(cluster: Cluster) -> None:
    """A patch cannot change the uid: one meant for another object of the name is refused."""
    await cluster.create(job("a"))
    with pytest.raises(Invalid, match=r"metadata\.uid"):
        await cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"uid": "another", "labels": {"x": "y"}}})


async def test_racing_patches_all_land(cluster: Cluster) -> None:
    """Unconditional patches of different fields at once all take effect."""
    await cluster.create(job("a"))
    await asyncio.gather(*(cluster.patch(ARENA_JOB, NS, "a", {"metadata": {"labels": {f"l{n}": "x"}}}) for n in range(10)))
    assert len((await cluster.get(ARENA_JOB, NS, "a"))["metadata"]["labels"]) == 10


async def test_dry_run_stores_nothing(cluster: Cluster) -> None:
    """A dry run answers as the write would, and changes nothing."""
    assert (await cluster.create(job("a"), dry_run=True))["metadata"]["uid"]
    assert await is_gone(cluster, ARENA_JOB, "a")
    before = await cluster.create(job("a"))
    answer = await cluster.patch(ARENA_JOB, NS, "a", {"spec": {"suspend": True}}, dry_run=True)
    assert answer["spec"]["suspend"] is True
    assert await cluster.get(ARENA_JOB, NS, "a") == before


async def test_status_alone(cluster: Cluster) -> None:
    """patch_status changes the status only: objects merge, null removes, generation stays."""
    before = await cluster.create(job("a"))
    await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": 1, "lastRunRef": {"name": "r"}})
    after = await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": None, "nextScheduleTime": "2026-01-01T00:00:00Z"})
    assert after["status"] == {"lastRunRef": {"name": "r"}, "nextScheduleTime": "2026-01-01T00:00:00Z"}
    assert after["spec"] == before["spec"]
    assert after["metadata"] == before["metadata"] | {"resourceVersion": after["metadata"]["resourceVersion"]}


async def test_status_with_stale_version(cluster: Cluster) -> None:
    """A status write from an old read is a Conflict when it says which version it saw."""
    old = await cluster.create(job("a"))
    await cluster.patch(ARENA_JOB, NS, "a", {"spec": {"suspend": True}})
    with pytest.raises(Conflict):
        await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": 1}, resource_version=old["metadata"]["resourceVersion"])


@pytest.mark.parametrize("way", ["create", "update", "patch", "patch_status"])
async def test_an_unknown_field_is_refused(cluster: Cluster, way: str) -> None:
    """A field that the kind does not declare is refused by name, never dropped in silence, whichever way it comes."""
    stored = await cluster.create(job("a", spec={"sourceRef": {"name": "src"}, "trials": 2}))
    write = {
        "create": lambda: cluster.create(job("b", spec={"sourceRef": {"name": "src"}, "trails": 2})),
        "update": lambda: cluster.update({**stored, "spec": {**stored["spec"], "trails": 2}}),
        "patch": lambda: cluster.patch(ARENA_JOB, NS, "a", {"spec": {"trails": 2}}),
        "patch_status": lambda: cluster.patch_status(ARENA_JOB, NS, "a", {"trails": 2}),
    }
    with pytest.raises(Invalid) as refusal:
        await write[way]()
    assert [error.path for error in refusal.value.errors] == ["status.trails" if way == "patch_status" else "spec.trails"]
    assert await cluster.get(ARENA_JOB, NS, "a") == stored


async def test_status_of_nothing(cluster: Cluster) -> None:
    """A status write to an absent object is NotFound."""
    with pytest.raises(NotFound):
        await cluster.patch_status(ARENA_JOB, NS, "a", {"activeCount": 1})


async def test_list_is_ordered_and_scoped(cluster: Cluster) -> None:
    """A list is ordered by namespace and name; a namespace narrows it; nothing found is an empty list."""
    for namespace, name in (("default", "a"), (NS, "b"), (NS, "a")):
        await cluster.create(job(name, metadata={"namespace": namespace}))
    everything = (await cluster.list(ARENA_JOB)).items
    assert [(o["metadata"]["namespace"], o["metadata"]["name"]) for o in everything] == [(NS, "a"), (NS, "b"), ("default", "a")]
    assert [o["metadata"]["name"] for o in (await cluster.list(ARENA_JOB, NS)).items] == ["a", "b"]
    assert (await cluster.list(ARENA_JOB, "absent")).items == []


async def test_list_by_labels(cluster: Cluster) -> None:
    """Labels select objects that carry all of them, as they are now."""
    for name, labels in (("a", {"job": "x", "tier": "1"}), ("b", {"job": "x"}), ("c", {"job": "y"})):
        await cluster.create(job(name, metadata={"labels": labels}))
    await cluster.patch(ARENA_JOB, NS, "c", {"metadata": {"labels": {"job": "x"}}})
    await cluster.patch(ARENA_JOB, NS, "b", {"metadata": {"labels": None}})
    assert [o["metadata"]["name"] for o in (await cluster.list(ARENA_JOB, NS, {"job": "x"})).items] == ["a", "c"]
    assert [o["metadata"]["name"] for o in (await cluster.list(ARENA_JOB, NS, {"job": "x", "tier": "1"})).items] == ["a"]
    assert [o["metadata"]["name"] for o in (await cluster.list(ARENA_JOB, NS, Selector.parse("job!=x"))).items] == ["b"]


async def test_object_too_large(cluster: Cluster) -> None:
    """An object over 1.5 MiB is refused, and so is an update that would make it so."""
    text = "x" * (1024 * 1024)
    with pytest.raises(ObjectTooLarge, match="1572864"):
        await cluster.create(make(AGENT_RUNTIME, "a", spec={"one": text, "two": text}))
    await cluster.create(make(AGENT_RUNTIME, "a", spec={"one": text}))
    with pytest.raises(ObjectTooLarge):
        await cluster.patch(AGENT_RUNTIME, NS, "a", {"spec": {"two": text}})


async def test_unknown_kind(cluster: Cluster) -> None:
    """An object of a kind that nobody serves is refused."""
    with pytest.raises(Invalid, match="no matches for kind"):
        await cluster.create({"apiVersion": "example.com/v1", "kind": "ArenaJob", "metadata": {"name": "a", "namespace": NS}})
