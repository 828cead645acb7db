"""What a tree may hold."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from gitops.tree_names import fold, name_problem
from gitops.tree_rules import Kind, KnownTree, Rule, SnapshotLimits, parse_tree, read_tree, size_violation

if TYPE_CHECKING:
    from tests.gitops.snapshots.conftest import Forge, Node

LIMITS = SnapshotLimits(max_files=50, max_bytes=1000)
HFS = "\u200c"


def broken(forge: Forge, tree: str, limits: SnapshotLimits = LIMITS) -> list[tuple[Rule, str]]:
    """Return (rule, path) of each violation."""
    return [(violation.rule, violation.path) for violation in read_tree(forge, tree, limits).violations]


GIT_DIRECTORIES = [
    pytest.param(b".git", id="itself"),
    pytest.param(b".GiT", id="other case"),
    pytest.param(b"git~1", id="its NTFS short name"),
    pytest.param(b"GIT~1", id="its NTFS short name in upper case"),
    pytest.param(b".git ", id="a trailing space"),
    pytest.param(b".git...", id="trailing dots"),
    pytest.param(b".git . ", id="trailing dots and spaces"),
    pytest.param(b".git::$INDEX_ALLOCATION", id="an NTFS stream"),
    pytest.param(b"git~1:x", id="a stream of the short name"),
    pytest.param(f".g{HFS}it".encode(), id="an ignorable code point"),
    pytest.param("\ufeff.git".encode(), id="a byte order mark in front"),
    pytest.param(f".GI{HFS}T".encode(), id="ignorable and case"),
    pytest.param(b"a\\.git", id="behind a backslash"),
]


@pytest.mark.parametrize("name", GIT_DIRECTORIES)
def test_no_spelling_of_git_directory(forge: Forge, name: bytes) -> None:
    """A name that some common file system opens as `.git` is refused, and git itself refuses it too when all its protections are on."""
    blob = forge.put("blob", b"x")
    assert [rule for rule, _ in broken(forge, forge.tree(("100644", name, blob)))] == [Rule.GIT_DIRECTORY]
    protections = ["-c", "core.protectHFS=true", "-c", "core.protectNTFS=true"]
    entry = b"100644 " + blob.encode() + b"\t" + name + b"\0"
    done = subprocess.run(
        ["git", *protections, "--git-dir", str(forge.path), "update-index", "-z", "--index-info"], input=entry, capture_output=True, check=False
    )
    assert done.returncode != 0 or b"Ignoring path" in done.stderr


@pytest.mark.parametrize(
    "name", [b".gitignore", b".gitattributes", b".github", b"git~10", b"git", b"-x", b"a b", b"x.", "é".encode(), b"...", b"new\nline", b"a\\b"]
)
def test_ordinary_names_pass(forge: Forge, name: bytes) -> None:
    """Names that are merely unusual are kept as they are."""
    reading = read_tree(forge, forge.tree(("100644", name, forge.put("blob", b""))), LIMITS)
    assert ([entry.path for entry in reading.entries], reading.violations) == ([name.decode()], ())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param(b"..", "is '..'", id="the parent"),
        pytest.param(b".", "is '.'", id="the directory itself"),
        pytest.param(b"", "is empty", id="nothing"),
        pytest.param(b"/etc", "is absolute", id="absolute"),
        pytest.param(b"a/../../b", "holds a slash", id="a path in a name"),
        pytest.param(b"a\xff", "is not UTF-8", id="a byte that is no UTF-8"),
        pytest.param(b"..\\x", "between backslashes", id="the parent before a backslash"),
    ],
)
def test_impossible_names(forge: Forge, name: bytes, problem: str) -> None:
    """A name that could lead elsewhere, or that no text can hold, is refused with the reason."""
    reading = read_tree(forge, forge.tree(("100644", name, forge.put("blob", b"x"))), LIMITS)
    assert reading.violations[0].rule is Rule.NAME
    assert problem in reading.violations[0].cause
    assert problem in (name_problem(name) or "")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("README", "readme", id="case"),
        pytest.param("\u00e9", "e\u0301", id="a composed and a decomposed accent"),
        pytest.param("stra\u00dfe", "STRASSE", id="sharp s"),
        pytest.param("\u00c9a", "e\u0301A", id="case and accent"),
    ],
)
def test_names_that_collide(forge: Forge, one: str, other: str) -> None:
    """Two names of one directory that a file system may take for one are refused; in different directories they are not."""
    assert fold(one) == fold(other)
    assert broken(forge, forge.files({f"d/{one}": b"1", f"d/{other}": b"2"}))[0][0] is Rule.COLLISION
    assert broken(forge, forge.files({f"d/{one}": b"1", f"e/{other}": b"2"})) == []


def test_a_file_and_a_directory_of_one_name_collide(forge: Forge) -> None:
    """A symlink and a directory of the same name, through which a writer would leave the tree, are refused."""
    link, inner = forge.put("blob", b"/etc"), forge.files({"passwd": b"x"})
    assert broken(forge, forge.tree(("120000", b"a", link), ("40000", b"a", inner)))[0] == (Rule.COLLISION, "a")


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("100644", Kind.FILE, id="a file"),
        pytest.param("100755", Kind.EXECUTABLE, id="an executable"),
        pytest.param("0100644", Kind.FILE, id="a file whose mode is padded, as old tools wrote"),
        pytest.param("100664", Rule.MODE, id="group-writable"),
        pytest.param("100777", Rule.MODE, id="world-writable"),
        pytest.param("104755", Rule.MODE, id="set-uid"),
        pytest.param("060000", Rule.MODE, id="a device"),
        pytest.param("160000", Rule.SUBMODULE, id="a submodule"),
        pytest.param("+100644", Rule.MALFORMED, id="no number"),
    ],
)
def test_modes(forge: Forge, mode: str, expected: Kind | Rule) -> None:
    """Only files, executables, symlinks and directories have a place."""
    tree = forge.put("tree", f"{mode} x\0".encode() + bytes.fromhex(forge.put("blob", b"x")))
    reading = read_tree(forge, tree, LIMITS)
    assert [entry.kind for entry in reading.entries] + [violation.rule for violation in reading.violations] == [expected]


LINKS: list[Any] = [
    pytest.param({"a/l": "../b"}, None, id="to a neighbour"),
    pytest.param({"l": "nowhere/yet"}, None, id="to nothing, inside"),
    pytest.param({"a/b/l": "../../c"}, None, id="up to the root"),
    pytest.param({"l": "."}, None, id="to the directory itself"),
    pytest.param({"a/l": "../../secrets"}, "leaves the tree", id="one level above the root"),
    pytest.param({"l": "/etc/passwd"}, "leaves the tree", id="absolute"),
    pytest.param({"l": "x/../../y"}, "leaves the tree", id="out through a name that is not there"),
    pytest.param({"d": "a/b", "a/b/l": "../../x", "l": "d/../../../x"}, "leaves the tree", id="out, once the link in it is followed"),
    pytest.param({"a/d": "..", "l": "a/d/../x"}, "leaves the tree", id="out through a link to the parent"),
    pytest.param({"A/up": "..", "l": "a/UP/.."}, "leaves the tree", id="out on a file system that folds case"),
    pytest.param({"a": "b", "b": "a"}, "runs in a circle", id="a circle"),
    pytest.param({"a": "a"}, "runs in a circle", id="to itself"),
    pytest.param({"l": ""}, "empty target", id="an empty target"),
    pytest.param({"l": b"a\0b"}, "NUL", id="a NUL"),
    pytest.param({"l": b"\xff"}, "not UTF-8", id="a target that is no UTF-8"),
    pytest.param({"l": "x" * 1025}, "longer than 1024 bytes", id="a target longer than any path"),
    pytest.param({"l": "a/" * 512}, None, id="as long as may be"),
    pytest.param({f"l{n}": f"l{n + 1}/../l{n + 1}" for n in range(30)}, "more than 40 links", id="a chain that doubles at each step"),
    pytest.param({"l": "/".join(["x/.."] * 200), **{f"m{n}": "l/" * 500 for n in range(2)}}, "too many", id="a walk without end"),
]


@pytest.mark.parametrize(("links", "problem"), LINKS)
def test_symlinks_stay_inside(forge: Forge, links: dict[str, str | bytes], problem: str | None) -> None:
    """A symlink, followed through the tree's other links, ends inside the tree."""
    violations = read_tree(forge, forge.files({path: forge.link(target) for path, target in links.items()}), LIMITS).violations
    assert {violation.rule for violation in violations} <= {Rule.SYMLINK}
    assert (problem is None) == (not violations)
    assert any(problem in violation.cause for violation in violations) if problem else True


def test_a_violation_reads_as_one_line(forge: Forge) -> None:
    """Cause and remedy make the sentence of the examples, and a hostile path cannot break the line."""
    reading = read_tree(forge, forge.files({"prompts/shared": forge.link("../../secrets")}), LIMITS)
    assert str(reading.violations[0]) == "symlink 'prompts/shared' leaves the tree (target '../../secrets'); replace it by a file, then push again"
    hostile = read_tree(forge, forge.files({"a\nb\x1b[31m": forge.submodule()}), LIMITS)
    assert str(hostile.violations[0]) == r"submodule 'a\nb\x1b[31m' is not supported; copy its files into the tree, then push again"


MALFORMED = [
    pytest.param(b"100644 b\0" + b"\1" * 20 + b"100644 a\0" + b"\1" * 20, id="unsorted"),
    pytest.param(b"100644 a", id="no NUL"),
    pytest.param(b"100644 a\0" + b"\1" * 10, id="a short id"),
    pytest.param(b"garbage", id="no tree at all"),
    pytest.param(b"160000 a.b\0" + b"\1" * 20 + b"100644 a\0" + b"\1" * 20, id="unsorted and otherwise wrong"),
]


@pytest.mark.parametrize("raw", MALFORMED)
def test_malformed_trees(forge: Forge, raw: bytes) -> None:
    """A tree that git could not have written is refused, not guessed at."""
    assert broken(forge, forge.put("tree", raw))[-1][0] is Rule.MALFORMED


def test_order_is_gits_own(forge: Forge) -> None:
    """A directory sorts as if its name ended in a slash: `a.b` comes before the directory `a`, `a0` after it."""
    empty = forge.tree()
    entries = [("100644", b"a.b", empty), ("40000", b"a", empty), ("100644", b"a0", empty)]
    assert broken(forge, forge.tree(*entries, ordered=False)) == []
    assert broken(forge, forge.tree(entries[1], entries[0], ordered=False)) == [(Rule.MALFORMED, "")]


def test_doubled_entries_are_refused(forge: Forge) -> None:
    """Two entries of one name are no tree, whichever of them a reader would take."""
    blob = forge.put("blob", b"x")
    rules = [rule for rule, _ in broken(forge, forge.tree(("100644", b"a", blob), ("100644", b"a", blob)))]
    assert rules == [Rule.COLLISION, Rule.MALFORMED]


def test_the_number_of_files_is_limited(forge: Forge) -> None:
    """A tree may hold exactly `max_files` files, and not one more."""
    assert broken(forge, forge.files({f"f{n}": b"" for n in range(50)})) == []
    assert broken(forge, forge.files({f"f{n}": b"" for n in range(51)})) == [(Rule.FILES, "")]


def test_a_bomb_costs_little(forge: Forge) -> None:
    """Ten trees of ten times the same subtree, ten levels deep, are refused before they unfold, and so are empty directories without end."""
    started = time.monotonic()
    for leaf in (forge.files({"f": b"x"}), forge.tree()):
        bomb = leaf
        for _ in range(10):
            bomb = forge.tree(*(("40000", b"d%d" % n, bomb) for n in range(10)))
        assert broken(forge, bomb, SnapshotLimits(max_files=2000)) == [(Rule.FILES, "")]
    assert time.monotonic() - started < 30


def test_depth_and_length_are_limited(forge: Forge) -> None:
    """A path has at most 64 components, 1,024 bytes, and 255 bytes a name."""
    assert broken(forge, forge.files({"d/" * 63 + "f": b""}), SnapshotLimits()) == []
    assert broken(forge, forge.files({"d/" * 64 + "f": b""}), SnapshotLimits())[0][0] is Rule.DEPTH
    assert broken(forge, forge.files({"x" * 256: b""}))[0][0] is Rule.PATH_LENGTH
    assert broken(forge, forge.files({f"{'x' * 200}/" * 5 + "y" * 20: b""}))[0][0] is Rule.PATH_LENGTH


def test_the_report_is_bounded(forge: Forge) -> None:
    """However many rules a tree breaks, at most 20 are told."""
    assert len(broken(forge, forge.files({f"s{n}": forge.submodule() for n in range(40)}))) == 20


def test_the_size_is_limited(forge: Forge) -> None:
    """All files together may hold `max_bytes`; the message names the largest."""
    entries = read_tree(forge, forge.files({"a": b"x" * 400, "b/c": b"y" * 600}), LIMITS).entries
    sizes = {entry.object_id: len(forge.objects[entry.object_id][1]) for entry in entries}
    assert size_violation(entries, sizes, LIMITS) is None
    violation = size_violation(entries, sizes, SnapshotLimits(max_bytes=999))
    assert violation is not None
    assert "1000 bytes, more than the limit of 999 (the largest file is 'b/c' with 600)" in violation.cause


def test_entries_are_ordered_and_complete(forge: Forge, both_formats: str) -> None:
    """Entries come ordered by path, directories included, in both object formats."""
    tree = forge.files({"b/x": b"1", "a": forge.executable(b"2"), "b.c": b"3", "l": forge.link("a")})
    reading = read_tree(forge, tree, LIMITS)
    assert [(entry.path, entry.kind.value) for entry in reading.entries] == [
        ("a", "executable"),
        ("b", "directory"),
        ("b.c", "file"),
        ("b/x", "file"),
        ("l", "symlink"),
    ]
    assert {len(entry.object_id) for entry in reading.entries} == {40 if both_formats == "sha1" else 64}


def test_what_is_known_is_not_read_again(forge: Forge) -> None:
    """Directories that a known tree has at the same place are taken from it, and the result is the same as without it, limits included."""
    files: dict[str, bytes | Node] = {"a/x/1": b"1", "a/2": b"2", "a.b": b"3", "a0": b"4", "b/x/1": b"5", "b/l": forge.link("x/1")}
    old = forge.files(files)
    known = KnownTree(old, read_tree(forge, old, LIMITS).entries)
    new = forge.files({**files, "b/new": b"6", "c/x/1": b"1"})
    for tree, unread in ((old, [old]), (new, [forge.git("rev-parse", f"{old}:a"), forge.git("rev-parse", f"{old}:b/x")])):
        expected = read_tree(forge, tree, LIMITS)
        kept = {object_id: forge.objects.pop(object_id) for object_id in unread}
        assert read_tree(forge, tree, LIMITS, known) == expected
        forge.objects.update(kept)
    violations = read_tree(forge, old, SnapshotLimits(max_files=5), known).violations
    assert [violation.rule for violation in violations] == [Rule.FILES]


def test_parse_tree_keeps_duplicates() -> None:
    """The parser shows what is there and hides nothing."""
    raw = b"100644 a\0" + b"\1" * 20 + b"040000 a\0" + b"\2" * 20
    assert list(parse_tree(raw, 20)) == [(b"100644", b"a", "01" * 20), (b"040000", b"a", "02" * 20)]
