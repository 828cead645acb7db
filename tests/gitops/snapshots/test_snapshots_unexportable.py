"""What no snapshot may hold: each case is refused by path, with the remedy, and nothing appears."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from gitops.errors import SnapshotUnexportable
from gitops.snapshots import SnapshotLimits, Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

    from gitops.content import ContentVolume, ProjectKey
    from tests.gitops.snapshots.conftest import Forge, Node

LIMITS = SnapshotLimits(max_files=100, max_bytes=1000)


def holding(path: str, node: Callable[[Forge], Node | bytes] = lambda _: b"x") -> Callable[[Forge], str]:
    """Return a maker of a tree with something at `path`, and harmless files around it."""
    return lambda forge: forge.files({"a": b"1", "z/y": b"2", path: node(forge)})


def named(name: bytes) -> Callable[[Forge], str]:
    """Return a maker of a tree with a file of any name in the directory `d`."""
    return lambda forge: forge.tree(("40000", b"d", forge.tree(("100644", name, forge.put("blob", b"x")))))


def twins(one: str, other: str) -> Callable[[Forge], str]:
    """Return a maker of a tree whose directory `d` has two names."""
    return lambda forge: forge.files({f"d/{one}": b"1", f"d/{other}": b"2"})


CASES: list[Any] = [
    pytest.param(holding("d/l", lambda f: f.link("../../x")), "d/l", "symlink 'd/l' leaves the tree (target '../../x'); replace it", id="a symlink out"),
    pytest.param(holding("d/l", lambda f: f.link("/etc/passwd")), "d/l", "leaves the tree (target '/etc/passwd')", id="an absolute symlink"),
    pytest.param(
        lambda f: f.files({"d/up": f.link(".."), "d/l": f.link("up/../x")}), "d/l", "leaves the tree (target 'up/../x')", id="out through another symlink"
    ),
    pytest.param(holding("l", lambda f: f.link("l")), "l", "runs in a circle", id="a symlink to itself"),
    pytest.param(holding("vendor/lib", lambda f: f.submodule()), "vendor/lib", "submodule 'vendor/lib' is not supported; copy its files", id="a submodule"),
    pytest.param(named(b"/etc"), "d//etc", "is absolute", id="an absolute name"),
    pytest.param(named(b".."), "d/..", "is '..'", id="the parent"),
    pytest.param(named(b"a/../../b"), "d/a/../../b", "holds a slash", id="a path in a name"),
    pytest.param(named(b"..\\x"), r"d/..\x", "holds '..' between backslashes", id="the parent before a backslash"),
    pytest.param(holding(".git/config"), ".git", "the name of '.git' is '.git'; rename it", id=".git"),
    pytest.param(holding("d/.GIT/hooks/x"), "d/.GIT", "is '.git' as some file systems read it", id=".git in upper case"),
    pytest.param(holding("git~1"), "git~1", "is '.git' as some", id="the NTFS short name of .git"),
    pytest.param(holding("d/.git. "), "d/.git. ", "is '.git' as some", id=".git with a dot and a space"),
    pytest.param(holding(".git::$INDEX_ALLOCATION"), ".git::$INDEX_ALLOCATION", "is '.git' as some", id="an NTFS stream of .git"),
    pytest.param(holding(".g\u200cit"), r".g\u200cit", "is '.git' as some", id=".git with what HFS+ ignores"),
    pytest.param(named(b"caf\xe9"), r"d/caf\xe9", "is not UTF-8", id="not UTF-8"),
    pytest.param(twins("README", "readme"), "d/readme", "'d/README' and 'd/readme' are one name where case", id="a collision of case"),
    pytest.param(twins("stra\u00dfe", "STRASSE"), "d/stra\u00dfe", "are one name", id="a collision of full case folding"),
    pytest.param(twins("e\u0301", "\u00e9"), "d/\u00e9", "are one name", id="NFC and NFD twins"),
    pytest.param(holding("/".join(["d"] * 64 + ["f"])), "/".join(["d"] * 64), "lies deeper than 64 levels; move it up", id="too deep"),
    pytest.param(holding("x" * 256), "x" * 197 + "...", "is too long (at most 1024 bytes, and 255 a name)", id="a name that is too long"),
    pytest.param(lambda f: f.tree(("100664", b"a", f.put("blob", b""))), "a", "has mode 100664", id="a mode that no git writes"),
    pytest.param(lambda f: f.files({f"f{n}": b"" for n in range(101)}), "", "holds more than 100 files; remove some or raise spec.snapshots.maxFiles", id="files"),
    pytest.param(
        holding("large", lambda _: b"x" * 1000), "", "1002 bytes, more than the limit of 1000 (the largest file is 'large' with 1000)", id="bytes"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "path", "words"), CASES)
async def test_is_refused_by_path(
    forge: Forge, volume: ContentVolume, project: ProjectKey, make: Callable[[Forge], str], path: str, words: str
) -> None:
    """The error names the path (none for a limit of the whole tree) and says cause and remedy in one printable line."""
    snapshots = Snapshots(volume)
    commit = forge.commit(make(forge))
    with pytest.raises(SnapshotUnexportable) as caught:
        await snapshots.export(project, commit, LIMITS)
    assert caught.value.path == path or caught.value.path.startswith(path.removesuffix("..."))
    assert caught.value.message.startswith(f"cannot export commit {commit[:12]} of project 'support': ")
    assert words in caught.value.message
    assert caught.value.message.isprintable()
    assert path in caught.value.message
    assert await snapshots.find(project, commit) is None
    assert os.listdir(volume.versions(project)) == [".manifests"]  # noqa: PTH208 - hidden names


async def test_the_neighbours_export(forge: Forge, volume: ContentVolume, project: ProjectKey) -> None:
    """What is merely near to a rule is exported: symlinks inside, the deepest path, the longest name, equal names in different directories."""
    files: dict[str, bytes | Node] = {
        "d/l": forge.link("../a"),
        "dangling": forge.link("nowhere/yet"),
        "a": b"1",
        "/".join(["d"] * 63 + ["f"]): b"2",
        "x" * 255: b"3",
        "e/README": b"4",
        "f/readme": b"5",
        ".gitignore": b"6",
        "git~2": b"7",
    }
    snapshot = await Snapshots(volume).export(project, forge.commit(files), LIMITS)
    assert snapshot.files == len(files)
