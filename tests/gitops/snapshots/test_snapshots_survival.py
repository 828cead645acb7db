"""What a kill, a race, a full disk or a read-only volume leaves of a snapshot."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from foundation.clock import FakeClock
from gitops.errors import RepositoryBusy, StorageFailed
from gitops.project_lock import ProjectLocks
from gitops.snapshots import Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gitops.content import ContentVolume, ProjectKey
    from tests.gitops.snapshots.conftest import Forge

    RunPython = Callable[..., subprocess.Popen[str]]

# argv: the volume, the crash point, then commits. Prints what export gave, or the error, a line each.
EXPORT = """
import asyncio, os, sys
from pathlib import Path
from foundation.crash import arm
from foundation.errors import ArenaError
from gitops.content import ContentVolume, ProjectKey
from gitops.snapshots import Snapshots

async def main():
    volume, project = ContentVolume(Path(sys.argv[1])), ProjectKey("default", "support")
    arm(sys.argv[2])
    for commit in sys.argv[3:]:
        try:
            snapshot = await Snapshots(volume).export(project, commit)
            print(">", snapshot.written, snapshot.digest)
        except ArenaError as error:
            print(">", type(error).__name__, error.message, error.hint, sorted(os.listdir(volume.versions(project))), sep="|")

asyncio.run(main())
"""

PRUNE = """
import asyncio, os, sys
from pathlib import Path
from gitops.content import ContentVolume, ProjectKey
from gitops.snapshots import Snapshots

os.setgid(65534)
os.setuid(65534)

async def nothing():
    return []

async def main():
    snapshots, project = Snapshots(ContentVolume(Path(sys.argv[1]))), ProjectKey("default", "support")
    for commit in sys.argv[2:]:
        snapshot = await snapshots.export(project, commit)
    try:
        (snapshot.path / "d" / "new").write_text("x")
    except PermissionError:
        print("> refused")
    print(">", (await snapshots.prune(project, needed=nothing, retain=0)).count)
    await snapshots.remove_all(project)

asyncio.run(main())
"""

FILES = {f"d{n % 4}/f{n}": b"%d" % n for n in range(40)}


def printed(process: subprocess.Popen[str]) -> list[str]:
    """Wait for a process and return the lines that the script printed."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return [line[1:].strip() for line in out.splitlines() if line.startswith(">")]


@pytest.fixture
def snapshots(volume: ContentVolume) -> Snapshots:
    """Snapshots on the volume, as a process that starts after the crash sees them."""
    return Snapshots(volume)


CRASHES = [
    pytest.param("export.file:1", False, id="before the first file"),
    pytest.param("export.file:20", False, id="amid the files"),
    pytest.param("export.written", False, id="before it is durable"),
    pytest.param("export.synced", False, id="before its manifest"),
    pytest.param("export.recorded", False, id="between manifest and rename"),
    pytest.param("export.renamed", True, id="after the rename"),
]


@pytest.mark.parametrize(("point", "whole"), CRASHES)
async def test_a_kill_leaves_all_or_nothing(
    forge: Forge, volume: ContentVolume, project: ProjectKey, run_python: RunPython, point: str, *, whole: bool
) -> None:
    """Wherever an export is killed, the snapshot is whole or absent, and the next export sweeps what was left and makes it whole."""
    commit = forge.commit(FILES)
    process = run_python(EXPORT, str(volume.root), point, commit)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    snapshots = Snapshots(volume)
    found = await snapshots.find(project, commit)
    assert (found is not None) == whole
    assert volume.snapshot(project, commit).exists() == whole
    snapshot = await snapshots.export(project, commit)
    assert snapshot.written == (0 if whole else 40)
    assert {path.relative_to(snapshot.path).as_posix(): path.read_bytes() for path in snapshot.path.rglob("f*")} == FILES
    assert await snapshots.scrub(project) == []
    assert sorted(os.listdir(volume.versions(project))) == [".manifests", commit]  # noqa: PTH208 - hidden names


async def test_racing_exporters_write_it_once(forge: Forge, volume: ContentVolume, project: ProjectKey, run_python: RunPython) -> None:
    """Of four processes that export two commits at once, each in another order, each file is written once; all agree on both digests."""
    first = forge.commit(FILES)
    second = forge.commit({**FILES, "new": b"new"}, first)
    orders = [(first, second), (second, first)] * 2
    processes = [run_python(EXPORT, str(volume.root), "", *order) for order in orders]
    lines = [line.split() for process in processes for line in printed(process)]
    assert sum(int(written) for written, _ in lines) == 41
    assert len({digest for _, digest in lines}) == 2
    assert await Snapshots(volume).scrub(project) == []


async def test_racing_tasks_write_it_once(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """Twenty tasks of one process that want the same snapshot get it, more tasks than there are threads."""
    commit = forge.commit(FILES)
    got = await asyncio.gather(*(snapshots.export(project, commit) for _ in range(20)))
    assert sorted(snapshot.written for snapshot in got) == [0] * 19 + [40]


async def test_a_leftover_manifest_is_no_snapshot(forge: Forge, project: ProjectKey, snapshots: Snapshots) -> None:
    """A manifest whose directory is gone finds nothing, and the snapshot is exported again."""
    snapshot = await snapshots.export(project, forge.commit(FILES))
    shutil.rmtree(snapshot.path)
    assert await snapshots.find(project, snapshot.commit) is None
    assert (await snapshots.export(project, snapshot.commit)).written == 40


@pytest.mark.parametrize("damaged", [False, True])
async def test_a_directory_without_manifest(forge: Forge, volume: ContentVolume, project: ProjectKey, snapshots: Snapshots, *, damaged: bool) -> None:
    """A directory whose manifest is lost is read in full: the same files are taken for the snapshot, others are set aside and written again."""
    first = await snapshots.export(project, forge.commit(FILES))
    manifest = volume.versions(project) / ".manifests" / f"{first.commit}.jsonl"
    manifest.write_bytes(b"{")
    if damaged:
        (first.path / "d1/f1").unlink()
    assert await snapshots.find(project, first.commit) is None
    again = await snapshots.export(project, first.commit)
    assert (again.written, again.digest) == (40 if damaged else 0, first.digest)
    assert (volume.versions(project) / ".quarantine").exists() == damaged


async def test_the_lock_outlives_no_holder_and_no_file(tmp_path: Path) -> None:
    """A lock that another process holds is waited for, at most for the timeout; a removed lock file is not mistaken for the new one."""
    clock = FakeClock()
    locks = ProjectLocks(clock, timeout_s=10)
    path = tmp_path / "a" / "lock"
    path.parent.mkdir()
    with path.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        async def take() -> str:
            async with locks.hold(path, "export commit 'x'"):
                return "taken"

        waiting = asyncio.create_task(take())
        await clock.advance(0)
        await clock.advance(5)
        assert not waiting.done()
        await clock.advance(6)
        with pytest.raises(RepositoryBusy, match="cannot export commit 'x': another process has held the project's lock for 10 s"):
            await waiting
        waiting = asyncio.create_task(take())
        await clock.advance(0)
        path.unlink()
        await clock.advance(1)
        assert await waiting == "taken"


@pytest.fixture
def unshare() -> list[str]:
    """The command that makes mounts private to a child; skips where the kernel forbids it."""
    command = ["unshare", "-rm"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody unshare a mount namespace")
    return command


def mounted(unshare: list[str], mount: str, directory: Path) -> list[str]:
    """Return a command prefix that runs `mount` on `directory` first."""
    directory.mkdir(parents=True, exist_ok=True)
    return [*unshare, "sh", "-ec", f'd={directory}; {mount}; exec "$@"', "sh"]


async def test_a_full_disk(forge: Forge, volume: ContentVolume, project: ProjectKey, run_python: RunPython, unshare: list[str]) -> None:
    """On a full volume the export says so and what to do, leaves nothing, and a smaller snapshot still fits."""
    large = forge.commit({f"f{n}": os.urandom(100_000) for n in range(20)})
    small = forge.commit({"a": b"1"})
    before = mounted(unshare, 'mount -t tmpfs -o size=1m tmpfs "$d"', volume.sources(project))
    failed, fits = printed(run_python(EXPORT, str(volume.root), "", large, small, before=before))
    name, message, hint, left = failed[1:].split("|")
    assert (name, left) == ("StorageFailed", "['.manifests']")
    assert message == f"cannot export commit {large[:12]} of project 'support': the content volume is full"
    assert hint == "free space on the content volume, or lower spec.snapshots.retain"
    assert fits.startswith("1 sha256:")


async def test_a_read_only_volume(
    forge: Forge, volume: ContentVolume, project: ProjectKey, snapshots: Snapshots, run_python: RunPython, unshare: list[str]
) -> None:
    """A read-only volume refuses a new export by name."""
    await snapshots.export(project, forge.commit({"a": b"1"}))
    commit = forge.commit({"a": b"2"})
    before = mounted(unshare, 'mount --bind "$d" "$d"; mount -o remount,ro,bind "$d"', volume.sources(project))
    (failed,) = printed(run_python(EXPORT, str(volume.root), "", commit, before=before))
    assert failed[1:].startswith(f"StorageFailed|cannot export commit {commit[:12]} of project 'support': the content volume is read-only")


async def test_an_unwritable_place_is_a_storage_failure(forge: Forge, volume: ContentVolume, project: ProjectKey, snapshots: Snapshots) -> None:
    """A file where a directory should be is told with its path."""
    commit = forge.commit({"a": b"1"})
    volume.sources(project).parent.mkdir(parents=True)
    volume.sources(project).write_text("")
    with pytest.raises(StorageFailed, match=r"cannot export commit .*arena/sources/support"):
        await snapshots.export(project, commit)


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """A directory that the user nobody owns."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    path = Path(tempfile.mkdtemp(prefix="arena-snapshots-"))
    yield path
    shutil.rmtree(path)


def test_a_plain_user_can_do_all_of_it(public_directory: Path, forge_at: Callable[[Path], Forge], run_python: RunPython) -> None:
    """Without root's powers, read-only snapshots are shared, moved to the trash and removed, and nobody can write into one."""
    forge = forge_at(public_directory)
    first = forge.commit({"d/a": b"1", "d/b": b"2"})
    second = forge.commit({"d/a": b"1", "d/b": b"3"}, first)
    subprocess.run(["chown", "-R", "65534:65534", public_directory], check=True)
    assert printed(run_python(PRUNE, str(public_directory), first, second)) == ["refused", "0"]
    assert not (public_directory / "default/default/arena/sources/support").exists()
