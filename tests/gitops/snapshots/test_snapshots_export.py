"""What an exported snapshot is."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from typing import TYPE_CHECKING

import pytest

from gitops.content import ContentVolume, ProjectKey
from gitops.errors import RefNotFound, SnapshotUnexportable, StorageFailed, UnknownProject, UnsafeName
from gitops.snapshots import SnapshotLimits, Snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gitops.snapshots.conftest import Forge

ATTRIBUTES = b"*.txt text eol=crlf ident export-subst\nsecret.txt export-ignore\n*.utf16 working-tree-encoding=UTF-16\n"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"


@pytest.fixture
def snapshots(volume: ContentVolume) -> Snapshots:
    """Snapshots on the empty volume."""
    return Snapshots(volume)


def contents(root: Path) -> dict[str, bytes]:
    """Return the bytes of every file and the target of every symlink below a directory, by relative path."""
    found = [path for path in root.rglob("*") if path.is_symlink() or not path.is_dir()]
    return {path.relative_to(root).as_posix(): os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() for path in found}


async def test_bytes_are_the_blobs_own(forge: Forge, project: ProjectKey, snapshots: Snapshots, both_formats: str) -> None:
    """No attribute, filter or line ending changes a byte, and nothing is left out; git agrees with every blob, in both object formats."""
    files = {
        ".gitattributes": ATTRIBUTES,
        "a.txt": b"one\n$Id$ $Format:%H$\n",
        "secret.txt": b"kept\r\n",
        "b.utf16": b"\xff\xfea\0",
        "deep/er/x.bin": bytes(range(256)) * 10,
        "empty": b"",
        "large": b"0123456789abcdef" * 200_000,
        "-n ame\n\u00fc": b"odd name",
    }
    commit = forge.commit(files)
    snapshot = await snapshots.export(project, commit)
    assert contents(snapshot.path) == files
    assert (snapshot.files, snapshot.bytes, snapshot.written) == (8, sum(map(len, files.values())), 8)
    assert len(snapshot.commit) == (40 if both_formats == "sha1" else 64)
    listed = forge.git("ls-tree", "-r", "-z", commit).rstrip("\0").split("\0")
    hashed = {line.partition("\t")[2]: forge.git("hash-object", "--no-filters", str(snapshot.path / line.partition("\t")[2])) for line in listed}
    assert hashed == {line.partition("\t")[2]: line.split()[2] for line in listed}


async def test_only_files_of_the_commit_and_all_read_only(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """Files are 0444 or 0555, directories 0555, symlinks as they are; whatever the umask is."""
    commit = forge.commit({"run.sh": forge.executable(b"#!"), "d/a": b"1", "d/l": forge.link("../run.sh")})
    before = os.umask(0o077)
    try:
        snapshot = await snapshots.export(project, commit)
    finally:
        os.umask(before)
    modes = {
        path.relative_to(snapshot.path).as_posix(): stat.S_IMODE(path.lstat().st_mode) for path in snapshot.path.rglob("*") if not path.is_symlink()
    }
    assert modes == {"run.sh": 0o555, "d": 0o555, "d/a": 0o444}
    assert stat.S_IMODE(snapshot.path.stat().st_mode) == 0o555
    assert (snapshot.path / "d/l").read_bytes() == b"#!"


async def test_the_digest_says_what_is_in_it(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """The digest is over mode, blob id and path of every file: equal for equal trees of other commits, another for any change."""
    first = await snapshots.export(project, forge.commit({"a": b"1", "b/c": b"2"}))
    same = await snapshots.export(project, forge.commit({"a": b"1", "b/c": b"2"}, first.commit, message="again"))
    mode = await snapshots.export(project, forge.commit({"a": forge.executable(b"1"), "b/c": b"2"}))
    lines = f"100644 {forge.put('blob', b'1')}\ta\x00100644 {forge.put('blob', b'2')}\tb/c\x00"
    assert first.digest == same.digest == f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"
    assert (same.written, mode.written, first.digest == mode.digest) == (0, 1, False)


async def test_export_is_idempotent(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """A second export, by another process too, finds the first and writes nothing."""
    commit = forge.commit({"a": b"1"})
    first = await snapshots.export(project, commit)
    again = await Snapshots(ContentVolume(first.path.parents[7])).export(project, commit)
    assert (again.digest, again.path, again.written) == (first.digest, first.path, 0)
    assert await snapshots.find(project, commit) == again
    assert first.content_path == f"arena/sources/support/.arena/versions/{commit}"


async def test_unchanged_files_are_shared(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """Exactly the changed files are written; the others, renamed ones too, are links to the snapshot before."""
    files = {f"d{n % 3}/f{n}": b"%d" % n for n in range(30)}
    first = await snapshots.export(project, forge.commit(files))
    moved = {**files, "d0/f0": b"changed", "new": b"new", "moved/f1": files["d1/f1"]}
    del moved["d1/f1"]
    second = await snapshots.export(project, forge.commit(moved, first.commit))
    assert second.written == 2
    assert (first.path / "d1/f1").stat().st_ino == (second.path / "moved/f1").stat().st_ino
    assert (first.path / "d0/f0").stat().st_ino != (second.path / "d0/f0").stat().st_ino
    assert contents(second.path) == moved
    assert contents(first.path) == files


async def test_a_changed_mode_is_no_shared_file(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """A file whose executable bit changed is written anew: links share their mode."""
    first = await snapshots.export(project, forge.commit({"a": b"1", "b": b"2"}))
    second = await snapshots.export(project, forge.commit({"a": forge.executable(b"1"), "b": b"2"}))
    assert second.written == 1
    assert stat.S_IMODE((first.path / "a").stat().st_mode) == 0o444


@pytest.mark.parametrize("damage", ["bytes", "mode", "gone", "directory gone"])
async def test_a_file_that_was_touched_is_not_shared(forge: Forge, project: ProjectKey, snapshots: Snapshots, damage: str) -> None:
    """A file of the snapshot before that is not as it was verified is written from its blob, so damage does not spread."""
    first = await snapshots.export(project, forge.commit({"d/a": b"1", "b": b"2"}))
    victim = first.path / "d/a"
    victim.parent.chmod(0o755)
    if damage == "bytes":
        victim.chmod(0o644)
        victim.write_bytes(b"X")
        victim.chmod(0o444)
    elif damage == "mode":
        victim.chmod(0o644)
    else:
        victim.unlink()
        if damage == "directory gone":
            first.path.chmod(0o755)
            victim.parent.rmdir()
    second = await snapshots.export(project, forge.commit({"d/a": b"1", "b": b"2", "c": b"3"}, first.commit))
    assert second.written == 2
    assert contents(second.path) == {"d/a": b"1", "b": b"2", "c": b"3"}


async def test_an_empty_tree_is_a_snapshot(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """A commit without a file has an empty snapshot, and so has an empty directory its place."""
    empty = await snapshots.export(project, forge.commit(forge.tree()))
    assert (empty.files, empty.bytes, list(empty.path.iterdir())) == (0, 0, [])
    hollow = await snapshots.export(project, forge.commit(forge.tree(("40000", b"d", forge.tree()))))
    assert [path.name for path in hollow.path.iterdir()] == ["d"]


async def test_a_padded_mode_of_an_old_history_exports(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """A tree whose modes are zero-padded, as bygone tools wrote them, verifies against its own id, after a restart too."""
    inner = forge.tree(("0100644", b"a", forge.put("blob", b"1")))
    commit = forge.commit(forge.tree(("040000", b"d", inner)))
    snapshot = await snapshots.export(project, commit)
    assert contents(snapshot.path) == {"d/a": b"1"}
    assert await snapshots.scrub(project) == []


async def test_packed_and_delta_objects(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """Packed objects, deltas included, export as loose ones do."""
    files = {f"f{n}": b"line\n" * 500 + b"%d\n" % n for n in range(450)}
    commit = forge.commit(files)
    forge.git("repack", "-adfq", "--depth=10")
    assert not (forge.path / "objects" / commit[:2] / commit[2:]).exists()
    snapshot = await snapshots.export(project, commit)
    assert contents(snapshot.path) == files


async def test_lfs_pointers_are_named(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """A Git LFS pointer is exported as is and named, also when its file was shared and when the snapshot is found again."""
    first = await snapshots.export(project, forge.commit({"models/big.bin": POINTER, "a": b"version https://"}))
    second = await snapshots.export(project, forge.commit({"models/big.bin": POINTER, "b": b"2"}))
    assert first.lfs_pointers == second.lfs_pointers == ("models/big.bin",)
    assert second.written == 1
    assert (second.path / "models/big.bin").read_bytes() == POINTER
    found = await snapshots.find(project, second.commit)
    assert found is not None
    assert found.lfs_pointers == second.lfs_pointers


async def test_what_cannot_be_exported_leaves_nothing(forge: Forge, project: ProjectKey, snapshots: Snapshots, volume: ContentVolume) -> None:
    """The message names commit, project, path, cause and remedy in one line; further faults are in the hint; nothing appears."""
    commit = forge.commit({"prompts/shared": forge.link("../../secrets"), "z": forge.link("/etc/passwd")})
    with pytest.raises(SnapshotUnexportable) as caught:
        await snapshots.export(project, commit)
    assert caught.value.message == (
        f"cannot export commit {commit[:12]} of project 'support': symlink 'prompts/shared' leaves the tree (target '../../secrets'); "
        "replace it by a file, then push again"
    )
    assert caught.value.path == "prompts/shared"
    assert caught.value.hint == "1 more: symlink 'z' leaves the tree (target '/etc/passwd')"
    assert await snapshots.find(project, commit) is None
    assert [path.name for path in volume.versions(project).iterdir()] == [".manifests"]


async def test_limits(forge: Forge, project: ProjectKey, snapshots: Snapshots, volume: ContentVolume) -> None:
    """More files or bytes than the project allows are refused before anything is written; the limit itself is allowed."""
    commit = forge.commit({"a": b"x" * 60, "b": b"y" * 40})
    with pytest.raises(SnapshotUnexportable, match=r"holds more than 1 files; remove some or raise spec\.snapshots\.maxFiles"):
        await snapshots.export(project, commit, SnapshotLimits(max_files=1))
    with pytest.raises(SnapshotUnexportable, match=r"holds 100 bytes, more than the limit of 99 .*; remove files or raise spec\.snapshots\.maxSize"):
        await snapshots.export(project, commit, SnapshotLimits(max_bytes=99))
    assert [path.name for path in volume.versions(project).iterdir()] == [".manifests"]
    assert (await snapshots.export(project, commit, SnapshotLimits(max_files=2, max_bytes=100))).bytes == 100


async def test_what_is_no_commit(forge: Forge, project: ProjectKey, snapshots: Snapshots, both_formats: str) -> None:
    """A commit that is not there, a tree, an abbreviation and a project without a repository are each refused by name."""
    tree = forge.files({"a": b"1"})
    commit = forge.commit(tree)
    with pytest.raises(RefNotFound, match="it is a tree, not a commit"):
        await snapshots.export(project, tree)
    with pytest.raises(RefNotFound, match="the repository does not hold it"):
        await snapshots.export(project, "0" * len(commit))
    with pytest.raises(RefNotFound if both_formats == "sha256" else UnsafeName):
        await snapshots.export(project, commit[:40] if both_formats == "sha256" else commit[:39])
    with pytest.raises(UnknownProject, match="it has no repository"):
        await snapshots.export(ProjectKey("default", "other"), commit)


@pytest.mark.parametrize("what", ["blob", "tree"])
async def test_a_damaged_repository_is_named(forge: Forge, project: ProjectKey, snapshots: Snapshots, what: str) -> None:
    """A missing or corrupt object fails the export with its id and a remedy, and nothing appears."""
    blob = forge.put("blob", b"content")
    tree = forge.files({"d/a": b"content"})
    commit = forge.commit(tree)
    inner = forge.git("rev-parse", f"{tree}:d")
    victim = blob if what == "blob" else inner
    (forge.path / "objects" / victim[:2] / victim[2:]).unlink()
    with pytest.raises(StorageFailed, match=f"cannot export commit {commit[:12]} of project 'support': .*{victim}") as caught:
        await snapshots.export(project, commit)
    assert "git fsck" in caught.value.hint
    assert await snapshots.find(project, commit) is None


async def test_a_blob_that_lies_about_its_id(forge: Forge, project: ProjectKey, snapshots: Snapshots, volume: ContentVolume) -> None:
    """Bytes that do not hash to the blob's id never become a snapshot: the repository is not believed either."""
    commit = forge.commit({"d/a": b"content"})
    right, wrong = forge.put("blob", b"content"), forge.put("blob", b"CONTENT")
    path = forge.path / "objects" / right[:2] / right[2:]
    path.write_bytes((forge.path / "objects" / wrong[:2] / wrong[2:]).read_bytes())
    with pytest.raises(StorageFailed):
        await snapshots.export(project, commit)
    assert await snapshots.find(project, commit) is None
    assert [name for name in os.listdir(volume.versions(project)) if not name.startswith(".manifests")] == []  # noqa: PTH208 - hidden names


async def test_a_cancelled_export_ends_before_its_lock_is_free(
    forge: Forge, project: ProjectKey, snapshots: Snapshots, volume: ContentVolume
) -> None:
    """Cancelling waits for the thread, which leaves nothing behind; the next export works at once."""
    commit = forge.commit({f"f{n}": b"%d" % n for n in range(300)})
    task = asyncio.create_task(snapshots.export(project, commit))
    while not volume.versions(project).exists():  # noqa: ASYNC110 - a thread makes it
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not list(volume.versions(project).glob(".tmp-*"))
    assert (await snapshots.export(project, commit)).files == 300


async def test_the_head_file(project: ProjectKey, snapshots: Snapshots, volume: ContentVolume) -> None:
    """HEAD holds the commit of the newest head snapshot; recording the same again does not touch the file."""
    assert await snapshots.head(project) is None
    await snapshots.set_head(project, "a" * 40)
    before = volume.head_file(project).stat()
    await snapshots.set_head(project, "a" * 40)
    assert volume.head_file(project).stat().st_ino == before.st_ino
    assert volume.head_file(project).read_text() == "a" * 40 + "\n"
    await snapshots.set_head(project, "b" * 64)
    assert await snapshots.head(project) == "b" * 64
    with pytest.raises(UnsafeName):
        await snapshots.set_head(project, "main")


async def test_a_head_that_is_forgotten(project: ProjectKey, snapshots: Snapshots) -> None:
    """There is none then, and forgetting it again, or one that never was, is nothing."""
    await snapshots.forget_head(project)
    await snapshots.set_head(project, "a" * 40)
    for _ in range(2):
        await snapshots.forget_head(project)
        assert await snapshots.head(project) is None
