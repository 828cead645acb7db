"""Which snapshot a new one shares its files with, and how a damaged one is found and mended."""

from __future__ import annotations

import contextlib
import os
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from foundation.clock import FakeClock
from gitops.snapshot_nearest import nearest
from gitops.snapshots import SCRUB_EVERY_S, Snapshot, Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gitops.content import ContentVolume, ProjectKey
    from tests.gitops.snapshots.conftest import Forge, Node

FILES = {f"d{n % 5}/e{n % 3}/f{n}": b"%d" % n for n in range(60)}


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still."""
    return FakeClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def snapshots(volume: ContentVolume, clock: FakeClock) -> Snapshots:
    """Snapshots on the empty volume."""
    return Snapshots(volume, clock)


def changed(count: int, word: bytes) -> dict[str, bytes]:
    """Return the files with the first `count` changed."""
    return {path: word + content if number < count else content for number, (path, content) in enumerate(FILES.items())}


async def test_files_are_shared_with_the_nearest(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """With two branches that differ in every file, each new commit shares with its own branch's snapshot, though the other's is newer."""
    main = changed(60, b"main ")
    await snapshots.export(project, forge.commit(main))
    await snapshots.export(project, forge.commit(changed(60, b"other "), ref="refs/heads/other"))
    assert (await snapshots.export(project, forge.commit({**main, "d0/e0/f0": b"new"}))).written == 1
    assert (await snapshots.export(project, forge.commit({**changed(60, b"other "), "more": b"new"}, ref="refs/heads/other"))).written == 1


async def test_the_nearest_is_looked_for_among_eight(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """A snapshot that eight others followed is not looked at any more."""
    await snapshots.export(project, forge.commit(FILES))
    for number in range(7):
        await snapshots.export(project, forge.commit({"only": b"%d" % number}))
    assert (await snapshots.export(project, forge.commit({**FILES, "a": b"one"}))).written == 1
    for number in range(8):
        await snapshots.export(project, forge.commit({"only": b"again %d" % number}))
    assert (await snapshots.export(project, forge.commit({**FILES, "a": b"two"}))).written == 61


async def test_a_tree_that_is_gone_is_no_reason_to_fail(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """Where the trees of older snapshots were collected, the newest snapshot is shared with."""
    first = forge.files(FILES)
    await snapshots.export(project, forge.commit(first))
    await snapshots.export(project, forge.commit({**FILES, "x": b"one"}))
    (forge.path / "objects" / first[:2] / first[2:]).unlink()
    assert (await snapshots.export(project, forge.commit({**FILES, "x": b"two"}))).written == 1


DISTANCES: list[object] = [
    pytest.param([changed(3, b"x"), changed(2, b"x"), changed(9, b"x")], 1, id="the fewest changed files"),
    pytest.param([changed(3, b"x"), changed(3, b"y")], 0, id="the first of equal ones"),
    pytest.param([{}, changed(59, b"x")], 1, id="anything rather than nothing"),
    pytest.param([{**FILES, "more/1": b"", "more/2": b""}, changed(1, b"x")], 1, id="a directory that is gone counts for its files"),
    pytest.param([{"d0": b"a file"}, {"d0/e0/f0": b"0"}], 1, id="a file where a directory is"),
    pytest.param([changed(4, b"x"), FILES], 1, id="the same tree"),
]


@pytest.mark.parametrize(("candidates", "expected"), DISTANCES)
def test_nearest(forge: Forge, candidates: list[dict[str, bytes | Node]], expected: int) -> None:
    """The tree that differs in the fewest entries is the nearest."""
    assert nearest(forge, forge.files(FILES), [forge.files(candidate) for candidate in candidates]) == expected


def test_nearest_reads_no_more_than_it_must(forge: Forge) -> None:
    """Equal directories are never read, and a far tree is left as soon as it cannot be the nearest."""
    near, far = forge.files(changed(1, b"x")), forge.files({f"d{n}/e{m}/f": b"far" for n in range(5) for m in range(20)})
    tree = forge.files(FILES)
    read: list[str] = []

    class Counting:
        def contents(self, object_ids: list[str], *, limit_bytes: int) -> object:
            read.extend(object_ids)
            return forge.contents(object_ids, limit_bytes=limit_bytes)

    assert nearest(Counting(), tree, [far, near]) == 1  # type: ignore[arg-type]
    assert len(read) == len(set(read)) <= 7


def empty(directory: Path) -> None:
    """Remove all that is in a directory."""
    for inner in directory.iterdir():
        shutil.rmtree(inner)


def relink(directory: Path) -> None:
    """Put a symlink to its neighbour in the place of a directory."""
    shutil.rmtree(directory / "d1")
    (directory / "d1").symlink_to("d2")


HALVES: list[object] = [
    pytest.param(lambda path: shutil.rmtree(path / "d1"), id="a directory is gone"),
    pytest.param(lambda path: (path / "d1/e1/f1").unlink(), id="a file is gone"),
    pytest.param(lambda path: (path / "d1/e1/stray").write_bytes(b""), id="a file was added"),
    pytest.param(lambda path: (path / "d1/e1/f1").rename(path / "d1/e1/g"), id="a file has another name"),
    pytest.param(empty, id="everything is gone but the root"),
    pytest.param(relink, id="a symlink for a directory"),
]


@pytest.mark.parametrize("damage", HALVES)
async def test_a_half_deleted_snapshot_is_mended(forge: Forge, project: ProjectKey, snapshots: Snapshots, damage: Callable[[Path], None]) -> None:
    """A snapshot in which a name came or went is not found, and the next export sets it aside and writes what is missing."""
    first = await snapshots.export(project, forge.commit(FILES))
    assert await snapshots.find(project, first.commit) is not None
    for path in (first.path, *first.path.rglob("d*"), *first.path.rglob("e*")):
        path.chmod(0o755)
    damage(first.path)
    assert await snapshots.find(project, first.commit) is None
    again = await snapshots.export(project, first.commit)
    assert again.digest == first.digest
    assert again.written > 0
    assert {path.relative_to(again.path).as_posix(): path.read_bytes() for path in again.path.rglob("f*")} == FILES
    assert await snapshots.scrub(project) == []
    assert await snapshots.find(project, first.commit) is not None


async def test_a_touched_directory_is_no_damage(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """A directory that only has another time, as after a copy of the volume, costs one full reading and nothing is written."""
    first = await snapshots.export(project, forge.commit(FILES))
    os.utime(first.path / "d1", (1, 1))
    assert await snapshots.find(project, first.commit) is None
    assert (await snapshots.export(project, first.commit)).written == 0
    assert await snapshots.find(project, first.commit) is not None


async def damaged(snapshots: Snapshots, project: ProjectKey, forge: Forge, *numbers: int) -> list[Snapshot]:
    """Return three snapshots, those of `numbers` with other bytes of the same length in a file of their own."""
    made = [await snapshots.export(project, forge.commit({"own": b"own %d" % number, "shared": b"s"})) for number in range(3)]
    for number in numbers:
        own = made[number].path / "own"
        before = own.stat()
        own.chmod(0o644)
        own.write_bytes(b"OWN X")
        own.chmod(0o444)
        os.utime(own, ns=(before.st_atime_ns, before.st_mtime_ns))
    return made


async def test_one_snapshot_an_hour_is_read_in_full(forge: Forge, project: ProjectKey, snapshots: Snapshots, clock: FakeClock) -> None:
    """Whatever nobody looks at is found in time: one snapshot an hour, each in its turn, a bad one set aside; none at the start."""
    made = await damaged(snapshots, project, forge, 0, 2)
    found = []
    for _ in range(8):
        found.append(await snapshots.scrub_next(project))
        found.append(await snapshots.scrub_next(project))
        await clock.advance(SCRUB_EVERY_S)
    assert found[:2] == [None, None]
    assert sorted(filter(None, found)) == sorted([made[0].commit, made[2].commit])
    assert all(second is None for second in found[1::2])
    assert await snapshots.find(project, made[0].commit) is None
    assert (await snapshots.export(project, made[0].commit)).written == 1
    assert await snapshots.unsound(project) == {}


@pytest.mark.slow
async def test_a_file_with_as_many_links_as_may_be(forge: Forge, project: ProjectKey, snapshots: Snapshots, tmp_path: Path) -> None:
    """A file that the file system gives no further link (65,000 on ext4) is written from its blob, and the next snapshot shares the new one."""
    first = await snapshots.export(project, forge.commit({"a": b"1", "b": b"2"}))
    (links := tmp_path / "links").mkdir()
    with contextlib.suppress(OSError):
        for number in range(70_000):
            os.link(first.path / "a", links / str(number))
    if (first.path / "a").stat().st_nlink > 70_000:
        pytest.skip("this file system gives a file 70,000 links")
    second = await snapshots.export(project, forge.commit({"a": b"1", "b": b"2", "c": b"3"}))
    third = await snapshots.export(project, forge.commit({"a": b"1", "b": b"2", "c": b"3", "d": b"4"}))
    assert (second.written, third.written) == (2, 1)
    assert (second.path / "a").stat().st_ino == (third.path / "a").stat().st_ino != (first.path / "a").stat().st_ino
