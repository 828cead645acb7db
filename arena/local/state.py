"""The state directory: everything that one local installation keeps, and the lock that makes it one.

Owns the names inside the directory. What the files hold belongs to others: the store, the content volume, the queue server.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from arena.errors import ServerUnreachable, StateLocked, StateUnusable
from arena.local.process_times import start_time
from foundation.files import write_file


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where the running server listens. `queue` is its own queue server's URL, "" when it uses one that it was given."""

    url: str
    pid: int
    queue: str = ""


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """The paths of one local installation, all private to its owner."""

    root: Path

    @property
    def database(self) -> Path:
        """Return the cluster store's file."""
        return self.root / "cluster.db"

    @property
    def content(self) -> Path:
        """Return the content volume."""
        return self.root / "content"

    @property
    def queue(self) -> Path:
        """Return the queue server's directory."""
        return self.root / "queue"

    @property
    def logs(self) -> Path:
        """Return the folder of the worker logs: `<namespace>/<run>/<worker>.log`."""
        return self.root / "logs"

    @property
    def processes(self) -> Path:
        """Return the folder where the job runner records the processes it started."""
        return self.root / "processes"

    def prepare(self) -> None:
        """Make the directory and its folders.

        Raises:
            StateUnusable: the file system refuses; the message says why.
        """
        try:
            for folder in (self.root, self.content, self.queue, self.logs, self.processes):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A folder that exists may still be on a read-only or full file system: only a write tells.
            write_file(self.root / ".writable", b"yes\n", mode=0o600)
        except OSError as error:
            raise state_unusable(self.root, error) from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the directory for this process; the lock ends with the process, however it ends.

        Raises:
            StateLocked: another process holds it; the message names it.
        """
        try:
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise state_unusable(self.root, error) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise self._locked() from error
            yield
        finally:
            os.close(descriptor)

    def _locked(self) -> StateLocked:
        with contextlib.suppress(ServerUnreachable):
            address = self.address()
            return StateLocked(
                f"cannot start a server on state directory '{self.root}': one is running already at {address.url} (pid {address.pid})",
                hint="use it as it is, stop it with ctrl-c, or start another with --state DIR --port PORT",
            )
        return StateLocked(
            f"cannot start a server on state directory '{self.root}': another process holds it",
            hint="wait until it has started or ended, or choose another directory with --state DIR",
        )

    def token(self) -> str:
        """Return the token that opens this installation; made at the first call."""
        return self._secret("token")

    def installation(self) -> str:
        """Return the id of this installation, which marks what it owns in shared stores."""
        return self._secret("installation", size=8)

    def _secret(self, name: str, size: int = 24) -> str:
        path = self.root / name
        try:
            if not path.exists():
                write_file(path, f"{secrets.token_hex(size)}\n".encode(), mode=0o600)
            secret = path.read_text(encoding="ascii").strip()
        except OSError as error:
            raise state_unusable(self.root, error) from error
        if _SECRET.fullmatch(secret) is None:  # an empty token would let everybody in
            raise StateUnusable(f"cannot use state directory '{self.root}': its file '{name}' is damaged", hint=f"remove {path}, then start again")
        return secret

    def read_token(self) -> str:
        """Return the token of a server that was started on this directory.

        Raises:
            ServerUnreachable: none ever was.
        """
        try:
            return (self.root / "token").read_text(encoding="ascii").strip()
        except OSError as error:
            raise ServerUnreachable(
                f"cannot find a server: no token in state directory '{self.root}'",
                hint="start one with `arena up`, or name its directory with --state DIR",
            ) from error

    def publish(self, url: str, queue: str) -> None:
        """Record where this process listens, for the commands that look for it.

        Raises:
            StateUnusable: the file system refuses.
        """
        try:
            record = {"url": url, "pid": os.getpid(), "started": start_time(os.getpid()), "queue": queue}
            write_file(self.root / "server.json", json.dumps(record).encode(), mode=0o600)
        except OSError as error:
            raise state_unusable(self.root, error) from error

    def withdraw(self) -> None:
        """Forget the address again."""
        with contextlib.suppress(OSError):
            (self.root / "server.json").unlink(missing_ok=True)

    def address(self) -> ServerAddress:
        """Return where the server of this directory listens.

        A killed server leaves its address behind, and whoever listens there by now must not be sent our token: its process must be alive.

        Raises:
            ServerUnreachable: no server has published itself, or it has ended since.
        """
        nowhere = ServerUnreachable(
            f"cannot find a server: none runs on state directory '{self.root}'",
            hint="start one with `arena up`, or name its directory with --state DIR",
        )
        try:
            record = json.loads((self.root / "server.json").read_bytes())
            address = ServerAddress(str(record["url"]), int(record["pid"]), str(record.get("queue", "")))
            started = record["started"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise nowhere from error
        if started is not None and start_time(address.pid) != started:  # None: this system cannot tell
            raise nowhere
        return address


_SECRET = re.compile(r"[0-9a-f]{16,}")
_REMEDIES = {
    errno.ENOSPC: "free some space on that file system, or choose another directory with --state DIR",
    errno.EROFS: "it is mounted read-only: choose another directory with --state DIR",
    errno.EACCES: "it belongs to another user: choose another directory with --state DIR",
    errno.EPERM: "it belongs to another user: choose another directory with --state DIR",
    errno.ENOTDIR: "a part of the path is a file: choose another directory with --state DIR",
}


def state_unusable(root: Path, error: OSError) -> StateUnusable:
    """Put a refusal of the file system into words."""
    hint = _REMEDIES.get(error.errno or 0, "choose another directory with --state DIR")
    return StateUnusable(f"cannot use state directory '{root}': {os.strerror(error.errno or 0).lower()}", hint=hint)
