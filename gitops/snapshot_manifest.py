"""The manifest of a snapshot: what was verified when it appeared.

Owns the file `versions/.manifests/<commit>.jsonl`, which lies outside the snapshot so that the snapshot holds the commit's files and nothing else.
Its first line is a header; the second holds every directory, the third every file, with the sizes and modification times that they had when their
bytes were checked; the header has the hash of both. A look reads two lines: a directory in which a name came or went has another time. An unchanged
file can be linked without reading it again.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from foundation.files import write_file
from gitops.tree_rules import Kind, TreeEntry

FORMAT = 2

_KINDS = {kind.value: kind for kind in Kind}
_HEADER_LIMIT_BYTES = 8 << 20  # the LFS pointers are listed in it


@dataclass(frozen=True, slots=True)
class ManifestHeader:
    """What a snapshot is. `digest` is `sha256:` and the hash of every file's mode, blob id and path; `bytes` counts all files in full."""

    commit: str
    tree: str
    digest: str
    files: int
    bytes: int
    lfs_pointers: tuple[str, ...]


class StoredEntry(NamedTuple):
    """One path as it lies on disk. `size` is 0 for a directory. A tuple, as TreeEntry is one."""

    entry: TreeEntry
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Outline:
    """A header and the directories, ordered by path, the root ("") first."""

    header: ManifestHeader
    directories: tuple[StoredEntry, ...]

    def fits(self, snapshot: Path) -> bool:
        """Say whether every directory is where it was and as it was: nothing came or went. Looks at no file.

        Raises:
            OSError: a directory cannot be looked at, which says nothing about it.
        """
        root = str(snapshot)
        try:
            for directory in self.directories:
                status = os.lstat(f"{root}/{directory.entry.path}" if directory.entry.path else root)
                if not stat.S_ISDIR(status.st_mode) or status.st_mtime_ns != directory.mtime_ns:
                    return False
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class Manifest:
    """A header and every entry, directories included, ordered by path; the root itself is `root`."""

    header: ManifestHeader
    root: StoredEntry
    entries: tuple[StoredEntry, ...]


def digest_of(entries: Iterable[TreeEntry]) -> str:
    """Return `sha256:<hex>` over `<mode> <blob id><tab><path><NUL>` of each file and symlink, ordered by the bytes of the path.

    Equal trees have equal digests, whichever commit holds them.
    """
    lines = [f"{entry.mode} {entry.object_id}\t{entry.path}\0" for entry in entries if entry.kind is not Kind.DIRECTORY]
    lines.sort(key=lambda line: line.partition("\t")[2])
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write the manifest in one visible step.

    Raises:
        OSError: nothing at `path` has changed.
    """
    header = manifest.header
    head = {
        "format": FORMAT,
        "commit": header.commit,
        "tree": header.tree,
        "digest": header.digest,
        "files": header.files,
        "bytes": header.bytes,
        "lfsPointers": list(header.lfs_pointers),
    }
    directories = [manifest.root, *(e for e in manifest.entries if e.entry.kind is Kind.DIRECTORY)]
    lines = [_line(directories), _line(e for e in manifest.entries if e.entry.kind is not Kind.DIRECTORY)]
    head["lines"] = [hashlib.sha256(line).hexdigest() for line in lines]
    write_file(path, b"".join([json.dumps(head, ensure_ascii=False).encode() + b"\n", *lines]))


def read_header(path: Path) -> ManifestHeader | None:
    """Return the header of the manifest at `path`; None when there is none or it cannot be understood."""
    try:
        with path.open("rb") as stream:
            return _header(json.loads(stream.readline(_HEADER_LIMIT_BYTES)))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return None


def read_outline(path: Path) -> Outline | None:
    """Return header and directories of the manifest at `path`; None when there is none or it cannot be understood."""
    read = _read(path, lines=1)
    return None if read is None else Outline(read[0], read[1])


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest at `path`; None when there is none or it cannot be understood."""
    read = _read(path, lines=2)
    if read is None:
        return None
    header, (root, *entries) = read
    return Manifest(header, root, tuple(sorted(entries, key=lambda stored: stored.entry.path)))


def _line(entries: Iterable[StoredEntry]) -> bytes:
    rows = [[e.entry.path, e.entry.kind.value, e.entry.mode, e.entry.object_id, e.size, e.mtime_ns] for e in entries]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _read(path: Path, *, lines: int) -> tuple[ManifestHeader, tuple[StoredEntry, ...]] | None:
    """Return the header and the entries of the first lines after it; the root comes first."""
    try:
        with path.open("rb") as stream:
            head = json.loads(stream.readline(_HEADER_LIMIT_BYTES))
            header, bodies = _header(head), [stream.readline() for _ in range(lines)]
        if header is None or [hashlib.sha256(body).hexdigest() for body in bodies] != head["lines"][:lines]:
            return None
        rows = [row for body in bodies for row in json.loads(body)]
        entries = tuple(StoredEntry(TreeEntry(path, _KINDS[kind], mode, object_id), size, mtime) for path, kind, mode, object_id, size, mtime in rows)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return None
    return (header, entries) if entries and not entries[0].entry.path else None


def _header(data: Any) -> ManifestHeader | None:
    if data["format"] != FORMAT:
        return None
    pointers = tuple(str(path) for path in data["lfsPointers"])
    return ManifestHeader(str(data["commit"]), str(data["tree"]), str(data["digest"]), int(data["files"]), int(data["bytes"]), pointers)
