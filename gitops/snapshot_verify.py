"""Verification: which git tree a directory on disk is.

Recomputes object ids from names, modes and bytes as they lie there, so it finds a torn write, a flipped bit, a missing or an added file alike.
Reads only; must not know where the expected ids come from.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from gitops.snapshot_disk import DIRECTORY_FLAGS
from gitops.snapshot_manifest import StoredEntry
from gitops.tree_rules import Kind, TreeEntry

_READ_BYTES = 1 << 20
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # NONBLOCK: a named pipe is no file and must not be waited for
_HASHES = {"sha1": hashlib.sha1, "sha256": hashlib.sha256}
_MODES = {Kind.FILE: "100644", Kind.EXECUTABLE: "100755", Kind.SYMLINK: "120000", Kind.DIRECTORY: "40000"}
# A Git LFS pointer is a text file of less than 1,024 bytes that begins so (git-lfs: docs/spec.md).
_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_POINTER_LIMIT_BYTES = 1024

Inode = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """What lies on disk: the root, with the id of the whole tree, and every path in it (in no particular order)."""

    root: StoredEntry
    entries: tuple[StoredEntry, ...]

    @property
    def tree_id(self) -> str:
        """The id of the whole tree."""
        return self.root.entry.object_id


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

    def _directory(self, descriptor: int, path: str, entries: list[StoredEntry]) -> StoredEntry:
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
        object_id = self._object_id("tree", b"".join(line for _, line in lines))
        return StoredEntry(self._entry(path, Kind.DIRECTORY, object_id), 0, os.fstat(descriptor).st_mtime_ns)

    def _subdirectory(self, above: int, name: str, path: str, entries: list[StoredEntry]) -> StoredEntry:
        descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=above)
        try:
            return self._directory(descriptor, path, entries)
        finally:
            os.close(descriptor)

    def _file(self, above: int, name: str, path: str) -> StoredEntry:
        try:
            descriptor = os.open(name, _READ_FLAGS, dir_fd=above)
        except OSError as error:
            if error.errno == errno.ELOOP:  # O_NOFOLLOW met a symlink
                return self._symlink(above, name, path)
            if error.errno == errno.ENXIO:  # a socket
                return self._no_file(path)
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return self._no_file(path)
            inode = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            object_id = self.known.get(inode)
            if object_id is None:
                object_id = self.known[inode] = self._blob_id(descriptor, status.st_size)
        finally:
            os.close(descriptor)
        kind = Kind.EXECUTABLE if status.st_mode & stat.S_IXUSR else Kind.FILE
        return StoredEntry(self._entry(path, kind, object_id), status.st_size, status.st_mtime_ns)

    def _no_file(self, path: str) -> StoredEntry:
        return StoredEntry(TreeEntry(path, Kind.FILE, "0", "00" * self._hash().digest_size), 0, 0)

    def _symlink(self, above: int, name: str, path: str) -> StoredEntry:
        target = os.fsencode(os.readlink(name, dir_fd=above))
        return StoredEntry(self._entry(path, Kind.SYMLINK, self._object_id("blob", target)), len(target), 0)

    def _blob_id(self, descriptor: int, size: int) -> str:
        digest = self._hash(b"blob %d\0" % size)
        start, left = b"", size
        while chunk := os.read(descriptor, min(left + 1, _READ_BYTES)):  # one byte more than expected: a file that has grown shows
            start = start or chunk[: len(_POINTER)]
            digest.update(chunk)
            left -= len(chunk)
            if left == 0 and size < _READ_BYTES:
                break
        object_id = digest.hexdigest()
        if start == _POINTER and size < _POINTER_LIMIT_BYTES:
            self.pointers.add(object_id)
        return object_id

    def _hash(self, data: bytes = b"") -> "hashlib._Hash":
        return _HASHES[self.algorithm](data, usedforsecurity=False)

    def _object_id(self, kind: str, content: bytes) -> str:
        return self._hash(f"{kind} {len(content)}\0".encode() + content).hexdigest()

    def _entry(self, path: str, kind: Kind, object_id: str) -> TreeEntry:
        expected = self.expected.get(path)
        if expected is None or expected.kind is not kind:
            return TreeEntry(path, kind, _MODES[kind], object_id)
        return expected if expected.object_id == object_id else TreeEntry(path, kind, expected.mode, object_id)


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
