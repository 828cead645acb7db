"""Reading a repository with dulwich: commits in words, refs in numbers, the paths between two commits.

Owns how git's bytes become text that a person or a status may hold. Opens nothing itself and writes nothing; every function blocks and belongs in a
thread. Must not know where repositories lie.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dulwich.diff_tree import tree_changes
from dulwich.objects import Commit, ObjectID, Tag
from dulwich.refs import Ref
from dulwich.repo import Repo

from gitops.errors import RefNotFound
from gitops.mirror_refs import BRANCHES, read_refs

MESSAGE_CHARACTERS = 200
NEWEST_REFS = 50
PASSED_OVER = 50
_PEEL_DEPTH = 16
_LATEST = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """A commit as a status shows it. `author` is `Name <email>`; `message` is the first line, at most 200 characters; `time` is the committer's."""

    commit: str
    author: str
    message: str
    time: datetime


@dataclass(frozen=True, slots=True)
class RefSummary:
    """How many branches and tags there are, and the newest of them as (full ref name, commit), newest commit first, 50 at most."""

    branches: int
    tags: int
    newest: list[tuple[str, str]]


def describe_commit(repository: Repo, commit: str) -> CommitSummary:
    """Say who made a commit, when, and what its message begins with. Characters that cannot be shown are replaced.

    Raises:
        RefNotFound: the repository holds no such commit.
    """
    found = read_commit(repository, commit)
    message = _text(found.message, found.encoding).strip().partition("\n")[0]
    return CommitSummary(
        commit=commit,
        author=printable(_text(found.author, found.encoding))[:MESSAGE_CHARACTERS],
        message=printable(message)[:MESSAGE_CHARACTERS],
        time=_time(found.commit_time),
    )


def summarise_refs(repository: Repo) -> RefSummary:
    """Count branches and tags and find the newest; tags are peeled. `refs/arena` is not among them."""
    names = [name for name in repository.refs.allkeys() if name.startswith((b"refs/heads/", b"refs/tags/"))]
    branches = sum(name.startswith(b"refs/heads/") for name in names)
    dated = (entry for name in names for entry in _dated(repository, name))
    newest = heapq.nlargest(NEWEST_REFS, dated, key=lambda entry: (entry[0], entry[1]))
    return RefSummary(branches=branches, tags=len(names) - branches, newest=[(name, commit) for _, name, commit in newest])


def branch_tips(repository: Repo) -> dict[str, str]:
    """Return the commit that each branch names, by the branch's full name, sorted."""
    refs = read_refs(Path(repository.path)).refs
    return {
        name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"): target
        for name, target in refs.items()
        if name.startswith(BRANCHES)
    }


def changed_paths(repository: Repo, old: str | None, new: str) -> list[str]:
    """Return the paths of files that differ between two commits, sorted; a file that moved counts at both places.

    When `old` is None, or a commit that the repository no longer holds (a forced push), every path of `new` is returned.

    Raises:
        RefNotFound: the repository does not hold `new`.
    """
    target = read_commit(repository, new).tree
    source: ObjectID | None = None
    if old is not None and ObjectID(old.encode()) in repository.object_store:
        source = read_commit(repository, old).tree
    paths: set[str] = set()
    for change in tree_changes(repository.object_store, source, target):
        sides = (change.old, change.new)
        paths.update(side.path.decode("utf-8", "backslashreplace") for side in sides if side is not None and side.path is not None)
    return sorted(paths)


def passed_over(repository: Repo, old: str, new: str) -> list[str]:
    """Return the commits between two, both left out, oldest first, along first parents: what a look at `new` after one at `old` never saw.

    At most 50, the newest ones; empty when `new` does not descend from `old` along first parents (a forced push).
    """
    between: list[str] = []
    commit = read_commit(repository, new)
    while commit.parents and len(between) <= PASSED_OVER:
        parent = commit.parents[0].decode("ascii")
        if parent == old:
            return between[::-1]
        between.append(parent)
        commit = read_commit(repository, parent)
    return between[:PASSED_OVER][::-1] if len(between) > PASSED_OVER else []


def read_commit(repository: Repo, commit: str) -> Commit:
    """Return the commit object of a full SHA.

    Raises:
        RefNotFound: there is no such object, or it is no commit.
    """
    try:
        found = repository.object_store[ObjectID(commit.encode("ascii"))]
    except (KeyError, ValueError, AssertionError) as error:
        raise RefNotFound(f"cannot find commit '{printable(commit)[:64]}': the repository does not hold it") from error
    if not isinstance(found, Commit):
        raise RefNotFound(f"cannot find commit '{commit}': the object is a {found.type_name.decode()}")
    return found


def printable(text: str) -> str:
    """Return `text` on one line that no terminal takes for a command: what cannot be printed is written as an escape."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def _dated(repository: Repo, name: Ref) -> Iterator[tuple[int, str, str]]:
    sha = repository.refs.read_loose_ref(name) or repository.refs.get_packed_refs().get(name)
    for _ in range(_PEEL_DEPTH):
        found = repository.object_store[ObjectID(sha)] if sha is not None and ObjectID(sha) in repository.object_store else None
        if isinstance(found, Tag):
            sha = found.object[1]
            continue
        if isinstance(found, Commit):
            yield found.commit_time, name.decode("utf-8", "backslashreplace"), (sha or b"").decode("ascii")
        return


def _text(data: bytes, encoding: bytes | None) -> str:
    try:
        return data.decode((encoding or b"utf-8").decode("ascii"), "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def _time(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return _LATEST
