"""Parts: the append-only files into which workers write result lines, and from which they are merged.

One part belongs to one process start (an incarnation) and is never written by another. Lines are found by offset and believed only if
their SHA-256 is the record's, so a torn line, a line whose lease was not counted and bytes lost with a disk are all just not there.
"""

import errno
import hashlib
import os
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.errors import OutputUnavailable
from engine.records import PlacedLine, Record
from foundation.files import sync_directory

PARTS = "parts"
"""The directory of parts, below a run's directory."""

SUFFIX = ".jsonl"
_PART_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.jsonl\Z")
_OPEN_PARTS = 32
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Not blocking: a worker may have put a pipe in place of its part, and opening that would never end."""
_LOST = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.EIO, errno.ESPIPE, errno.ENXIO}
_SCAN_BYTES = 1 << 20
MAX_LINE_BYTES = 64 << 20
"""A line longer than this is neither written nor read."""


class PartWriter:
    """Append lines to one new part and say where each lies. One thread at a time.

    After an error the part is closed for good, since its end may be torn: open another under a new name.
    """

    def __init__(self, path: Path) -> None:
        """Create the part `path` (`<run>/parts/<incarnation>.jsonl`), and its directory when missing.

        Raises:
            OutputUnavailable: it cannot be created, or exists already.
        """
        if not _PART_NAME.match(path.name):
            raise OutputUnavailable(f"cannot write part '{path.name}': the name is not a plain file name with {SUFFIX}")
        self._path = path
        self._offset = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise _unavailable("write", path, error) from error
        self._named = False

    def append(self, lines: Sequence[bytes]) -> list[PlacedLine]:
        """Append `lines` (without line ends) in order and return their places; they are durable only after `sync`.

        Raises:
            OutputUnavailable: the disk took less than all; none of `lines` may be believed, and the part is closed.
        """
        places, offset = [], self._offset
        for line in lines:
            if len(line) > MAX_LINE_BYTES:
                raise OutputUnavailable(f"cannot write part '{self._path.name}': a line has {len(line)} bytes, the limit is {MAX_LINE_BYTES}")
            places.append(PlacedLine(self._path.name, offset, len(line), hashlib.sha256(line).hexdigest()))
            offset += len(line) + 1
        try:
            self._write(b"".join(line + b"\n" for line in lines))
        except OSError as error:
            self.close()
            raise _unavailable("write", self._path, error) from error
        self._offset = offset
        return places

    def sync(self) -> None:
        """Make all appended lines durable, and the part's name with the first.

        Raises:
            OutputUnavailable: they may be lost; the part is closed.
        """
        try:
            os.fdatasync(self._descriptor)
            if not self._named:
                sync_directory(self._path.parent)
                self._named = True
        except OSError as error:
            self.close()
            raise _unavailable("sync", self._path, error) from error

    def close(self) -> None:
        """Close the file without a sync; any number of times."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]


class PartReader:
    """Read lines of a run's parts by their places, keeping the files used last open. One thread at a time; close it."""

    def __init__(self, directory: Path) -> None:
        self._parts = directory / PARTS
        self._open: OrderedDict[str, int] = OrderedDict()

    def line(self, record: Record) -> bytes | None:
        """Return the line that `record` names; see `line_at`."""
        return self.line_at(PlacedLine(record.part, record.offset, record.length, record.sha256))

    def line_at(self, place: PlacedLine) -> bytes | None:
        """Return the line at `place`, without its line end; None when it is not there, torn, unreadable or other bytes.

        Raises:
            OutputUnavailable: the parts cannot be read now; the line may be there.
        """
        if not _PART_NAME.match(place.part) or not 0 < place.length <= MAX_LINE_BYTES or not 0 <= place.offset < 1 << 62:
            return None
        try:
            data = os.pread(self._descriptor(place.part), place.length, place.offset)
        except OSError as error:
            if error.errno in _LOST:
                return None
            raise _unavailable("read", self._parts / place.part, error) from error
        return data if hashlib.sha256(data).hexdigest() == place.sha256 else None

    def close(self) -> None:
        """Close all files; any number of times."""
        while self._open:
            os.close(self._open.popitem()[1])

    def _descriptor(self, part: str) -> int:
        descriptor = self._open.get(part)
        if descriptor is None:
            descriptor = os.open(self._parts / part, _READ_FLAGS)
            self._open[part] = descriptor
            if len(self._open) > _OPEN_PARTS:
                os.close(self._open.popitem(last=False)[1])
        else:
            self._open.move_to_end(part)
        return descriptor


def read_line(directory: Path, record: Record) -> bytes | None:
    """Return the line that `record` names below the run's `directory`, None when it is not there whole."""
    reader = PartReader(directory)
    try:
        return reader.line(record)
    finally:
        reader.close()


def scan_parts(directory: Path) -> Iterator[tuple[PlacedLine, bytes]]:
    """Yield every whole line of every part below the run's `directory`, parts by name, lines in order.

    A torn last line is left out. For the case that the records are lost: lines of leases that were never counted are among them.

    Raises:
        OutputUnavailable: the directory is there but cannot be read.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(directory / PARTS) if _PART_NAME.match(entry.name) and entry.is_file(follow_symlinks=False))
        for name in names:
            yield from _scan(directory / PARTS / name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unavailable("read", directory / PARTS, error) from error


def _scan(path: Path) -> Iterator[tuple[PlacedLine, bytes]]:
    offset = 0
    with path.open("rb", buffering=_SCAN_BYTES) as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            if not line.endswith(b"\n"):
                return
            body = line[:-1]
            yield PlacedLine(path.name, offset, len(body), hashlib.sha256(body).hexdigest()), body
            offset += len(line)


def _unavailable(verb: str, path: Path, error: OSError) -> OutputUnavailable:
    return OutputUnavailable(f"cannot {verb} part '{path}': {error.strerror or error}")
