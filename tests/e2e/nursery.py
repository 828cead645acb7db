"""Commands without an interpreter's start: a process that has imported the whole program forks whenever it is asked to.

An `arena up` takes a second of CPU to import, and the crash table starts sixty; an `arena get` takes a quarter. What is forked runs the command line
as `python -m arena` does, in a process of its own that can be killed; only the imports are done already. Nothing may be started in the process that
forks. The tests of whole stories start an interpreter each time.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import IO

from arena.cli import COMMANDS, main
from tests.e2e.installation import DEADLINE_S, Done

ROOT = Path(__file__).parents[2]
_REQUEST_BYTES = 1 << 16


class Child:
    """A process of the nursery, as far as `subprocess.Popen` is needed."""

    def __init__(self, pid: int, ended: int, stdout: int | None = None) -> None:
        self.pid = pid
        self.stdout: IO[bytes] | None = FileIO(stdout) if stdout is not None else None
        self._ended = ended
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        if self._code is None and select.select([self._ended], [], [], 0)[0]:
            self._code = int(os.read(self._ended, 16) or b"-1")
            os.close(self._ended)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code."""
        if self._code is None:
            select.select([self._ended], [], [], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended: its pid may be another's by then."""
        if self.poll() is None:
            self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that forks. `start` returns once the child is there."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, "-m", "tests.e2e.nursery", str(theirs.fileno())]
            self._process = subprocess.Popen(words, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def start(self, words: Sequence[str], environment: Mapping[str, str], stderr: int) -> Child:
        """Start `arena` with these words and this whole environment."""
        read, write = os.pipe()
        with open(os.devnull, "rb") as nothing, os.fdopen(write, "wb") as stdout:  # noqa: PTH123 - beside fdopen
            pid, ended = self._fork(words, environment, ROOT, (nothing.fileno(), stdout.fileno(), stderr))
        return Child(pid, ended, read)

    def run(self, words: Sequence[str], environment: Mapping[str, str], cwd: Path, text: str) -> Done:
        """Run `arena` to its end."""
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin.write(text.encode())
            stdin.seek(0)
            child = Child(*self._fork(words, environment, cwd, (stdin.fileno(), out.fileno(), err.fileno())))
            try:
                code = child.wait(DEADLINE_S)
            finally:
                child.kill()
            said = []
            for stream in (out, err):
                stream.seek(0)
                said.append(stream.read().decode())
        return Done(code, *said)

    def _fork(self, words: Sequence[str], environment: Mapping[str, str], cwd: Path, streams: tuple[int, int, int]) -> tuple[int, int]:
        """Return the pid, and what can be read from when it has ended."""
        read, write = os.pipe()
        message = json.dumps([list(words), dict(environment), str(cwd)]).encode()
        socket.send_fds(self._socket, [message], [*streams, write])
        os.close(write)
        return int(self._socket.recv(16)), read

    def close(self) -> None:
        """Let it end; what it forked goes on."""
        self._socket.close()
        self._process.wait()


def serve(requests: socket.socket) -> None:
    """Fork for each request, and tell each child's end, until nobody is left to ask."""
    ends: dict[int, int] = {}
    wake, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(told)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.freeze()
    while True:
        ready, _, _ = select.select([requests.fileno(), wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            _tell_ends(ends)
        if requests.fileno() in ready:
            message, fds, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 4)
            if not message:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _become(message, fds, {requests.detach(), wake, told, *ends.values()})
            ends[pid] = fds[3]
            for descriptor in fds[:3]:
                os.close(descriptor)
            requests.send(str(pid).encode())


def _tell_ends(ends: dict[int, int]) -> None:
    for pid in list(ends):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            descriptor = ends.pop(pid)
            with contextlib.suppress(BrokenPipeError):
                os.write(descriptor, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(descriptor)


def _become(message: bytes, fds: list[int], others: set[int]) -> None:
    """Be what was asked for, in a child that has nothing of the nursery any more; never returns."""
    words, environment, cwd = json.loads(message)
    for number in range(3):
        os.dup2(fds[number], number)
    for descriptor in {*fds, *others}:
        os.close(descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    code = 1
    try:
        main(words)
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    for module in ("typer.main", "arena.wiring", *COMMANDS.values()):
        importlib.import_module(module)
    serve(socket.socket(fileno=int(sys.argv[1])))
