"""onPush over every branch of an external project: which commits start a run, from where on they are compared, and what is remembered."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, Object
from reconcile.kinds.job import MAX_WATCHED
from reconcile.kinds.names import REQUESTED_SYNC
from tests.mirror.https_host import Upstream
from tests.reconcile.conftest import BUNDLE, NAMESPACE, World, condition

FILES = {name: text.encode() for name, text in BUNDLE.items()}
ALL = {"branches": ["**"]}
Change = Callable[[Upstream], Any]


def files(**changed: str) -> dict[str, bytes]:
    """Return the bundle with some files more; `__` is a slash and `_` a dot."""
    return {**FILES, **{name.replace("__", "/").replace("_", "."): text.encode() for name, text in changed.items()}}


async def fetch(world: World) -> None:
    """Let the project see what the team has pushed, and then the job."""
    stamp = {"metadata": {"annotations": {REQUESTED_SYNC: f"{len(world.remotes.fetched)}"}}}
    await world.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", stamp)
    await world.look(ARENA_PROJECT, "src")
    await world.look(ARENA_JOB, "eval")


async def watching(world: World, on_push: Mapping[str, Any], before: Change = lambda _: None, **spec: Any) -> Upstream:
    """Mirror a repository with main, and a job whose first run has pinned its commit."""
    upstream = world.remotes.upstream()
    upstream.commit(files=FILES)
    before(upstream)
    await world.external_project(files=None)
    await world.job(onPush=dict(on_push), **spec)
    await world.look(ARENA_JOB, "eval")
    await world.look(ARENA_RUN, (await world.run())["metadata"]["name"])
    await world.look(ARENA_JOB, "eval")
    return upstream


async def pushed(world: World) -> list[tuple[str, str]]:
    """Return branch and commit of each Push run."""
    runs = [run for run in await world.runs() if run["spec"]["trigger"] == "Push"]
    asked = "arena.omnia.altairalabs.ai/requested-ref"
    return sorted((run["metadata"]["annotations"][asked].removeprefix("refs/heads/"), run["spec"]["template"]["ref"]) for run in runs)


async def remembered(world: World) -> dict[str, int]:
    """Return the branches of lastPush, with the number of runs that each has made."""
    status: dict[str, Any] = (await world.get(ARENA_JOB, "eval"))["status"]
    return {entry["ref"].removeprefix("refs/heads/"): entry["count"] for entry in status["lastPush"]}


def fork(branch: str, **changed: str) -> Change:
    """Return the push of a new branch that begins at main."""
    return lambda upstream: upstream.commit(branch, files(**changed), parent=upstream.tip("refs/heads/main"))


def nothing(_: Upstream) -> None:
    """Push nothing."""


PATHS = {"branches": ["**"], "paths": ["prompts/**", "*.yaml"]}
CASES = [
    pytest.param(ALL, fork("old", a="1"), nothing, [], id="branches that were there start none"),
    pytest.param(ALL, nothing, fork("new", a="1"), ["new"], id="a branch that came later"),
    pytest.param(ALL, nothing, lambda up: up.set_ref("refs/heads/new", up.tip("refs/heads/main")), [], id="a new branch that adds nothing to main"),
    pytest.param(ALL, fork("old", a="1"), lambda up: up.commit("old", files(a="2")), ["old"], id="a commit on a branch that was there"),
    pytest.param(
        {"branches": ["release/*"]},
        nothing,
        lambda up: [fork(name, a="1")(up) for name in ("release/1", "release/2/x", "topic")],
        ["release/1"],
        id="a star stays within a segment",
    ),
    pytest.param({"branches": ["release/**"]}, nothing, fork("release/1/x", a="1"), ["release/1/x"], id="two stars cross it"),
    pytest.param({"branches": ["topic"]}, nothing, lambda up: up.commit(files=files(a="1")), [], id="the job's own branch, which no glob names"),
    pytest.param({}, nothing, fork("new", a="1"), [], id="without globs the job's ref alone"),
    pytest.param({}, nothing, lambda up: up.commit(files=files(a="1")), ["main"], id="and that one"),
    pytest.param(
        ALL,
        nothing,
        lambda up: [fork(n, a=n)(up) for n in ("x", "y")] + [up.commit(files=files(a="1"))],
        ["main", "x", "y"],
        id="several branches at once",
    ),
    pytest.param(PATHS, nothing, fork("new", docs__a="1"), [], id="a path that does not matter"),
    pytest.param(PATHS, nothing, fork("new", prompts__deep__a="1"), ["new"], id="a path below two stars"),
    pytest.param(
        PATHS,
        fork("old", prompts__a="1"),
        lambda up: up.commit("old", files(docs__a="1"), parent=up.tip("refs/heads/main")),
        ["old"],
        id="a file that moved away: its old place counts",
    ),
    pytest.param(
        PATHS,
        fork("old", docs__a="1"),
        lambda up: up.commit("old", files(prompts__a="1")),
        ["old"],
        id="a file that moved here: its new place counts",
    ),
    pytest.param(
        PATHS,
        nothing,
        lambda up: [fork("new", docs__a="1")(up), up.commit(files=files(prompts__a="1"))],
        ["main"],
        id="what main got since the branch left is not the branch's",
    ),
    pytest.param(
        PATHS,
        nothing,
        lambda up: up.commit("alone", files(docs__a="1"), parent=None),
        ["alone"],
        id="a branch that shares nothing with main: all is new",
    ),
    pytest.param(ALL, fork("old", a="1"), lambda up: up.commit("old", files(b="1"), parent=None), ["old"], id="a forced branch"),
    pytest.param(
        ALL,
        fork("old", a="1"),
        lambda up: [up.set_ref("refs/heads/renamed", up.tip("refs/heads/old")), up.delete_ref("refs/heads/old")],
        ["renamed"],
        id="a renamed branch is a new one",
    ),
]


@pytest.mark.parametrize(("on_push", "before", "change", "branches"), CASES)
async def test_which_pushes_start_a_run(world: World, on_push: dict[str, Any], before: Change, change: Change, branches: list[str]) -> None:
    """Each matching branch whose new commit touches a path that matters gets one run of that commit, and however often one looks, no second."""
    upstream = await watching(world, on_push, before)
    assert await pushed(world) == []
    change(upstream)
    await fetch(world)
    await fetch(world)
    assert await pushed(world) == [(branch, upstream.tip(f"refs/heads/{branch}")) for branch in branches]


async def test_the_run_tests_the_commit_of_the_branch(world: World) -> None:
    """Snapshot and plan are the pushed commit's, though the job's ref is main, and the run says which branch it was."""
    upstream = await watching(world, ALL)
    commit = upstream.commit("new", files(config_arena_yaml=BUNDLE["config.arena.yaml"].replace("0.1", "0.7")))
    await fetch(world)
    (run,) = [run for run in await world.runs() if run["spec"]["trigger"] == "Push"]
    await world.look(ARENA_RUN, run["metadata"]["name"])
    run = await world.get(ARENA_RUN, run["metadata"]["name"])
    source = run["status"]["source"]
    assert (source["commit"], source["ref"], run["status"]["phase"]) == (commit, "refs/heads/new", "Running")
    assert "0.7" in (world.volume.snapshot(world.project, commit) / "config.arena.yaml").read_text()


async def test_pushes_that_nobody_saw_are_one_comparison(world: World) -> None:
    """Of three commits between two looks the newest gets a run, compared with the last that was seen, and the others are named."""
    upstream = await watching(world, {"branches": ["**"], "paths": ["prompts/**"]})
    passed = [upstream.commit(files=files(prompts__a="1")), upstream.commit(files=files(prompts__a="1", docs__b="2"))]
    newest = upstream.commit(files=files(prompts__a="1", docs__b="3"))
    await fetch(world)
    assert await pushed(world) == [("main", newest)]
    assert await world.events("PushSuperseded") == [f"superseded by {newest[:12]} before they ran: {', '.join(commit[:12] for commit in passed)}"]


async def test_one_branch_replaces_no_other(world: World) -> None:
    """Replace cancels the active Push run of the same branch alone."""
    upstream = await watching(world, ALL)
    for name in ("x", "y"):
        upstream.commit(name, files(a=name))
    await fetch(world)
    newest = upstream.commit("x", files(a="newer"))
    await fetch(world)
    cancelled = {run["spec"]["template"]["ref"] for run in await world.runs() if run["spec"].get("cancelled")}
    assert len(await pushed(world)) == 3
    assert cancelled == {commit for branch, commit in await pushed(world) if branch == "x" and commit != newest}


async def test_branches_that_are_gone_are_forgotten(world: World) -> None:
    """A deleted branch leaves lastPush; made again, it is compared with its merge base like any new one."""
    upstream = await watching(world, ALL, fork("old", a="1"))
    assert await remembered(world) == {"main": 0, "old": 0}
    commit = str(upstream.tip("refs/heads/old"))
    upstream.delete_ref("refs/heads/old")
    await fetch(world)
    assert await remembered(world) == {"main": 0}
    upstream.set_ref("refs/heads/old", commit)
    await fetch(world)
    assert (await remembered(world), await pushed(world)) == ({"main": 0, "old": 1}, [("old", commit)])


async def test_a_new_glob_starts_none(world: World) -> None:
    """Branches that a changed spec comes to watch were there before: the next push to one of them is the first that counts."""
    upstream = await watching(world, {"branches": ["main"]}, fork("release/1", a="1"))
    await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"spec": {"onPush": {"branches": ["main", "release/*"]}}})
    await fetch(world)
    assert (await pushed(world), await remembered(world)) == ([], {"main": 0, "release/1": 0})
    upstream.commit("release/1", files(a="2"))
    upstream.commit("release/2", files(a="3"), parent=upstream.tip("refs/heads/main"))
    await fetch(world)
    assert [branch for branch, _ in await pushed(world)] == ["release/1", "release/2"]


async def test_pushes_before_the_first_run_is_pinned_start_none(world: World) -> None:
    """What was pushed until then counts as seen, on every branch; main is compared with what the first run has pinned."""
    upstream = world.remotes.upstream()
    await world.external_project()
    await world.job(onPush=ALL)
    await world.look(ARENA_JOB, "eval")
    upstream.commit("early", files(a="1"))
    await fetch(world)
    assert "lastPush" not in (await world.get(ARENA_JOB, "eval"))["status"]
    await world.look(ARENA_RUN, (await world.run())["metadata"]["name"])
    later = upstream.commit(files=files(b="1"))
    await fetch(world)
    assert await pushed(world) == [("main", later)]


async def test_the_first_push_to_an_empty_remote_starts_one_run(world: World) -> None:
    """A job that waited for the first commit tests it once: by its first run, although no branch was there when its globs were first seen."""
    upstream = world.remotes.upstream()
    await world.external_project(files=None)
    await world.job(onPush=ALL)
    await world.look(ARENA_JOB, "eval")
    await fetch(world)
    first = upstream.commit(files=FILES)
    await fetch(world)
    await world.look(ARENA_RUN, (await world.run())["metadata"]["name"])
    await world.look(ARENA_JOB, "eval")
    assert await pushed(world) == []
    assert await remembered(world) == {"main": 0}
    assert (await world.run())["status"]["source"]["commit"] == first


@pytest.mark.slow
async def test_more_branches_than_can_be_watched(world: World) -> None:
    """It is said, by number and remedy, and no push starts a run until fewer match; runs that are asked for start all the same."""
    upstream = await watching(world, {"branches": ["main"]})
    tip = upstream.tip("refs/heads/main")
    upstream.git("update-ref", "--stdin", stdin="".join(f"create refs/heads/b/{n} {tip}\n" for n in range(MAX_WATCHED)).encode())
    await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"spec": {"onPush": ALL}})
    await world.cluster.patch(ARENA_JOB, NAMESPACE, "eval", {"metadata": {"annotations": {"arena.omnia.altairalabs.ai/requested-run": "1"}}})
    await fetch(world)
    found: Object = await world.get(ARENA_JOB, "eval")
    assert (condition(found)["reason"], f"matches {MAX_WATCHED + 1} branches" in condition(found)["message"]) == ("InvalidSpec", True)
    assert len(await world.runs()) == 2
    upstream.delete_ref("refs/heads/b/0")
    await fetch(world)
    assert condition(await world.get(ARENA_JOB, "eval"))["status"] == "True"
    assert len(await remembered(world)) == MAX_WATCHED


async def test_a_glob_that_cannot_be_read(lenient_world: World) -> None:
    """A store without our rules took it: the job says so, and what it asks besides goes on."""
    await watching(lenient_world, {"branches": ["[a"]})
    found = await lenient_world.get(ARENA_JOB, "eval")
    assert (condition(found)["reason"], condition(found, "Stalled")["status"], len(await lenient_world.runs())) == ("InvalidSpec", "True", 1)
