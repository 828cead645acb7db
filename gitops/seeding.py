"""The first commit of a hosted repository, made from files.

Owns how a mapping of paths to bytes becomes a tree and a commit. The same files, author and time always give the same commit, so a seed that
was killed is repeated without a trace. Blocks; belongs in a thread. Must not know where the files come from.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from dulwich.object_format import ObjectFormat
from dulwich.objects import ZERO_SHA, Blob, Commit, ObjectID, ShaFile, Tree
from dulwich.refs import Ref
from dulwich.repo import Repo

from foundation.crash import crash_point
from foundation.files import sync_directory
from gitops.content import is_full_commit
from gitops.errors import SeedFailed
from gitops.tree_names import shown
from gitops.tree_rules import SnapshotLimits, read_tree

MAIN = Ref(b"refs/heads/main")
SEED_TIME = datetime(2000, 1, 1, tzinfo=UTC)
SEED_MESSAGE = b"Seed the project\n"
_FILE_MODE = 0o100644
_TREE_MODE = 0o040000


def seed_main(repository: Repo, files: Mapping[str, bytes], *, author: str, time: datetime) -> str:
    """Make the first commit of main unless main exists, and return main's commit.

    Objects are durable before the ref names them; the ref is written by compare-and-swap, so of two seeds and a push exactly one wins.

    Raises:
        SeedFailed: the files make no tree that a snapshot may hold, or the ref was refused.
    """
    existing = read_main(repository)
    if existing is not None:
        return existing
    objects = _Objects(repository.object_format)
    tree = _add_tree(files, objects)
    _check(objects, tree)
    commit = objects.add(_commit(tree, author, time))
    crash_point("seed.checked")
    store = repository.object_store
    store.fsync_object_files = True
    store.add_objects([(found, None) for found in objects.found.values()])
    sync_directory(Path(os.fsdecode(repository.controldir())) / "objects" / "pack")
    crash_point("seed.objects_written")
    repository.refs.set_if_equals(MAIN, ZERO_SHA, commit)
    crash_point("seed.ref_written")
    winner = read_main(repository)
    if winner is None:
        raise SeedFailed("cannot seed the repository: its main branch could not be written")
    return winner


def read_main(repository: Repo) -> str | None:
    """Return the commit of main; None before the first."""
    value = repository.refs.read_ref(MAIN)
    return value.decode("ascii") if value else None


def read_ref_file(path: Path) -> str | None:
    """Return the commit that a ref's own file names; None when there is none or it names another ref."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if is_full_commit(text) else None


class _Objects:
    """The objects of a commit in memory, by id: what the tree rules read and the store writes."""

    def __init__(self, object_format: ObjectFormat) -> None:
        self.found: dict[ObjectID, ShaFile] = {}
        self._format = object_format

    def add(self, made: ShaFile) -> ObjectID:
        object_id = ObjectID(made.get_id(self._format))
        self.found[object_id] = made
        return object_id

    def contents(self, object_ids: Sequence[str], *, limit_bytes: int) -> Iterator[bytes | None]:
        for object_id in object_ids:
            raw = self.found[ObjectID(object_id.encode("ascii"))].as_raw_string()
            yield raw if len(raw) <= limit_bytes else None


def _add_tree(files: Mapping[str, bytes], objects: _Objects) -> ObjectID:
    folders: dict[str, dict[str, bytes]] = {}
    tree = Tree()
    for path in sorted(files):
        head, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(head, {})[rest] = files[path]
        else:
            tree.add(head.encode("utf-8", "surrogateescape"), _FILE_MODE, objects.add(Blob.from_string(files[path])))
    for name, inner in folders.items():
        if name in files:
            raise SeedFailed(f"cannot seed the repository: '{shown(name)}' is both a file and a directory")
        tree.add(name.encode("utf-8", "surrogateescape"), _TREE_MODE, _add_tree(inner, objects))
    return objects.add(tree)


def _check(objects: _Objects, tree: ObjectID) -> None:
    reading = read_tree(objects, tree.decode("ascii"), SnapshotLimits())
    if reading.violations:
        raise SeedFailed(f"cannot seed the repository: {reading.violations[0].cause}", hint="change the keys or paths of the seed")


def _commit(tree: ObjectID, author: str, time: datetime) -> Commit:
    name = author if "<" in author else f"{author} <>"
    commit = Commit()
    commit.tree = tree
    commit.author = commit.committer = name.replace("\n", " ").encode()
    commit.author_time = commit.commit_time = int(time.timestamp())
    commit.author_timezone = commit.commit_timezone = 0
    commit.encoding = b"UTF-8"
    commit.message = SEED_MESSAGE
    return commit
