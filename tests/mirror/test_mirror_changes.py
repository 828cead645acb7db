"""What the difference of two looks at a remote is called, without a remote."""

from gitops.mirror_refs import MirrorRefs, RefChange, compare, split_names

OLD, NEW = "1" * 40, "2" * 40


def branches(prefix: str, count: int) -> dict[str, str]:
    """Return so many branches, each at a commit of its own."""
    return {f"refs/heads/{prefix}-{number:05}": f"{number + 1:040x}" for number in range(count)}


def test_each_branch_that_went_was_renamed_once() -> None:
    """Of two branches that went at one commit each is the old name of one that came there; a third one is new, and so is a tag."""
    before = MirrorRefs({"refs/heads/a": OLD, "refs/heads/b": OLD, "refs/tags/t": OLD}, "refs/heads/a")
    after = MirrorRefs({"refs/heads/x": OLD, "refs/heads/y": OLD, "refs/heads/z": OLD, "refs/tags/u": OLD}, "refs/heads/a")
    assert compare(before, after, ()) == (
        RefChange("renamed", "refs/heads/x", OLD, OLD, "refs/heads/a"),
        RefChange("renamed", "refs/heads/y", OLD, OLD, "refs/heads/b"),
        RefChange("created", "refs/heads/z", "", OLD),
        RefChange("deleted", "refs/tags/t", OLD, ""),
        RefChange("created", "refs/tags/u", "", OLD),
    )


def test_the_work_grows_with_the_refs_alone() -> None:
    """A remote that renames all of 20,000 branches at once is named in a blink: it was hours while each was compared with each."""
    changes = compare(MirrorRefs(branches("a", 20_000), ""), MirrorRefs(branches("b", 20_000), ""), ())
    assert {change.kind for change in changes} == {"renamed"}


def test_names_are_judged_when_they_come() -> None:
    """What the mirror has is held; of the other names those that no mirror can hold are left out."""
    refs = {"refs/heads/main": NEW, "refs/heads/new": NEW, "refs/heads/-x..y": NEW}
    assert split_names(refs, {"refs/heads/main": OLD}) == ({"refs/heads/main": NEW, "refs/heads/new": NEW}, ["refs/heads/-x..y"])
