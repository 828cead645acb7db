"""The manifest of a snapshot: what was verified when it appeared.

Owns the file `versions/.manifests/<commit>.jsonl`, which lies outside the snapshot so that the snapshot holds the commit's files and nothing else.
Its first line is a header small enough to be read at each look; the second, whose hash the header has, holds every path with the size and modification time that its file
had when its bytes were checked, so that an unchanged file can be linked without reading it again.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from foundation.files import write_file
from gitops.tree_rules import Kind, TreeEntry

FORMAT = 1

_KINDS = {kind.value: kind for kind in Kind}
_HEADER_LIMIT_BYTES = 8 << 20  # the LFS pointers are listed in it


@dataclass(frozen=True, slots=True)
class ManifestHeader:
    """What a look at a snapshot needs. `digest` is `sha256:` and the hash of every file's mode, blob id and path; `bytes` counts all files in full."""

    commit: str
    tree: str
    digest: str
    files: int
    bytes: int
    lfs_pointers: tuple[str, ...]


class StoredEntry(NamedTuple):
    """One path as it lies on disk. `size` and `mtime_ns` are 0 for a directory. A tuple, as TreeEntry is one."""

    entry: TreeEntry
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """A header and every entry, directories included, ordered by path."""

    header: ManifestHeader
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
    rows = [[e.entry.path, e.entry.kind.value, e.entry.mode, e.entry.object_id, e.size, e.mtime_ns] for e in manifest.entries]
    body = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    head["entries"] = hashlib.sha256(body).hexdigest()
    write_file(path, json.dumps(head, ensure_ascii=False).encode() + b"\n" + body)


def read_header(path: Path) -> ManifestHeader | None:
    """Return the header of the manifest at `path`; None when there is none or it cannot be understood."""
    try:
        with path.open("rb") as stream:
            return _header(json.loads(stream.readline(_HEADER_LIMIT_BYTES)))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return None


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest at `path`; None when there is none or it cannot be understood."""
    try:
        with path.open("rb") as stream:
            head = json.loads(stream.readline(_HEADER_LIMIT_BYTES))
            header, body = _header(head), stream.readline()
        if header is None or hashlib.sha256(body).hexdigest() != head["entries"]:
            return None
        rows = json.loads(body)
        entries = tuple(StoredEntry(TreeEntry(path, _KINDS[kind], mode, object_id), size, mtime) for path, kind, mode, object_id, size, mtime in rows)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return None
    return Manifest(header, entries)


def _header(data: Any) -> ManifestHeader | None:
    if data["format"] != FORMAT:
        return None
    pointers = tuple(str(path) for path in data["lfsPointers"])
    return ManifestHeader(str(data["commit"]), str(data["tree"]), str(data["digest"]), int(data["files"]), int(data["bytes"]), pointers)
