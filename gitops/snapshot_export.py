"""The export of one commit, and the check of one snapshot.

Owns the order that makes a snapshot appear whole or not at all: read and check the tree, link and write under a temporary name, recompute the tree
id from what lies on disk, make it durable, write the manifest, rename, make the rename durable. Blocking; the caller holds the project's lock.
Must not know who asks.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from foundation.crash import crash_point
from foundation.files import sync_directory
from gitops.errors import GitFailed, RefNotFound, SnapshotUnexportable, StorageFailed, UnknownProject
from gitops.object_reader import ObjectReader
from gitops.snapshot_disk import open_directory, remove_tree, sync_file_system
from gitops.snapshot_manifest import Manifest, ManifestHeader, StoredEntry, digest_of, read_manifest, write_manifest
from gitops.snapshot_nearest import nearest
from gitops.snapshot_store import SnapshotStore
from gitops.snapshot_verify import Found, Inode, Verification, algorithm_of, first_difference
from gitops.snapshot_writer import ExportAbandoned, Previous, TreeWriter
from gitops.storage_errors import storage_failure
from gitops.tree_rules import Kind, KnownTree, SnapshotLimits, TreeEntry, read_tree, size_violation

NEAREST_OF = 8
"""Among so many of the newest snapshots the nearest is looked for."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A snapshot that is there: its header, and how many files this call wrote (not linked)."""

    header: ManifestHeader
    written: int


@dataclass(frozen=True, slots=True)
class Export:
    """One commit of one project, to be exported into `store`. `stop` abandons it between two files."""

    store: SnapshotStore
    repository: Path
    project: str
    commit: str
    limits: SnapshotLimits
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Exported:
        """Export the commit unless it is there.

        Raises:
            UnknownProject: there is no repository.
            RefNotFound: the repository does not hold the commit.
            SnapshotUnexportable: the tree breaks a rule; the message names the path and the remedy.
            StorageFailed: the volume or the repository cannot be read or written. Nothing has appeared.
        """
        try:
            self.store.prepare()
            header = self.store.header(self.commit)
            return Exported(header, 0) if header is not None else self._from_repository()
        except GitFailed as error:
            raise StorageFailed(f"{self._cannot}: {error.message}", hint=error.hint) from error
        except OSError as error:
            raise storage_failure(self._cannot, error) from error

    @property
    def _cannot(self) -> str:
        return f"cannot export commit {self.commit[:12]} of project '{self.project}'"

    def _from_repository(self) -> Exported:
        if not self.repository.is_dir():
            raise UnknownProject(f"{self._cannot}: it has no repository")
        with ObjectReader(self.repository) as reader:
            tree = self._tree_of_commit(reader)
            previous = self._nearest(tree)
            known = None if previous is None else KnownTree(previous.header.tree, [stored.entry for stored in previous.entries])
            reading = read_tree(reader, tree, self.limits, known)
            if reading.violations:
                first, more = reading.violations[0], len(reading.violations) - 1
                hint = f"{more} more: {'; '.join(v.cause for v in reading.violations[1:4])}" if more else ""
                raise SnapshotUnexportable(f"{self._cannot}: {first}", hint=hint, path=first.path)
            if self.store.is_present(self.commit):
                adopted = self._adopt(tree, reading.entries)
                if adopted is not None:
                    return adopted
            return self._write(reader, _Plan(tree, reading.entries, previous))

    def _nearest(self, tree: str) -> Manifest | None:
        """Return the snapshot to share files with: of the newest ones that which differs least, otherwise the newest that can be read."""
        newest = self.store.newest(NEAREST_OF + 1)
        headers = [header for header in newest if header.commit != self.commit][:NEAREST_OF]  # a damaged one of its own is no source
        if headers:
            headers.insert(0, headers.pop(self._nearest_of([header.tree for header in headers], tree)))
        manifests = (read_manifest(self.store.manifest(header.commit)) for header in headers if self.store.is_present(header.commit))
        return next((manifest for manifest in manifests if manifest is not None), None)

    def _nearest_of(self, trees: Sequence[str], tree: str) -> int:
        if tree in trees or len(set(trees)) == 1:
            return trees.index(tree) if tree in trees else 0
        try:
            with ObjectReader(self.repository) as reader:  # its own, since a tree that is missing leaves it amid an answer
                return nearest(reader, tree, trees)
        except GitFailed:
            return 0

    def _tree_of_commit(self, reader: ObjectReader) -> str:
        found = reader.kind(self.commit)
        if found is None or found[0] != self.commit:
            raise RefNotFound(f"{self._cannot}: the repository does not hold it", hint="push the commit again, or choose another ref")
        if found[1] != "commit":
            raise RefNotFound(f"{self._cannot}: it is a {found[1]}, not a commit")
        tree = reader.kind(f"{self.commit}^{{tree}}")
        if tree is None:
            raise GitFailed("the commit's tree is missing from the repository", hint="run `git fsck` on the repository")
        return tree[0]

    def _adopt(self, tree: str, entries: Sequence[TreeEntry]) -> Exported | None:
        """Take a directory without a manifest for the snapshot if it verifies in full; otherwise set it aside."""
        check = Verification(algorithm_of(tree), {entry.path: entry for entry in entries})
        with open_directory(self.store.snapshot(self.commit)) as root:
            found = check.read(root)
        if found.tree_id != tree:
            self.store.quarantine(self.commit)
            return None
        return self._record(Manifest(self._header(tree, found, check.pointers), found.root, _ordered(found)), written=0)

    def _write(self, reader: ObjectReader, plan: "_Plan") -> Exported:
        temporary = self.store.temporary(self.commit)
        try:
            with open_directory(temporary) as root:
                manifest, written = self._fill(reader, plan, root)
                crash_point("export.written")
                sync_file_system(root)
            crash_point("export.synced")
            write_manifest(self.store.manifest(self.commit), manifest)
            crash_point("export.recorded")
            temporary.rename(self.store.snapshot(self.commit))
        except BaseException:
            with suppress(OSError):  # what stopped the export may stop this too; the next one sweeps
                remove_tree(temporary)
            raise
        crash_point("export.renamed")
        sync_directory(self.store.versions)
        return Exported(manifest.header, written)

    def _fill(self, reader: ObjectReader, plan: "_Plan", root: int) -> tuple[Manifest, int]:
        self._check_size(reader, plan)
        writer = TreeWriter(root, self.stop)
        writer.make_directories(plan.entries)
        linked = self._link(writer, plan)
        missing = [entry for entry in plan.entries if entry.path not in linked and entry.kind is not Kind.DIRECTORY]
        writer.write_files(missing, reader)
        writer.write_links(missing, reader)
        check = Verification(algorithm_of(plan.tree), {entry.path: entry for entry in plan.entries}, linked)
        found = check.read(root)
        if found.tree_id != plan.tree:
            raise StorageFailed(
                f"{self._cannot}: what was written reads back differently, {first_difference(check.expected, found)}",
                hint="check the content volume and run `git fsck` on the repository",
            )
        writer.seal(plan.entries)
        pointers = check.pointers | _known_pointers(plan.previous)
        return Manifest(self._header(plan.tree, found, pointers), found.root, _ordered(found)), len(missing)

    def _link(self, writer: TreeWriter, plan: "_Plan") -> dict[str, StoredEntry]:
        if plan.previous is None:
            return {}
        with open_directory(self.store.snapshot(plan.previous.header.commit)) as source:
            return writer.link_unchanged(plan.entries, Previous.of(source, plan.previous))

    def _check_size(self, reader: ObjectReader, plan: "_Plan") -> None:
        sizes = {stored.entry.object_id: stored.size for stored in plan.previous.entries} if plan.previous is not None else {}
        unknown = list({entry.object_id for entry in plan.entries if entry.kind is not Kind.DIRECTORY} - sizes.keys())
        sizes.update(zip(unknown, reader.sizes(unknown), strict=True))
        violation = size_violation(plan.entries, sizes, self.limits)
        if violation is not None:
            raise SnapshotUnexportable(f"{self._cannot}: {violation}", path=violation.path)

    def _header(self, tree: str, found: Found, pointers: set[str]) -> ManifestHeader:
        files = [stored for stored in _ordered(found) if stored.entry.kind is not Kind.DIRECTORY]
        lfs = tuple(stored.entry.path for stored in files if stored.entry.object_id in pointers)
        digest = digest_of(stored.entry for stored in files)
        return ManifestHeader(self.commit, tree, digest, len(files), sum(stored.size for stored in files), lfs)

    def _record(self, manifest: Manifest, *, written: int) -> Exported:
        write_manifest(self.store.manifest(self.commit), manifest)
        return Exported(manifest.header, written)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be written: the tree, its entries, and the snapshot to share files with."""

    tree: str
    entries: Sequence[TreeEntry]
    previous: Manifest | None


def fault_of(store: SnapshotStore, commit: str, known: dict[Inode, str]) -> str:
    """Read a snapshot in full and say where it is not what its manifest says; "" when it is. `known` carries blob ids from one snapshot to the next.

    Raises:
        OSError: it cannot be read, which says nothing about it.
    """
    manifest = read_manifest(store.manifest(commit))
    if manifest is None or manifest.header.commit != commit:
        return "its manifest is missing or damaged"
    expected = {stored.entry.path: stored.entry for stored in manifest.entries}
    check = Verification(algorithm_of(manifest.header.tree), expected, known=known)
    with open_directory(store.snapshot(commit)) as root:
        found = check.read(root)
    if found.tree_id != manifest.header.tree:
        return first_difference(expected, found)
    return "" if digest_of(s.entry for s in found.entries) == manifest.header.digest else "its manifest has the digest of another"


def _ordered(found: Found) -> tuple[StoredEntry, ...]:
    return tuple(sorted(found.entries, key=lambda stored: stored.entry.path))


def _known_pointers(manifest: Manifest | None) -> set[str]:
    if manifest is None or not manifest.header.lfs_pointers:
        return set()
    paths = set(manifest.header.lfs_pointers)
    return {stored.entry.object_id for stored in manifest.entries if stored.entry.path in paths}


__all__ = ["Export", "ExportAbandoned", "Exported", "fault_of"]
