"""Raw git objects, read in bulk through one git process.

Owns the dialogue with `git cat-file --batch-command`: the same for SHA-1 and SHA-256 repositories, packed or loose, with nothing filtered or
converted. Blocking: callers run it in a thread. Must not know what the objects mean.
"""

import contextlib
import fcntl
import itertools
import os
import resource
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

from gitops.errors import GitFailed
from gitops.processes import GitCommand, git_environment, git_program

CHUNK_BYTES = 1 << 20

# Two windows of requests are on their way at any time, so that git works while we do. Together they fit a pipe of the usual 64 KiB: writing one
# never blocks while git itself waits for us to read. Where the kernel gives a smaller pipe (pipe-user-pages-soft), one window is on its way.
_WINDOW = 400
_USUAL_PIPE_BYTES = 65536
_ANSWERS_PIPE_BYTES = 1 << 20
_HEADER_LIMIT_BYTES = 256
_KINDS = {kind.encode(): kind for kind in ("blob", "tree", "commit", "tag")}
_STDERR_LIMIT_BYTES = 4096


class ObjectContent(NamedTuple):
    """One object on its way: `chunks` (each at most 1 MiB) must be read to the end before the next object is asked for."""

    object_id: str
    size_bytes: int
    chunks: Iterable[bytes]


class ObjectReader:
    """Read objects of one repository. A context manager; one thread at a time. All methods raise GitFailed when an object is missing or unreadable.

    `environment` adds to the fenced environment (a push's quarantine). The process is killed after `timeout_s`.
    """

    def __init__(self, repository: Path, *, environment: Mapping[str, str] | None = None, timeout_s: float = 600.0) -> None:
        command = GitCommand(("cat-file", "--batch-command", "--buffer"), repository=repository, environment=environment)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments, absolute program
                [git_program(), *command.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=git_environment(command),
                cwd="/",
                bufsize=_USUAL_PIPE_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise GitFailed(f"cannot start git 'cat-file': {error.strerror}") from error
        if command.memory_bytes is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                resource.prlimit(self._process.pid, resource.RLIMIT_AS, (command.memory_bytes, command.memory_bytes))
        self._requests, self._answers = _pipes(self._process)
        self._works_ahead = _pipe_bytes(self._requests) >= _USUAL_PIPE_BYTES
        self._timed_out = False
        self._deadline = threading.Timer(timeout_s, self._expire)
        self._deadline.daemon = True
        self._deadline.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process, whatever it is doing. Idempotent."""
        self._deadline.cancel()
        with contextlib.suppress(OSError):
            self._requests.close()
        if self._process.poll() is None:
            self._kill()
        self._process.wait()
        self._answers.close()
        self._errors.close()

    def kind(self, spelling: str) -> tuple[str, str] | None:
        """Return (object id, type) of what a full object id, or one followed by `^{tree}`, names; None when the repository does not hold it."""
        self._send("info", [spelling])
        header = self._header()
        return None if header is None else (header[0], header[1])

    def headers(self, object_ids: Sequence[str]) -> Iterator[tuple[str, str, int]]:
        """Yield (object id, type, size in bytes) of each object, in the order asked, without reading its content."""
        for window in self._windows("info", object_ids):
            lines = list(itertools.islice(self._answers, len(window)))
            if len(lines) < len(window):
                raise self._failure("its output is cut off")
            for object_id, line in zip(window, lines, strict=True):
                try:
                    _, kind, size = line.split()
                    yield object_id, _KINDS[kind], int(size)
                except (KeyError, ValueError):
                    raise _missing(object_id) if line.endswith(b" missing\n") else self._failure(f"its answer is {line[:80]!r}") from None

    def sizes(self, object_ids: Sequence[str]) -> list[int]:
        """Return the size in bytes of each object, in the order asked, without reading its content."""
        return [self._size_of(object_id) for object_id in self._one_by_one("info", object_ids)]

    def contents(self, object_ids: Sequence[str], *, limit_bytes: int) -> Iterator[bytes | None]:
        """Yield the whole content of each object, in the order asked; None for one that is larger than `limit_bytes`."""
        for object_id in self._one_by_one("contents", object_ids):
            size = self._size_of(object_id)
            if size <= limit_bytes:
                yield self._read(size + 1)[:-1]
            else:
                for _ in self._chunks(size):
                    pass
                self._read(1)
                yield None

    def stream(self, object_ids: Sequence[str]) -> Iterator[ObjectContent]:
        """Yield each object, in the order asked, in flat memory."""
        for object_id in self._one_by_one("contents", object_ids):
            size = self._size_of(object_id)
            if size <= CHUNK_BYTES:
                data = self._read(size + 1)
                yield ObjectContent(object_id, size, (data[:-1],))
            else:
                yield ObjectContent(object_id, size, self._chunks(size))
                self._read(1)

    def _chunks(self, size: int) -> Iterator[bytes]:
        left = size
        while left:
            chunk = self._read(min(left, CHUNK_BYTES))
            left -= len(chunk)
            yield chunk

    def _one_by_one(self, verb: str, object_ids: Sequence[str]) -> Iterator[str]:
        return itertools.chain.from_iterable(self._windows(verb, object_ids))

    def _windows(self, verb: str, object_ids: Sequence[str]) -> Iterator[Sequence[str]]:
        windows = [object_ids[start : start + _WINDOW] for start in range(0, len(object_ids), _WINDOW)]
        ahead = 1 if self._works_ahead else 0
        for window in windows[:ahead]:
            self._send(verb, window)
        for number, window in enumerate(windows):
            if number + ahead < len(windows):
                self._send(verb, windows[number + ahead])
            yield window

    def _send(self, verb: str, spellings: Sequence[str]) -> None:
        try:
            self._requests.write(f"{verb} {f'{chr(10)}{verb} '.join(spellings)}\nflush\n".encode())
            self._requests.flush()
        except OSError as error:
            raise self._failure("it takes no request") from error

    def _size_of(self, object_id: str) -> int:
        line = self._answers.readline(_HEADER_LIMIT_BYTES)
        size = line.rpartition(b" ")[2]
        if size[:-1].isdigit():
            return int(size)
        if line.endswith(b" missing\n"):
            raise _missing(object_id)
        raise self._failure(f"its answer is {line[:80]!r}")

    def _header(self) -> tuple[str, str, int] | None:
        line = self._answers.readline(_HEADER_LIMIT_BYTES)
        parts = line.split()
        if line.endswith(b" missing\n"):
            return None
        if len(parts) != 3 or not parts[2].isdigit():  # noqa: PLR2004 - id, type, size
            raise self._failure(f"its answer is {line[:80]!r}")
        return parts[0].decode(), parts[1].decode(), int(parts[2])

    def _read(self, size: int) -> bytes:
        data = self._answers.read(size)
        if len(data) != size:
            raise self._failure("its output is cut off")
        return data

    def _failure(self, cause: str) -> GitFailed:
        if self._timed_out:
            return GitFailed("cannot read objects: git took too long")
        self._errors.seek(0)
        said = self._errors.read(_STDERR_LIMIT_BYTES).decode("utf-8", "replace").strip()
        return GitFailed(f"cannot read objects: {said.splitlines()[-1] if said else f'git cat-file ended, {cause}'}", stderr=said)

    def _expire(self) -> None:
        self._timed_out = True
        self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _missing(object_id: str) -> GitFailed:
    return GitFailed(f"cannot read object '{object_id}': it is missing from the repository", hint="run `git fsck` on the repository")


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise GitFailed("cannot run git: its pipes are missing")
    with contextlib.suppress(OSError):
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _ANSWERS_PIPE_BYTES)
    return process.stdin, process.stdout


def _pipe_bytes(pipe: IO[bytes]) -> int:
    try:
        return int(fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ))
    except OSError:
        return 0
