"""The rules that every Cluster adapter keeps for selected and for long listings."""

import asyncio

import pytest

from reconcile.cluster.port import AGENT_RUNTIME, ARENA_RUN, PAGE, RUN_PHASE, RUN_PROJECT, Cluster, Fields, Object
from reconcile.cluster.selectors import Selector
from reconcile.errors import Invalid
from tests.contracts.cluster_objects import NS, make


def run_of(name: str, project: str, namespace: str = NS) -> Object:
    """Return an ArenaRun of a project."""
    return make(
        ARENA_RUN,
        name,
        metadata={"namespace": namespace},
        spec={"jobRef": {"name": "j"}, "trigger": "Manual", "template": {"sourceRef": {"name": project}}},
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({RUN_PROJECT: "src"}, ["ended", "going", "new"], id="equal"),
        pytest.param({RUN_PHASE: ""}, ["new", "other"], id="not set"),
        pytest.param(Selector.parse(f"{RUN_PHASE}!=Succeeded,{RUN_PHASE}!=Failed"), ["going", "new", "other"], id="none of several"),
        pytest.param(Selector.parse(f"{RUN_PROJECT}=src,{RUN_PHASE}!=Succeeded"), ["going", "new"], id="both"),
        pytest.param(Selector.parse(f"{RUN_PROJECT}=nobody"), [], id="none"),
    ],
)
async def test_list_by_fields(cluster: Cluster, fields: Fields, expected: list[str]) -> None:
    """A listing selects by the selectable fields of its kind as they are now; a field that is not there is the empty string."""
    for name, project in (("going", "src"), ("ended", "src"), ("new", "src"), ("other", "elsewhere"), ("gone", "src")):
        await cluster.create(run_of(name, project))
    await cluster.delete(ARENA_RUN, NS, "gone")
    for name, phase in (("going", "Running"), ("ended", "Running"), ("ended", "Succeeded")):
        await cluster.patch_status(ARENA_RUN, NS, name, {"phase": phase})
    found = await cluster.list(ARENA_RUN, NS, fields=fields)
    assert [obj["metadata"]["name"] for obj in found.items] == expected


@pytest.mark.parametrize("fields", [{"status.message": "x"}, {"spec.trigger": "Manual"}], ids=["unknown", "not selectable"])
async def test_list_by_a_field_that_cannot_be_selected_by(cluster: Cluster, fields: Fields) -> None:
    """A field that the kind does not name as selectable is refused, whatever objects there are."""
    with pytest.raises(Invalid):
        await cluster.list(ARENA_RUN, NS, fields=fields)


async def test_pages_hold_what_a_listing_holds(cluster: Cluster) -> None:
    """Pages hold every object once, in the order of a listing and at most 500 each; all bear the version of the first."""
    await asyncio.gather(*(cluster.create(make(AGENT_RUNTIME, f"c{n}", metadata={"namespace": f"n{n % 2}"}, spec={})) for n in range(PAGE + 20)))
    pages = [page async for page in cluster.pages(AGENT_RUNTIME)]
    listing = await cluster.list(AGENT_RUNTIME)
    assert all(len(page.items) <= PAGE for page in pages)
    assert [obj for page in pages for obj in page.items] == listing.items
    assert {page.resource_version for page in pages} == {listing.resource_version}
    one = [page async for page in cluster.pages(AGENT_RUNTIME, "n1")]
    assert [obj for page in one for obj in page.items] == [obj for obj in listing.items if obj["metadata"]["namespace"] == "n1"]


async def test_pages_of_nothing(cluster: Cluster) -> None:
    """A kind of which there is nothing has one empty page, whose version can be watched from."""
    (page,) = [page async for page in cluster.pages(AGENT_RUNTIME)]
    await cluster.create(make(AGENT_RUNTIME, "a", spec={}))
    event = await anext(cluster.watch(AGENT_RUNTIME, None, page.resource_version))
    assert (page.items, event.object["metadata"]["name"]) == ([], "a")


async def test_a_change_between_two_pages_is_watched(cluster: Cluster) -> None:
    """Whatever changes while pages are read is told by a watch from their version."""
    await asyncio.gather(*(cluster.create(make(AGENT_RUNTIME, f"c{n:03}", spec={})) for n in range(PAGE + 1)))
    pages = cluster.pages(AGENT_RUNTIME)
    first = await anext(pages)
    await cluster.patch(AGENT_RUNTIME, NS, "c000", {"spec": {"endpoint": "127.0.0.1:8080"}})
    await cluster.delete(AGENT_RUNTIME, NS, "c001")
    rest = [page async for page in pages]
    watch = cluster.watch(AGENT_RUNTIME, None, first.resource_version)
    told = [await anext(watch), await anext(watch)]
    assert [(event.type, event.object["metadata"]["name"]) for event in told] == [("MODIFIED", "c000"), ("DELETED", "c001")]
    assert {page.resource_version for page in rest} == {first.resource_version}
