"""The git program, run in a fence.

Owns how a git process is started, fed, limited and ended. No process reads a user's or the system's configuration: settings come from
`GIT_CONFIG_COUNT` alone. Each process leads its own session, so that ending it ends its children too. Must not know what a repository is for.
"""

import asyncio
import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from gitops.errors import GitFailed
from gitops.pipes import Excerpt, ReadEnd, WriteEnd, readable_once

OLDEST_GIT = (2, 39)
STDERR_LIMIT_BYTES = 4096
TERMINATE_GRACE_S = 5.0
STREAM_LIMIT_BYTES = 1 << 20

_VERSION = re.compile(r"git version (\d+)\.(\d+)")

FENCED_SETTINGS: Mapping[str, str] = {
    "core.fsync": "all",
    "core.packedGitLimit": "512m",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "pack.threads": "1",
    "index.threads": "1",
    "protocol.allow": "never",
    "credential.helper": "",
    "advice.detachedHead": "false",
}


@dataclass(frozen=True, slots=True)
class GitCommand:
    """One git invocation: what to run, in which repository, under which settings and limits.

    `arguments` never hold a user's text without a `--` or `--end-of-options` before it. `memory_bytes` bounds the address space of the process and
    of each of its children, `file_bytes` each file that one of them writes, `open_files` what each has open; None leaves it unbounded. The limits are
    there before anything is written to stdin, so a process that reads that first has no child without them.
    """

    arguments: Sequence[str]
    repository: Path | None = None
    settings: Mapping[str, str] | None = None
    environment: Mapping[str, str] | None = None
    memory_bytes: int | None = 4 << 30
    file_bytes: int | None = None
    open_files: int | None = None
    stderr_bytes: int = STDERR_LIMIT_BYTES
    inherited: tuple[int, ...] = ()


@cache
def git_program() -> str:
    """Return the absolute path of the git program.

    Raises:
        GitFailed: git is not installed.
    """
    program = shutil.which("git")
    if program is None:
        raise GitFailed("cannot run git: the program is not on the PATH", hint="install git 2.39 or newer")
    return program


def git_environment(command: GitCommand) -> dict[str, str]:
    """Return the whole environment of a git process: nothing of ours is passed on."""
    program = Path(git_program())
    environment = {
        "PATH": os.pathsep.join(dict.fromkeys([str(program.parent), "/usr/bin", "/bin"])),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_CEILING_DIRECTORIES": "/",
    }
    settings = {**FENCED_SETTINGS, **(command.settings or {})}
    pairs = [(key.partition("#")[0], value) for key, value in settings.items()]
    if command.repository is not None:
        environment["GIT_DIR"] = str(command.repository)
        pairs.append(("safe.directory", str(command.repository)))
    environment["GIT_CONFIG_COUNT"] = str(len(pairs))
    for index, (key, value) in enumerate(pairs):
        environment[f"GIT_CONFIG_KEY_{index}"] = key
        environment[f"GIT_CONFIG_VALUE_{index}"] = value
    return {**environment, **(command.environment or {})}


class GitProcess:
    """A running git process with pipes; ended, with all its children, by `end`."""

    def __init__(self, process: "subprocess.Popen[bytes]", stderr_bytes: int = STDERR_LIMIT_BYTES) -> None:
        self._process = process
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise GitFailed("cannot run git: its pipes are missing")
        self._stdin = WriteEnd(_taken(process.stdin))
        self.stdout = ReadEnd(_taken(process.stdout))
        self._errors = Excerpt(_taken(process.stderr), stderr_bytes)

    @property
    def pid(self) -> int:
        """The process id, which is the process group's id too."""
        return self._process.pid

    @property
    def errors(self) -> str:
        """What the process wrote to stderr so far, at most the first 4 KiB or what the command allows."""
        return self._errors.text

    async def wait(self) -> int:
        """Wait for the end of the process and of its stderr; return its exit status (negative: the signal)."""
        status = await self._exit()
        # A grandchild may hold stderr open after its parent is gone; what it says then is of no interest.
        await self._errors.wait(1.0)
        return status

    async def write(self, data: bytes) -> bool:
        """Write to stdin and wait until it is taken; False when the process reads no more, which its status and words explain."""
        return await self._stdin.write(data)

    def close_stdin(self) -> None:
        """Tell the process that nothing more comes. Idempotent."""
        self._stdin.close()

    async def end(self, *, grace_s: float = TERMINATE_GRACE_S) -> int:
        """Close stdin, give the process `grace_s` to leave by itself, then kill its whole group. Idempotent; leaves no zombie.

        The grace matters: a receive-pack whose input ends removes its quarantine, a killed one leaves it behind.
        """
        self.close_stdin()
        try:
            if self._process.poll() is None:
                async with asyncio.timeout(grace_s):
                    await self._drained_exit()
        except TimeoutError:
            pass
        finally:
            # Reached on cancellation too: nothing of the group may outlive its request.
            self.signal(signal.SIGKILL)
            try:
                status = await self._exit()
            finally:
                self.stdout.close()
                self._errors.close()
        return status

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; nothing happens when it is gone."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    async def _drained_exit(self) -> None:
        while await self.stdout.read(STREAM_LIMIT_BYTES):
            pass
        await self._exit()

    async def _exit(self) -> int:
        """Wait for the end of the process alone."""
        status = self._process.poll()
        if status is not None:
            return status
        try:
            descriptor = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # not Linux, or an old one
            return await asyncio.to_thread(self._process.wait)
        await readable_once(descriptor)
        return self._process.wait()


def _taken(pipe: IO[bytes]) -> int:
    """Return a descriptor of our own for a pipe, and close the file object around it."""
    with pipe:
        return os.dup(pipe.fileno())


@asynccontextmanager
async def git_process(command: GitCommand, *, grace_s: float = TERMINATE_GRACE_S) -> AsyncIterator[GitProcess]:
    """Start git with pipes; when the block is left, by whatever way, git is gone and its children are killed, if not yet buried.

    Raises:
        GitFailed: the process cannot be started.
    """
    running = GitProcess(_start(command), command.stderr_bytes)
    try:
        yield running
    finally:
        await running.end(grace_s=grace_s)


def _start(command: GitCommand) -> "subprocess.Popen[bytes]":
    # Not by the event loop: uvloop forks with a copy of our page tables, and runs Python in the child, which costs more than git itself. Popen uses vfork.
    try:
        process = subprocess.Popen(  # noqa: S603 - our own arguments, absolute program
            [git_program(), *command.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=git_environment(command),
            cwd="/",
            start_new_session=True,
            pass_fds=command.inherited,
        )
    except OSError as error:
        raise GitFailed(f"cannot start git '{command.arguments[0]}': {error.strerror}") from error
    for kind, limit in (
        (resource.RLIMIT_AS, command.memory_bytes),
        (resource.RLIMIT_FSIZE, command.file_bytes),
        (resource.RLIMIT_NOFILE, command.open_files),
    ):
        if limit is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                resource.prlimit(process.pid, kind, (limit, limit))
    return process


async def run_git(command: GitCommand, *, stdin: bytes = b"", timeout_s: float = 60.0, output_limit_bytes: int = 64 << 20) -> bytes:
    """Run git to its end and return its stdout.

    Raises:
        GitFailed: it ended with an error, took longer than `timeout_s`, or wrote more than `output_limit_bytes`.
    """
    name = command.arguments[0]
    async with git_process(command, grace_s=0.0) as process:
        try:
            async with asyncio.timeout(timeout_s), asyncio.TaskGroup() as tasks:
                tasks.create_task(_feed(process, stdin))
                output = tasks.create_task(_collect(process, output_limit_bytes))
            status = await process.wait()
        except TimeoutError as error:
            raise GitFailed(f"cannot finish git '{name}': it took longer than {timeout_s:g} s") from error
    data = output.result()
    if data is None:
        raise GitFailed(f"cannot read the output of git '{name}': it is larger than {output_limit_bytes} bytes")
    if status != 0:
        cause = process.errors.splitlines()[-1] if process.errors else f"exit status {status}"
        raise GitFailed(f"cannot run git '{name}': {cause}", stderr=process.errors, status=status)
    return data


async def check_git() -> tuple[int, int]:
    """Return the installed version of git as (major, minor).

    Raises:
        GitFailed: git is missing, or older than 2.39.
    """
    said = (await run_git(GitCommand(["version"]), timeout_s=10.0)).decode("utf-8", "replace")
    found = _VERSION.search(said)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < OLDEST_GIT:
        needed = ".".join(str(part) for part in OLDEST_GIT)
        raise GitFailed(f"cannot use git: git {version[0]}.{version[1]} is too old", hint=f"install git {needed} or newer")
    return version


async def _feed(process: GitProcess, data: bytes) -> None:
    if data:
        await process.write(data)
    process.close_stdin()


async def _collect(process: GitProcess, limit: int) -> bytes | None:
    data = bytearray()
    while chunk := await process.stdout.read(STREAM_LIMIT_BYTES):
        data += chunk
        if len(data) > limit:
            process.signal(signal.SIGKILL)
            return None
    return bytes(data)
