"""Programs of a bundle as processes: confined, bounded, and gone with all that they started.

Owns the walls (bubblewrap: namespaces of their own, the bundle read-only, no network unless granted, an environment of exactly what is given), the
limits, and how a process is spoken to and ended. Whether a program may run at all is `engine.permissions`'. Must not know tools or protocols.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from engine.errors import EngineError, ToolsUnavailable
from engine.permissions import ALLOWING_CODE, Permissions
from engine.tools.process_usage import usage_of

MAX_LINE_BYTES: Final = 8 << 20
"""The longest line, and the longest whole output, that is read of a process."""

SHOWN_STDERR_CHARACTERS: Final = 600
_STDERR_KEPT_BYTES: Final = 8192
_MEMORY_BYTES: Final = 2 << 30
_TOTAL_BYTES: Final = 4 << 30
_LOOK_EVERY_S: Final = 0.25
_FILE_BYTES: Final = 64 << 20
_PROCESSES: Final = 64
_OPEN_FILES: Final = 256
_CPU_SECONDS: Final = 300
_FAREWELL_S: Final = 5.0
_KILLED_S: Final = 30.0
"""A killed process is gone at once, unless the kernel holds it or the machine is very busy."""
_NOT_FOUND: Final = 127
"""How a command ends that is not there."""
_INSIDE: Final = "/bundle"
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ssl", "/etc/ca-certificates", "/etc/localtime")
_SYSTEM_FILES: Final = ("/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/mime.types")
_NETWORK_FILES: Final = ("/etc/resolv.conf", "/etc/hosts")


class CodeRefused(ToolsUnavailable):
    """A program of a bundle may not run, or not be confined here."""


class ProcessFailed(EngineError):
    """A program did not start, ended, hung or said too much; the message has what it last wrote to its error output."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. `directory` is relative to the bundle's root; `environment` is all that it gets, beside PATH, HOME, LANG and TMPDIR."""

    argv: tuple[str, ...]
    directory: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"command '{' '.join(self.argv)}'"


class Confinement:
    """How the programs of one bundle are run. Shared. `unconfinable` says why none can be confined; None finds out, once."""

    def __init__(self, root: Path, permissions: Permissions, unconfinable: str | None = None) -> None:
        self._root = root
        self._permissions = permissions
        self._fault = unconfinable
        self._probing = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def start(self, program: Program) -> AsyncIterator["Running"]:
        """Start a program, and end it with everything that it started when the block is left.

        Raises:
            CodeRefused: programs of this bundle may not run, or cannot be confined here.
            ProcessFailed: it cannot be started.
        """
        argv, directory, environment = await self._command(program)
        try:
            transport, process = await _begun(_start(argv, stdin=PIPE, stdout=PIPE, env=environment, cwd=directory))
        except OSError as error:
            raise ProcessFailed(f"cannot start {program}: {error.strerror or error}") from error
        running = Running(program, process)
        try:
            async with asyncio.TaskGroup() as group:
                duties = [group.create_task(running.listen()), group.create_task(running.watch())]
                try:
                    yield running
                finally:
                    await asyncio.shield(_ended(transport, process))
                    for duty in duties:
                        duty.cancel()
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def check(self) -> None:
        """Say before anything is started whether it can be.

        Raises:
            CodeRefused: programs of this bundle may not run, or cannot be confined here.
        """
        await self._command(Program(("true",)))

    async def _command(self, program: Program) -> tuple[Sequence[str], Path | None, Mapping[str, str]]:
        permitted = self._permissions.code
        if not permitted:
            raise CodeRefused(
                f"cannot run {program}: programs of this bundle are not allowed to run",
                hint=ALLOWING_CODE,
            )
        environment = {"PATH": _PATH, "LANG": "C.UTF-8", "TMPDIR": "/tmp", **program.environment}  # noqa: S108 - inside, it is theirs alone
        fault = await self._unconfinable()
        if not fault:
            environment = {"HOME": "/tmp", **environment}  # noqa: S108 - same
            return self._walls(program), None, environment  # not as arguments: those can be read in a list of processes
        if permitted != "unconfined":
            raise CodeRefused(
                f"cannot confine {program}: {fault}",
                hint="install bubblewrap and allow user namespaces, or an operator may go without: --allow-code-unconfined",
            )
        directory = self._root / program.directory
        return [*_limits(), *program.argv], directory, {"HOME": str(directory), **environment}

    def _walls(self, program: Program) -> list[str]:
        network = self._permissions.code_network
        files = (*_SYSTEM_FILES, *(_NETWORK_FILES if network else ()))
        bound = [word for path in (*_SYSTEM, *files) for word in ("--ro-bind-try", path, path)]
        inside = f"{_INSIDE}/{program.directory}".rstrip("/")
        return [
            *(_bubblewrap() or "bwrap", "--unshare-all", *(("--share-net",) if network else ())),
            *("--unshare-user", "--uid", "65534", "--gid", "65534", "--hostname", "bundle", "--die-with-parent", "--new-session"),
            *bound,
            *("--proc", "/proc", "--dev", "/dev", "--size", str(_FILE_BYTES), "--tmpfs", "/dev/shm", "--size", str(_FILE_BYTES), "--tmpfs", "/tmp"),  # noqa: S108
            *("--ro-bind", str(self._root), _INSIDE, "--remount-ro", "/", "--chdir", inside),
            *("--", *_limits(), *program.argv),
        ]

    async def _unconfinable(self) -> str:
        """Return why programs cannot be confined here, "" when they can."""
        async with self._probing:
            if self._fault is None:
                self._fault = await self._probe()
        return self._fault

    async def _probe(self) -> str:
        if _bubblewrap() is None:
            return "bubblewrap (bwrap) is not installed"
        walls = self._walls(Program(("true",)))
        transport, process = await _begun(_start(walls, stdin=DEVNULL, stdout=DEVNULL, env={"PATH": _PATH}))
        try:
            _, said = await process.communicate()
        finally:
            await asyncio.shield(_ended(transport, process))
        return "" if process.returncode == 0 else f"bubblewrap does not work here: {said.decode(errors='replace').strip()[:200]}"


class Running:
    """A process that runs. One who speaks to it at a time."""

    def __init__(self, program: Program, process: Process) -> None:
        self._program = program
        self._process = process
        self._said = bytearray()
        self._heard = asyncio.Event()
        self._excess = ""

    async def listen(self) -> None:
        """Read the error output to its end and keep the last of it: a process whose error output nobody reads stands still."""
        stream = self._process.stderr
        while stream is not None and (chunk := await stream.read(_STDERR_KEPT_BYTES)):
            self._said += chunk
            del self._said[:-_STDERR_KEPT_BYTES]
        self._heard.set()

    async def watch(self) -> None:
        """End the process when it and all that it started are too many, or hold too much memory; looks a few times a second."""
        while self._process.returncode is None:
            used = usage_of(self._process.pid, _PROCESSES)
            if used.processes > _PROCESSES:
                self._excess = f"it has more than {_PROCESSES} processes"
            elif used.memory_bytes > _TOTAL_BYTES:
                self._excess = f"it holds more than {_TOTAL_BYTES >> 30} GiB of memory"
            if self._excess:
                _kill(self._process)
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    async def converse(self, data: bytes) -> bytes:
        """Write `data`, close the input and return the whole output of a process that then ends well.

        Raises:
            ProcessFailed: it ended badly, or wrote more than is read.
        """
        writer, reader = self._streams()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._write(writer, data))
                reading = group.create_task(self._read_all(reader))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        code = await self._process.wait()
        if code != 0:
            await self._farewell()
            raise self.failed(f"it ended with {_ending(code)}")
        return reading.result()

    async def send(self, line: bytes) -> None:
        """Write one line.

        Raises:
            ProcessFailed: it no longer reads.
        """
        writer, _ = self._streams()
        try:
            await _put(writer, line + b"\n")
        except OSError:
            await self._farewell()
            raise self.failed("it no longer reads its input") from None

    async def receive(self) -> bytes:
        """Return the next line, b"" when there will be none.

        Raises:
            ProcessFailed: the line is longer than is read.
        """
        _, reader = self._streams()
        try:
            line = await reader.readline()
        except ValueError:
            raise self.failed(f"it wrote a line of more than {MAX_LINE_BYTES >> 20} MiB") from None
        if not line:
            await self._farewell()
        return line

    def failed(self, what: str) -> ProcessFailed:
        """Return the error of this process: what happened, and what it last said."""
        code = self._process.returncode
        what = self._excess or what
        ended = f" ({_ending(code)})" if code is not None and "ended" not in what else ""
        said = self._said.decode(errors="replace").strip()[-SHOWN_STDERR_CHARACTERS:]
        path = self._program.environment.get("PATH") if code == _NOT_FOUND else None
        more = (f"it wrote: {said}" if said else "", f"the bundle sets PATH to '{path}'" if path else "")
        return ProcessFailed("; ".join([f"{self._program} failed: {what}{ended}", *(text for text in more if text)]))

    async def _farewell(self) -> None:
        """Wait a moment for how the process ended, and for its last words: its output closes before both are known."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                await self._process.wait()
                await self._heard.wait()

    def _streams(self) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
        if self._process.stdin is None or self._process.stdout is None:
            raise self.failed("it has no pipes")
        return self._process.stdin, self._process.stdout

    async def _read_all(self, reader: asyncio.StreamReader) -> bytes:
        found = bytearray()
        while chunk := await reader.read(1 << 16):
            found += chunk
            if len(found) > MAX_LINE_BYTES:
                raise self.failed(f"it wrote more than {MAX_LINE_BYTES >> 20} MiB")
        return bytes(found)

    @staticmethod
    async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
        with contextlib.suppress(OSError):  # one that does not read its input may still answer
            await _put(writer, data)
            writer.close()


async def _put(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write to a process.

    Raises:
        OSError: it no longer reads. (uvloop has a RuntimeError of its own for a pipe that was closed before.)
    """
    if writer.is_closing():
        raise BrokenPipeError
    writer.write(data)
    await writer.drain()


def _bubblewrap() -> str | None:
    return shutil.which("bwrap", path=f"{_PATH}:/usr/sbin:/sbin")


def _limits() -> list[str]:
    """Return what begins a command under limits. Memory is a process's own data: an address space is reserved by runtimes far beyond what they use."""
    return [
        "/usr/bin/prlimit",
        f"--data={_MEMORY_BYTES}",
        f"--fsize={_FILE_BYTES}",
        f"--nproc={_PROCESSES}",
        f"--nofile={_OPEN_FILES}",
        f"--cpu={_CPU_SECONDS}",
        "--core=0",
        "--",
    ]


async def _start(argv: Sequence[str], **how: Any) -> tuple[asyncio.SubprocessTransport, Process]:
    """Start a process in a session of its own, as asyncio's own function does, which keeps the transport to itself."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(limit=MAX_LINE_BYTES, loop=loop), *argv, stderr=PIPE, start_new_session=True, **how
    )
    return transport, Process(transport, protocol, loop)


async def _begun(starting: Coroutine[Any, Any, tuple[asyncio.SubprocessTransport, Process]]) -> tuple[asyncio.SubprocessTransport, Process]:
    """Return a process that is being started; cancelled, end it as soon as it is there.

    The start itself is never cancelled: asyncio of Python 3.11 may then wait for ever for the end of the process that it had begun.
    """
    start = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(start)
    except asyncio.CancelledError:
        await asyncio.wait((start,))
        if start.exception() is None:
            await asyncio.shield(_ended(*start.result()))
        raise


async def _ended(transport: asyncio.SubprocessTransport, process: Process) -> None:
    """End a process and its whole group. Confined, whatever left the group ends too: the process was the first of their namespace.

    Our ends of its pipes are closed first: asyncio of Python 3.11 takes no process for ended while one is open, and what left its group may keep the
    other end, or what it flooded us with may wait to be read.
    """
    if process.stdin is not None:
        process.stdin.close()
        if process.stdin.transport.get_write_buffer_size():
            process.stdin.transport.abort()
    for output in (transport.get_pipe_transport(1), transport.get_pipe_transport(2)):
        if output is not None:
            output.close()
    _kill(process)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _KILLED_S)


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
