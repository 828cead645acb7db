"""Globs: one meaning for paths, refs and scenarios."""

import pytest

from foundation.errors import UnreadableGlob
from foundation.globs import compile_glob, glob_problem, matches_any
from gitops.ref_globs import is_allowed


@pytest.mark.parametrize(
    ("glob", "matched", "unmatched"),
    [
        pytest.param("main", ["main"], ["mainly", "domain", "Main"], id="a literal is the whole text"),
        pytest.param("*.yaml", ["a.yaml", ".yaml"], ["a/b.yaml", "a.yaml.bak"], id="a star stays within a segment"),
        pytest.param("prompts/*/x", ["prompts/a/x"], ["prompts/x", "prompts/a/b/x"], id="a star is one segment between slashes"),
        pytest.param("a?c", ["abc", "aéc"], ["a/c", "ac"], id="a question mark is one character and no slash"),
        pytest.param("**/x", ["x", "a/x", "a/b/x"], ["ax", "a/xx"], id="two stars and a slash are any number of directories"),
        pytest.param("a/**", ["a/b", "a/b/c", "a/"], ["a", "b/a/c"], id="two stars at the end are anything"),
        pytest.param("a/**/b.md", ["a/b.md", "a/x/y/b.md"], ["a/xb.md"], id="two stars in the middle"),
        pytest.param("**", ["", "a", "a/b\nc"], [], id="two stars alone, a new line included"),
        pytest.param("[a-c]1", ["a1", "c1"], ["d1", "/1"], id="a class"),
        pytest.param("[!a-c]1", ["d1"], ["a1", "/1"], id="a negated class never takes a slash"),
        pytest.param("[^a]", ["b", "^"], ["a"], id="a caret negates too"),
        pytest.param("[]a]", ["]", "a"], ["b"], id="a bracket that comes first is a member"),
        pytest.param("[a-]", ["a", "-"], ["b"], id="a dash that comes last is a member"),
        pytest.param(r"\*\[x", ["*[x"], ["a[x", r"\*\[x"], id="a backslash takes the next character literally"),
        pytest.param("a.b+(c)|$^", ["a.b+(c)|$^"], ["aXb+(c)|$^"], id="nothing else is special"),
        pytest.param("]{a,b}", ["]{a,b}"], ["]a"], id="braces and a lone closing bracket are literal"),
        pytest.param("prüf/*", ["prüf/é"], ["pruf/e"], id="letters beyond ASCII"),
    ],
)
def test_meaning(glob: str, matched: list[str], unmatched: list[str]) -> None:
    """A glob matches these whole texts and not those."""
    assert [text for text in [*matched, *unmatched] if matches_any([glob], text)] == matched


@pytest.mark.parametrize(
    ("glob", "cause"),
    [
        pytest.param("", "it is empty", id="nothing"),
        pytest.param("[a", "the bracket at character 1 is not closed", id="an open class"),
        pytest.param("x[", "the bracket at character 2 is not closed", id="an open class at the end"),
        pytest.param("[]", "the bracket at character 1 is not closed", id="a class of nothing"),
        pytest.param("[!]", "the bracket at character 1 is not closed", id="a negated class of nothing"),
        pytest.param("[z-a]", "the class [z-a] has a range that runs backwards", id="a range backwards"),
        pytest.param("[a/b]", "the class [a/b] holds a /", id="a slash in a class"),
        pytest.param("[+-9]", "the class [+-9] holds a /", id="a slash in a range"),
        pytest.param("a\\", "it ends in a backslash", id="a backslash at the end"),
    ],
)
def test_unreadable(glob: str, cause: str) -> None:
    """A glob that cannot be read is an error that says why; it is never taken literally."""
    assert glob_problem(glob) == cause
    with pytest.raises(UnreadableGlob) as caught:
        matches_any([glob], glob)
    assert caught.value.message == f"cannot read glob {glob!r}: {cause}"


def test_hostile_globs_take_linear_time() -> None:
    """Hundreds of stars over the longest path end at once: whoever may write a spec cannot stop a controller."""
    path = "/".join(["a" * 15] * 64)
    assert not any(compile_glob(glob).search(path) for glob in ("**a" * 170 + "b", "*a" * 250 + "b", "**/" * 170 + "b"))


ALLOWED = [
    pytest.param("refs/heads/main", [], True, id="default: the default branch"),
    pytest.param("refs/tags/v1", [], True, id="default: a tag"),
    pytest.param("refs/tags/release/v1", [], True, id="default: a tag with slashes"),
    pytest.param("refs/heads/other", [], False, id="default: another branch"),
    pytest.param("refs/heads/main/x", [], False, id="default: a branch below the default's name"),
    pytest.param("refs/notes/commits", [], False, id="default: neither branch nor tag"),
    pytest.param("refs/heads/main", ["main"], True, id="a branch by its short name"),
    pytest.param("refs/heads/main", ["refs/heads/main"], True, id="a branch by its full name"),
    pytest.param("refs/heads/main", ["heads/main"], False, id="half a name names nothing"),
    pytest.param("refs/tags/main", ["main"], False, id="a tag does not pass under a branch's name"),
    pytest.param("refs/tags/v1", ["main", "refs/tags/*"], True, id="a tag by its full name"),
    pytest.param("refs/tags/v1/rc1", ["refs/tags/*"], False, id="a star stays within a segment"),
    pytest.param("refs/tags/v1/rc1", ["refs/tags/**"], True, id="two stars do not"),
    pytest.param("refs/heads/release/2.0", ["release/*"], True, id="a star in a short name"),
    pytest.param("refs/heads/release/2.0", ["release"], False, id="a folder is not what it holds"),
    pytest.param("refs/heads/feature/x", ["**"], True, id="every branch"),
    pytest.param("refs/tags/v1", ["**"], False, id="every branch is no tag"),
    pytest.param("refs/tags/v1", ["refs/**"], True, id="every ref"),
    pytest.param("refs/heads/refs/x", ["refs/x"], False, id="a branch whose short name looks like a full one"),
    pytest.param("refs/heads/main", ["release"], False, id="globs replace the default"),
    pytest.param("0123456789" * 4, ["**", "refs/**", "*"], False, id="a SHA is no ref"),
    pytest.param("0123456789" * 4, [], False, id="a SHA is no ref by default either"),
]


@pytest.mark.parametrize(("ref", "globs", "expected"), ALLOWED)
def test_allowed_refs(ref: str, globs: list[str], *, expected: bool) -> None:
    """`deploy.allowedRefs`: short globs name branches, full ones any ref; without any, the default branch and tags."""
    assert is_allowed(ref, globs, default_branch="main") is expected


def test_unreadable_allowed_ref_is_an_error() -> None:
    """A glob that cannot be read allows and forbids nothing: it is an error even where another glob matches."""
    with pytest.raises(UnreadableGlob):
        is_allowed("refs/heads/main", ["main", "[a"], default_branch="main")
