"""The fence around the git program."""

import asyncio
import signal
import time
from pathlib import Path

import pytest

from gitops.errors import GitFailed
from gitops.processes import GitCommand, check_git, git_process, run_git
from tests.gitops.conftest import GitClient, until
from tests.processes import told


async def test_no_configuration_but_ours_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the user's, nor the environment's, nor the system's configuration reaches a git process."""
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = from-home\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.name")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "from-environment")
    listed = (await run_git(GitCommand(["config", "--list", "--show-origin"], settings={"user.email": "ours"}))).decode()
    assert "user.email=ours" in listed
    assert "from-" not in listed
    assert {line.split("\t")[0] for line in listed.splitlines()} == {"command line:"}


async def test_failure_names_its_cause() -> None:
    """A git that fails is GitFailed with its status, its last words in the message and all of them beside it."""
    with pytest.raises(GitFailed, match="cannot run git 'cat-file': fatal: not a git repository") as failure:
        await run_git(GitCommand(["cat-file", "-t", "HEAD"]))
    assert failure.value.status == 128


async def test_output_beyond_the_limit(git: GitClient, tmp_path: Path) -> None:
    """A git that says too much is stopped."""
    await git("init", "-q", "--bare", str(tmp_path / "r.git"))
    command = GitCommand(["cat-file", "--batch"], repository=tmp_path / "r.git")
    with pytest.raises(GitFailed, match="larger than 10 bytes"):
        await run_git(command, stdin=b"HEAD\n" * 100, output_limit_bytes=10)


def _group(pgid: int) -> list[int]:
    tails = {pid: status.rpartition(b")")[2].split() for pid, status in told("stat")}
    return [pid for pid, tail in tails.items() if int(tail[2]) == pgid and tail[0] != b"Z"]


SLEEPER = GitCommand(["-c", "alias.wait=!sleep 300", "wait"])


async def test_timeout_ends_the_whole_group() -> None:
    """A git that takes too long is ended with its children."""
    started = time.monotonic()
    with pytest.raises(GitFailed, match=r"longer than 0\.2 s"):
        await run_git(SLEEPER, timeout_s=0.2)
    assert time.monotonic() - started < 60


async def test_cancellation_ends_the_whole_group() -> None:
    """When the caller is cancelled, neither git nor its children live on."""
    pids: list[int] = []

    async def run() -> None:
        async with git_process(SLEEPER, grace_s=0.1) as process:
            pids.append(process.pid)
            await process.wait()

    task = asyncio.create_task(run())
    await until(lambda: bool(pids) and len(_group(pids[0])) > 1, "the grandchild")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not _group(pids[0]), "the group to end")


async def test_process_that_ends_by_itself_keeps_its_status() -> None:
    """Leaving the block after a signal tells which one."""
    async with git_process(SLEEPER) as process:
        process.signal(signal.SIGTERM)
        assert await process.wait() == -signal.SIGTERM


async def test_version_of_git_is_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A git that is too old is refused with both versions; the installed one is told."""
    assert (await check_git())[0] >= 2
    old = tmp_path / "git"
    old.write_text("#!/bin/sh\necho git version 2.17.1\n")
    old.chmod(0o755)
    monkeypatch.setattr("gitops.processes.git_program", lambda: str(old))
    with pytest.raises(GitFailed, match=r"git 2\.17 is too old") as failure:
        await check_git()
    assert "2.39" in failure.value.hint
