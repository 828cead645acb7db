"""Commits that git itself would not make, forged with dulwich."""

from collections.abc import Sequence
from pathlib import Path

from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree
from dulwich.repo import Repo

IDENTITY = b"Jane <jane@example.com>"
FILE, EXECUTABLE, LINK, FOLDER, MODULE = b"100644", b"100755", b"120000", b"40000", b"160000"
Entry = tuple[bytes, bytes, bytes]


class Forge:
    """Writes objects straight into a repository."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository

    def blob(self, content: bytes) -> bytes:
        """Store a blob and return its id."""
        return self._add(Blob.from_string(content))

    def tree(self, *entries: Entry) -> bytes:
        """Store a tree of (mode, name, id) exactly as given and return its id."""
        raw = b"".join(mode + b" " + name + b"\0" + bytes.fromhex(object_id.decode()) for mode, name, object_id in entries)
        return self._add(ShaFile.from_raw_string(Tree.type_num, raw))

    def commit(self, tree: bytes, parents: Sequence[str] = ()) -> str:
        """Store a commit of a tree and return its id."""
        commit = Commit()
        commit.tree = ObjectID(tree)
        commit.parents = [ObjectID(parent.encode()) for parent in parents]
        commit.author = commit.committer = IDENTITY
        commit.author_time = commit.commit_time = 1_700_000_000
        commit.author_timezone = commit.commit_timezone = 0
        commit.message = b"forged\n"
        return self._add(commit).decode()

    def raw_commit(self, raw: bytes) -> str:
        """Store a commit of exactly these bytes and return its id."""
        return self._add(ShaFile.from_raw_string(Commit.type_num, raw)).decode()

    def _add(self, made: ShaFile) -> bytes:
        repository = Repo(self._repository)
        try:
            repository.object_store.add_object(made)
        finally:
            repository.close()
        return bytes(made.id)
