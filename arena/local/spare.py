"""How a worker process is started, and one that has started before there is work: a run's first item need not wait for an interpreter.

Owns how a waiting process is told what to do, one line of JSON on its standard input, and how either kind leaves its exit code behind. A process
that waits ends by itself when the line never comes, so a server that is killed leaves none. Must not know what a worker does.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

FLAG = "--spare"
MAX_ORDER_BYTES = 60_000
"""An order must fit into a pipe at once (65,536 bytes on Linux), since the process may not read yet; a larger one starts a process of its own."""

_LEAVE_EXIT_CODE = 'trap : TERM INT; "$@"; code=$?; echo $code > "$0/$$.exit"; exit $code'
"""What the shell runs: $0 is the folder. A signal to the group reaches the process; the shell waits on."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: its words, its whole environment, the file that its output is appended to, and the folder for `<pid>.exit`."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    exits: Path


async def spawn(command: Command) -> asyncio.subprocess.Process:
    """Start a command in a session of its own, under a shell that waits for it and leaves its exit code.

    Raises:
        OSError: it could not be started, or its log cannot be written.
    """
    words = ("/bin/sh", "-c", _LEAVE_EXIT_CODE, str(command.exits), *command.words)
    with _open_log(command.log) as stream:
        return await asyncio.create_subprocess_exec(
            *words, env=dict(command.environment), stdin=asyncio.subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True
        )


class Spare:
    """At most one process that waits for its command, which must have the `words` that it was started with."""

    def __init__(self, words: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self._words = words
        self._environment = environment
        self._child: asyncio.subprocess.Process | None = None
        self._pipe = -1

    async def prepare(self) -> None:
        """See to it that a process waits. Idempotent. One that failed before it had a command would fail again, so none is started after it.

        Raises:
            OSError: none could be started.
        """
        if self._child is not None and (self._child.returncode is None or self._child.returncode > 0):
            return
        self.dismiss()
        reader, self._pipe = os.pipe()
        try:
            self._child = await asyncio.create_subprocess_exec(
                *self._words, FLAG, env=dict(self._environment), stdin=reader, stdout=asyncio.subprocess.DEVNULL, start_new_session=True
            )
        finally:
            os.close(reader)

    def take(self, command: Command) -> asyncio.subprocess.Process | None:
        """Give the waiting process its command and return it; None when none can take it."""
        child = self._child
        order = json.dumps({"environment": dict(command.environment), "log": str(command.log), "exits": str(command.exits)}).encode() + b"\n"
        if child is None or child.returncode is not None or command.words != self._words or len(order) > MAX_ORDER_BYTES:
            return None
        try:
            _open_log(command.log).close()
            os.write(self._pipe, order)
        except OSError:
            return None
        finally:
            self.dismiss()
        return child

    def dismiss(self) -> None:
        """Let go of the waiting process: without a command it ends at once."""
        if self._pipe >= 0:
            os.close(self._pipe)
        self._pipe, self._child = -1, None


def follow_order(work: Callable[[Mapping[str, str]], int]) -> int:
    """In the waiting process: once the order is there, call `work` with its environment, and leave the exit code; 0 at once when none comes."""
    line = sys.stdin.readline()
    if not line:
        return 0
    order = json.loads(line)
    code = 1
    _redirect(order["log"])
    try:
        code = work(order["environment"])
    finally:
        Path(order["exits"], f"{os.getpid()}.exit").write_text(f"{code}\n", encoding="ascii")
    return code


def _redirect(log: str) -> None:
    with _open_log(Path(log)) as stream, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)


def _open_log(path: Path) -> BinaryIO:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path.open("ab")
