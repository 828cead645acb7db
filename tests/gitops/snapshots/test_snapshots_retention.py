"""Which snapshots stay, and how a bad one is found."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from gitops.content import ContentVolume, ProjectKey
from gitops.snapshots import Snapshot, Snapshots, SnapshotUsage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from tests.gitops.snapshots.conftest import Forge


@pytest.fixture
def snapshots(volume: ContentVolume) -> Snapshots:
    """Snapshots on the empty volume."""
    return Snapshots(volume)


@pytest.fixture
async def five(forge: Forge, volume: ContentVolume, project: ProjectKey, snapshots: Snapshots) -> list[Snapshot]:
    """Five snapshots, oldest first: one file of 10 bytes that all share, and one of 5 bytes of its own each."""
    made = []
    for number in range(5):
        commit = forge.commit({"shared": b"0123456789", "d/own": b"own %d" % number}, message=str(number))
        made.append(await snapshots.export(project, commit))
        # Exports that follow each other within the clock tick of the file system would have no order.
        os.utime(volume.versions(project) / ".manifests" / f"{commit}.jsonl", (number, number))
    return made


def needing(*commits: str) -> Callable[[], Awaitable[Collection[str]]]:
    """Return a `needed` that names these commits."""

    async def needed() -> Collection[str]:
        return commits

    return needed


async def left(snapshots: Snapshots, project: ProjectKey, made: list[Snapshot]) -> list[int]:
    """Return the ordinals of the snapshots that can still be found."""
    return [number for number, snapshot in enumerate(made) if await snapshots.find(project, snapshot.commit) is not None]


@pytest.mark.parametrize(
    ("retain", "needed", "expected"),
    [
        pytest.param(2, [], [3, 4], id="the newest two stay"),
        pytest.param(2, [0], [0, 3, 4], id="a needed one stays and takes no place"),
        pytest.param(2, [4, 3], [1, 2, 3, 4], id="the newest unused ones are counted apart"),
        pytest.param(0, [1], [1], id="nothing unused stays"),
        pytest.param(20, [], [0, 1, 2, 3, 4], id="fewer than the limit"),
        pytest.param(0, [], [], id="nothing at all"),
    ],
)
async def test_the_newest_unused_stay(
    five: list[Snapshot], project: ProjectKey, snapshots: Snapshots, retain: int, needed: list[int], expected: list[int]
) -> None:
    """All needed snapshots stay, and of the others the newest `retain`; what goes leaves no trace, and the count and bytes are of what stays."""
    usage = await snapshots.prune(project, needed=needing(*(five[number].commit for number in needed)), retain=retain)
    assert await left(snapshots, project, five) == expected
    assert usage == SnapshotUsage(len(expected), 10 + 5 * len(expected) if expected else 0)
    versions = five[0].path.parent
    assert sorted(os.listdir(versions / ".manifests")) == sorted(f"{five[n].commit}.jsonl" for n in expected)  # noqa: PTH208 - hidden names
    assert [path for path in versions.iterdir() if path.name not in {five[n].commit for n in expected} | {".manifests", ".trash"}] == []
    assert not (versions / ".trash").exists() or not list((versions / ".trash").iterdir())


async def test_the_head_stays(five: list[Snapshot], project: ProjectKey, snapshots: Snapshots) -> None:
    """The snapshot that HEAD names is never pruned, however old."""
    await snapshots.set_head(project, five[0].commit)
    await snapshots.prune(project, needed=needing(), retain=1)
    assert await left(snapshots, project, five) == [0, 4]


async def test_a_pruned_snapshot_harms_no_other(five: list[Snapshot], project: ProjectKey, snapshots: Snapshots) -> None:
    """Files shared with a pruned snapshot keep their bytes and their mode."""
    await snapshots.prune(project, needed=needing(), retain=1)
    assert await snapshots.scrub(project) == []
    assert (five[4].path / "shared").read_bytes() == b"0123456789"
    assert (five[4].path / "shared").stat().st_mode & 0o777 == 0o444


async def test_need_is_asked_under_the_lock_of_export(five: list[Snapshot], project: ProjectKey, snapshots: Snapshots) -> None:
    """An export that begins while `needed` is being answered waits for the prune, and then makes again what was removed."""
    exports: list[asyncio.Task[Snapshot]] = []

    async def needed() -> Collection[str]:
        exports.append(asyncio.create_task(snapshots.export(project, five[0].commit)))
        exports.append(asyncio.create_task(Snapshots(ContentVolume(five[0].path.parents[7])).export(project, five[1].commit)))
        done, _ = await asyncio.wait(exports, timeout=0.1)
        assert not done
        return []

    assert (await snapshots.prune(project, needed=needed, retain=0)).count == 0
    assert [snapshot.written for snapshot in await asyncio.gather(*exports)] in ([2, 1], [1, 2])
    assert await left(snapshots, project, five) == [0, 1]


async def test_a_failing_need_removes_nothing(five: list[Snapshot], project: ProjectKey, snapshots: Snapshots) -> None:
    """When it cannot be known what is needed, everything stays and the lock is free again."""

    async def needed() -> Collection[str]:
        raise ConnectionError("the store is gone")

    with pytest.raises(ConnectionError):
        await snapshots.prune(project, needed=needed, retain=0)
    assert await left(snapshots, project, five) == [0, 1, 2, 3, 4]
    assert (await snapshots.prune(project, needed=needing(), retain=4)).count == 4


async def test_leftovers_are_swept(five: list[Snapshot], project: ProjectKey, snapshots: Snapshots) -> None:
    """A prune removes what a killed export or prune left: temporary directories, trash, a manifest without its snapshot."""
    versions = five[0].path.parent
    for name in (".tmp-left", ".trash/left"):
        (versions / name / "d").mkdir(parents=True)
        (versions / name / "d").chmod(0o555)
        (versions / name).chmod(0o555)
    (versions / ".manifests" / f"{'a' * 40}.jsonl").write_text("{}")
    await snapshots.prune(project, needed=needing(), retain=5)
    assert not (versions / ".tmp-left").exists()
    assert not (versions / ".trash/left").exists()
    assert len(list((versions / ".manifests").iterdir())) == 5


@pytest.mark.parametrize("damage", ["bytes", "size", "mode", "gone", "added", "link", "pipe", "manifest", "digest", "entries"])
async def test_scrub_finds_damage(five: list[Snapshot], project: ProjectKey, snapshots: Snapshots, damage: str) -> None:
    """A snapshot that differs from its commit in any way is set aside and exported again; its time and size may look untouched."""
    victim = five[2]
    manifest = victim.path.parent / ".manifests" / f"{victim.commit}.jsonl"
    own = victim.path / "d/own"
    before = own.stat()
    own.parent.chmod(0o755)
    match damage:
        case "bytes":
            own.write_bytes(b"OWN 2")
            os.utime(own, ns=(before.st_atime_ns, before.st_mtime_ns))
        case "size":
            own.write_bytes(b"")
        case "mode":
            own.chmod(0o755)
        case "gone":
            own.unlink()
        case "added":
            (own.parent / "more").write_bytes(b"")
        case "link":
            own.unlink()
            own.symlink_to("/etc/passwd")
        case "pipe":
            own.unlink()
            os.mkfifo(own)
        case "manifest":
            manifest.unlink()
        case "entries":
            manifest.write_text(manifest.read_text().replace('"d/own"', '"d/OWN"'))
        case _:
            manifest.write_text(manifest.read_text().replace(victim.digest, "sha256:0"))
    assert list(await snapshots.unsound(project)) == [victim.commit]
    assert await snapshots.scrub(project) == [victim.commit]
    assert await left(snapshots, project, five) == [0, 1, 3, 4]
    again = await snapshots.export(project, victim.commit)
    assert (again.digest, again.written) == (victim.digest, 1)
    assert await snapshots.scrub(project) == []
    assert len(list((victim.path.parent / ".quarantine").iterdir())) == 1


async def test_scrub_finds_damage_that_is_shared(five: list[Snapshot], project: ProjectKey, snapshots: Snapshots) -> None:
    """A damaged file that several snapshots share damns them all; the quarantine keeps one for a person to look at."""
    shared = five[0].path / "shared"
    shared.write_bytes(b"9876543210")
    assert sorted(await snapshots.scrub(project)) == sorted(snapshot.commit for snapshot in five)
    assert (await snapshots.usage(project)).count == 0
    assert (await snapshots.export(project, five[0].commit)).written == 2
    assert len(list((shared.parents[1] / ".quarantine").iterdir())) == 1


async def test_a_project_without_snapshots(project: ProjectKey, snapshots: Snapshots, volume: ContentVolume) -> None:
    """Where nothing was exported, nothing is found, pruned, bad or removed, and no directory of snapshots is made."""
    assert await snapshots.find(project, "a" * 40) is None
    assert await snapshots.scrub(project) == []
    assert await snapshots.usage(project) == SnapshotUsage(0, 0)
    assert await snapshots.prune(project, needed=needing(), retain=3) == SnapshotUsage(0, 0)
    await snapshots.remove_all(project)
    await snapshots.remove_all(project)
    assert not volume.versions(project).exists()


async def test_remove_all(five: list[Snapshot], project: ProjectKey, snapshots: Snapshots, volume: ContentVolume) -> None:
    """Removing a project's snapshots leaves nothing of it, and another project untouched; the project can begin again."""
    other = ProjectKey(project.namespace, "other")
    volume.repository(other).symlink_to(volume.repository(project))
    kept = await snapshots.export(other, five[0].commit)
    await snapshots.set_head(project, five[4].commit)
    await snapshots.remove_all(project)
    assert not volume.sources(project).exists()
    assert await snapshots.find(other, kept.commit) is not None
    assert (await snapshots.export(project, five[0].commit)).written == 2
