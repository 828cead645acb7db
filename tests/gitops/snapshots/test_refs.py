"""Which commit a spelling names, beside what git itself says."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest
from dulwich.repo import Repo

from gitops.errors import RefNotFound, StorageFailed
from gitops.refs import ResolvedRef, resolve_ref

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gitops.snapshots.conftest import Forge

FAR = "f" * 40


class World(NamedTuple):
    """A repository with one of each: refs to commits, tags, blobs, pins, and commits that only some of them reach."""

    forge: Forge
    commits: dict[str, str]


PACKINGS = ["loose", "packed"]
Worlds = Callable[[str, str], "World"]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory, forge_in: Callable[[Path, str], Forge]) -> Worlds:
    """Make the repository of an object format, its refs loose or packed by git; each once, since the tests only read."""
    return functools.cache(lambda object_format, packing: _world(forge_in(tmp_path_factory.mktemp("refs"), object_format), packing))


@pytest.fixture(params=PACKINGS)
def world(request: pytest.FixtureRequest, worlds: Worlds) -> World:
    """The SHA-1 repository, loose and packed."""
    return worlds("sha1", request.param)


@pytest.fixture(params=[(object_format, packing) for object_format in ("sha1", "sha256") for packing in PACKINGS], ids="-".join)
def any_world(request: pytest.FixtureRequest, worlds: Worlds) -> World:
    """The repositories of both object formats, loose and packed."""
    return worlds(*request.param)


def _world(forge: Forge, packing: str) -> World:
    first = forge.commit({"a": b"1"}, message="first")
    second = forge.commit({"a": b"2"}, first, message="second")
    side = forge.commit({"a": b"3"}, first, ref="refs/heads/feature/x", message="side")
    pinned = forge.commit({"a": b"4"}, second, ref="refs/arena/runs/uid-1", message="pinned")
    loose = forge.commit({"a": b"5"}, ref="", message="unreachable")
    blob = forge.put("blob", b"x")
    inner = forge.tag("annotated", first)
    outer = forge.tag("nested", inner, "tag")
    forge.tag("of-blob", blob, "blob")
    forge.ref("refs/tags/light", side)
    forge.ref("refs/tags/both", first)
    forge.ref("refs/heads/both", second)
    forge.ref("refs/heads/light-blob", blob)
    forge.ref(f"refs/heads/{'a' * 40}", second)
    forge.ref(f"refs/heads/{'b' * 64}", second)
    forge.ref("refs/heads/deadbeef", second)
    forge.ref("refs/heads/-option", second)
    forge.ref("refs/heads/\u00fcber", second)
    forge.ref("refs/notes/n", side)
    if packing == "packed":
        forge.git("pack-refs", "--all")
        forge.git("repack", "-adq")
        for object_id in (pinned, loose):
            assert forge.git("cat-file", "-t", object_id) == "commit"
    return World(forge, {"first": first, "second": second, "side": side, "pinned": pinned, "loose": loose, "outer": outer, "blob": blob})


def resolve(world: World, ref: str) -> ResolvedRef:
    """Resolve as `Repositories` does: on a fresh handle."""
    with contextlib.closing(Repo(str(world.forge.path))) as repository:
        return resolve_ref(repository, ref)


NAMES = [
    pytest.param("main", "refs/heads/main", "second", id="a branch by its short name"),
    pytest.param("feature/x", "refs/heads/feature/x", "side", id="a branch with a slash"),
    pytest.param("heads/main", "refs/heads/main", "second", id="a branch by half its name"),
    pytest.param("refs/heads/main", "refs/heads/main", "second", id="a branch by its full name"),
    pytest.param("light", "refs/tags/light", "side", id="a light tag when no branch has the name"),
    pytest.param("annotated", "refs/tags/annotated", "first", id="an annotated tag peels"),
    pytest.param("nested", "refs/tags/nested", "first", id="a tag of a tag peels to the end"),
    pytest.param("tags/annotated", "refs/tags/annotated", "first", id="a tag by half its name"),
    pytest.param("refs/notes/n", "refs/notes/n", "side", id="any full ref"),
    pytest.param("both", "refs/tags/both", "first", id="the tag goes before the branch"),
    pytest.param("refs/heads/both", "refs/heads/both", "second", id="the branch by its full name"),
    pytest.param("deadbeef", "refs/heads/deadbeef", "second", id="a branch that looks like an abbreviation"),
    pytest.param("\u00fcber", "refs/heads/\u00fcber", "second", id="a branch that is not ASCII"),
    pytest.param("refs/heads/-option", "refs/heads/-option", "second", id="a full name whose last part looks like an option"),
]


@pytest.mark.parametrize(("spelling", "full", "commit"), NAMES)
def test_a_name_resolves_as_git_does(any_world: World, spelling: str, full: str, commit: str) -> None:
    """Branches, tags and full refs name what `git rev-parse <name>^{commit}` names; only a name that two refs share is ambiguous."""
    assert resolve(any_world, spelling) == ResolvedRef(full, any_world.commits[commit], spelling == "both")
    assert any_world.forge.git("rev-parse", "--verify", "--end-of-options", f"{spelling}^{{commit}}") == any_world.commits[commit]


@pytest.mark.parametrize("commit", ["first", "second", "side"])
def test_a_full_sha_names_itself(any_world: World, commit: str) -> None:
    """A full SHA that a branch or tag reaches names that commit, in upper case too."""
    sha = any_world.commits[commit]
    assert resolve(any_world, sha) == ResolvedRef(sha, sha, ambiguous=False)
    assert resolve(any_world, sha.upper()) == ResolvedRef(sha, sha, ambiguous=False)


NOTHING = [
    pytest.param("", "it is empty", id="nothing"),
    pytest.param("nope", "no branch or tag has this name", id="an unknown name"),
    pytest.param("refs/heads", "no branch or tag has this name", id="a directory of refs"),
    pytest.param("feature", "no branch or tag has this name", id="the first part of a branch"),
    pytest.param("main/x", "no branch or tag has this name", id="below a branch"),
    pytest.param("refs/pull/7/head", "no ref has this name", id="a host's own ref that is not there"),
    pytest.param("refs/heads/feature", "no branch or tag has this name", id="the first part of a full name"),
    pytest.param("HEAD", "HEAD is not a branch", id="HEAD"),
    pytest.param("@", "HEAD is not a branch", id="HEAD by its short name"),
    pytest.param("main~1", "revision expression", id="a parent"),
    pytest.param("main^", "revision expression", id="another parent"),
    pytest.param("main@{1}", "revision expression", id="the reflog"),
    pytest.param("main..side", "revision expression", id="a range"),
    pytest.param(":/second", "revision expression", id="a search"),
    pytest.param("main:a", "revision expression", id="a path"),
    pytest.param("--upload-pack=x", "begins with '-'", id="an option in disguise"),
    pytest.param("-option", "begins with '-'", id="a branch that looks like an option"),
    pytest.param("main\n", "control character", id="a trailing newline"),
    pytest.param("ma\0in", "control character", id="a NUL"),
    pytest.param("main ", "no ref can have this name", id="a trailing space"),
    pytest.param("../config", "revision expression", id="a path that climbs"),
    pytest.param("refs/../config", "revision expression", id="a full ref that climbs"),
    pytest.param("/refs/heads/main", "no ref can have this name", id="absolute"),
    pytest.param("refs//heads/main", "no ref can have this name", id="two slashes"),
    pytest.param("main/", "no ref can have this name", id="a slash at the end"),
    pytest.param("ma*", "no ref can have this name", id="a glob"),
    pytest.param("main.lock", "no ref can have this name", id="a lock"),
    pytest.param("a\udcff", "not UTF-8", id="a byte that is no UTF-8"),
    pytest.param("x" * 300, "too long", id="a name that no file can have"),
    pytest.param("a/" * 600 + "a", "too long", id="a name that is too long altogether"),
    pytest.param("refs/arena/runs/uid-1", "no branch or tag has this name", id="a pin by its full name"),
    pytest.param("arena/runs/uid-1", "no branch or tag has this name", id="a pin by half its name"),
    pytest.param("of-blob", "names a blob, not a commit", id="a tag of a blob"),
    pytest.param("light-blob", "names a blob, not a commit", id="a branch of a blob"),
]


@pytest.mark.parametrize(("spelling", "cause"), NOTHING)
def test_anything_else_names_nothing(world: World, spelling: str, cause: str) -> None:
    """What is no branch, tag, full ref or full SHA is refused with its reason, and its text cannot break the line."""
    with pytest.raises(RefNotFound, match=r"\Acannot resolve ref '.*' of project 'support': [^\n]+\Z") as caught:
        resolve(world, spelling)
    assert cause in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("commit", "cause"),
    [
        pytest.param("pinned", "no branch or tag reaches this commit", id="a commit that only a pin reaches"),
        pytest.param("loose", "no branch or tag reaches this commit", id="a commit that nothing reaches"),
        pytest.param("outer", "it is a tag, not a commit", id="a tag object"),
        pytest.param("blob", "it is a blob, not a commit", id="a blob"),
    ],
)
def test_a_sha_must_be_a_reachable_commit(any_world: World, commit: str, cause: str) -> None:
    """A full SHA is refused when it names no commit, or one that only `refs/arena` or nothing reaches."""
    with pytest.raises(RefNotFound, match=cause):
        resolve(any_world, any_world.commits[commit])


def test_a_short_or_unknown_sha_is_refused(world: World) -> None:
    """An abbreviation is never completed, and a SHA that the repository does not hold is said to be missing."""
    with pytest.raises(RefNotFound, match="abbreviated SHA names nothing") as refused:
        resolve(world, world.commits["second"][:12])
    assert refused.value.hint == "give all 40 digits, or name a branch or tag"
    with pytest.raises(RefNotFound, match="holds no such commit"):
        resolve(world, FAR)


def test_a_sha_goes_before_a_ref_of_that_name(world: World) -> None:
    """Forty digits are a SHA in a SHA-1 repository, whatever branches there are, as for git; sixty-four are a name there."""
    with pytest.raises(RefNotFound, match="holds no such commit"):
        resolve(world, "a" * 40)
    assert resolve(world, "b" * 64).ref == f"refs/heads/{'b' * 64}"


def test_a_pin_behind_a_symbolic_ref_is_no_answer(forge: Forge) -> None:
    """A symbolic ref cannot lend a name to a pin; one to a branch answers under the name that was asked."""
    commit = forge.commit({"a": b"1"})
    forge.ref("refs/arena/runs/u", commit)
    forge.git("symbolic-ref", "refs/heads/sneaky", "refs/arena/runs/u")
    forge.git("symbolic-ref", "refs/heads/current", "refs/heads/main")
    world = World(forge, {})
    assert resolve(world, "current") == ResolvedRef("refs/heads/current", commit, ambiguous=False)
    with pytest.raises(RefNotFound, match="no branch or tag has this name"):
        resolve(world, "sneaky")


def test_a_near_miss_is_suggested(world: World) -> None:
    """A name that is almost a branch gets that branch as its hint."""
    with pytest.raises(RefNotFound) as caught:
        resolve(world, "mian")
    assert caught.value.hint == "did you mean 'main'?"


def test_a_ref_to_a_missing_object(forge: Forge) -> None:
    """A ref whose object is gone names nothing and says so; asking for a SHA then says that the repository is damaged."""
    commit = forge.commit({"a": b"1"})
    side = forge.commit({"a": b"2"}, ref="")
    forge.ref("refs/heads/broken", FAR)
    world = World(forge, {})
    with pytest.raises(RefNotFound, match="refs/heads/broken names a missing object, not a commit"):
        resolve(world, "broken")
    assert resolve(world, "main").commit == commit
    with pytest.raises((RefNotFound, StorageFailed)):
        resolve(world, side)
