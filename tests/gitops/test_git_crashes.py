"""What kill -9 leaves behind, and how much memory a pack takes: a server and seeds in processes of their own."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foundation.clock import SystemClock
from gitops.content import ContentVolume
from gitops.locks import acquire
from gitops.repositories import Repositories
from gitops.smart_http import SmartHTTP
from tests.gitops.conftest import DEADLINE_S, PROJECT, Authority, Changes, GitClient, serving

ROOT = Path(__file__).parents[2]
SERVER = Path(__file__).with_name("git_server_process.py")
FILES = {"config.arena.yaml": b"kind: Arena\n", "prompts/a.yaml": b"a\n"}
AUTHOR = "Arena <arena@localhost>"

Started = tuple[asyncio.subprocess.Process, str]


@asynccontextmanager
async def server_process(root: Path, crash_point: str = "", *, within: Sequence[str] = ()) -> AsyncIterator[Started]:
    """Run a server process (`within` another command) and yield it with its URL; kill it at the end."""
    process = await asyncio.create_subprocess_exec(
        *within, sys.executable, str(SERVER), str(root), crash_point, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            port = int(await process.stdout.readline())
        yield process, f"http://127.0.0.1:{port}/git/{PROJECT.namespace}/{PROJECT.name}.git"
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until_unlocked(repository: Path) -> None:
    """Wait until no receive-pack lives any more, not even one whose server was killed."""
    lock = await acquire(repository, SystemClock(), exclusive=True, wait_s=DEADLINE_S)
    assert lock is not None
    lock.close()


@pytest.mark.parametrize("point", ["push.body_received", "push.checked", "push.received", "push.notified"])
async def test_killed_server_loses_no_accepted_push(git: GitClient, tmp_path: Path, point: str) -> None:
    """Wherever a push kills the server, main is what it was or what was pushed, whole; and the next push works at once."""
    repositories = Repositories(ContentVolume(tmp_path / "content"), SystemClock())
    repository = repositories.volume.repository(PROJECT)
    await repositories.create(PROJECT)
    before = await repositories.seed(PROJECT, FILES, author=AUTHOR)
    work = await git.start(tmp_path / "work", str(repository))
    await git("pull", "-q", cwd=work)
    pushed = await git.commit(work, {"a.txt": "2", "b.bin": os.urandom(50_000)})
    async with server_process(repositories.volume.root, point) as (process, url):
        run = await git("push", "-q", url, "main", cwd=work, check=False)
        assert run.status != 0
        assert await asyncio.wait_for(process.wait(), DEADLINE_S) == -signal.SIGKILL, run.err
    await until_unlocked(repository)
    assert await repositories.head(PROJECT) == (pushed if point.startswith(("push.received", "push.notified")) else before)
    restarted = Repositories(repositories.volume, SystemClock())
    async with serving(SmartHTTP(restarted, authorize=Authority(), on_change=Changes())) as address:
        await git("push", "-q", f"http://{address}/git/team/support.git", "main", cwd=work)
    assert await repositories.head(PROJECT) == pushed
    assert not list((repository / "objects").glob("tmp_objdir*"))
    assert (await git("fsck", "--full", cwd=repository)).err == ""


@pytest.mark.parametrize("point", ["create.prepared", "seed.checked", "seed.objects_written", "seed.ref_written"])
async def test_killed_seed_is_whole_or_absent(git: GitClient, tmp_path: Path, point: str) -> None:
    """Wherever a seed is killed, main is absent or complete, and seeding again gives the commit that an undisturbed seed gives."""
    script = (
        "import asyncio, sys; from pathlib import Path; from foundation.clock import SystemClock; from foundation.crash import arm;"
        "from gitops.content import *; from gitops.repositories import Repositories; arm(sys.argv[2]);"
        f"r = Repositories(ContentVolume(Path(sys.argv[1])), SystemClock()); p = {PROJECT!r}\n"
        f"async def main():\n await r.create(p)\n await r.seed(p, {FILES!r}, author={AUTHOR!r})\nasyncio.run(main())"
    )

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(tmp_path / "killed"), point, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    undisturbed = Repositories(ContentVolume(tmp_path / "undisturbed"), SystemClock())
    await undisturbed.create(PROJECT)
    expected = await undisturbed.seed(PROJECT, FILES, author=AUTHOR)
    assert await process.wait() == -signal.SIGKILL
    repositories = Repositories(ContentVolume(tmp_path / "killed"), SystemClock())
    if await repositories.exists(PROJECT):
        assert await repositories.head(PROJECT) in (None, expected)
    await repositories.create(PROJECT)
    assert await repositories.seed(PROJECT, FILES, author=AUTHOR) == expected
    assert (await git("fsck", "--full", "--strict", cwd=repositories.volume.repository(PROJECT))).err == ""


def _resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@pytest.mark.slow
async def test_memory_is_flat_in_the_size_of_a_pack(git: GitClient, tmp_path: Path) -> None:
    """A push and a clone of 60 MB leave the server's peak memory where small ones put it."""
    async with server_process(tmp_path / "content") as (process, url):
        work = await git.start(tmp_path / "work", url)
        await git("config", "core.compression", "0", cwd=work)
        await git("config", "core.bigFileThreshold", "1m", cwd=work)
        await git.commit(work, {"a.txt": "1"})
        await git("push", "-q", "origin", "main", cwd=work)
        small = _resident_mib(process.pid)
        await git.commit(work, {f"{number}.bin": os.urandom(10_000_000) for number in range(6)})
        await git("push", "-q", "origin", "main", cwd=work)
        await git("clone", "-q", "--bare", url, str(tmp_path / "clone"))
        large = _resident_mib(process.pid)
    assert large - small < 15, f"{small:.0f} MiB grew to {large:.0f} MiB"


async def test_racing_seeds_agree(tmp_path: Path) -> None:
    """Of seeds that race, from several callers, one wins, and each returns the winner's commit."""
    repositories = [Repositories(ContentVolume(tmp_path), SystemClock()) for _ in range(4)]
    await asyncio.gather(*(each.create(PROJECT) for each in repositories))
    seeds = (each.seed(PROJECT, {**FILES, "n": b"%d" % number}, author=AUTHOR) for number, each in enumerate(repositories))
    commits = set(await asyncio.gather(*seeds))
    assert commits == {await repositories[0].head(PROJECT)}


async def test_full_volume_refuses_in_words(git: GitClient, tmp_path: Path) -> None:
    """A push that the volume cannot hold is refused with the cause, changes nothing, and a smaller one still works."""
    root = tmp_path / "content"
    root.mkdir()
    probe = await asyncio.create_subprocess_exec("unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", str(root), stderr=asyncio.subprocess.DEVNULL)
    if await probe.wait() != 0:
        pytest.skip("this machine lets nobody mount a tmpfs in a namespace")
    within = ("unshare", "-rm", "--", "sh", "-c", f'mount -t tmpfs -o size=1m tmpfs {root} && exec "$@"', "sh")
    async with server_process(root, within=within) as (_, url):
        work = await git.start(tmp_path / "work", url)
        small = await git.commit(work, {"a.txt": "1"})
        await git("push", "-q", "origin", "main", cwd=work)
        await git.commit(work, {"b.bin": os.urandom(2 << 20)})
        run = await git("push", "-q", "origin", "main", cwd=work, check=False)
        assert run.status == 1
        assert "error: cannot store the push: no space left on device on the server" in run.err
        assert small in (await git("ls-remote", url)).out
        await git("reset", "-q", "--hard", small, cwd=work)
        await git.commit(work, {"c.txt": "1"})
        await git("push", "-q", "origin", "main", cwd=work)
