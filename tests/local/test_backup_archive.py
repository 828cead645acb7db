"""A backup's archive: what is refused before anything is written, and what a restored directory is like."""

import asyncio
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from arena.errors import BackupFailed, RestoreRefused, StateUnusable
from arena.local.archive import DIGESTS
from arena.local.backup import take_backup
from arena.local.restore import restore_backup
from arena.local.state import StateDirectory
from foundation.clock import FakeClock, SystemClock
from gitops.content import ContentVolume, ProjectKey
from gitops.repositories import Repositories
from reconcile.cluster.port import ARENA_PROJECT
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.cluster.sqlite_reading import StoreReading
from reconcile.run.ownership import Owner, claim

PROJECT = ProjectKey("default", "support")


@pytest.fixture
async def state(tmp_path: Path) -> StateDirectory:
    """A state directory with a project and its repository, used by nobody."""
    state = StateDirectory(tmp_path / "state")
    state.prepare()
    state.token()
    state.installation()
    cluster = SqliteCluster(state.database, FakeClock())
    await cluster.create(
        {
            "apiVersion": ARENA_PROJECT.api_version,
            "kind": ARENA_PROJECT.kind,
            "metadata": {"name": PROJECT.name, "namespace": PROJECT.namespace},
            "spec": {"hosted": {}},
        }
    )
    await cluster.close()
    repositories = Repositories(ContentVolume(state.content), SystemClock())
    await repositories.create(PROJECT)
    await repositories.seed(PROJECT, {"a": b"x" * 5000}, author="A <a@localhost>")
    return state


@pytest.fixture
def archive(state: StateDirectory, tmp_path: Path) -> Path:
    """A backup of it, uncompressed."""
    path = tmp_path / "backup.tar"
    take_backup(state, path, FakeClock())
    return path


def refused(archive: Path, tmp_path: Path) -> str:
    """Restore, which must be refused with nothing written; return the message."""
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RestoreRefused) as caught:
        restore_backup(archive, StateDirectory(tmp_path / "copy"))
    assert sorted(tmp_path.iterdir()) == before
    return caught.value.message


async def test_a_resting_installation_comes_back(state: StateDirectory, archive: Path, tmp_path: Path) -> None:
    """Objects, repository and head are those of the original, with an id of its own and no token."""
    copy = StateDirectory(tmp_path / "copy")
    restored = restore_backup(archive, copy)
    header = restored.header
    assert restored.reconfigured == ()
    assert header.installation == state.installation() != copy.installation()
    with StoreReading(copy.database) as store:
        assert [project["metadata"]["name"] for project in store.objects(ARENA_PROJECT)] == [PROJECT.name]
    heads = [await Repositories(ContentVolume(place.content), SystemClock()).head(PROJECT) for place in (state, copy)]
    assert heads[0] == heads[1] is not None
    assert not (copy.root / "token").exists()
    assert {path.stat().st_mode & 0o777 for path in (copy.root, copy.content)} == {0o700}
    assert [path for path in copy.root.rglob("*") if path.is_file() and path.stat().st_mode & 0o022] == []


def test_the_token_comes_along_on_request(state: StateDirectory, tmp_path: Path) -> None:
    """With the token the restored installation opens as the original does."""
    take_backup(state, tmp_path / "b.tgz", FakeClock(), with_token=True)
    restore_backup(tmp_path / "b.tgz", StateDirectory(tmp_path / "copy"))
    assert StateDirectory(tmp_path / "copy").read_token() == state.read_token()


def test_an_empty_directory_is_filled(archive: Path, tmp_path: Path) -> None:
    """A directory that is there and empty is as good as none."""
    (tmp_path / "copy").mkdir()
    restore_backup(archive, StateDirectory(tmp_path / "copy"))
    assert (tmp_path / "copy" / "cluster.db").exists()


@pytest.mark.parametrize("name", ["cluster.db", "stray"])
def test_a_directory_with_anything_in_it_is_refused(archive: Path, tmp_path: Path, name: str) -> None:
    """Nothing is ever restored over something."""
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / name).write_text("mine")
    assert "not empty" in refused(archive, tmp_path)
    assert (tmp_path / "copy" / name).read_text() == "mine"


@pytest.mark.parametrize("compressed", [pytest.param(".tar", id="plain"), pytest.param(".tar.gz", id="gzip")])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_an_archive_that_breaks_off(state: StateDirectory, tmp_path: Path, compressed: str, share: float) -> None:
    """An archive of which only the beginning is there is refused before anything is written."""
    path = tmp_path / f"backup{compressed}"
    take_backup(state, path, FakeClock())
    # A plain tar ends in padding, which is no part of it.
    size = path.stat().st_size if compressed == ".tar.gz" else end_of_members(path)
    os.truncate(path, int(size * share))
    assert "cannot re" in refused(path, tmp_path)


def end_of_members(path: Path) -> int:
    """Return where the last member of a plain tar ends."""
    with tarfile.open(path) as tar:
        last = tar.getmembers()[-1]
        return last.offset_data + last.size


@pytest.mark.parametrize("part", ["cluster.db", "objects", "refs/heads/main", DIGESTS])
def test_a_flipped_bit_is_found(archive: Path, tmp_path: Path, part: str) -> None:
    """An archive of which one byte of any member is another is refused."""
    with tarfile.open(archive) as tar:
        member = next(member for member in tar if part in member.name and member.isreg() and member.size)
    data = bytearray(archive.read_bytes())
    data[member.offset_data + member.size // 2] ^= 1
    archive.write_bytes(data)
    assert "cannot re" in refused(archive, tmp_path)


DANGEROUS = """[core]
\trepositoryformatversion = 0
\tbare = true
\tfsmonitor = touch {marker}
\talternateRefsCommand = touch {marker}
\thooksPath = /tmp/hooks
\tsshCommand = touch {marker}
[include]
\tpath = /tmp/more
[uploadpack]
\tpackObjectsHook = touch {marker}
"""


@pytest.mark.parametrize("dangerous", [DANGEROUS, "", "[core]\n\tbare = tr"], ids=["programs to run", "empty", "cut off"])
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
async def test_no_foreign_configuration_comes_back(tmp_path: Path, object_format: str, dangerous: str) -> None:
    """Whatever configuration a backup brings, each repository, a retained one too, has that of a new one of its format, and it is said."""
    (state := StateDirectory(tmp_path / "state")).prepare()
    state.installation()
    await SqliteCluster(state.database, FakeClock()).close()
    repositories = Repositories(volume := ContentVolume(state.content), SystemClock())
    kept, fresh = ProjectKey("default", "kept"), ProjectKey("default", "fresh")
    for project in (PROJECT, kept, fresh):
        await repositories.create(project, object_format=object_format)
        await repositories.seed(project, {"a": b"x"}, author="A <a@localhost>")
    expected = (volume.repository(fresh) / "config").read_bytes()
    for project in (PROJECT, kept):
        words = dangerous.format(marker=tmp_path / "marker") if dangerous else ""
        lines = f"{words}\n[extensions]\n\tobjectformat = {object_format}\n" if words or object_format == "sha256" else ""
        (volume.repository(project) / "config").write_text(lines)
    retained = volume.retained(kept, "01234567-89ab-cdef-0123-456789abcdef")
    retained.parent.mkdir()
    volume.repository(kept).rename(retained)
    await asyncio.to_thread(take_backup, state, tmp_path / "b.tar", FakeClock())
    copy = StateDirectory(tmp_path / "copy")
    restored = restore_backup(tmp_path / "b.tar", copy)
    found = [copy.content / path.relative_to(state.content) for path in (volume.repository(PROJECT), retained, volume.repository(fresh))]
    assert [(path / "config").read_bytes() for path in found] == [expected] * 3
    assert restored.reconfigured == tuple(sorted(path.relative_to(copy.content).as_posix() for path in found[:2]))
    assert (await Repositories(ContentVolume(copy.content), SystemClock()).head(PROJECT)) == await repositories.head(fresh)
    assert not (tmp_path / "marker").exists()


def link(kind: bytes, target: str) -> tarfile.TarInfo:
    """Return a link below the content volume."""
    member = tarfile.TarInfo("content/link")
    member.type, member.linkname = kind, target
    return member


def fifo() -> tarfile.TarInfo:
    """Return a named pipe."""
    member = tarfile.TarInfo("content/pipe")
    member.type = tarfile.FIFOTYPE
    return member


IN_REPOSITORY = "content/default/default/arena/repos/support.git"
HOSTILE = [
    *(
        pytest.param(lambda name=name: tarfile.TarInfo(f"{IN_REPOSITORY}/{name}"), id=f"{name} in a repository")
        for name in (
            "hooks/post-receive",
            "objects/info/alternates",
            "objects/info/http-alternates",
            "info/grafts",
            "shallow",
            "info/attributes",
            "commondir",
        )
    ),
    *(
        pytest.param(lambda name=name: tarfile.TarInfo(f"content/default/default/arena/{name}"), id=f"{name}: made again, never restored")
        for name in (
            f"sources/support/.arena/versions/{'a' * 40}/x",
            f"sources/support/.arena/versions/.manifests/{'a' * 40}.jsonl",
            "repos/.tmp-x.git/HEAD",
        )
    ),
    pytest.param(lambda: tarfile.TarInfo(f"{IN_REPOSITORY.replace('repos', 'repos/.retained')}/hooks/update"), id="a hook of a retained repository"),
    pytest.param(lambda: tarfile.TarInfo("content/stray"), id="a stray file among the content"),
    pytest.param(lambda: tarfile.TarInfo("../escaped"), id="a name that climbs"),
    pytest.param(lambda: tarfile.TarInfo("content/../../escaped"), id="a name that climbs from inside"),
    pytest.param(lambda: tarfile.TarInfo("/tmp/escaped"), id="an absolute name"),  # noqa: S108 - never written
    pytest.param(lambda: tarfile.TarInfo("content//double"), id="a name spelled otherwise"),
    pytest.param(lambda: tarfile.TarInfo("content/new\nline"), id="a control character"),
    pytest.param(lambda: tarfile.TarInfo("lock"), id="a file of ours that no backup holds"),
    pytest.param(lambda: tarfile.TarInfo("cluster.db"), id="a name twice"),
    pytest.param(lambda: link(tarfile.SYMTYPE, "/etc/passwd"), id="a symlink out"),
    pytest.param(lambda: link(tarfile.SYMTYPE, "cluster.db"), id="a symlink inside"),
    pytest.param(lambda: link(tarfile.LNKTYPE, "cluster.db"), id="a hard link"),
    pytest.param(fifo, id="a named pipe"),
]


@pytest.mark.parametrize("make", HOSTILE)
def test_a_hostile_member_is_refused(archive: Path, tmp_path: Path, make: Callable[[], tarfile.TarInfo]) -> None:
    """Whatever could be written outside of the directory, or is no plain file, is refused before anything is written, wherever it stands."""
    hostile = tmp_path / "hostile.tar"
    with tarfile.open(archive) as old, tarfile.open(hostile, "w") as new:
        for member in old:
            if member.name == DIGESTS:
                new.addfile(make())
            new.addfile(member, old.extractfile(member) if member.isreg() else None)
    refused(hostile, tmp_path)


def test_what_is_no_backup(tmp_path: Path) -> None:
    """Another tar file, another file and no file are each refused in words."""
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("content"), io.BytesIO())
    (tmp_path / "text.tar").write_text("no archive")
    assert "does not begin as a backup does" in refused(tmp_path / "other.tar", tmp_path)
    assert "cannot read backup" in refused(tmp_path / "text.tar", tmp_path)
    assert "no such file" in refused(tmp_path / "absent.tar", tmp_path)


@pytest.mark.parametrize("name", ["backup.zip", "backup.tar.zst", "backup"])
def test_a_name_that_says_no_format_we_write(state: StateDirectory, tmp_path: Path, name: str) -> None:
    """The suffix chooses the compression, and another one is refused by name."""
    with pytest.raises(BackupFailed, match=r"\.tar\.gz"):
        take_backup(state, tmp_path / name, FakeClock())


def test_nothing_is_overwritten_and_nothing_backed_up_of_nothing(state: StateDirectory, archive: Path, tmp_path: Path) -> None:
    """A backup never replaces a file, and a directory without an installation has none."""
    with pytest.raises(BackupFailed, match="exists already"):
        take_backup(state, archive, FakeClock())
    with pytest.raises(BackupFailed, match="no installation"):
        take_backup(StateDirectory(tmp_path / "empty"), tmp_path / "b.tar", FakeClock())
    assert not (tmp_path / "b.tar").exists()


def test_a_backup_that_cannot_be_written_leaves_nothing(state: StateDirectory, tmp_path: Path) -> None:
    """A folder that is not there is said in words."""
    with pytest.raises(BackupFailed, match="cannot write backup"):
        take_backup(state, tmp_path / "absent" / "b.tar", FakeClock())


def test_a_place_that_cannot_be_made(archive: Path) -> None:
    """Where the file system refuses, the message says why."""
    with pytest.raises(StateUnusable):
        restore_backup(archive, StateDirectory(Path("/proc/nowhere/state")))


def test_what_others_own_is_left_out(state: StateDirectory, tmp_path: Path) -> None:
    """Directories of runs that the store does not name, of whatever installation, and work that was cut off are not in the archive."""
    volume = ContentVolume(state.content)
    claim(volume.run("default", "gone"), Owner("uid-gone", state.installation()))
    for name in ("objects/tmp_objdir-incoming-x/p", "objects/pack/tmp_pack_x", "refs/heads/main.lock", "objects/pack/pack-1.pack"):
        (path := volume.repository(PROJECT) / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    take_backup(state, tmp_path / "b.tar", FakeClock())
    with tarfile.open(tmp_path / "b.tar") as tar:
        names = tar.getnames()
    assert [name for name in names if any(part in name for part in ("runs/", "tmp_", ".lock", "pack-1"))] == []
