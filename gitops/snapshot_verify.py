"""Verification: which git tree a directory on disk is.

Recomputes object ids from names, modes and bytes as they lie there, so it finds a torn write, a flipped bit, a missing or an added file alike.
Reads only; must not know where the expected ids come from.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from gitops.snapshot_disk import DIRECTORY_FLAGS
from gitops.snapshot_manifest import StoredEntry
from gitops.tree_rules import Kind, TreeEntry

_READ_BYTES = 1 << 20
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MODES = {Kind.FILE: "100644", Kind.EXECUTABLE: "100755", Kind.SYMLINK: "120000", Kind.DIRECTORY: "40000"}
# A Git LFS pointer is a text file of less than 1,024 bytes that begins so (git-lfs: docs/spec.md).
_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_POINTER_LIMIT_BYTES = 1024

Inode = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """What lies on disk: the id of the whole tree and every path in it (in no particular order)."""

    tree_id: str
    entries: tuple[StoredEntry, ...]


@dataclass(frozen=True, slots=True)
class Verification:
    """How to read a directory as a tree.

    `algorithm` is `sha1` or `sha256`. `expected` says how a path's mode is spelled in its tree object (old histories write `040000`). The bytes of
    `trusted` paths are not read again. `known` remembers blob ids by inode, over several snapshots that share files. `pointers` collects the ids of
    blobs that are Git LFS pointers.
    """

    algorithm: str
    expected: Mapping[str, TreeEntry]
    trusted: Mapping[str, StoredEntry] = field(default_factory=dict)
    known: dict[Inode, str] = field(default_factory=dict)
    pointers: set[str] = field(default_factory=set)

    def read(self, root: int) -> Found:
        """Read the directory open at `root` to its leaves.

        Raises:
            OSError: something in it cannot be read.
        """
        entries: list[StoredEntry] = []
        return Found(self._directory(root, "", entries), tuple(entries))

    def _directory(self, descriptor: int, path: str, entries: list[StoredEntry]) -> str:
        lines: list[tuple[bytes, bytes]] = []
        prefix = f"{path}/" if path else ""
        with os.scandir(descriptor) as found:
            names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        for name, is_directory in names:
            inner = prefix + name
            stored = self.trusted.get(inner)
            if stored is None:
                stored = self._subdirectory(descriptor, name, inner, entries) if is_directory else self._file(descriptor, name, inner)
            entries.append(stored)
            raw = os.fsencode(name)
            line = stored.entry.mode.encode() + b" " + raw + b"\0" + bytes.fromhex(stored.entry.object_id)
            lines.append((raw + b"/" if is_directory else raw, line))
        lines.sort()
        return self._object_id("tree", b"".join(line for _, line in lines))

    def _subdirectory(self, above: int, name: str, path: str, entries: list[StoredEntry]) -> StoredEntry:
        descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=above)
        try:
            object_id = self._directory(descriptor, path, entries)
        finally:
            os.close(descriptor)
        return StoredEntry(self._entry(path, Kind.DIRECTORY, object_id), 0, 0)

    def _file(self, above: int, name: str, path: str) -> StoredEntry:
        status = os.stat(name, dir_fd=above, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=above))
            return StoredEntry(self._entry(path, Kind.SYMLINK, self._object_id("blob", target)), len(target), status.st_mtime_ns)
        if not stat.S_ISREG(status.st_mode):
            return StoredEntry(TreeEntry(path, Kind.FILE, "0", "00" * hashlib.new(self.algorithm, usedforsecurity=False).digest_size), 0, 0)
        kind = Kind.EXECUTABLE if status.st_mode & stat.S_IXUSR else Kind.FILE
        inode = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        object_id = self.known.get(inode)
        if object_id is None:
            object_id = self.known[inode] = self._blob_id(above, name, status.st_size)
        return StoredEntry(self._entry(path, kind, object_id), status.st_size, status.st_mtime_ns)

    def _blob_id(self, above: int, name: str, size: int) -> str:
        descriptor = os.open(name, _READ_FLAGS, dir_fd=above)
        try:
            digest = hashlib.new(self.algorithm, b"blob %d\0" % size, usedforsecurity=False)
            start = b""
            while chunk := os.read(descriptor, _READ_BYTES):
                start = start or chunk[: len(_POINTER)]
                digest.update(chunk)
        finally:
            os.close(descriptor)
        object_id = digest.hexdigest()
        if start == _POINTER and size < _POINTER_LIMIT_BYTES:
            self.pointers.add(object_id)
        return object_id

    def _object_id(self, kind: str, content: bytes) -> str:
        return hashlib.new(self.algorithm, f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()

    def _entry(self, path: str, kind: Kind, object_id: str) -> TreeEntry:
        expected = self.expected.get(path)
        mode = expected.mode if expected is not None and expected.kind is kind else _MODES[kind]
        return TreeEntry(path, kind, mode, object_id)


def algorithm_of(object_id: str) -> str:
    """Return the name of the hash that made an object id: `sha1` for 40 digits, `sha256` for 64."""
    return "sha1" if len(object_id) == 40 else "sha256"  # noqa: PLR2004 - hexadecimal digits of a SHA-1


def first_difference(expected: Mapping[str, TreeEntry], found: Found) -> str:
    """Say where a directory differs from what it should be, in words for a message: `'a/b' is missing`, `'a/b' has other bytes`."""
    there = {stored.entry.path: stored.entry for stored in found.entries}
    for path, entry in sorted(expected.items()):
        other = there.get(path)
        if other is None:
            return f"'{path}' is missing"
        if entry.kind is not other.kind:
            return f"'{path}' is {_article(other)}, not {_article(entry)}"
        if entry.kind is not Kind.DIRECTORY and entry.object_id != other.object_id:
            return f"'{path}' has other bytes than its blob"
    extra = sorted(there.keys() - expected.keys())
    return f"'{extra[0]}' is not in the commit" if extra else "its tree id is another"


def _article(entry: TreeEntry) -> str:
    return "an executable" if entry.kind is Kind.EXECUTABLE else f"a {entry.kind.value}"
