"""ArenaProject: a repository that is there, seeded once, its head exported."""

import os
from typing import Any

import pytest

from reconcile.cluster.port import ARENA_PROJECT, CONFIG_MAP
from reconcile.kinds.names import REQUESTED_SYNC
from tests.reconcile.conftest import BUNDLE, NAMESPACE, ProcessDied, World, condition, dying

SEED = {"hosted": {"seed": {"configMap": {"name": "starter"}}}}


async def config_map(world: World, **data: str) -> None:
    """Create the ConfigMap `starter`."""
    await world.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "starter", "namespace": NAMESPACE}, "data": data})


async def project(world: World) -> dict[str, Any]:
    """Look once and return the project."""
    await world.look(ARENA_PROJECT, "src")
    return await world.get(ARENA_PROJECT, "src")


async def test_without_a_commit_it_is_not_ready(world: World) -> None:
    """A hosted project without a commit is Ready=False with RepositoryEmpty, and says where to push."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": {}})
    found = await project(world)
    assert condition(found)["reason"] == "RepositoryEmpty"
    assert found["status"]["repositoryURL"] in condition(found)["message"]


async def test_the_head_is_exported_and_described(world: World) -> None:
    """The head's commit, snapshot, author and message stand in the status, and in HEAD beside the snapshots."""
    commit = await world.project_with()
    found = await world.get(ARENA_PROJECT, "src")
    head = found["status"]["head"]
    assert (head["commit"], head["ref"], head["contentPath"]) == (commit, "refs/heads/main", f"arena/sources/src/.arena/versions/{commit}")
    assert found["status"]["snapshots"]["count"] == 1
    assert world.volume.head_file(world.project).read_text().strip() == commit


async def test_the_seed_is_the_first_commit_and_no_other(world: World) -> None:
    """The ConfigMap makes the first commit; later changes of it do nothing. "__" in a key is "/"."""
    await config_map(world, **{"config.arena.yaml": "a", "scenarios__one.yaml": "b"})
    await world.apply(ARENA_PROJECT, "src", SEED)
    first = (await project(world))["status"]["head"]
    snapshot = world.volume.snapshot(world.project, first["commit"])
    assert sorted(path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*.yaml")) == ["config.arena.yaml", "scenarios/one.yaml"]
    await world.cluster.patch(CONFIG_MAP, NAMESPACE, "starter", {"data": {"config.arena.yaml": "changed"}})
    assert (await project(world))["status"]["head"] == first
    assert len(await world.events("Seeded")) == 1


@pytest.mark.parametrize(
    ("data", "items", "cause"),
    [
        pytest.param(None, [], "does not exist", id="no ConfigMap"),
        pytest.param({}, [], "empty", id="an empty ConfigMap"),
        pytest.param({"a": "x"}, [{"key": "b", "path": "b"}], "'b'", id="an item whose key is missing"),
        pytest.param({"a": "x"}, [{"key": "a", "path": ".git/config"}], ".git", id="a path into .git"),
    ],
)
async def test_a_seed_that_cannot_be_made(world: World, data: dict[str, str] | None, items: list[dict[str, str]], cause: str) -> None:
    """SeedFailed names what is wrong, and the repository stays without a commit. Who waits for an answer has it."""
    if data is not None:
        await config_map(world, **data)
    await world.apply(ARENA_PROJECT, "src", {"hosted": {"seed": {"configMap": {"name": "starter", "items": items}}}})
    await world.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"metadata": {"annotations": {REQUESTED_SYNC: "now"}}})
    found = await project(world)
    assert found["status"]["lastHandledSync"] == "now"
    assert (condition(found)["reason"], cause in condition(found)["message"]) == ("SeedFailed", True), condition(found)["message"]
    assert await world.repositories.head(world.project) is None


@pytest.mark.parametrize("before", [pytest.param(True, id="before"), pytest.param(False, id="after")])
@pytest.mark.parametrize("step", ["create", "seed", "export", "set_head", "patch_status", "prune", "maintain"])
async def test_a_first_look_that_was_cut_off_is_finished(world: World, monkeypatch: pytest.MonkeyPatch, step: str, *, before: bool) -> None:
    """Wherever a controller dies in a project's first pass, the next one brings it to Ready, with one seed commit and one snapshot."""
    await config_map(world, **{"config.arena.yaml": "a"})
    await world.apply(ARENA_PROJECT, "src", SEED)
    owners: dict[str, Any] = {"export": world.snapshots, "set_head": world.snapshots, "prune": world.snapshots, "patch_status": world.cluster}
    owner = owners.get(step, world.repositories)
    monkeypatch.setattr(owner, step, dying(getattr(owner, step), before=before))
    with pytest.raises(ProcessDied):
        await world.look(ARENA_PROJECT, "src")
    found = await project(world)
    assert (condition(found)["status"], found["status"]["snapshots"]["count"]) == ("True", 1)
    head = found["status"]["head"]["commit"]
    assert (await world.repositories.head(world.project), await world.snapshots.head(world.project)) == (head, head)


async def test_a_sync_request_is_answered(world: World) -> None:
    """Any new value of the annotation is answered in lastHandledSync."""
    await world.project_with()
    await world.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"metadata": {"annotations": {"arena.omnia.altairalabs.ai/requested-sync": "now"}}})
    assert (await project(world))["status"]["lastHandledSync"] == "now"


async def test_a_request_longer_than_its_answer(world: World) -> None:
    """An annotation that does not fit the status is answered as far as it fits, and once."""
    await world.project_with()
    await world.cluster.patch(
        ARENA_PROJECT, NAMESPACE, "src", {"metadata": {"annotations": {"arena.omnia.altairalabs.ai/requested-sync": "x" * 2000}}}
    )
    assert (await project(world))["status"]["lastHandledSync"] == "x" * 1024


async def test_a_suspended_project_keeps_its_head(world: World) -> None:
    """A suspended project stays Ready with what it last exported, and looks at nothing new until it is resumed."""
    first = await world.project_with()
    await world.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"spec": {"suspend": True}})
    await world.commit({**BUNDLE, "NOTES": "x"})
    found = await project(world)
    assert (condition(found)["reason"], condition(found)["status"], found["status"]["head"]["commit"]) == ("Suspended", "True", first)


async def test_reclaim_policy_delete_removes_the_repository(world: World) -> None:
    """With reclaimPolicy Delete nothing of a deleted project stays on the volume."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": {"reclaimPolicy": "Delete"}})
    uid = (await project(world))["metadata"]["uid"]
    await world.commit(BUNDLE)
    await world.look_at_all()
    await world.cluster.delete(ARENA_PROJECT, NAMESPACE, "src")
    await world.look_at_all()
    assert not world.volume.repository(world.project).exists()
    assert not world.volume.retained(world.project, uid).exists()
    assert not world.volume.sources(world.project).exists()


async def test_an_unexportable_head_is_said_by_path(world: World) -> None:
    """A head with more files than maxFiles allows stalls the project, naming the limit."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": {}, "snapshots": {"maxFiles": 2}})
    await project(world)
    await world.commit(BUNDLE)
    assert condition(await project(world))["reason"] == "SnapshotUnexportable"


async def test_sha256(world: World) -> None:
    """A repository of object format sha256 works like any other, up to the plan of a run."""
    await world.apply(ARENA_PROJECT, "src", {"hosted": {"objectFormat": "sha256"}})
    await project(world)
    commit = await world.commit(BUNDLE)
    await world.job()
    await world.look_at_all(2)
    run = await world.run()
    assert (len(commit), run["status"]["source"]["commit"], run["status"]["phase"]) == (64, commit, "Running")


async def test_a_repository_that_cannot_be_tidied_is_ready_all_the_same(world: World) -> None:
    """Housekeeping is nobody's verdict: with a damaged object that no ref needs the head is exported, and git is not started for it in every pass."""
    await world.project_with()
    repository = world.volume.repository(world.project)
    stamp = repository / "arena.collected"
    damaged = repository / "objects" / "pack" / f"pack-{'1' * 40}.pack"
    for path in (damaged, damaged.with_suffix(".idx")):
        path.write_bytes(b"no pack")
    os.utime(stamp, (0, 0))
    assert condition(await project(world))["reason"] == "Succeeded"
    assert stamp.stat().st_mtime > 0
