"""A run of an external project: how new the mirror must be, and what becomes of the run when it cannot be had."""

import asyncio
from typing import Any

import pytest

from gitops.errors import RemoteCause, RemoteFailed
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, Object
from reconcile.kinds.names import REQUESTED_SYNC
from reconcile.run.freshness import FRESH
from tests.mirror.https_host import Upstream
from tests.reconcile.conftest import BUNDLE, NAMESPACE, ProcessDied, World, condition, dying
from tests.reconcile.remotes import OTHER_URL, URL

FILES = {name: text.encode() for name, text in BUNDLE.items()}
GONE = RemoteFailed("cannot reach git.example.com: no route", cause=RemoteCause.UNREACHABLE)
LATE = FRESH.total_seconds() + 5


async def look_at_run(world: World) -> Object:
    """Look at the only run once and return it."""
    run = await world.run()
    await world.look(ARENA_RUN, run["metadata"]["name"])
    return await world.run()


async def job_of(world: World, ref: str = "") -> None:
    """Create a job at a ref, and its first run."""
    await (world.job(ref=ref) if ref else world.job())
    await world.look(ARENA_JOB, "eval")


async def stamp(world: World, value: str) -> None:
    """Ask for a fetch, as a webhook or a person does."""
    await world.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"metadata": {"annotations": {REQUESTED_SYNC: value}}})


def pinned(run: Object) -> str:
    """Return the run's commit, "" while it has none."""
    return str((run["status"].get("source") or {}).get("commit", ""))


@pytest.fixture
async def upstream(world: World) -> Upstream:
    """The team's repository, mirrored just now."""
    return await world.external_project()


class TestBranches:
    """A run at a branch or tag tests what the remote has now."""

    @pytest.mark.parametrize("ref", ["", "main", "refs/heads/main"])
    async def test_a_late_run_asks_for_a_fetch_and_gets_the_newest(self, world: World, upstream: Upstream, ref: str) -> None:
        """With the last fetch 30 s ago the run waits for the project controller's next one, and pins what that brings."""
        newest = upstream.commit(files=FILES)
        await world.clock.advance(LATE)
        await job_of(world, ref)
        waiting = await look_at_run(world)
        assert (condition(waiting)["reason"], pinned(waiting), len(world.remotes.fetched)) == ("Progressing", "", 1)
        await world.look(ARENA_PROJECT, "src")
        run = await look_at_run(world)
        source = run["status"]["source"]
        assert (source["commit"], source["ref"], source["repository"]) == (newest, ref or "main", URL)
        assert (await world.get(ARENA_PROJECT, "src"))["status"]["lastHandledSync"] == run["status"]["fetchRequest"]
        assert await world.events("StaleSource") == []

    async def test_a_fresh_mirror_answers_at_once(self, world: World, upstream: Upstream) -> None:
        """Within 30 s of a good fetch nothing is asked for."""
        mirrored = upstream.tip("refs/heads/main")
        upstream.commit(files=FILES)
        await job_of(world)
        assert pinned(await look_at_run(world)) == mirrored
        assert len(world.remotes.fetched) == 1

    async def test_a_mirror_that_is_not_the_newest_says_so(self, world: World, upstream: Upstream) -> None:
        """If the fetch that the run asked for fails, the mirror answers, with a Warning that has the cause and the time of the last good one."""
        await world.clock.advance(LATE)
        world.remotes.failure = GONE
        await job_of(world)
        await look_at_run(world)
        await world.look(ARENA_PROJECT, "src")
        assert pinned(await look_at_run(world)) == upstream.tip("refs/heads/main")
        (said,) = await world.events("StaleSource")
        assert ("RemoteUnreachable: cannot reach" in said, "2026-01-01T00:00:00Z" in said) == (True, True), said

    async def test_a_suspended_project_answers_without_a_fetch(self, world: World, upstream: Upstream) -> None:
        """Nothing is fetched for a run of a suspended project; the Warning says that it is suspended."""
        await world.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"spec": {"suspend": True}})
        await world.look(ARENA_PROJECT, "src")
        await world.clock.advance(LATE)
        await job_of(world)
        assert pinned(await look_at_run(world)) == upstream.tip("refs/heads/main")
        assert "suspended" in (await world.events("StaleSource"))[0]

    async def test_another_request_that_came_later_answers_too(self, world: World, upstream: Upstream) -> None:
        """A webhook that overwrites the run's request is followed by a fetch that sees all that the run wanted to see."""
        newest = upstream.commit(files=FILES)
        await world.clock.advance(LATE)
        await job_of(world)
        await look_at_run(world)
        await stamp(world, "hook-1")
        assert pinned(await look_at_run(world)) == ""
        await world.look(ARENA_PROJECT, "src")
        assert pinned(await look_at_run(world)) == newest
        assert len(world.remotes.fetched) == 2

    @pytest.mark.parametrize("failure", [pytest.param(None, id="good"), pytest.param(GONE, id="failed")])
    async def test_a_run_does_not_wait_for_requests_to_cease(
        self, world: World, monkeypatch: pytest.MonkeyPatch, upstream: Upstream, failure: RemoteFailed | None
    ) -> None:
        """Of a repository that is pushed to faster than it is fetched, every fetch answers a request that another has overwritten: one that began later will do."""
        ref = "main" if failure else "nobody"
        assert upstream.tip("refs/heads/main")
        await world.clock.advance(LATE)
        await job_of(world, ref)
        await look_at_run(world)
        await stamp(world, "hook-1")
        await world.clock.advance(2)
        fetch, world.remotes.failure = world.remotes.fetch, failure

        async def interrupted(*arguments: Any) -> Any:
            await stamp(world, "hook-2")
            return await fetch(*arguments)

        with monkeypatch.context() as during:
            during.setattr(world.remotes, "fetch", interrupted)
            await world.look(ARENA_PROJECT, "src")
        run = await look_at_run(world)
        assert (bool(pinned(run)), condition(run)["reason"] == "RefNotFound") == (bool(failure), not failure)

    async def test_a_request_that_was_undone_is_made_again(self, world: World, upstream: Upstream) -> None:
        """Whoever applies a manifest with an old stamp takes the run's away: the answer to the old one is none for the run."""
        await stamp(world, "by-hand")
        await world.look(ARENA_PROJECT, "src")
        newest = upstream.commit(files=FILES)
        await world.clock.advance(LATE)
        await job_of(world)
        await look_at_run(world)
        await stamp(world, "by-hand")
        assert pinned(await look_at_run(world)) == ""
        await world.look(ARENA_PROJECT, "src")
        assert pinned(await look_at_run(world)) == newest

    async def test_ten_runs_are_one_fetch(self, world: World, upstream: Upstream) -> None:
        """However many runs ask before the project is looked at, the remote is asked once."""
        assert upstream.tip("refs/heads/main")
        await world.clock.advance(LATE)
        for number in range(10):
            await world.job(f"eval-{number}")
        for _ in range(2):
            for kind in (ARENA_JOB, ARENA_RUN, ARENA_PROJECT, ARENA_RUN):
                for obj in (await world.cluster.list(kind, NAMESPACE)).items:
                    await world.look(kind, obj["metadata"]["name"])
        assert all(pinned(run) for run in await world.runs())
        assert len(world.remotes.fetched) == 2

    @pytest.mark.parametrize("before", [pytest.param(True, id="before"), pytest.param(False, id="after")])
    @pytest.mark.parametrize("verb", ["patch", "patch_status"])
    async def test_a_death_while_it_asks(self, world: World, monkeypatch: pytest.MonkeyPatch, upstream: Upstream, verb: str, *, before: bool) -> None:
        """Whoever dies around the request leaves a run that asks again, or goes on, and pins the newest."""
        newest = upstream.commit(files=FILES)
        await world.clock.advance(LATE)
        await job_of(world)
        calls = {"patch": lambda kind, *_, **__: kind is ARENA_PROJECT, "patch_status": lambda kind, *_, **__: kind is ARENA_RUN}
        with monkeypatch.context() as dies:
            dies.setattr(world.cluster, verb, dying(getattr(world.cluster, verb), before=before, when=calls[verb]))
            with pytest.raises(ProcessDied):
                await look_at_run(world)
        for _ in range(2):
            await look_at_run(world)
            await world.look(ARENA_PROJECT, "src")
        assert pinned(await look_at_run(world)) == newest


class TestNames:
    """What the mirror does not know is asked for once, and then it is RefNotFound."""

    @pytest.mark.parametrize("kind", ["branch", "tag", "sha"])
    async def test_what_was_just_pushed_is_found(self, world: World, upstream: Upstream, kind: str) -> None:
        """A branch, a tag or a SHA that came after the last fetch is fetched, however fresh that was."""
        commit = upstream.commit("topic", files=FILES)
        upstream.git("tag", "-a", "-m", "x", "v1", commit)
        await job_of(world, {"branch": "topic", "tag": "v1", "sha": commit}[kind])
        await look_at_run(world)
        await world.look(ARENA_PROJECT, "src")
        assert pinned(await look_at_run(world)) == commit
        assert len(world.remotes.fetched) == 2

    @pytest.mark.parametrize("ref", ["nobody", "1" * 40, "refs/heads/nobody", "refs/pull/9/head"])
    async def test_what_the_remote_does_not_have(self, world: World, upstream: Upstream, ref: str) -> None:
        """After one fetch it is RefNotFound, and the run has ended."""
        assert upstream.refs()
        await job_of(world, ref)
        for _ in range(2):
            await look_at_run(world)
            await world.look(ARENA_PROJECT, "src")
        run = await look_at_run(world)
        assert (run["status"]["phase"], condition(run)["reason"]) == ("Failed", "RefNotFound")
        assert len(world.remotes.fetched) + len(world.remotes.by_name) == 2

    async def test_a_remote_that_does_not_answer_holds_one_run(self, world: World, monkeypatch: pytest.MonkeyPatch, upstream: Upstream) -> None:
        """While one run waits for a ref by its name the next of its namespace ends its pass, says so, and has its turn later."""
        upstream.set_ref("refs/pull/7/head", upstream.commit("topic", files=FILES))
        asked, answer, fetch = asyncio.Event(), asyncio.Event(), world.remotes.fetch_ref

        async def silent(*arguments: Any) -> bool:
            asked.set()
            await answer.wait()
            return await fetch(*arguments)

        monkeypatch.setattr(world.remotes, "fetch_ref", silent)
        for number in range(2):
            await world.job(f"eval-{number}", ref="refs/pull/7/head")
            await world.look(ARENA_JOB, f"eval-{number}")
        first, second = (run["metadata"]["name"] for run in await world.runs())
        held = asyncio.create_task(world.look(ARENA_RUN, first))
        await asked.wait()
        await world.look(ARENA_RUN, second)
        assert "waiting for its turn" in condition(await world.get(ARENA_RUN, second))["message"]
        answer.set()
        await held
        await world.look(ARENA_RUN, second)
        assert all(pinned(run) for run in await world.runs())

    async def test_a_known_sha_needs_no_remote(self, world: World, upstream: Upstream) -> None:
        """A commit is what it is: with the remote down and the mirror old it runs, without a Warning."""
        commit = str(upstream.tip("refs/heads/main"))
        await world.clock.advance(LATE)
        world.remotes.failure = GONE
        await job_of(world, commit)
        assert pinned(await look_at_run(world)) == commit
        assert (len(world.remotes.fetched), await world.events("StaleSource")) == (1, [])

    @pytest.mark.parametrize("ref", ["topic", "refs/pull/7/head"])
    async def test_an_outage_is_not_an_answer(self, world: World, upstream: Upstream, ref: str) -> None:
        """A ref that the mirror lacks while the remote is down is not RefNotFound: the run waits, and starts when the remote is back."""
        commit = upstream.commit("topic", files=FILES)
        upstream.set_ref("refs/pull/7/head", commit)
        world.remotes.failure = GONE
        await job_of(world, ref)
        for _ in range(3):
            await look_at_run(world)
            await world.look(ARENA_PROJECT, "src")
        run = await look_at_run(world)
        assert (condition(run)["reason"], "could not be asked" in condition(run)["message"]) == ("ProjectNotReady", True)
        world.remotes.failure = None
        await world.clock.advance(400)
        await world.look(ARENA_PROJECT, "src")
        assert pinned(await look_at_run(world)) == commit

    @pytest.mark.parametrize("later", ["refs/pull/7/head", "pull/7/head"])
    async def test_a_full_name_outside_of_branches_is_fetched_each_time(self, world: World, upstream: Upstream, later: str) -> None:
        """`refs/pull/7/head` is brought by its name before each run, since no poll brings it; also for one that names it in short, as git lets it."""
        for number, ref in enumerate(("refs/pull/7/head", later)):
            commit = upstream.commit("pulled", files={**FILES, "n": str(number).encode()})
            upstream.set_ref("refs/pull/7/head", commit)
            await world.job(f"eval-{number}", ref=ref)
            await world.look(ARENA_JOB, f"eval-{number}")
            for run in await world.runs():
                await world.look(ARENA_RUN, run["metadata"]["name"])
            assert commit in [pinned(run) for run in await world.runs()]
        assert world.remotes.by_name == ["refs/pull/7/head"] * 2


class TestWaiting:
    """A run that cannot start yet."""

    async def test_runs_of_an_empty_remote_start_at_the_first_push(self, world: World) -> None:
        """RemoteEmpty keeps them Pending with the reason, and the next fetch starts them."""
        upstream = await world.external_project(files=None)
        await job_of(world)
        waiting = await look_at_run(world)
        assert (condition(waiting)["reason"], "RemoteEmpty" in condition(waiting)["message"]) == ("ProjectNotReady", True)
        commit = upstream.commit(files=FILES)
        await world.clock.advance(400)
        await world.look(ARENA_PROJECT, "src")
        assert pinned(await look_at_run(world)) == commit

    @pytest.mark.parametrize("looked", [pytest.param(False, id="before the project is looked at"), pytest.param(True, id="after")])
    async def test_refs_of_an_old_remote_answer_nobody(self, world: World, upstream: Upstream, *, looked: bool) -> None:
        """From the moment that the URL is another one, no run starts on what the old remote had."""
        commit = str(upstream.tip("refs/heads/main"))
        await world.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"spec": {"external": {"url": OTHER_URL}}})
        world.remotes.failure = GONE
        await job_of(world, commit)
        if looked:
            await world.look(ARENA_PROJECT, "src")
        assert condition(await look_at_run(world))["reason"] == "ProjectNotReady"
        world.remotes.failure = None
        world.remotes.upstream(OTHER_URL).commit(files={**FILES, "other": b"x"})
        for _ in range(3):
            await world.clock.advance(400)
            await world.look(ARENA_PROJECT, "src")
            await look_at_run(world)
        assert condition(await look_at_run(world))["reason"] == "RefNotFound"

    async def test_a_forced_branch_takes_nothing_from_a_run(self, world: World, upstream: Upstream) -> None:
        """What a run has pinned stays in the mirror when the branch is forced and fetched, so its files can be exported again."""
        await job_of(world)
        run = await look_at_run(world)
        upstream.commit(files={**FILES, "other": b"x"}, parent=None)
        await world.clock.advance(400)
        await world.look(ARENA_PROJECT, "src")
        assert await world.repositories.pins(world.project) == {run["metadata"]["uid"]: pinned(run)}
        assert (await world.repositories.describe(world.project, pinned(run))).commit == pinned(run)

    async def test_the_mirror_of_a_deleted_project_waits_for_pinned_runs(self, world: World, upstream: Upstream) -> None:
        """They end first, by name; a run that has pinned nothing keeps nothing."""
        assert upstream.refs()
        await job_of(world)
        run = await look_at_run(world)
        await world.cluster.delete(ARENA_PROJECT, NAMESPACE, "src")
        await world.look(ARENA_PROJECT, "src")
        found: dict[str, Any] = await world.get(ARENA_PROJECT, "src")
        assert (condition(found)["reason"], run["metadata"]["name"] in condition(found)["message"]) == ("ProjectInUse", True)
        assert await world.repositories.exists(world.project)
