"""The file that `arena backup` writes and `arena restore` reads: a tar archive whose last member lists the digests of all others.

Owns the members' names and order, and the rule which names may be unpacked. Layout: `arena-backup.json` (what this is), then what lies in a state
directory (`cluster.db`, `content/…`, `token` only on request), then `digests.jsonl`. Must not know what they hold.
"""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Literal

from arena.errors import BackupFailed, RestoreRefused
from gitops.repository_copy import belongs

FORMAT = 1
HEADER = "arena-backup.json"
DIGESTS = "digests.jsonl"
DATABASE = "cluster.db"
TOKEN = "token"  # noqa: S105 - a file's name
CONTENT = "content"
_IN_NAMESPACE = 4  # content/<workspace>/<namespace>/arena/
Mode = Literal["w:", "w:gz"]
COMPRESSIONS: dict[str, Mode] = {".tar": "w:", ".tar.gz": "w:gz", ".tgz": "w:gz"}
_FOLDER_MODE = 0o700
_READ_BYTES = 1 << 20
_HEADER_BYTES = 64 * 1024
_DIGEST_OF_FOLDER = ""


@dataclass(frozen=True, slots=True)
class Header:
    """What an archive says of itself. `installation` is the id of the one it was taken of, `schema` that of its store, `created` RFC 3339."""

    format: int
    arena: str
    created: str
    installation: str
    schema: int


def compression_of(path: Path) -> Mode:
    """Return tarfile's mode for a file name.

    Raises:
        BackupFailed: it ends in nothing that we write.
    """
    for suffix, mode in COMPRESSIONS.items():
        if path.name.endswith(suffix) and path.name != suffix:
            return mode
    raise BackupFailed(f"cannot write backup '{path}': its name must end in one of {', '.join(COMPRESSIONS)}", hint=f"name it {path}.tar.gz")


@dataclass(slots=True)
class ArchiveWriter:
    """Adds members one after another; `finish` closes the list of digests."""

    tar: tarfile.TarFile
    _digests: dict[str, str] = field(default_factory=dict)

    def add_header(self, header: Header) -> None:
        """Write what the archive is; it comes first."""
        self.add_bytes(HEADER, json.dumps(asdict(header)).encode() + b"\n")

    def add_bytes(self, name: str, data: bytes) -> None:
        """Add a small file."""
        self._add(_member(name, len(data), 0o600), io.BytesIO(data))

    def add_folder(self, name: str) -> None:
        """Add a directory."""
        member = tarfile.TarInfo(name)
        member.type, member.mode = tarfile.DIRTYPE, _FOLDER_MODE
        self.tar.addfile(member)
        self._digests[name] = _DIGEST_OF_FOLDER

    def add_file(self, name: str, path: Path) -> None:
        """Add a file as long as it is now; what is appended meanwhile is left out.

        Raises:
            FileNotFoundError: it has gone.
        """
        with path.open("rb") as stream:
            facts = os.fstat(stream.fileno())
            self._add(_member(name, facts.st_size, facts.st_mode & 0o777), stream)

    def finish(self) -> int:
        """Write the digests, which end the archive; return how many files it holds."""
        files = sum(digest != _DIGEST_OF_FOLDER for digest in self._digests.values())
        lines = "".join(json.dumps([name, digest]) + "\n" for name, digest in self._digests.items()).encode()
        self.tar.addfile(_member(DIGESTS, len(lines), 0o600), io.BytesIO(lines))
        return files

    def _add(self, member: tarfile.TarInfo, stream: IO[bytes]) -> None:
        digest = hashlib.sha256()
        self.tar.addfile(member, _Hashed(stream, digest, member.size))
        self._digests[member.name] = digest.hexdigest()


class _Hashed(io.RawIOBase):
    """Reads `size` bytes of a stream and hashes them on the way."""

    def __init__(self, stream: IO[bytes], digest: "hashlib._Hash", size: int) -> None:
        self._stream, self._digest, self._left = stream, digest, size

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        self._digest.update(data)
        return data


def _member(name: str, size: int, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, mode
    return member


@contextmanager
def reading(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive, however it is compressed.

    Raises:
        RestoreRefused: it is none, or it breaks off; also when that shows inside of the block.
    """
    try:
        with tarfile.open(path, "r:*") as tar:
            yield tar
    except (tarfile.TarError, EOFError, OSError, ValueError, TypeError) as error:
        if isinstance(error, FileNotFoundError):
            raise RestoreRefused(f"cannot read backup '{path}': there is no such file") from error
        raise RestoreRefused(
            f"cannot read backup '{path}': {_cause(error)}", hint="it is damaged, cut off or no backup; take another copy of it"
        ) from error


def _cause(error: Exception) -> str:
    return str(error).lower().splitlines()[0] if str(error) else "it breaks off"


def check(path: Path) -> tuple[Header, dict[str, str]]:
    """Read a whole archive, write nothing, and return its header and its members' digests.

    Raises:
        RestoreRefused: it is cut off or damaged, holds a name or a kind of member that does not belong there, or is of a format we do not know.
    """
    found: dict[str, str] = {}
    header: Header | None = None
    listed: dict[str, str] | None = None
    with reading(path) as tar:
        for member in tar:
            _refuse_unsafe(path, member, found)
            if listed is not None:
                raise _unfit(path, f"'{member.name}' comes after the end")
            if member.name == DIGESTS:
                listed = _digests(tar, member)
                continue
            if header is None:
                header = _header(path, tar, member)
            found[member.name] = digest_of(tar, member)
        while tar.fileobj is not None and tar.fileobj.read(_READ_BYTES):
            pass  # only at its end does a compressed file tell whether it is whole
    if header is None or listed is None:
        raise _unfit(path, "it breaks off before its end")
    if listed != found:
        wrong = min(set(listed.items()) ^ set(found.items()))[0]
        raise _unfit(path, f"'{wrong}' is not what was backed up")
    if DATABASE not in found:
        raise _unfit(path, f"there is no {DATABASE} in it")
    return header, found


def digest_of(tar: tarfile.TarFile, member: tarfile.TarInfo, copy: BinaryIO | None = None) -> str:
    """Return the SHA-256 of a member's bytes, "" for a directory; write them to `copy` on the way."""
    stream = tar.extractfile(member) if member.isreg() else None
    if stream is None:
        return _DIGEST_OF_FOLDER
    digest = hashlib.sha256()
    while chunk := stream.read(_READ_BYTES):
        digest.update(chunk)
        if copy is not None:
            copy.write(chunk)
    return digest.hexdigest()


def _refuse_unsafe(path: Path, member: tarfile.TarInfo, found: dict[str, str]) -> None:
    """Refuse what no backup of ours holds: links, devices, absolute names, names that climb, names twice.

    Raises:
        RestoreRefused: as said.
        tarfile.FilterError: Python's own rules for data are broken.
    """
    tarfile.data_filter(member, "/nonexistent")
    name = PurePosixPath(member.name)
    plain = name.as_posix() == member.name and ".." not in name.parts and not name.is_absolute() and member.name.isprintable()
    ours = member.name in {HEADER, DIGESTS, DATABASE, TOKEN, CONTENT} or (name.parts[:1] == (CONTENT,) and _may_be_content(name))
    if not plain or not ours or not (member.isreg() or member.isdir()) or member.issparse():
        raise _unfit(path, f"{member.name[:200]!r} does not belong in a backup")
    if member.name in found:
        raise _unfit(path, f"'{member.name}' is in it twice")


def _may_be_content(name: PurePosixPath) -> bool:
    """Say whether a backup of ours may hold this name: a part of a repository, a file of a run or of a history, or a HEAD file."""
    above, inner = name.parts[:_IN_NAMESPACE], PurePosixPath(*name.parts[_IN_NAMESPACE:])
    if len(above) < _IN_NAMESPACE or above[-1] != "arena":
        return False
    match inner.parts:
        case ("repos", ".retained", repository, *rest) | ("repos", repository, *rest):
            return repository.endswith(".git") and not repository.startswith(".") and (not rest or belongs(PurePosixPath(*rest)))
        case ("sources", _, ".arena", "HEAD"):
            return True
        case ("runs" | "history", folder, _, *_):
            return not folder.startswith(".")
        case _:
            return False


def _header(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> Header:
    stream = tar.extractfile(member) if member.name == HEADER and member.size <= _HEADER_BYTES else None
    try:
        header = Header(**json.loads(stream.read())) if stream else None
    except (ValueError, TypeError):
        header = None
    if header is None:
        raise _unfit(path, "it does not begin as a backup does")
    if header.format != FORMAT:
        raise RestoreRefused(
            f"cannot restore '{path}': its format is {header.format}, this program knows {FORMAT}", hint="use the arena that wrote it"
        )
    return header


def _digests(tar: tarfile.TarFile, member: tarfile.TarInfo) -> dict[str, str]:
    stream = tar.extractfile(member)
    return dict(json.loads(line) for line in stream.read().splitlines()) if stream else {}


def _unfit(path: Path, cause: str) -> RestoreRefused:
    return RestoreRefused(f"cannot restore '{path}': {cause}", hint="take another copy of the backup; nothing was written")
