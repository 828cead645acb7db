"""Writing a tree: links for what is unchanged, new files for the rest.

Owns the order of steps that makes an escape impossible: directories first, then files, symlinks last, each relative to an open directory and never
through a link. Writes into no file that existed before. Must not know of names that break the tree rules: the entries it is given keep them.
"""

import errno
import os
import stat
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from foundation.crash import crash_point
from gitops.object_reader import ObjectReader
from gitops.snapshot_disk import DirectoryCursor
from gitops.snapshot_manifest import Manifest, StoredEntry
from gitops.tree_rules import Kind, TreeEntry

FILE_MODES: Mapping[Kind, int] = {Kind.FILE: 0o444, Kind.EXECUTABLE: 0o555}
DIRECTORY_MODE = 0o555

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE_MODE = 0o700
# The file system cannot or will not link this file; it is written from its blob instead.
_UNLINKABLE = frozenset({errno.EMLINK, errno.EXDEV, errno.EPERM, errno.EACCES, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EOPNOTSUPP})


class ExportAbandoned(Exception):
    """The caller was cancelled; the half-written tree is to be removed."""


@dataclass(frozen=True, slots=True)
class Previous:
    """An earlier snapshot, open at `root`, whose unchanged files are shared."""

    root: int
    by_path: Mapping[str, StoredEntry]
    by_content: Mapping[tuple[str, Kind], StoredEntry]

    @classmethod
    def of(cls, root: int, manifest: Manifest) -> "Previous":
        """Index the manifest of the snapshot that is open at `root`."""
        files = [stored for stored in manifest.entries if stored.entry.kind in FILE_MODES]
        by_content = {(stored.entry.object_id, stored.entry.kind): stored for stored in files}
        return cls(root, {stored.entry.path: stored for stored in files}, by_content)

    def file_for(self, entry: TreeEntry) -> StoredEntry | None:
        """Return a file of the same blob and mode: the one at the same path if it is that, otherwise any (a renamed file)."""
        same = self.by_path.get(entry.path)
        if same is not None and same.entry.object_id == entry.object_id and same.entry.kind is entry.kind:
            return same
        return self.by_content.get((entry.object_id, entry.kind))


@dataclass(frozen=True, slots=True)
class TreeWriter:
    """Writes one tree into the empty directory open at `root`. `stop` ends it between two files. Entries come ordered by path.

    All methods raise OSError as the file system does, and ExportAbandoned when `stop` is set.
    """

    root: int
    stop: threading.Event = field(default_factory=threading.Event)

    def make_directories(self, entries: Sequence[TreeEntry]) -> None:
        """Make every directory of the tree, writable for now."""
        cursor = DirectoryCursor(self.root)
        try:
            for entry in entries:
                if entry.kind is Kind.DIRECTORY:
                    parent, name = _split(entry.path)
                    os.mkdir(name, _PRIVATE_MODE, dir_fd=cursor.at(parent))
        finally:
            cursor.close()

    def link_unchanged(self, entries: Sequence[TreeEntry], previous: Previous) -> dict[str, StoredEntry]:
        """Link the files that an earlier snapshot has; return them by path.

        A file whose size, mode or modification time is not what it was when its bytes were verified is not taken.
        """
        linked: dict[str, StoredEntry] = {}
        cursor = DirectoryCursor(self.root)
        try:
            for entry in (entry for entry in entries if entry.kind in FILE_MODES):
                source = previous.file_for(entry)
                if source is None:
                    continue
                self._check_stop()
                parent, name = _split(entry.path)
                if _link(previous.root, source, cursor.at(parent), name):
                    linked[entry.path] = StoredEntry(entry, source.size, source.mtime_ns)
        finally:
            cursor.close()
        return linked

    def write_files(self, entries: Sequence[TreeEntry], reader: ObjectReader) -> None:
        """Write each file from its blob, byte for byte, and make it read-only."""
        files = [entry for entry in entries if entry.kind in FILE_MODES]
        cursor = DirectoryCursor(self.root)
        try:
            for entry, content in zip(files, reader.stream([entry.object_id for entry in files]), strict=True):
                self._check_stop()
                crash_point("export.file")
                parent, name = _split(entry.path)
                mode = FILE_MODES[entry.kind]
                descriptor = os.open(name, _CREATE_FLAGS, mode, dir_fd=cursor.at(parent))
                try:
                    for chunk in content.chunks:
                        _write_all(descriptor, chunk)
                    os.fchmod(descriptor, mode)  # whatever the umask is
                finally:
                    os.close(descriptor)
        finally:
            cursor.close()

    def write_links(self, entries: Sequence[TreeEntry], reader: ObjectReader) -> None:
        """Make the symlinks. Last, so that no file was ever written through one."""
        links = [entry for entry in entries if entry.kind is Kind.SYMLINK]
        cursor = DirectoryCursor(self.root)
        try:
            for entry, content in zip(links, reader.stream([entry.object_id for entry in links]), strict=True):
                parent, name = _split(entry.path)
                os.symlink(b"".join(content.chunks), name, dir_fd=cursor.at(parent))
        finally:
            cursor.close()

    def seal(self, entries: Sequence[TreeEntry]) -> None:
        """Make every directory read-only, the root included."""
        cursor = DirectoryCursor(self.root)
        try:
            for entry in entries:
                if entry.kind is Kind.DIRECTORY:
                    os.fchmod(cursor.at(entry.path), DIRECTORY_MODE)
        finally:
            cursor.close()
        os.fchmod(self.root, DIRECTORY_MODE)

    def _check_stop(self) -> None:
        if self.stop.is_set():
            raise ExportAbandoned


def _link(source_root: int, source: StoredEntry, directory: int, name: str) -> bool:
    try:
        os.link(source.entry.path, name, src_dir_fd=source_root, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno in _UNLINKABLE:
            return False
        raise
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    as_verified = status.st_size == source.size and status.st_mtime_ns == source.mtime_ns
    if as_verified and status.st_mode == stat.S_IFREG | FILE_MODES[source.entry.kind]:
        return True
    os.unlink(name, dir_fd=directory)
    return False


def _write_all(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent, name
