"""What a fetch that died leaves behind, what it holds while it lives, and that neither stops the next one."""

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gitops.errors import RefNotFound, RemoteCause, RepositoryBusy
from gitops.mirror_lock import FETCH_LOCK
from gitops.mirrors import MirrorLimits
from tests.mirror.conftest import PROJECT, Mirrored, leftovers
from tests.mirror.https_host import HttpsHost, Upstream
from tests.mirror.misbehaving_host import MisbehavingHost, misbehaving, through

ROOT = Path(__file__).parents[2]
DEADLINE_S = 30.0
PACK_BYTES, HALF_BYTES = 400_000, 250_000  # several portions of a side band each: git waits for whole ones
UID = "11111111-1111-1111-1111-111111111111"
POINTS = ("mirror.created", "mirror.locked", "mirror.started", "mirror.fetched", "mirror.head_moved")


@pytest.fixture
def limits() -> MirrorLimits:
    """A lock that is not waited for for long."""
    return MirrorLimits(lock_s=2.0)


@pytest.fixture
def stalling(host: HttpsHost, upstream: Upstream) -> Iterator[MisbehavingHost]:
    """A host that lists refs and sends half of each pack, until `behaviour` says otherwise."""
    upstream.commit(files={"a.bin": os.urandom(PACK_BYTES)})
    with misbehaving(host.authority) as liar:

        def half(whole: bytes) -> Iterator[bytes]:
            yield whole[:HALF_BYTES]
            yield from liar.stall()

        liar.behaviour = lambda request: half(through(host, request)) if request.is_pack else [through(host, request)]
        yield liar


@asynccontextmanager
async def fetch_process(mirrored: Mirrored, tmp_path: Path, crash_point: str = "") -> AsyncIterator[asyncio.subprocess.Process]:
    """Let a process of its own fetch."""
    authority = tmp_path / "ca.pem"
    authority.write_text(mirrored.remote.credentials.ca_certificates, encoding="ascii")
    words = (str(mirrored.repositories.volume.root), mirrored.remote.url, str(authority), crash_point)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.mirror.fetch_process", *words, cwd=ROOT, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.01)


def holders(file: Path) -> list[int]:
    """Return the processes that have a file open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(link.readlink() == file for link in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found


def is_receiving(mirrored: Mirrored) -> bool:
    """Say whether a part of a pack is there."""
    return any(path.stat().st_size > 30_000 for path in mirrored.path.glob("objects/pack/tmp_pack_*"))


async def test_git_runs_in_a_fence(mirrored: Mirrored, stalling: MisbehavingHost, upstream: Upstream) -> None:
    """Each process of a fetch has the limits of a fetch, a session of its own, and an environment that holds nothing of ours."""
    fetching = asyncio.create_task(mirrored.aim(stalling.url(upstream.name)).fetch())
    await until(lambda: is_receiving(mirrored), "half a pack")
    processes = [Path(f"/proc/{pid}") for pid in holders(mirrored.path / FETCH_LOCK) if pid != os.getpid()]
    assert {(path / "comm").read_text().strip() for path in processes} >= {"git", "git-remote-http"}
    for path in processes:
        limits = (path / "limits").read_text()
        for name, value in (
            ("Max file size", mirrored.limits.pack_bytes),
            ("Max address space", mirrored.limits.memory_bytes),
            ("Max open files", mirrored.limits.open_files),
        ):
            assert next(line for line in limits.splitlines() if line.startswith(name)).split()[3:5] == [str(value)] * 2, (path, name)
        assert os.getsid(int(path.name)) not in {0, os.getsid(0)}
        names = {entry.partition(b"=")[0] for entry in (path / "environ").read_bytes().split(b"\0")}
        assert not names & {b"PYTEST_CURRENT_TEST", b"SHELL", b"https_proxy"}
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    # git's children were killed with it, but nobody here is told when the kernel has done with them.
    await until(lambda: all(pid == os.getpid() for pid in holders(mirrored.path / FETCH_LOCK)), "the end of git's children")


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
async def test_a_death_at_each_point_is_made_good(mirrored: Mirrored, upstream: Upstream, tmp_path: Path, point: str) -> None:
    """Wherever a fetch dies, the next one brings the rest at once, and nothing half done is left."""
    upstream.commit("trunk")
    upstream.set_head("trunk")
    async with fetch_process(mirrored, tmp_path, point) as process:
        assert await asyncio.wait_for(process.wait(), DEADLINE_S) == -signal.SIGKILL
    state = await mirrored.fetch()
    assert state.default_branch == "refs/heads/trunk"
    assert mirrored.refs() == upstream.refs()
    mirrored.check()
    assert not (await mirrored.fetch()).fetched


async def test_an_orphaned_fetch_is_ended(mirrored: Mirrored, stalling: MisbehavingHost, host: HttpsHost, upstream: Upstream, tmp_path: Path) -> None:
    """A git whose server was killed goes on for nobody: the next fetch ends it, takes its leavings away, and does not wait for the host."""
    mirrored.aim(stalling.url(upstream.name))
    async with fetch_process(mirrored, tmp_path) as process:
        await until(lambda: is_receiving(mirrored), "half a pack")
        process.kill()
        await process.wait()
    assert is_receiving(mirrored)
    stalling.behaviour = lambda request: [through(host, request)]
    async with asyncio.timeout(DEADLINE_S):
        await mirrored.fetch()
    assert mirrored.refs() == upstream.refs()
    mirrored.check()


async def test_a_fetch_of_a_process_that_lives_is_left_alone(
    mirrored: Mirrored, stalling: MisbehavingHost, upstream: Upstream, tmp_path: Path
) -> None:
    """Another process that fetches is waited for, not ended; a poll without news waits for nobody."""
    async with fetch_process(mirrored.aim(stalling.url(upstream.name)), tmp_path) as process:
        await until(lambda: is_receiving(mirrored), "half a pack")
        with pytest.raises(RepositoryBusy, match="is being fetched"):
            await mirrored.fetch()
        assert process.returncode is None
        assert is_receiving(mirrored)


async def test_pins_and_readers_do_not_wait_for_a_fetch(mirrored: Mirrored, stalling: MisbehavingHost, host: HttpsHost, upstream: Upstream) -> None:
    """While a fetch takes its time, the mirror answers, pins and lets go; and maintenance leaves the fetch alone (argoproj/argo-cd#26486)."""
    tip = upstream.tip("refs/heads/main")
    assert tip is not None
    await mirrored.fetch()
    upstream.commit(files={"b.bin": os.urandom(PACK_BYTES)})
    fetching = asyncio.create_task(mirrored.aim(stalling.url(upstream.name)).fetch())
    await until(lambda: is_receiving(mirrored), "half a pack")
    async with asyncio.timeout(DEADLINE_S):
        await mirrored.repositories.pin(PROJECT, UID, tip)
        assert await mirrored.repositories.head(PROJECT) == tip
        await mirrored.repositories.maintain(PROJECT)
        await mirrored.repositories.unpin(PROJECT, UID)
    assert is_receiving(mirrored)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    stalling.behaviour = lambda request: [through(host, request)]
    await mirrored.fetch()
    assert mirrored.refs() == upstream.refs()
    mirrored.check()


LEAVINGS = (
    "HEAD.lock",
    "config.lock",
    "packed-refs.lock",
    "shallow.lock",
    "refs/heads/main.lock",
    "refs/tags/v1.lock",
    "refs/heads/main/x.lock",
    "objects/pack/tmp_pack_aBcDeF",
    "objects/pack/tmp_idx_aBcDeF",
    "objects/pack/tmp_rev_aBcDeF",
    "objects/17/tmp_obj_aBcDeF",
    "objects/tmp_objdir-incoming-aBcDeF/pack/tmp_pack_x",
    "objects/pack/pack-1234.keep",
    "objects/info/commit-graphs/commit-graph-chain.lock",
)


async def test_leavings_stop_nobody(mirrored: Mirrored, upstream: Upstream) -> None:
    """Locks and half packs of a killed fetch are taken away by the next, however fresh they are (argoproj/argo-cd#17623, #27930)."""
    await mirrored.fetch()
    for name in LEAVINGS:
        path = mirrored.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"fetch-pack 4711 on host\n" if name.endswith(".keep") else b"")
    upstream.commit()
    upstream.git("tag", "v1", "main")
    upstream.commit("trunk")
    upstream.set_head("trunk")
    await mirrored.fetch()
    assert [name for name in LEAVINGS if (mirrored.path / name).exists()] == []
    assert mirrored.refs() == upstream.refs()
    mirrored.check()


async def test_leavings_go_without_news(mirrored: Mirrored, upstream: Upstream) -> None:
    """What a fetch left that died after the last ref goes at the first look of the next process, though there is nothing to fetch."""
    upstream.commit()
    await mirrored.fetch()
    (mirrored.path / "objects" / "pack" / "pack-1234.keep").write_text("fetch-pack 4711 on host\n", encoding="ascii")
    (mirrored.path / "objects" / "pack" / "tmp_pack_aBcDeF").touch()
    mirrored.start()
    assert not (await mirrored.fetch()).fetched
    assert leftovers(mirrored.path) == []


async def test_the_keep_of_a_person_stays(mirrored: Mirrored, upstream: Upstream) -> None:
    """A pack that somebody else keeps is kept."""
    upstream.commit()
    await mirrored.fetch()
    kept = mirrored.path / "objects" / "pack" / "pack-1234.keep"
    kept.write_text("by hand\n", encoding="ascii")
    upstream.commit()
    await mirrored.fetch()
    assert kept.exists()


@pytest.mark.slow
async def test_leavings_go_while_somebody_copies(mirrored: Mirrored, upstream: Upstream) -> None:
    """A backup that holds the repository for long delays a fetch at most a little: it goes on, and old leavings still go."""
    upstream.commit()
    await mirrored.fetch()
    stale = mirrored.path / "refs" / "heads" / "main.lock"
    stale.touch()
    os.utime(stale, (time.time() - 60, time.time() - 60))
    upstream.commit()
    with (mirrored.path / "arena.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        await mirrored.fetch()
    assert mirrored.refs() == upstream.refs()
    assert leftovers(mirrored.path) == []


async def test_a_failure_leaves_nothing_on_the_disk(mirrored: Mirrored, stalling: MisbehavingHost, host: HttpsHost, upstream: Upstream) -> None:
    """A fetch that fails again and again fills no disk: its half pack goes with it (frappe/pilot#369)."""
    stalling.behaviour = lambda request: [through(host, request)[:HALF_BYTES] if request.is_pack else through(host, request)]
    mirrored.aim(stalling.url(upstream.name))
    for _ in range(3):
        assert (await mirrored.failure()).cause is RemoteCause.PROTOCOL
    assert leftovers(mirrored.path) == []
    assert sum(path.stat().st_size for path in mirrored.path.rglob("*") if path.is_file()) < 20_000


async def test_garbage_goes_after_two_weeks(mirrored: Mirrored, upstream: Upstream) -> None:
    """Each week, what neither branch, tag nor pin has reached for two weeks is removed; what is pinned and what is newer stays (argoproj/argo-cd#13691)."""
    old, pinned = upstream.commit("old", {"a.bin": os.urandom(50_000)}), upstream.commit("pinned", parent=None)
    await mirrored.fetch()
    await mirrored.repositories.pin(PROJECT, UID, pinned)
    await mirrored.repositories.maintain(PROJECT)
    long_ago = time.time() - 30 * 86400
    for path in (mirrored.path / "arena.collected", *mirrored.path.glob("objects/pack/*")):
        os.utime(path, (long_ago, long_ago))
    fresh = upstream.commit("fresh")
    for name in ("old", "pinned"):
        upstream.delete_ref(f"refs/heads/{name}")
    await mirrored.fetch()
    upstream.delete_ref("refs/heads/fresh")
    await mirrored.fetch()
    await mirrored.repositories.maintain(PROJECT)
    with pytest.raises(RefNotFound):
        await mirrored.repositories.describe(PROJECT, old)
    assert (await mirrored.repositories.describe(PROJECT, pinned)).commit == pinned
    assert (await mirrored.repositories.describe(PROJECT, fresh)).commit == fresh
    assert time.time() - (mirrored.path / "arena.collected").stat().st_mtime < 60
    mirrored.check()


async def test_the_lock_of_a_fetch_is_free_afterwards(mirrored: Mirrored, upstream: Upstream) -> None:
    """A fetch that has ended holds nothing, not even by a child of git."""
    upstream.commit()
    await mirrored.fetch()
    for name in (FETCH_LOCK, "arena.lock"):
        with (mirrored.path / name).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
