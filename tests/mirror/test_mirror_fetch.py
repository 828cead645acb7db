"""What a mirror follows: branches, tags, the default branch, object formats, and names that it cannot hold."""

import asyncio
import os
from uuid import uuid4

import pytest

from gitops.errors import RefNotFound, RemoteCause, RepositoryExists
from gitops.mirrors import RefChange
from tests.mirror.conftest import PROJECT, Mirrored
from tests.mirror.https_host import HttpsHost, Upstream, git

MAIN = "refs/heads/main"
SHORT_ENOUGH = "n" * 250


def kinds(changes: tuple[RefChange, ...]) -> list[tuple[str, str]]:
    """Return what happened to which ref."""
    return [(change.kind, change.ref.removeprefix("refs/")) for change in changes]


async def test_a_first_fetch_brings_branches_and_tags_and_nothing_else(mirrored: Mirrored, upstream: Upstream) -> None:
    """Branches and tags are mirrored, annotated tags as they are; pull requests, notes and the host's own refs are not (go-gitea/gitea#1002)."""
    commit = upstream.commit()
    upstream.commit("dev")
    upstream.git("tag", "v1", "main")
    upstream.git("tag", "-a", "-m", "two", "v2", "main")
    upstream.set_ref("refs/pull/1/head", commit)
    upstream.set_ref("refs/notes/commits", commit)
    state = await mirrored.fetch()
    assert mirrored.refs() == {name: target for name, target in upstream.refs().items() if name.startswith(("refs/heads/", "refs/tags/"))}
    assert state.default_branch == MAIN
    assert state.fetched
    assert kinds(state.changes) == [("created", "heads/dev"), ("created", "heads/main"), ("created", "tags/v1"), ("created", "tags/v2")]
    assert await mirrored.repositories.head(PROJECT) == commit
    mirrored.check()


async def test_a_poll_without_news_starts_no_process(mirrored: Mirrored, upstream: Upstream, host: HttpsHost) -> None:
    """When nothing differs there is one listing, no fetch, no change, and no second handshake."""
    upstream.commit()
    await mirrored.fetch()
    before = len(host.requests(upstream.name))
    state = await mirrored.fetch()
    assert (state.fetched, state.changes, state.default_branch) == (False, (), MAIN)
    asked = [line.split('"')[1] for line in host.requests(upstream.name)[before:]]
    assert asked == [f"GET /{upstream.name}.git/info/refs?service=git-upload-pack HTTP/1.1", f"POST /{upstream.name}.git/git-upload-pack HTTP/1.1"]


async def test_new_commits_are_followed(mirrored: Mirrored, upstream: Upstream) -> None:
    """A branch that advanced is said to have advanced, from where to where (pulumi/pulumi-kubernetes-operator#865)."""
    old = upstream.commit()
    await mirrored.fetch()
    new = upstream.commit()
    assert (await mirrored.fetch()).changes == (RefChange("advanced", MAIN, old, new),)
    mirrored.check()


async def test_a_forced_branch_is_followed(mirrored: Mirrored, upstream: Upstream) -> None:
    """A branch that was forced is followed, and said to have been forced; a branch beside it that advanced is not (fluxcd/flux#696, kimdre/doco-cd#1621)."""
    base = upstream.commit()
    old, side = upstream.commit(), upstream.commit("side", parent=base)
    await mirrored.fetch()
    new, ahead = upstream.commit(parent=base), upstream.commit("side")
    assert (await mirrored.fetch()).changes == (RefChange("forced", MAIN, old, new), RefChange("advanced", "refs/heads/side", side, ahead))


async def test_a_branch_that_went_and_came_back(mirrored: Mirrored, upstream: Upstream) -> None:
    """A deleted branch goes, and one of its name that is made anew comes."""
    upstream.commit()
    old = upstream.commit("dev")
    await mirrored.fetch()
    upstream.delete_ref("refs/heads/dev")
    assert (await mirrored.fetch()).changes == (RefChange("deleted", "refs/heads/dev", old, ""),)
    assert list(mirrored.refs()) == [MAIN]
    new = upstream.commit("dev", parent=None)
    assert (await mirrored.fetch()).changes == (RefChange("created", "refs/heads/dev", "", new),)


async def test_a_renamed_branch_is_said_to_be_renamed(mirrored: Mirrored, upstream: Upstream) -> None:
    """A branch that went while another came at its commit was renamed; a tag at that commit was not."""
    upstream.commit()
    tip = upstream.commit("dev")
    await mirrored.fetch()
    upstream.git("branch", "-m", "dev", "develop")
    upstream.git("tag", "before", tip)
    assert (await mirrored.fetch()).changes == (
        RefChange("renamed", "refs/heads/develop", tip, tip, "refs/heads/dev"),
        RefChange("created", "refs/tags/before", "", tip),
    )


async def test_the_default_branch_follows_the_remotes_head(mirrored: Mirrored, upstream: Upstream) -> None:
    """When the remote makes another branch the default, the mirror's HEAD goes there, even if no ref moved."""
    main = upstream.commit()
    trunk = upstream.commit("trunk")
    assert (await mirrored.fetch()).default_branch == MAIN
    upstream.set_head("trunk")
    state = await mirrored.fetch()
    assert state.default_branch == "refs/heads/trunk"
    assert state.changes == (RefChange("default-moved", "refs/heads/trunk", main, trunk, MAIN),)
    assert git("--git-dir", str(mirrored.path), "symbolic-ref", "HEAD") == "refs/heads/trunk"


async def test_a_renamed_default_branch(mirrored: Mirrored, upstream: Upstream) -> None:
    """Renaming the default branch on the host is a rename and a move of the default, and the old name is gone."""
    tip = upstream.commit()
    await mirrored.fetch()
    upstream.git("branch", "-m", "main", "trunk")
    upstream.set_head("trunk")
    state = await mirrored.fetch()
    assert state.default_branch == "refs/heads/trunk"
    assert kinds(state.changes) == [("default-moved", "heads/trunk"), ("renamed", "heads/trunk")]
    assert mirrored.refs() == {"refs/heads/trunk": tip}


@pytest.mark.parametrize("name", ["trunk", "refs/heads/trunk"])
async def test_a_project_may_name_its_default_branch(mirrored: Mirrored, upstream: Upstream, name: str) -> None:
    """The branch that the project names wins over the remote's HEAD; when the remote has it not, there is no default."""
    upstream.commit()
    mirrored.aim().remote = type(mirrored.remote)(mirrored.remote.url, mirrored.remote.credentials, name)
    assert (await mirrored.fetch()).default_branch == ""
    upstream.commit("trunk")
    assert (await mirrored.fetch()).default_branch == "refs/heads/trunk"
    assert git("--git-dir", str(mirrored.path), "symbolic-ref", "HEAD") == "refs/heads/trunk"


async def test_an_empty_remote_and_its_first_push(mirrored: Mirrored, upstream: Upstream) -> None:
    """A remote without a commit is mirrored as an empty repository, and its first push is followed."""
    state = await mirrored.fetch()
    assert (state.empty, state.default_branch, state.changes) == (True, "", ())
    assert await mirrored.repositories.exists(PROJECT)
    upstream.commit()
    state = await mirrored.fetch()
    assert (state.empty, state.default_branch) == (False, MAIN)


async def test_a_remote_that_lost_all_its_branches(mirrored: Mirrored, upstream: Upstream) -> None:
    """When every branch is gone, the mirror is empty, too, and nothing fails."""
    upstream.commit()
    await mirrored.fetch()
    upstream.delete_ref(MAIN)
    state = await mirrored.fetch()
    assert (state.empty, state.default_branch, mirrored.refs()) == (True, "", {})


async def test_a_moved_tag_is_followed(mirrored: Mirrored, upstream: Upstream) -> None:
    """A tag that the remote moved is moved, and said; a tag that it deleted goes."""
    old, new = upstream.commit(), upstream.commit()
    upstream.git("tag", "v1", old)
    upstream.git("tag", "v0", old)
    await mirrored.fetch()
    upstream.git("tag", "-f", "v1", new)
    upstream.git("tag", "-d", "v0")
    assert (await mirrored.fetch()).changes == (RefChange("deleted", "refs/tags/v0", old, ""), RefChange("moved-tag", "refs/tags/v1", old, new))


async def test_a_branch_gives_way_to_a_directory_of_its_name(mirrored: Mirrored, upstream: Upstream) -> None:
    """`x` may become `x/y` and back again between two fetches (devtron-labs/devtron#4605)."""
    upstream.commit()
    upstream.commit("x")
    await mirrored.fetch()
    upstream.delete_ref("refs/heads/x")
    upstream.commit("x/y")
    assert kinds((await mirrored.fetch()).changes) == [("deleted", "heads/x"), ("created", "heads/x/y")]
    upstream.delete_ref("refs/heads/x/y")
    upstream.commit("x")
    assert kinds((await mirrored.fetch()).changes) == [("created", "heads/x"), ("deleted", "heads/x/y")]
    mirrored.check()


async def test_the_object_format_is_the_remotes(mirrored: Mirrored, host: HttpsHost) -> None:
    """A SHA-256 repository is mirrored as one; a remote that changes its format is refused, and the mirror still answers."""
    upstream = host.create(f"team/{uuid4().hex[:10]}", object_format="sha256")
    tip = upstream.commit()
    await mirrored.aim(upstream.url).fetch()
    assert (await mirrored.repositories.resolve(PROJECT, "main")).commit == tip
    assert not (await mirrored.fetch()).fetched
    converted = host.create(f"team/{uuid4().hex[:10]}")
    converted.commit()
    failure = await mirrored.aim(converted.url).failure()
    assert failure.cause is RemoteCause.PROTOCOL
    assert "the remote's object format is sha1 now, and the mirror's is sha256" in failure.message
    assert (await mirrored.repositories.resolve(PROJECT, "main")).commit == tip


async def test_names_that_no_mirror_can_hold_are_skipped(mirrored: Mirrored, upstream: Upstream) -> None:
    """A ref whose name is too long or not UTF-8 is left out and named; the others come, and the next poll is quiet."""
    tip = upstream.commit()
    too_long, not_utf8 = "refs/heads/" + "n" * 251, os.fsdecode(b"refs/tags/caf\xe9")
    upstream.commit(SHORT_ENOUGH)
    lines = [b"%b %b" % (tip.encode(), os.fsencode(name)) for name in (too_long, not_utf8)]
    with (upstream.path / "packed-refs").open("ab") as packed:
        packed.write(b"\n".join(lines) + b"\n")
    state = await mirrored.fetch()
    assert sorted(mirrored.refs()) == [MAIN, f"refs/heads/{SHORT_ENOUGH}"]
    assert len(state.skipped) == 2
    assert state.skipped[0].startswith("refs/heads/nnn")
    assert state.skipped[1] == "refs/tags/caf\\xe9"
    again = await mirrored.fetch()
    assert (again.fetched, len(again.skipped)) == (False, 2)


async def test_pins_outlive_whatever_the_remote_does(mirrored: Mirrored, upstream: Upstream) -> None:
    """A pinned commit stays when its branch is forced and pruned away, and the pin is no change of the remote's."""
    old = upstream.commit()
    await mirrored.fetch()
    await mirrored.repositories.pin(PROJECT, "11111111-1111-1111-1111-111111111111", old)
    upstream.commit(parent=None)
    state = await mirrored.fetch()
    assert kinds(state.changes) == [("forced", "heads/main")]
    assert not (await mirrored.fetch()).fetched
    assert (await mirrored.repositories.describe(PROJECT, old)).commit == old
    with pytest.raises(RefNotFound, match="no branch or tag reaches"):
        await mirrored.repositories.resolve(PROJECT, old)


async def test_a_remote_that_calls_its_refs_like_our_pins(mirrored: Mirrored, upstream: Upstream) -> None:
    """A remote's `refs/arena` is nothing to us, neither in a fetch nor by name."""
    commit = upstream.commit()
    upstream.set_ref("refs/arena/runs/x", commit)
    await mirrored.fetch()
    assert not await mirrored.mirrors.fetch_ref(PROJECT, mirrored.remote, "refs/arena/runs/x")
    assert list(mirrored.refs()) == [MAIN]


async def test_concurrent_fetches_agree(mirrored: Mirrored, upstream: Upstream) -> None:
    """Fetches of one project at once wait for one another; each ends with the mirror where the remote is (argoproj/argo-cd#7898)."""
    upstream.commit()
    states = await asyncio.gather(*(mirrored.fetch() for _ in range(4)))
    assert {state.default_branch for state in states} == {MAIN}
    assert sum(bool(state.changes) for state in states) == 1
    mirrored.check()


@pytest.mark.slow
async def test_a_mirror_stays_small(mirrored: Mirrored, upstream: Upstream) -> None:
    """A fetch a commit makes a pack a fetch; maintaining rolls them up and loses nothing (theolundqvist/pr-cockpit#33, home-operations/konflate#131)."""
    upstream.commit()
    for _ in range(22):
        upstream.commit()
        await mirrored.fetch()
    assert len(list(mirrored.path.glob("objects/pack/*.pack"))) > 20
    await mirrored.repositories.maintain(PROJECT)
    assert len(list(mirrored.path.glob("objects/pack/*.pack"))) < 5
    mirrored.check()


@pytest.mark.slow
async def test_five_thousand_branches(mirrored: Mirrored, upstream: Upstream) -> None:
    """5,000 branches are mirrored, one more is followed, and half of them go, each in one fetch."""
    tip = upstream.commit()
    upstream.git("update-ref", "--stdin", stdin=b"".join(b"create refs/heads/b/%d %s\n" % (number, tip.encode()) for number in range(5000)))
    assert len((await mirrored.fetch()).changes) == 5001
    await mirrored.repositories.maintain(PROJECT)
    assert len(list((mirrored.path / "refs" / "heads").rglob("*"))) < 100
    upstream.commit("one-more")
    assert kinds((await mirrored.fetch()).changes) == [("created", "heads/one-more")]
    upstream.git("update-ref", "--stdin", stdin=b"".join(b"delete refs/heads/b/%d\n" % number for number in range(2500)))
    assert len((await mirrored.fetch()).changes) == 2500
    assert not (await mirrored.fetch()).fetched
    assert mirrored.refs() == upstream.refs()


class TestByName:
    """Refs outside of branches and tags, and SHAs."""

    async def test_a_full_ref_is_fetched_on_demand(self, mirrored: Mirrored, upstream: Upstream) -> None:
        """A pull request's ref is fetched under its own name, followed when asked again, and survives the prune of others."""
        base = upstream.commit()
        await mirrored.fetch()
        first = upstream.commit("fork", parent=base)
        upstream.set_ref("refs/pull/7/head", first)
        upstream.delete_ref("refs/heads/fork")
        assert await mirrored.mirrors.fetch_ref(PROJECT, mirrored.remote, "refs/pull/7/head")
        assert (await mirrored.repositories.resolve(PROJECT, "refs/pull/7/head")).commit == first
        upstream.set_ref("refs/pull/7/head", base)
        await mirrored.fetch()
        assert mirrored.refs()["refs/pull/7/head"] == first
        assert await mirrored.mirrors.fetch_ref(PROJECT, mirrored.remote, "refs/pull/7/head")
        assert mirrored.refs()["refs/pull/7/head"] == base

    async def test_a_full_ref_that_went_is_removed(self, mirrored: Mirrored, upstream: Upstream) -> None:
        """A ref that the remote has no more names nothing here either; one that it never had neither."""
        upstream.set_ref("refs/pull/7/head", upstream.commit())
        assert await mirrored.mirrors.fetch_ref(PROJECT, mirrored.remote, "refs/pull/7/head")
        upstream.delete_ref("refs/pull/7/head")
        assert not await mirrored.mirrors.fetch_ref(PROJECT, mirrored.remote, "refs/pull/7/head")
        assert not await mirrored.mirrors.fetch_ref(PROJECT, mirrored.remote, "refs/pull/8/head")
        assert mirrored.refs() == {}

    @pytest.mark.parametrize("ref", ["heads/main", "refs/tags/v1"])
    async def test_a_branch_or_tag_is_fetched_with_all_others(self, mirrored: Mirrored, upstream: Upstream, ref: str) -> None:
        """A branch or tag that the mirror lacks brings them all."""
        upstream.commit()
        upstream.git("tag", "v1", "main")
        assert await mirrored.mirrors.fetch_ref(PROJECT, mirrored.remote, ref)
        assert sorted(mirrored.refs()) == [MAIN, "refs/tags/v1"]

    async def test_a_sha_that_a_branch_reaches(self, mirrored: Mirrored, upstream: Upstream) -> None:
        """An unknown SHA fetches all branches and tags once; it is there when one of them reaches it."""
        first = upstream.commit()
        upstream.commit()
        assert await mirrored.mirrors.fetch_ref(PROJECT, mirrored.remote, first)
        assert (await mirrored.repositories.resolve(PROJECT, first)).commit == first

    async def test_a_commit_of_a_fork_does_not_come_by_its_sha(self, mirrored: Mirrored, upstream: Upstream) -> None:
        """The host would give the commit to whoever asks by SHA, as it does with those of forks; a mirror never asks (argoproj/argo-cd#8938 is the opposite: hosts that refuse it)."""
        base = upstream.commit()
        forked = upstream.commit("fork", parent=base)
        upstream.delete_ref("refs/heads/fork")
        assert not await mirrored.mirrors.fetch_ref(PROJECT, mirrored.remote, forked)
        with pytest.raises(RefNotFound):
            await mirrored.repositories.resolve(PROJECT, forked)
        with pytest.raises(RefNotFound):
            await mirrored.repositories.describe(PROJECT, forked)

    async def test_what_is_no_ref_is_not_asked_for(self, mirrored: Mirrored, upstream: Upstream, host: HttpsHost) -> None:
        """What cannot be a ref's name, and what is ours, is answered without the remote."""
        upstream.commit()
        for ref in ("", "--upload-pack=id", "refs/pull/../heads/main", "main~1", "refs/arena/runs/x", "refs/pull/7/head\nmain", "HEAD"):
            assert not await mirrored.mirrors.fetch_ref(PROJECT, mirrored.remote, ref)
        assert host.requests(upstream.name) == []


async def test_an_adopted_repository_is_not_fetched_over(mirrored: Mirrored, upstream: Upstream) -> None:
    """A mirror of another project is moved aside and comes back as it was."""
    tip = upstream.commit()
    await mirrored.fetch()
    uid = "11111111-1111-1111-1111-111111111111"
    await mirrored.repositories.retain(PROJECT, uid)
    await mirrored.fetch()
    with pytest.raises(RepositoryExists):
        await mirrored.repositories.adopt(PROJECT, uid)
    assert mirrored.refs() == {MAIN: tip}
