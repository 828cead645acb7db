"""The snapshots of one project on disk.

Owns the directory `versions/`: `<commit>/` (a snapshot), `.manifests/<commit>.jsonl` (what was verified), `.tmp-*` (being written, or left by a
killed export), `.trash/` and `.quarantine/`. Blocking, and everything that changes something needs the project's lock. Must not know which
commits are needed.
"""

import itertools
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from foundation.crash import crash_point
from foundation.files import TEMPORARY_PREFIX, sync_directory
from gitops.content import is_full_commit
from gitops.freshness import look_at
from gitops.snapshot_disk import remove_tree, set_aside
from gitops.snapshot_manifest import ManifestHeader, StoredEntry, read_header, read_manifest, read_outline
from gitops.tree_rules import Kind

_MANIFEST_SUFFIX = ".jsonl"


class SnapshotStore:
    """One project's `versions/` directory, which need not exist yet."""

    def __init__(self, versions: Path) -> None:
        self.versions = versions
        self._manifests = versions / ".manifests"
        self._trash = versions / ".trash"
        self._quarantine = versions / ".quarantine"

    def snapshot(self, commit: str) -> Path:
        """Return the directory of a commit's snapshot."""
        return self.versions / commit

    def manifest(self, commit: str) -> Path:
        """Return the manifest file of a commit's snapshot."""
        return self._manifests / f"{commit}{_MANIFEST_SUFFIX}"

    def header(self, commit: str) -> ManifestHeader | None:
        """Return the header of a snapshot that is there, with its manifest, and in which no name came or went; None otherwise.

        Reads two lines and looks at the directories, at no file.
        """
        look_at(self.versions)
        look_at(self._manifests)
        outline = read_outline(self.manifest(commit))
        if outline is None or outline.header.commit != commit or not outline.fits(self.snapshot(commit)):
            return None
        return outline.header

    def is_present(self, commit: str) -> bool:
        """Say whether the snapshot's directory is there, with or without a manifest."""
        path = self.snapshot(commit)
        return path.is_dir() and not path.is_symlink()

    def prepare(self) -> None:
        """Make the directories, and remove what killed exports left. Idempotent."""
        self._manifests.mkdir(parents=True, exist_ok=True)
        for directory in (self.versions, self._manifests):
            for path in directory.glob(f"{TEMPORARY_PREFIX}*"):
                remove_tree(path)

    def temporary(self, commit: str) -> Path:
        """Make and return an empty directory beside the snapshots; `prepare` removes it if nobody else does."""
        path = self.versions / f"{TEMPORARY_PREFIX}{commit[:12]}-{os.getpid()}-{secrets.token_hex(4)}"
        path.mkdir(mode=0o700)
        return path

    def commits(self) -> list[str]:
        """Return the commits of all snapshots, the newest export first. One without a manifest counts as the oldest."""
        names = self._names(self.versions, "")
        aged = [(self._exported_ns(name), name) for name in names if self.is_present(name)]
        return [name for _, name in sorted(aged, reverse=True)]

    def newest(self, count: int) -> list[ManifestHeader]:
        """Return the headers of the newest snapshots that have one, the newest first."""
        headers = (read_header(self.manifest(commit)) for commit in self.commits())
        return list(itertools.islice((header for header in headers if header is not None), count))

    def discard(self, commits: Iterable[str]) -> None:
        """Take snapshots out of sight, durably; `empty_trash` removes them. Manifests without a snapshot go too."""
        for commit in commits:
            self.manifest(commit).unlink(missing_ok=True)
            if self.is_present(commit):
                set_aside(self.snapshot(commit), self._trash)
            crash_point("prune.set_aside")
        present = set(self.commits())
        for commit in self._names(self._manifests, _MANIFEST_SUFFIX):
            if commit not in present:
                self.manifest(commit).unlink(missing_ok=True)
        if self._trash.exists():
            sync_directory(self.versions)

    def quarantine(self, commit: str) -> Path:
        """Set a snapshot that does not verify aside for a person to look at, in place of the one before; return where it is."""
        self.manifest(commit).unlink(missing_ok=True)
        if self._quarantine.exists():
            set_aside(self._quarantine, self._trash)
        path = set_aside(self.snapshot(commit), self._quarantine)
        sync_directory(self.versions)
        return path

    def empty_trash(self) -> None:
        """Remove what was discarded. Needs no lock: several processes may do it at once, while another discards more."""
        if self._trash.is_dir():
            for path in self._trash.iterdir():
                crash_point("prune.discarded")
                remove_tree(path)

    def stored_bytes(self) -> int:
        """Return the bytes of all files of all snapshots, each content counted once, since snapshots share what is equal."""
        sizes: dict[tuple[str, Kind], int] = {}
        for commit in self.commits():
            manifest = read_manifest(self.manifest(commit))
            for stored in manifest.entries if manifest is not None else ():
                sizes[_content(stored)] = stored.size
        return sum(sizes.values())

    def _exported_ns(self, commit: str) -> int:
        try:
            return self.manifest(commit).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _names(self, directory: Path, suffix: str) -> list[str]:
        try:
            names = os.listdir(directory)  # noqa: PTH208 - names, not paths
        except FileNotFoundError:
            return []
        return [name.removesuffix(suffix) for name in names if name.endswith(suffix) and is_full_commit(name.removesuffix(suffix))]


def _content(stored: StoredEntry) -> tuple[str, Kind]:
    return stored.entry.object_id, stored.entry.kind
