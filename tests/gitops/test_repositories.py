"""Hosted repositories: created, seeded, read, pinned, maintained, retained."""

import asyncio
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from foundation.clock import SystemClock
from gitops import maintenance
from gitops.content import ContentVolume, ProjectKey
from gitops.errors import RefNotFound, RepositoryBusy, RepositoryExists, SeedFailed, StorageFailed, UnknownProject, UnsafeName
from gitops.locks import acquire
from gitops.repositories import Repositories
from gitops.retained import list_retained, object_format
from tests.gitops.conftest import PROJECT, GitClient
from tests.gitops.forge import FILE, Forge

AUTHOR = "Arena <arena@localhost>"
FILES = {"config.arena.yaml": b"kind: Arena\n", "prompts/a.yaml": b"a\n", "prompts/deep/b.yaml": b"b\n"}
GONE = "1" * 40


@pytest.fixture
async def hosted(repositories: Repositories) -> Repositories:
    """A volume with one seeded repository."""
    await repositories.create(PROJECT)
    await repositories.seed(PROJECT, FILES, author=AUTHOR)
    return repositories


@pytest.fixture
def path(volume: ContentVolume) -> Path:
    """Where the repository lies."""
    return volume.repository(PROJECT)


@pytest.fixture
def forge(hosted: Repositories) -> Forge:
    """Forges objects in the hosted repository."""
    return Forge(hosted.volume.repository(PROJECT))


def leftovers(volume: ContentVolume) -> list[str]:
    """Return the scratch and trash beside the repositories."""
    return [path.name for path in volume.repositories(PROJECT.namespace).glob(".t*")]


async def test_create_is_idempotent(repositories: Repositories, volume: ContentVolume) -> None:
    """Creating twice, and at once from several callers, makes one empty repository and leaves no scratch."""
    await asyncio.gather(*(repositories.create(PROJECT) for _ in range(3)))
    await repositories.create(PROJECT)
    assert await repositories.exists(PROJECT)
    assert await repositories.head(PROJECT) is None
    assert leftovers(volume) == []


async def test_seed_is_the_first_commit(hosted: Repositories, git: GitClient, path: Path) -> None:
    """A seed becomes main with its files, author and a clean history."""
    commit = await hosted.head(PROJECT)
    listed = await git("ls-tree", "-r", "--name-only", "main", cwd=path)
    assert listed.out.split() == list(FILES)
    assert (await git("log", "--format=%H %an <%ae>", "main", cwd=path)).out == f"{commit} {AUTHOR}\n"
    assert (await git("fsck", "--full", "--strict", cwd=path)).err == ""


async def test_seed_changes_nothing_once_main_exists(hosted: Repositories) -> None:
    """A later change of the seed does nothing."""
    before = await hosted.head(PROJECT)
    assert await hosted.seed(PROJECT, {"other": b"x"}, author=AUTHOR) == before


async def test_seed_is_deterministic(repositories: Repositories) -> None:
    """Equal files, author and time give equal commits in every repository; the order of the files does not matter."""
    other = ProjectKey("team", "other")
    time = datetime(2026, 5, 1, tzinfo=UTC)
    for project in (PROJECT, other):
        await repositories.create(project)
    first = await repositories.seed(PROJECT, FILES, author=AUTHOR, time=time)
    assert await repositories.seed(other, dict(reversed(FILES.items())), author=AUTHOR, time=time) == first
    assert (await repositories.describe(PROJECT, first)).time == time


@pytest.mark.parametrize(
    ("files", "said"),
    [
        pytest.param({}, "there are no files", id="nothing"),
        pytest.param({"../x": b""}, "'..'", id="a path that climbs"),
        pytest.param({"/etc/passwd": b""}, "is empty", id="an absolute path"),
        pytest.param({".git/config": b""}, "'.git'", id="the git directory"),
        pytest.param({"a": b"", "a/b": b""}, "both a file and a directory", id="a file that is a directory"),
        pytest.param({"README": b"", "readme": b""}, "folded", id="names that collide"),
        pytest.param({"caf\udce9": b""}, "UTF-8", id="a name that is not UTF-8"),
    ],
)
async def test_seed_that_no_snapshot_may_hold(repositories: Repositories, files: dict[str, bytes], said: str) -> None:
    """A seed keeps the rules of a push; the message names the path, and nothing is written."""
    await repositories.create(PROJECT)
    with pytest.raises(SeedFailed, match=said):
        await repositories.seed(PROJECT, files, author=AUTHOR)
    assert await repositories.head(PROJECT) is None


async def test_unknown_project(repositories: Repositories) -> None:
    """What needs a repository says that there is none; what removes one is content."""
    with pytest.raises(UnknownProject):
        await repositories.head(PROJECT)
    with pytest.raises(UnknownProject):
        await repositories.seed(PROJECT, FILES, author=AUTHOR)
    with pytest.raises(UnknownProject):
        await repositories.pin(PROJECT, "u1", GONE)
    await repositories.maintain(PROJECT)
    await repositories.remove(PROJECT)
    await repositories.retain(PROJECT, "u1")
    await repositories.unpin(PROJECT, "u1")
    assert not await repositories.exists(PROJECT)


async def test_describe_shows_a_commit_on_one_line(hosted: Repositories, forge: Forge) -> None:
    """A message is cut to its first line and 200 characters, and no control character survives."""
    tree = forge.tree((FILE, b"a", forge.blob(b"a")))
    head = b"tree " + tree + b"\nauthor J\x1b[31m <j@x> 1700000000 +0200\ncommitter K <k@x> 1700000060 +0000\n\n"
    found = await hosted.describe(PROJECT, forge.raw_commit(head + b"\n\nFix \x1b[2J " + b"x" * 300 + b"\nmore\n"))
    assert found.author == "J\\x1b[31m <j@x>"
    assert found.message.startswith("Fix \\x1b[2J xxx")
    assert len(found.message) == 200
    assert found.time == datetime.fromtimestamp(1_700_000_060, UTC)


@pytest.mark.parametrize("commit", [GONE, "zz", "HEAD", ""])
async def test_describe_of_what_is_no_commit(hosted: Repositories, commit: str) -> None:
    """A commit that is not there is RefNotFound, whatever the text is."""
    with pytest.raises(RefNotFound):
        await hosted.describe(PROJECT, commit)


async def test_time_beyond_the_calendar(hosted: Repositories, forge: Forge) -> None:
    """A commit of the year 300 million is described, not an error."""
    tree = forge.tree((FILE, b"a", forge.blob(b"a")))
    commit = forge.raw_commit(b"tree " + tree + b"\nauthor J <j@x> 9999999999999999 +0000\ncommitter J <j@x> 9999999999999999 +0000\n\nx\n")
    assert (await hosted.describe(PROJECT, commit)).time.year == 9999


async def test_refs_counts_and_names_the_newest(hosted: Repositories, git: GitClient, path: Path) -> None:
    """Branches and tags are counted, annotated tags peel, pins are not among them."""
    head = await hosted.head(PROJECT)
    assert head is not None
    await git("tag", "-a", "-m", "x", "v1", "main", cwd=path)
    await git("branch", "dev", "main", cwd=path)
    await hosted.pin(PROJECT, "run-1", head)
    summary = await hosted.refs(PROJECT)
    assert (summary.branches, summary.tags) == (2, 1)
    assert sorted(summary.newest) == [("refs/heads/dev", head), ("refs/heads/main", head), ("refs/tags/v1", head)]


async def test_changed_paths(hosted: Repositories, forge: Forge) -> None:
    """Both sides of a change count; without an old commit, or with one that is gone, every path does."""
    old = await hosted.head(PROJECT)
    new = forge.commit(forge.tree((FILE, b"config.arena.yaml", forge.blob(b"other")), (FILE, "ü.yaml".encode(), forge.blob(b"a\n"))))
    assert await hosted.changed_paths(PROJECT, old, new) == ["config.arena.yaml", "prompts/a.yaml", "prompts/deep/b.yaml", "ü.yaml"]
    assert await hosted.changed_paths(PROJECT, None, new) == ["config.arena.yaml", "ü.yaml"]
    assert await hosted.changed_paths(PROJECT, GONE, new) == ["config.arena.yaml", "ü.yaml"]
    assert await hosted.changed_paths(PROJECT, new, new) == []
    with pytest.raises(RefNotFound):
        await hosted.changed_paths(PROJECT, old, GONE)


async def test_pins(hosted: Repositories, forge: Forge) -> None:
    """A pin is idempotent, one commit a UID, the last one wins; unpinning twice is once."""
    head = await hosted.head(PROJECT)
    assert head is not None
    other = forge.commit(forge.tree((FILE, b"a", forge.blob(b"a"))))
    for commit in (head, head, other):
        await hosted.pin(PROJECT, "run-1", commit)
    await hosted.pin(PROJECT, "run-2", head)
    assert await hosted.pins(PROJECT) == {"run-1": other, "run-2": head}
    for _ in range(2):
        await hosted.unpin(PROJECT, "run-1")
    assert await hosted.pins(PROJECT) == {"run-2": head}


@pytest.mark.parametrize(
    ("uid", "commit", "error"),
    [
        pytest.param("run-1", GONE, RefNotFound, id="a commit that is not there"),
        pytest.param("../../heads/main", "", UnsafeName, id="a uid that is another ref"),
    ],
)
async def test_pin_of_nothing(hosted: Repositories, uid: str, commit: str, error: type[Exception]) -> None:
    """A pin names a commit that is there, under a uid that is one."""
    with pytest.raises(error):
        await hosted.pin(PROJECT, uid, commit)
    assert await hosted.pins(PROJECT) == {}


async def test_pinned_commit_survives_garbage_collection(hosted: Repositories, git: GitClient, forge: Forge, path: Path) -> None:
    """What a run names cannot be collected, though no branch holds it."""
    pinned = forge.commit(forge.tree((FILE, b"a", forge.blob(b"a"))))
    await hosted.pin(PROJECT, "run-1", pinned)
    await git("gc", "--prune=now", "-q", cwd=path)
    assert (await hosted.describe(PROJECT, pinned)).commit == pinned


async def many_packs(git: GitClient, path: Path, count: int) -> None:
    """Give a repository `count` packs more."""
    forge = Forge(path)
    for number in range(count):
        forge.commit(forge.tree((FILE, b"a", forge.blob(b"%d of %d" % (number, count)))))
        loose = [file.parent.name + file.name for file in (path / "objects").glob("[0-9a-f][0-9a-f]/*")]
        pack = await asyncio.create_subprocess_exec(
            "git",
            "pack-objects",
            "-q",
            "objects/pack/pack",
            cwd=path,
            env=git.environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
        )
        await pack.communicate("\n".join(loose).encode())
        for folder in (path / "objects").glob("[0-9a-f][0-9a-f]"):
            shutil.rmtree(folder)


async def test_maintain_repacks_above_twenty_packs(hosted: Repositories, git: GitClient, path: Path) -> None:
    """Many packs become few without losing an object, reachable or not; few stay as they are."""
    await many_packs(git, path, 5)
    await hosted.maintain(PROJECT)
    assert maintenance.count_packs(path) == 6
    await many_packs(git, path, 16)
    count = ("count-objects", "-v")
    before = await git("cat-file", "--batch-all-objects", "--batch-check", cwd=path)
    await hosted.maintain(PROJECT)
    assert maintenance.count_packs(path) < 6, (await git(*count, cwd=path)).out
    assert (await git("cat-file", "--batch-all-objects", "--batch-check", cwd=path)).out == before.out
    assert await hosted.changed_paths(PROJECT, None, str(await hosted.head(PROJECT))) == sorted(FILES)


async def test_maintain_never_works_during_a_push(hosted: Repositories, git: GitClient, path: Path) -> None:
    """While a push holds the repository, maintenance leaves it alone; afterwards it finds the same work."""
    await many_packs(git, path, 21)
    async with hosted.pushing(PROJECT):
        await hosted.maintain(PROJECT)
        assert maintenance.count_packs(path) == 22
    await hosted.maintain(PROJECT)
    assert maintenance.count_packs(path) < 22


def leave(path: Path, age_s: float, content: bytes = b"") -> Path:
    """Write a file as if it were `age_s` old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    then = datetime.now(UTC).timestamp() - age_s
    os.utime(path, (then, then))
    return path


async def test_maintain_removes_what_killed_processes_left(hosted: Repositories, path: Path) -> None:
    """Old locks, half-written packs and quarantines go; young ones, packs and the repository's own lock stay."""
    objects = path / "objects"
    gone = [
        leave(path / "refs/heads/main.lock", 60),
        leave(path / "packed-refs.lock", 60),
        leave(objects / "pack/tmp_pack_abc", 7200),
        leave(objects / "ab/tmp_obj_abc", 7200),
        leave(objects / "tmp_objdir-incoming-abc/pack/tmp_pack_x", 0),
        leave(objects / "pack/pack-1.keep", 0, b"receive-pack 1 on host"),
        leave(path.parent / ".trash-x/HEAD", 0),
    ]
    kept = [
        leave(path / "refs/heads/other.lock", 0),
        leave(objects / "pack/tmp_pack_young", 60),
        leave(objects / "pack/pack-2.keep", 7200, b"by hand"),
        leave(path.parent / ".tmp-young/HEAD", 0),
        path / "arena.lock",
    ]
    await hosted.maintain(PROJECT)
    assert [file for file in gone if file.exists()] == []
    assert [file for file in kept if not file.exists()] == []


async def test_first_push_of_a_process_clears_a_stale_lock(volume: ContentVolume, hosted: Repositories, path: Path) -> None:
    """A lock that a killed git left on main refuses nobody after a restart."""
    stale = leave(path / "refs/heads/main.lock", 60)
    async with Repositories(volume, SystemClock()).pushing(PROJECT):
        assert not stale.exists()
    assert await hosted.exists(PROJECT)


async def test_retain_and_adopt(hosted: Repositories, volume: ContentVolume) -> None:
    """A retained repository is out of the project's way and comes back whole, once."""
    head = await hosted.head(PROJECT)
    for _ in range(2):
        await hosted.retain(PROJECT, "uid-1")
    assert not await hosted.exists(PROJECT)
    assert list(volume.repositories("team").glob(".retained/*")) == [volume.retained(PROJECT, "uid-1")]
    await hosted.create(PROJECT)
    await hosted.seed(PROJECT, {"a": b"its own"}, author="A <a@localhost>")
    with pytest.raises(RepositoryExists):
        await hosted.adopt(PROJECT, "uid-1")
    await hosted.remove(PROJECT)
    with pytest.raises(UnknownProject):
        await hosted.adopt(PROJECT, "uid-2")
    await hosted.create(PROJECT)  # one without a ref gives way
    await hosted.adopt(PROJECT, "uid-1")
    assert await hosted.head(PROJECT) == head
    assert list(volume.repositories("team").glob(".*trash*")) == []


async def test_retained_repositories_are_listed(hosted: Repositories, volume: ContentVolume) -> None:
    """Each has its project, its uid and its size; a project whose name begins with another's is not taken for it."""
    uids = [f"00000000-0000-4000-8000-00000000000{digit}" for digit in range(2)]
    longer = ProjectKey(PROJECT.namespace, f"{PROJECT.name}-x")
    await hosted.create(longer)
    for project, uid in zip((PROJECT, longer), uids, strict=True):
        await hosted.retain(project, uid)
    (found,) = list_retained(volume, PROJECT.namespace, PROJECT.name)
    assert (found.project, found.uid, found.bytes > 0, object_format(found.path)) == (PROJECT, uids[0], True, "sha1")
    assert len(list_retained(volume, PROJECT.namespace)) == 2


async def test_remove(hosted: Repositories, volume: ContentVolume) -> None:
    """A removed repository is gone with all that was its own; removing again is nothing."""
    await hosted.remove(PROJECT)
    await hosted.remove(PROJECT)
    assert not await hosted.exists(PROJECT)
    assert leftovers(volume) == []


async def test_removal_waits_for_a_push(hosted: Repositories, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository that a push holds is not moved from under it."""
    monkeypatch.setattr("gitops.repositories.LOCK_WAIT_S", 0.05)
    async with hosted.pushing(PROJECT):
        with pytest.raises(RepositoryBusy):
            await hosted.remove(PROJECT)
    lock = await acquire(path, SystemClock(), exclusive=True, wait_s=0.0)
    assert lock is not None
    try:
        with pytest.raises(RepositoryBusy):
            async with hosted.pushing(PROJECT):
                pass
    finally:
        lock.close()


async def test_volume_that_refuses(tmp_path: Path) -> None:
    """A volume that cannot be written is StorageFailed, and names the repository."""
    (tmp_path / "content").write_text("not a directory")
    repositories = Repositories(ContentVolume(tmp_path / "content"), SystemClock())
    with pytest.raises(StorageFailed, match="cannot create repository 'team/support'"):
        await repositories.create(PROJECT)
