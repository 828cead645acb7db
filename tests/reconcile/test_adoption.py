"""The repository of a deleted project comes back to a new one of its name, when an annotation asks for it."""

from typing import Any

import pytest

from reconcile.cluster.port import ARENA_PROJECT
from reconcile.kinds.names import ADOPT
from tests.reconcile.conftest import BUNDLE, NAMESPACE, ProcessDied, World, condition, dying

STRANGER = "00000000-0000-4000-8000-000000000000"


async def deleted(world: World, **spec: Any) -> tuple[str, str]:
    """Make a project with a commit and delete it; return its uid and the commit."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": spec})
    await world.look(ARENA_PROJECT, "src")
    commit = await world.commit(BUNDLE)
    uid = (await world.get(ARENA_PROJECT, "src"))["metadata"]["uid"]
    await world.cluster.delete(ARENA_PROJECT, NAMESPACE, "src")
    await world.look(ARENA_PROJECT, "src")
    assert world.volume.retained(world.project, uid).is_dir()
    return uid, commit


async def adopter(world: World, uid: str, **spec: Any) -> dict[str, Any]:
    """Make a project that asks for a retained repository, look once, and return it."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": spec}, annotations={ADOPT: uid})
    return await looked_at(world)


async def looked_at(world: World) -> dict[str, Any]:
    """Look once and return the project."""
    await world.look(ARENA_PROJECT, "src")
    return await world.get(ARENA_PROJECT, "src")


async def test_a_new_project_has_the_old_commits(world: World) -> None:
    """A project created with the annotation is Ready at the retained repository's head, and says so once; a seed is not used."""
    uid, commit = await deleted(world)
    found = await adopter(world, uid, seed={"configMap": {"name": "absent"}})
    assert (found["status"]["head"]["commit"], condition(found)["status"]) == (commit, "True")
    assert found["status"]["lastHandledAdopt"] == uid
    again = await looked_at(world)
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    assert len(await world.events("Adopted")) == 1
    assert not world.volume.retained(world.project, uid).exists()


async def test_an_empty_repository_gives_way(world: World) -> None:
    """A project that exists and has no commit yet takes the retained repository when it is annotated."""
    uid, commit = await deleted(world)
    await world.apply(ARENA_PROJECT, "src", {"hosted": {}})
    assert condition(await looked_at(world))["reason"] == "RepositoryEmpty"
    await world.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"metadata": {"annotations": {ADOPT: uid}}})
    assert (await looked_at(world))["status"]["head"]["commit"] == commit


async def test_a_project_with_commits_keeps_them(world: World) -> None:
    """The request is refused by one event, the project stays Ready at its own head, and the retained repository stays where it is."""
    uid, _ = await deleted(world)
    own = await world.project_with({**BUNDLE, "NOTES": "mine"})
    await world.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"metadata": {"annotations": {ADOPT: uid}}})
    found = await looked_at(world)
    await looked_at(world)
    assert (found["status"]["head"]["commit"], condition(found)["status"], found["status"]["lastHandledAdopt"]) == (own, "True", uid)
    assert len(await world.events("AdoptRefused")) == 1
    assert world.volume.retained(world.project, uid).is_dir()


@pytest.mark.parametrize("uid", [pytest.param(STRANGER, id="of nobody"), pytest.param("../../x", id="no uid")])
async def test_a_uid_without_a_repository(world: World, uid: str) -> None:
    """The project stalls with AdoptFailed naming the uid, and makes no repository until the annotation is mended or taken away."""
    found = await adopter(world, uid)
    assert (condition(found)["reason"], uid in condition(found)["message"]) == ("AdoptFailed", True)
    assert not await world.repositories.exists(world.project)
    await world.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"metadata": {"annotations": {ADOPT: None}}})
    assert condition(await looked_at(world))["reason"] == "RepositoryEmpty"


async def test_another_object_format(world: World) -> None:
    """A project does not take a repository of another object format than its spec says; both are named."""
    uid, _ = await deleted(world, objectFormat="sha256")
    message = condition(await adopter(world, uid))["message"]
    assert ("sha256" in message, "sha1" in message) == (True, True)
    assert world.volume.retained(world.project, uid).is_dir()


@pytest.mark.parametrize("before", [pytest.param(True, id="before"), pytest.param(False, id="after")])
@pytest.mark.parametrize("step", ["patch_status", "adopt", "create", "export"])
async def test_an_adoption_that_was_cut_off_is_finished(world: World, monkeypatch: pytest.MonkeyPatch, step: str, *, before: bool) -> None:
    """Wherever a controller dies in the pass that adopts, the next one ends with the retained repository's head, and refuses nothing."""
    uid, commit = await deleted(world)
    await world.apply(ARENA_PROJECT, "src", {"hosted": {}}, annotations={ADOPT: uid})
    owners: dict[str, Any] = {"patch_status": world.cluster, "export": world.snapshots}
    owner = owners.get(step, world.repositories)
    monkeypatch.setattr(owner, step, dying(getattr(owner, step), before=before))
    with pytest.raises(ProcessDied):
        await world.look(ARENA_PROJECT, "src")
    found = await looked_at(world)
    assert (found["status"]["head"]["commit"], condition(found)["status"]) == (commit, "True")
    assert await world.events("AdoptRefused") == []
