"""Several git servers over one volume: what one of them does, the others know at once, and none undoes it.

Each replica has repositories and a server of its own; `flock` keeps them apart as it keeps processes apart, since every holder opens the lock anew.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from foundation.clock import SystemClock
from gitops import maintenance
from gitops.content import ContentVolume, ProjectKey
from gitops.errors import RepositoryBusy
from gitops.locks import acquire
from gitops.repositories import Repositories
from gitops.smart_http import SmartHTTP
from tests.gitops.conftest import DEADLINE_S, PROJECT, Authority, Changes, GitClient, serving

REPLICAS = 3


@dataclass
class Replica:
    """One server, and what it would call its own."""

    repositories: Repositories
    changes: Changes
    url: str


@pytest.fixture
async def replicas(volume: ContentVolume) -> AsyncIterator[list[Replica]]:
    """Three servers over one volume. There is no repository yet."""
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(REPLICAS):
            repositories, changes = Repositories(volume, SystemClock()), Changes()
            address = await stack.enter_async_context(serving(SmartHTTP(repositories, authorize=Authority(), on_change=changes)))
            found.append(Replica(repositories, changes, f"http://{address}/git/{PROJECT.namespace}/{PROJECT.name}.git"))
        yield found


async def test_first_push_is_seen_everywhere(git: GitClient, replicas: list[Replica], tmp_path: Path) -> None:
    """A repository that one replica made and another one filled, after the third had found nothing, is whole at the third."""
    first, second, third = replicas
    assert (await git("ls-remote", third.url, check=False)).status != 0
    await first.repositories.create(PROJECT)
    assert (await git("ls-remote", third.url)).out == ""
    work = await git.start(tmp_path / "work", second.url)
    pushed = await git.commit(work, {"a.txt": "1"})
    await git("push", "-q", "origin", "main", cwd=work)
    assert await first.repositories.head(PROJECT) == pushed
    await git("clone", "-q", third.url, str(tmp_path / "clone"))
    assert (tmp_path / "clone" / "a.txt").read_text() == "1"
    assert [len(each.changes) for each in replicas] == [0, 1, 0]


@pytest.mark.slow
async def test_of_racing_pushes_one_wins(git: GitClient, replicas: list[Replica], tmp_path: Path) -> None:
    """Of pushes to one ref through different replicas one is taken in each round; the others are told to fetch, and nothing that was taken is lost."""
    await replicas[0].repositories.create(PROJECT)
    works = [await git.start(tmp_path / f"work-{number}", each.url) for number, each in enumerate(replicas)]
    taken = []
    for turn in range(3):
        commits = [await git.commit(work, {f"{number}.txt": str(turn)}) for number, work in enumerate(works)]
        runs = await asyncio.gather(*(git("push", "-q", "origin", "main", cwd=work, check=False) for work in works))
        winners = [number for number, run in enumerate(runs) if run.status == 0]
        assert len(winners) == 1, [run.err for run in runs]
        taken.append(commits[winners[0]])
        for run in runs:
            assert run.status == 0 or any(words in run.err for words in ("fetch first", "was moved meanwhile", "push again in a few seconds")), (
                run.err
            )
        for number, work in enumerate(works):
            await git("fetch", "-q", replicas[(number + 1) % REPLICAS].url, "main", cwd=work)
            await git("reset", "-q", "--hard", "FETCH_HEAD", cwd=work)
    history = (await git("rev-list", "--first-parent", "HEAD", cwd=works[0])).out.split()
    assert history == taken[::-1]
    assert sum(len(each.changes) for each in replicas) >= len(taken)
    assert (await git("fsck", "--full", cwd=replicas[0].repositories.volume.repository(PROJECT))).err == ""


async def test_lock_of_a_dead_replica_refuses_in_words_and_then_nobody(git: GitClient, replicas: list[Replica], tmp_path: Path) -> None:
    """A ref's lock that a replica left behind when its machine died refuses one push, with the remedy, though this replica had looked before."""
    await replicas[0].repositories.create(PROJECT)
    work = await git.start(tmp_path / "work", replicas[0].url)
    await git.commit(work, {"a.txt": "1"})
    await git("push", "-q", "origin", "main", cwd=work)
    stale = replicas[0].repositories.volume.repository(PROJECT) / "refs" / "heads" / "main.lock"
    stale.touch()
    os.utime(stale, (0, time.time() - 60))
    pushed = await git.commit(work, {"a.txt": "2"})
    run = await git("push", "-q", "origin", "main", cwd=work, check=False)
    assert run.status == 1
    assert "error: cannot move 'main': another push is moving it, or died amid that; push again in a few seconds" in run.err
    await git("push", "-q", "origin", "main", cwd=work)
    assert await replicas[1].repositories.head(PROJECT) == pushed


async def test_repository_is_not_moved_under_a_push_of_another_replica(git: GitClient, replicas: list[Replica], tmp_path: Path) -> None:
    """Retaining and maintaining wait for, or give way to, a push through another replica; afterwards no replica knows the repository any more."""
    first, second, third = replicas
    await first.repositories.create(PROJECT)
    path = first.repositories.volume.repository(PROJECT)
    work = await git.start(tmp_path / "work", third.url)
    await git.commit(work, {"a.txt": "1"})
    quarantine = path / "objects" / "tmp_objdir-incoming-x"
    async with first.repositories.pushing(PROJECT):
        quarantine.mkdir()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await second.repositories.retain(PROJECT, "11111111-1111-1111-1111-111111111111")
        await second.repositories.maintain(PROJECT)
        assert quarantine.exists()
    await second.repositories.retain(PROJECT, "11111111-1111-1111-1111-111111111111")
    run = await git("push", "-q", "origin", "main", cwd=work, check=False)
    assert "not found" in run.err
    assert not await first.repositories.exists(PROJECT)
    await second.repositories.adopt(PROJECT, "11111111-1111-1111-1111-111111111111")
    await git("push", "-q", "origin", "main", cwd=work)


async def test_push_that_waited_meets_no_repository_that_was_moved(replicas: list[Replica]) -> None:
    """Who waits for the lock of a repository that is replaced meanwhile gets the lock of the new one, not of what was moved aside."""
    first, second, _ = replicas
    spare = ProjectKey(PROJECT.namespace, "spare")
    await first.repositories.create(PROJECT)
    await first.repositories.create(spare)
    path = first.repositories.volume.repository(PROJECT)
    held = await acquire(path, SystemClock(), exclusive=True, wait_s=0.0)
    assert held is not None

    async def push() -> tuple[int, int]:
        async with second.repositories.pushing(PROJECT) as lock:
            return os.fstat(lock.descriptor).st_ino, (path / "arena.lock").stat().st_ino

    waiting = asyncio.create_task(push())
    await asyncio.sleep(0)
    path.rename(path.with_name("aside.git"))
    first.repositories.volume.repository(spare).rename(path)
    held.close()
    async with asyncio.timeout(DEADLINE_S):
        locked, named = await waiting
    assert locked == named


async def test_reader_keeps_packs_that_another_replica_replaces(replicas: list[Replica], git: GitClient, tmp_path: Path) -> None:
    """Packs that maintenance replaces keep a name for an hour, since a network volume keeps no removed file for its readers; then they go."""
    await replicas[0].repositories.create(PROJECT)
    path = replicas[0].repositories.volume.repository(PROJECT)
    work = await git.start(tmp_path / "work", replicas[0].url)
    for number in range(2):
        await git.commit(work, {"a.txt": str(number)})
        await git("push", "-q", "origin", "main", cwd=work)
    (path / maintenance.COLLECTED_NAME).touch()
    os.utime(path / maintenance.COLLECTED_NAME, (0, time.time() - maintenance.COLLECT_EVERY_S - 1))
    before = {pack.name: pack.stat().st_ino for pack in (path / "objects" / "pack").glob("pack-*.pack")}
    await replicas[1].repositories.maintain(PROJECT)
    gone = {name: inode for name, inode in before.items() if not (path / "objects" / "pack" / name).exists()}
    assert gone
    kept = path / maintenance.OLD_PACKS
    assert {name: (kept / name).stat().st_ino for name in gone} == gone
    await replicas[1].repositories.maintain(PROJECT)
    assert kept.exists()
    os.utime(kept, (0, time.time() - maintenance.READERS_S - 1))
    await replicas[2].repositories.maintain(PROJECT)
    assert not kept.exists()
    assert (await git("fsck", "--full", cwd=path)).err == ""
    kept.mkdir()
    await replicas[2].repositories.retain(PROJECT, "11111111-1111-1111-1111-111111111111")
    (retained,) = path.parent.glob(".retained/*.git")
    assert not (retained / maintenance.OLD_PACKS).exists()


async def test_refs_are_packed_into_a_file_that_was_always_there(replicas: list[Replica], git: GitClient, tmp_path: Path) -> None:
    """A repository has packed-refs from its first day, or from its first maintenance: a reader elsewhere that knows of none would miss the refs in it."""
    await replicas[0].repositories.create(PROJECT)
    path = replicas[0].repositories.volume.repository(PROJECT)
    assert (path / "packed-refs").exists()
    work = await git.start(tmp_path / "work", replicas[0].url)
    pushed = await git.commit(work, {"a.txt": "1"})
    await git("push", "-q", "origin", "main", cwd=work)
    (path / "packed-refs").unlink()
    await replicas[1].repositories.maintain(PROJECT)
    assert (path / "packed-refs").exists()
    assert not (path / "refs" / "heads" / "main").exists()
    assert await replicas[2].repositories.head(PROJECT) == pushed


async def test_directories_are_asked_for_before_names_in_them_are_believed(replicas: list[Replica]) -> None:
    """Before a replica says what a repository is, it opens each directory in which it will look something up: that is what makes NFS ask the server."""
    await replicas[0].repositories.create(PROJECT)
    path = replicas[0].repositories.volume.repository(PROJECT)
    opened: list[str] = []

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and recording and isinstance(arguments[2], int) and arguments[2] & os.O_DIRECTORY:
            opened.append(str(arguments[0]))

    recording = True
    sys.addaudithook(hook)
    wanted = {str(path.parent), str(path), str(path / "refs" / "heads")}
    await replicas[1].repositories.exists(PROJECT)
    assert wanted <= set(opened)
    opened.clear()
    async with replicas[1].repositories.pushing(PROJECT):
        assert wanted <= set(opened)
    opened.clear()
    await replicas[1].repositories.head(PROJECT)
    recording = False
    assert wanted <= set(opened)


async def test_busy_repository_says_so(replicas: list[Replica], volume: ContentVolume) -> None:
    """A lock that another replica keeps for too long is an error that asks to come again, and changes nothing."""
    await replicas[0].repositories.create(PROJECT)
    lock = await acquire(volume.repository(PROJECT), SystemClock(), exclusive=True, wait_s=0.0)
    assert lock is not None

    class Hurried(SystemClock):
        """A clock whose half minute is over at once."""

        def monotonic(self) -> float:
            return super().monotonic() * 1000

    with pytest.raises(RepositoryBusy):
        async with Repositories(volume, Hurried()).pushing(PROJECT):
            pass
    lock.close()


async def test_lock_that_was_lost_is_noticed(replicas: list[Replica]) -> None:
    """Who asks for its lock once more learns that it guards nothing any more, as after the machine was cut off from the volume for too long."""
    await replicas[0].repositories.create(PROJECT)
    path = replicas[0].repositories.volume.repository(PROJECT)
    lock = await acquire(path, SystemClock(), exclusive=False, wait_s=0.0)
    assert lock is not None
    assert lock.take()
    path.rename(path.with_name("aside.git"))
    with pytest.raises(FileNotFoundError):
        lock.take()
    await replicas[0].repositories.create(PROJECT)
    (path / "arena.lock").touch()
    assert not lock.take()
    lock.close()
