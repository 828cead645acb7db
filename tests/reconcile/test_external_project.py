"""ArenaProject of an external remote: when it is fetched, what its status says, and whose mirror it is."""

import base64
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

import pytest

from gitops.errors import GitError, RemoteCause, RemoteFailed, RepositoryBusy, StorageFailed
from gitops.remote import Credentials
from reconcile.cluster.port import ARENA_PROJECT, SECRET, Object
from reconcile.kinds.names import REQUESTED_SYNC
from reconcile.project.problems import problem_of
from tests.reconcile.conftest import BUNDLE, NAMESPACE, ProcessDied, World, condition, dying
from tests.reconcile.remotes import OTHER_URL, URL

FILES = {name: text.encode() for name, text in BUNDLE.items()}
GONE = RemoteFailed("cannot reach git.example.com: no route", cause=RemoteCause.UNREACHABLE, hint="check the network")


async def project(world: World) -> Object:
    """Look once and return the project."""
    await world.look(ARENA_PROJECT, "src")
    return await world.get(ARENA_PROJECT, "src")


async def patch(world: World, spec: dict[str, Any]) -> None:
    """Change the project's spec."""
    await world.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"spec": spec})


async def request_sync(world: World, value: str) -> None:
    """Ask for a fetch as a webhook does."""
    await world.cluster.patch(ARENA_PROJECT, NAMESPACE, "src", {"metadata": {"annotations": {REQUESTED_SYNC: value}}})


async def secret(world: World, **data: str | bytes) -> None:
    """Create or replace the Secret `read`."""
    encoded = {key.replace("_", "."): base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode() for key, value in data.items()}
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "read", "namespace": NAMESPACE}, "data": encoded}
    found = [item for item in (await world.cluster.list(SECRET, NAMESPACE)).items if item["metadata"]["name"] == "read"]
    await (world.cluster.update(document) if found else world.cluster.create(document))


def next_fetch(found: Object) -> datetime:
    """Return when the project is fetched next."""
    return datetime.fromisoformat(found["status"]["nextFetchTime"])


class TestFetching:
    """When the remote is asked."""

    async def test_the_first_look_fetches_and_exports(self, world: World) -> None:
        """Head, refs, times and columns stand in the status, and one event says what was mirrored."""
        upstream = await world.external_project()
        upstream.git("tag", "v1", "main")
        await request_sync(world, "now")
        found = await project(world)
        status, commit = found["status"], upstream.tip("refs/heads/main")
        assert condition(found)["message"] == f"main is {str(commit)[:12]}"
        assert (status["head"]["commit"], status["head"]["ref"], status["defaultBranch"]) == (commit, "refs/heads/main", "main")
        assert (status["repositoryURL"], status["display"]["kind"]) == (URL, "external")
        assert (status["refs"]["branches"], status["refs"]["tags"]) == (1, 1)
        assert status["lastHandledSync"] == "now"
        assert condition(found, "FetchFailed")["status"] == "False"
        assert await world.events("Mirrored") == [f"branches 1, tags 0 of {URL}"]

    async def test_two_passes_over_an_unchanged_world_write_nothing(self, world: World) -> None:
        """Until the next fetch is due a pass writes nothing, whether the last one was good or bad."""
        await world.external_project()
        for failure in (None, GONE):
            world.remotes.failure = failure
            await request_sync(world, f"{failure}")
            before = await project(world)
            assert (await project(world))["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert len(world.remotes.fetched) == 3

    async def test_a_poll_that_finds_nothing_is_one_write(self, world: World) -> None:
        """A poll writes when it happened and when the next one is due, and nothing else."""
        await world.external_project()
        before = await world.get(ARENA_PROJECT, "src")
        await world.clock.advance(400)
        after = await project(world)
        changed = {key for key in after["status"] if after["status"][key] != before["status"].get(key)}
        assert changed == {"lastFetchTime", "nextFetchTime"}

    async def test_polls_come_every_interval_give_or_take_a_tenth(self, world: World) -> None:
        """The next fetch is planned between 0.9 and 1.1 intervals ahead, and the plan survives a restart."""
        await world.external_project(pollInterval="100s")
        planned = next_fetch(await world.get(ARENA_PROJECT, "src"))
        assert timedelta(seconds=89) <= planned - world.clock.now() <= timedelta(seconds=110)
        restarted = world.beside()
        await restarted.look(ARENA_PROJECT, "src")
        assert not restarted.remotes.fetched
        await world.clock.advance((planned - world.clock.now()).total_seconds())
        await restarted.look(ARENA_PROJECT, "src")
        assert len(restarted.remotes.fetched) == 1

    async def test_backoff_survives_a_restart(self, world: World) -> None:
        """Failures are counted in the status: who starts anew waits as long as who saw them all."""
        world.remotes.failure = GONE
        await world.external_project(pollInterval="10s")
        for _ in range(4):
            await world.clock.advance((next_fetch(await world.get(ARENA_PROJECT, "src")) - world.clock.now()).total_seconds())
            again = world.beside()
            again.remotes.failure = GONE
            await again.look(ARENA_PROJECT, "src")
        found = await world.get(ARENA_PROJECT, "src")
        assert found["status"]["fetchFailure"]["count"] == 5
        assert timedelta(seconds=89) <= next_fetch(found) - world.clock.now() <= timedelta(seconds=100)

    async def test_retry_after_is_waited_for(self, world: World) -> None:
        """A host that says when to come back is not asked before."""
        world.remotes.failure = RemoteFailed("the host answers 429", cause=RemoteCause.BUSY, retry_after_s=600.0)
        await world.external_project(pollInterval="10s")
        found = await world.get(ARENA_PROJECT, "src")
        assert timedelta(seconds=599) <= next_fetch(found) - world.clock.now() <= timedelta(seconds=661)

    async def test_a_good_fetch_ends_the_backoff(self, world: World) -> None:
        """What failed is forgotten with the first good fetch, and the interval is the spec's again."""
        world.remotes.failure = GONE
        await world.external_project()
        world.remotes.failure = None
        await request_sync(world, "now")
        found = await project(world)
        assert "fetchFailure" not in found["status"]
        assert condition(found)["status"] == "True"
        assert next_fetch(found) - world.clock.now() <= timedelta(seconds=330)

    @pytest.mark.parametrize("change", ["request", "spec"])
    async def test_what_fetches_at_once(self, world: World, change: str) -> None:
        """A new requested-sync and a changed spec are fetches now, whatever was planned, and each value is one."""
        await world.external_project()
        for _ in range(2):
            await (request_sync(world, "a") if change == "request" else patch(world, {"external": {"pollInterval": "1h"}}))
            await project(world)
        assert len(world.remotes.fetched) == 2

    async def test_a_request_that_comes_during_a_fetch_is_the_next_ones(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was stamped while a fetch ran is not answered by it, and takes nothing from what it found."""
        await world.external_project()
        fetch = world.remotes.fetch

        async def interrupted(*arguments: Any) -> Any:
            state = await fetch(*arguments)
            await request_sync(world, "second")
            return state

        await request_sync(world, "first")
        with monkeypatch.context() as during:
            during.setattr(world.remotes, "fetch", interrupted)
            assert (await project(world))["status"]["lastHandledSync"] == "first"
        assert (await project(world))["status"]["lastHandledSync"] == "second"
        assert len(world.remotes.fetched) == 3

    async def test_requests_that_never_cease_are_answered(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is stamped while the head is exported takes nothing from the pass either: otherwise a busy repository would never answer anybody."""
        upstream = await world.external_project()
        commit, export = upstream.commit(files={**FILES, "new": b"x"}), world.snapshots.export

        async def interrupted(*arguments: Any) -> Any:
            snapshot = await export(*arguments)
            await request_sync(world, "second")
            return snapshot

        await request_sync(world, "first")
        with monkeypatch.context() as during:
            during.setattr(world.snapshots, "export", interrupted)
            status = (await project(world))["status"]
        assert (status["lastHandledSync"], status["head"]["commit"], len(world.remotes.fetched)) == ("first", commit, 2)

    async def test_what_had_no_turn_stays_due(self, world: World) -> None:
        """While others have every turn a changed spec is seen and nothing fetched; the head stays Ready, and the fetch comes with the next turn."""
        await world.external_project()
        with ExitStack() as others:
            while others.enter_context(world.projects_world.turns.take(NAMESPACE)):
                pass
            await patch(world, {"external": {"pollInterval": "1h"}})
            for _ in range(2):
                assert condition(await project(world))["status"] == "True"
            assert len(world.remotes.fetched) == 1
        assert "nextFetchTime" in (await project(world))["status"]
        assert len(world.remotes.fetched) == 2

    async def test_two_controllers_overwrite_nothing(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """What one that was overtaken during its fetch has found is dropped, and the status stays as the other wrote it."""
        await world.external_project()
        other, fetch = world.beside(), world.remotes.fetch

        async def overtaken(*arguments: Any) -> Any:
            await other.look(ARENA_PROJECT, "src")
            world.remotes.failure = GONE
            return await fetch(*arguments)

        await request_sync(world, "now")
        with monkeypatch.context() as during:
            during.setattr(world.remotes, "fetch", overtaken)
            found = await project(world)
        assert ("fetchFailure" in found["status"], found["status"]["lastHandledSync"], len(other.remotes.fetched)) == (False, "now", 1)

    async def test_a_suspended_project_is_not_fetched(self, world: World) -> None:
        """Suspend stops fetches, also requested ones; the head stays, and what was asked for is done when the project is resumed."""
        await world.external_project()
        await patch(world, {"suspend": True})
        await request_sync(world, "now")
        await world.clock.advance(4000)
        found = await project(world)
        assert (condition(found)["reason"], condition(found)["status"], len(world.remotes.fetched)) == ("Suspended", "True", 1)
        assert "nextFetchTime" not in found["status"]
        await patch(world, {"suspend": False})
        assert (await project(world))["status"]["lastHandledSync"] == "now"

    async def test_a_mirror_that_is_lost_is_fetched_again(self, world: World) -> None:
        """Without the repository on the volume the remote is fetched at once."""
        await world.external_project()
        await world.repositories.remove(world.project)
        assert condition(await project(world))["status"] == "True"
        assert await world.repositories.exists(world.project)

    @pytest.mark.parametrize("before", [pytest.param(True, id="before"), pytest.param(False, id="after")])
    @pytest.mark.parametrize("step", ["remove", "fetch", "refs", "patch_status", "export", "set_head", "prune", "maintain"])
    async def test_a_first_look_that_was_cut_off_is_finished(self, world: World, monkeypatch: pytest.MonkeyPatch, step: str, *, before: bool) -> None:
        """Wherever a controller dies in the first pass, the next one brings the project to Ready, with the refs that the remote has."""
        world.remotes.upstream().commit(files=FILES)
        await world.apply(ARENA_PROJECT, "src", {"external": {"url": URL}})
        owners: dict[str, Any] = {"fetch": world.remotes, "patch_status": world.cluster, "remove": world.repositories, "refs": world.repositories}
        owners |= {"maintain": world.repositories}
        owner = owners.get(step, world.snapshots)
        monkeypatch.setattr(owner, step, dying(getattr(owner, step), before=before))
        with pytest.raises(ProcessDied):
            await world.look(ARENA_PROJECT, "src")
        found = await project(world.beside())
        assert (condition(found)["status"], found["status"]["refs"]["branches"], found["status"]["snapshots"]["count"]) == ("True", 1, 1)

    @pytest.mark.parametrize("before", [pytest.param(True, id="before"), pytest.param(False, id="after")])
    async def test_a_fetch_whose_answer_was_lost_is_shown_by_the_next(self, world: World, monkeypatch: pytest.MonkeyPatch, *, before: bool) -> None:
        """Whoever dies between a fetch and the status leaves a mirror that is ahead; the next pass shows it, though the fetch then finds nothing new."""
        upstream = await world.external_project()
        upstream.commit("second", files=FILES)
        await request_sync(world, "now")
        with monkeypatch.context() as dies:
            dies.setattr(world.cluster, "patch_status", dying(world.cluster.patch_status, before=before))
            with pytest.raises(ProcessDied):
                await world.look(ARENA_PROJECT, "src")
        found = await project(world)
        assert (found["status"]["refs"]["branches"], found["status"]["lastHandledSync"]) == (2, "now")


class TestFailures:
    """What a failure is called, and that it takes no head away."""

    @pytest.mark.parametrize("cause", RemoteCause)
    def test_each_cause_has_its_reason(self, cause: RemoteCause) -> None:
        """What a person must correct has a reason of its own; all others say that the remote cannot be had, and how is in the message."""
        named = {RemoteCause.REFUSED: "AuthenticationFailed", RemoteCause.INVALID: "InvalidSpec"}
        problem = problem_of(RemoteFailed("it is so", cause=cause, hint="do this", retry_after_s=5.0))
        assert (problem.reason, problem.text, problem.retry_after_s) == (named.get(cause, "RemoteUnreachable"), "it is so; do this", 5.0)

    @pytest.mark.parametrize(
        ("failure", "reason"),
        [
            pytest.param(RemoteFailed("it is so", cause=RemoteCause.REFUSED, hint="do this"), "AuthenticationFailed", id="refused"),
            pytest.param(RemoteFailed("it is so", cause=RemoteCause.TIMED_OUT, hint="do this"), "RemoteUnreachable", id="timed out"),
            pytest.param(RemoteFailed("it is so", cause=RemoteCause.INVALID, hint="do this"), "InvalidSpec", id="invalid"),
            pytest.param(StorageFailed("it is so", hint="do this"), "StorageFailed", id="the volume"),
            pytest.param(RepositoryBusy("it is so", hint="do this"), "ProgressingWithRetry", id="in use"),
        ],
    )
    async def test_a_failure_comes_and_goes(self, world: World, failure: GitError, reason: str) -> None:
        """Before the first good fetch it is Ready=False with the reason; later Ready stays True, FetchFailed has it, and the next good fetch ends it."""
        world.remotes.failure = failure
        upstream = await world.external_project()
        found = await world.get(ARENA_PROJECT, "src")
        for kind, status in (("Ready", "False"), ("FetchFailed", "True")):
            said = condition(found, kind)
            assert (said["status"], said["reason"], said["message"]) == (status, reason, "it is so; do this")
        assert "head" not in found["status"]
        world.remotes.failure = None
        await request_sync(world, "good")
        assert condition(await project(world))["status"] == "True"
        world.remotes.failure = failure
        upstream.commit(files=FILES)
        await request_sync(world, "bad")
        found = await project(world)
        assert (condition(found)["status"], condition(found, "FetchFailed")["reason"]) == ("True", reason)
        assert reason in condition(found)["message"]
        world.remotes.failure = None
        await request_sync(world, "good again")
        found = await project(world)
        assert (condition(found, "FetchFailed")["status"], found["status"]["head"]["commit"]) == ("False", upstream.tip("refs/heads/main"))

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            pytest.param(None, "Secret 'read' does not exist", id="no Secret"),
            pytest.param({}, "neither 'token' nor", id="an empty one"),
            pytest.param({"username": "ada"}, "no key 'password'", id="no password"),
            pytest.param({"password": "x"}, "no key 'username'", id="no username"),
            pytest.param({"token": ""}, "neither 'token' nor", id="an empty token"),
            pytest.param({"token": b"\xff\xfe"}, "no text under 'token'", id="bytes that are no text"),
            pytest.param({"token": "a\nb"}, "more than one line", id="two lines"),
        ],
    )
    async def test_a_secret_that_will_not_do(self, world: World, data: dict[str, str | bytes] | None, said: str) -> None:
        """AuthenticationFailed names the Secret and the key, nothing of what it holds, and the remote is not asked."""
        if data is not None:
            await secret(world, **data)
        await world.external_project(secretRef={"name": "read"})
        found = condition(await world.get(ARENA_PROJECT, "src"))
        assert (found["reason"], said in found["message"], world.remotes.fetched) == ("AuthenticationFailed", True, []), found["message"]

    @pytest.mark.parametrize(
        ("data", "used"),
        [
            pytest.param({"username": "ada", "password": "x y"}, Credentials("ada", "x y"), id="username and password"),
            pytest.param({"token": "t0ken\n"}, Credentials(token="t0ken"), id="a token with the line feed of echo"),
            pytest.param({"token": "t", "username": "bot"}, Credentials("bot", token="t"), id="a token with its user"),
            pytest.param({"ca_crt": "PEM\n"}, Credentials(ca_certificates="PEM\n"), id="a public repository of a private authority"),
            pytest.param({"token": "t", "password": "p", "ca_crt": "PEM"}, Credentials(token="t", ca_certificates="PEM"), id="a token goes first"),
        ],
    )
    async def test_which_keys_mean_what(self, world: World, data: dict[str, str], used: Credentials) -> None:
        """A user name and password, or a token; ca.crt beside either, or alone."""
        await secret(world, **data)
        await world.external_project(secretRef={"name": "read"}, defaultBranch="main")
        assert [(remote.url, remote.credentials, remote.default_branch) for remote in world.remotes.fetched] == [(URL, used, "main")]

    async def test_a_rotated_secret_is_used_at_once(self, world: World) -> None:
        """A changed Secret is a fetch with what it holds now, also after a good one; it is not remembered in any status."""
        await secret(world, token="first-token")
        await world.external_project(secretRef={"name": "read"})
        await secret(world, token="second-token")
        found = await project(world)
        await project(world)
        assert [remote.credentials.token for remote in world.remotes.fetched] == ["first-token", "second-token"]
        assert "token" not in str(found["status"])

    async def test_a_missing_secret_that_comes_is_found(self, world: World) -> None:
        """The project waits for its Secret, and its coming ends the backoff."""
        await world.external_project(secretRef={"name": "read"})
        await secret(world, token="t")
        assert condition(await project(world))["status"] == "True"

    async def test_a_url_that_cannot_be_mirrored(self, lenient_world: World) -> None:
        """InvalidSpec, Stalled, with nothing asked: a store without our rules took it. Who waits for an answer has it."""
        await lenient_world.external_project(url="https://user:hunter2@git.example.com/p.git")
        await request_sync(lenient_world, "now")
        found = await project(lenient_world)
        assert found["status"]["lastHandledSync"] == "now"
        assert (condition(found)["reason"], condition(found, "Stalled")["status"]) == ("InvalidSpec", "True")
        assert ("hunter2" in condition(found)["message"], lenient_world.remotes.fetched) == (False, [])
        assert condition(found)["message"].endswith("; write it as https://host/path")


class TestBranches:
    """The default branch and the others, as the remote changes them."""

    async def test_an_empty_remote(self, world: World) -> None:
        """RemoteEmpty until the first push, and again when every branch is gone."""
        upstream = await world.external_project(files=None)
        assert condition(await world.get(ARENA_PROJECT, "src"))["reason"] == "RemoteEmpty"
        upstream.commit(files=FILES)
        await request_sync(world, "1")
        assert condition(await project(world))["status"] == "True"
        upstream.delete_ref("refs/heads/main")
        await request_sync(world, "2")
        found = await project(world)
        assert (condition(found)["reason"], "head" in found["status"]) == ("RemoteEmpty", False)

    async def test_a_default_branch_that_does_not_exist(self, world: World) -> None:
        """RefNotFound says its name; once it is pushed the project is Ready without help."""
        upstream = await world.external_project(defaultBranch="trunk")
        found = await world.get(ARENA_PROJECT, "src")
        assert (condition(found)["reason"], "'trunk'" in condition(found)["message"]) == ("RefNotFound", True)
        upstream.commit("trunk", files=FILES)
        await world.clock.advance(400)
        found = await project(world)
        assert (condition(found)["status"], found["status"]["head"]["ref"]) == ("True", "refs/heads/trunk")

    async def test_a_default_branch_that_goes_leaves_the_head(self, world: World) -> None:
        """While the branch of the exported head is gone, Ready stays True and FetchFailed is RefNotFound; another one of the spec takes the head away."""
        upstream = await world.external_project(defaultBranch="main")
        upstream.commit("other", files=FILES)
        upstream.delete_ref("refs/heads/main")
        await request_sync(world, "1")
        found = await project(world)
        assert (condition(found)["status"], condition(found, "FetchFailed")["reason"]) == ("True", "RefNotFound")
        await patch(world, {"external": {"defaultBranch": "neither"}})
        assert condition(await project(world))["reason"] == "RefNotFound"
        await patch(world, {"external": {"defaultBranch": "refs/heads/other"}})
        found = await project(world)
        assert (condition(found)["status"], found["status"]["defaultBranch"]) == ("True", "other")

    async def test_a_head_of_the_remote_that_names_nothing(self, world: World) -> None:
        """A dangling HEAD is RefNotFound with the remedy, until it names a branch."""
        upstream = world.remotes.upstream()
        upstream.set_head("gone")
        await world.external_project()
        found = condition(await world.get(ARENA_PROJECT, "src"))
        assert (found["reason"], "spec.external.defaultBranch" in found["message"]) == ("RefNotFound", True)
        upstream.set_head("main")
        await request_sync(world, "1")
        assert condition(await project(world))["status"] == "True"

    async def test_what_a_team_does_to_its_branches(self, world: World) -> None:
        """Forced, renamed, deleted, recreated, another default, a moved tag: followed, and each fetch says its changes in one event."""
        upstream = await world.external_project()
        first = str(upstream.tip("refs/heads/main"))
        upstream.set_ref("refs/heads/old", upstream.commit("topic", files=FILES))
        upstream.set_ref("refs/tags/v1", first)
        upstream.delete_ref("refs/heads/topic")
        await request_sync(world, "1")
        await project(world)
        forced = upstream.commit(files=FILES, parent=None)
        upstream.set_ref("refs/heads/new", str(upstream.tip("refs/heads/old")))
        upstream.delete_ref("refs/heads/old")
        upstream.set_ref("refs/tags/v1", forced)
        upstream.set_head("new")
        await request_sync(world, "2")
        found = await project(world)
        assert (found["status"]["defaultBranch"], found["status"]["head"]["commit"]) == ("new", upstream.tip("refs/heads/new"))
        made, changed = await world.events("RefsChanged")
        if "default" in made:
            made, changed = changed, made
        assert made == "new: old, tags/v1"
        assert changed == (
            f"the default branch is new, was main; renamed: old to new; forced: main ({first[:12]} to {forced[:12]}); "
            f"moved tags: tags/v1 ({first[:12]} to {forced[:12]})"
        )

    async def test_a_head_that_cannot_be_exported(self, world: World) -> None:
        """SnapshotUnexportable: without a head it is Ready's reason, with one FetchFailed's; the next good commit ends it."""
        upstream = await world.external_project()
        good = upstream.tip("refs/heads/main")
        await patch(world, {"snapshots": {"maxFiles": len(FILES)}})
        upstream.commit(files={**FILES, "more": b"x"})
        found = await project(world)
        assert (condition(found)["status"], condition(found, "FetchFailed")["reason"]) == ("True", "SnapshotUnexportable")
        assert found["status"]["head"]["commit"] == good
        upstream.set_ref("refs/heads/main", upstream.commit(files=FILES, parent=None))
        await request_sync(world, "1")
        assert condition(await project(world), "FetchFailed")["status"] == "False"

    async def test_refs_that_no_mirror_can_hold(self, world: World) -> None:
        """They are named in a Warning once, not at every poll."""
        world.remotes.skipped = ("refs/heads/a\\x00b",)
        await world.external_project()
        await world.clock.advance(400)
        await project(world)
        assert await world.events("RefsSkipped") == ["not mirrored: a\\x00b"]


class TestWhoseMirror:
    """A mirror answers for the remote that it holds, and for no other."""

    async def test_another_url(self, world: World) -> None:
        """The old remote's refs are gone before the new one is asked, so none of them answers while the new one is down."""
        upstream = await world.external_project()
        world.remotes.failure = GONE
        await patch(world, {"external": {"url": OTHER_URL}})
        found = await project(world)
        assert (condition(found)["reason"], "head" in found["status"], "lastFetchTime" in found["status"]) == ("RemoteUnreachable", False, False)
        assert (await world.repositories.exists(world.project), await world.snapshots.head(world.project)) == (False, None)
        assert await world.events("RemoteReplaced")
        world.remotes.failure = None
        world.remotes.upstream(OTHER_URL).commit(files={**FILES, "other": b"x"})
        await request_sync(world, "1")
        found = await project(world)
        assert found["status"]["head"]["commit"] == world.remotes.upstream(OTHER_URL).tip("refs/heads/main") != upstream.tip("refs/heads/main")

    @pytest.mark.parametrize("url", [URL, OTHER_URL])
    async def test_what_an_object_of_the_name_left_behind(self, world: World, url: str) -> None:
        """A project that was made again under its name begins with nothing, also when the one before went without its finalizer."""
        await world.external_project()
        found = await world.get(ARENA_PROJECT, "src")
        await world.cluster.patch(
            ARENA_PROJECT, NAMESPACE, "src", {"metadata": {"finalizers": None}}, resource_version=found["metadata"]["resourceVersion"]
        )
        await world.cluster.delete(ARENA_PROJECT, NAMESPACE, "src")
        assert await world.repositories.exists(world.project)
        world.remotes.failure = GONE
        await world.external_project(files=None, url=url)
        assert (await world.repositories.exists(world.project), await world.snapshots.head(world.project)) == (False, None)

    async def test_a_deleted_project_takes_its_mirror_along(self, world: World) -> None:
        """Nothing is retained: the remote has it all."""
        await world.external_project()
        uid = (await world.get(ARENA_PROJECT, "src"))["metadata"]["uid"]
        await world.cluster.delete(ARENA_PROJECT, NAMESPACE, "src")
        await world.look(ARENA_PROJECT, "src")
        assert (await world.cluster.list(ARENA_PROJECT, NAMESPACE)).items == []
        for path in (world.volume.repository(world.project), world.volume.retained(world.project, uid), world.volume.sources(world.project)):
            assert not path.exists()
