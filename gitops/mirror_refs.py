"""The refs of a mirror: what it has, what a remote has that it can hold, and what to call the difference.

Reads refs as files and blocks. Must not know how refs come in.
"""

import os
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dulwich.refs import Ref, check_ref_format

from gitops.freshness import look_at_repository
from gitops.refs import ref_name_problem

ChangeKind = Literal["created", "deleted", "advanced", "forced", "moved-tag", "renamed", "default-moved"]

BRANCHES = "refs/heads/"
TAGS = "refs/tags/"
_OBJECT_ID = re.compile(r"(?!0+\Z)(?:[0-9a-f]{40}|[0-9a-f]{64})")
_SHA256 = re.compile(r"^\s*objectformat\s*=\s*sha256\s*$", re.IGNORECASE | re.MULTILINE)
_SYMBOLIC = re.compile(r"ref:\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class RefChange:
    """One ref that a fetch changed. `ref` is its full name; `old` and `new` are object ids, "" for none.

    `renamed`: a branch went and another one came at the same commit; `ref` is the new name, `was` the old. `default-moved`: the default branch is
    now `ref` and was `was`; `old` and `new` are their commits.
    """

    kind: ChangeKind
    ref: str
    old: str
    new: str
    was: str = ""


@dataclass(frozen=True, slots=True)
class MirrorRefs:
    """Branches and tags by full name, sorted; and what HEAD names, "" for no branch."""

    refs: Mapping[str, str]
    head: str


def read_refs(repository: Path) -> MirrorRefs:
    """Return the refs of a mirror, loose before packed ones, in one pass over the files: dulwich opens one a ref. Broken ones are left out.

    Raises:
        OSError: a file is there and cannot be read.
    """
    look_at_repository(repository)
    found = dict(_packed(repository / "packed-refs"))
    for folder in ("refs/heads", "refs/tags"):
        found.update(_loose(repository, folder))
    head = _SYMBOLIC.fullmatch(_text(repository / "HEAD"))
    return MirrorRefs(dict(sorted(found.items())), head[1] if head else "")


def object_format(repository: Path) -> str:
    """Return `sha1` or `sha256`, as the repository's configuration says."""
    return "sha256" if _SHA256.search(_text(repository / "config")) else "sha1"


def split_names(refs: Mapping[str, str], held_before: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Part a remote's refs into those that a mirror can hold, sorted by name, and the names of the others.

    `held_before` are the names that it has, which need no second look: of ten thousand refs a poll finds a few new ones.
    """
    held = {name: target for name, target in sorted(refs.items()) if name in held_before or ref_name_problem(name) is None}
    return held, sorted(refs.keys() - held.keys())


def excluded(names: Collection[str]) -> list[bytes]:
    """Return the refspecs that keep names out of a fetch; git itself drops what is no ref's name."""
    encoded = (name.encode("utf-8", "surrogateescape") for name in names)
    return [b"^" + name for name in encoded if check_ref_format(Ref(name)) and b"*" not in name]


def compare(before: MirrorRefs, after: MirrorRefs, forced: Collection[tuple[str, str]]) -> tuple[RefChange, ...]:
    """Name what a fetch changed, sorted by ref. `forced` are pairs of old and new that git called so."""
    old, new = before.refs, after.refs
    changes = [_moved(ref, old[ref], new[ref], forced) for ref in new if ref in old and old[ref] != new[ref]]
    gone = dict.fromkeys(ref for ref in old if ref not in new)
    left = _branches_at(gone, old)
    for ref in (ref for ref in new if ref not in old):
        names = left.get(new[ref]) if ref.startswith(BRANCHES) else None
        if names:
            was = names.popleft()
            del gone[was]
            changes.append(RefChange("renamed", ref, old[was], new[ref], was))
        else:
            changes.append(RefChange("created", ref, "", new[ref]))
    changes += [RefChange("deleted", ref, old[ref], "") for ref in gone]
    if old and before.head != after.head:
        changes.append(RefChange("default-moved", after.head, old.get(before.head, ""), new.get(after.head, ""), before.head))
    return tuple(sorted(changes, key=lambda change: (change.ref, change.kind)))


def _branches_at(names: Iterable[str], refs: Mapping[str, str]) -> Mapping[str, deque[str]]:
    """Return the branches among some names by the commit that they were at, in order."""
    found: dict[str, deque[str]] = {}
    for name in names:
        if name.startswith(BRANCHES):
            found.setdefault(refs[name], deque()).append(name)
    return found


def _moved(ref: str, old: str, new: str, forced: Collection[tuple[str, str]]) -> RefChange:
    if ref.startswith(TAGS):
        return RefChange("moved-tag", ref, old, new)
    return RefChange("forced" if (old, new) in forced else "advanced", ref, old, new)


def _packed(path: Path) -> Iterator[tuple[str, str]]:
    for line in _text(path).splitlines():
        target, _, name = line.partition(" ")
        if name.startswith((BRANCHES, TAGS)) and _OBJECT_ID.fullmatch(target):
            yield name, target


def _loose(repository: Path, folder: str) -> Iterator[tuple[str, str]]:
    for directory, _, files in os.walk(repository / folder):
        inner = directory[len(str(repository)) + 1 :]
        for file in files:
            # `.nfs…` is a removed file that somebody on this machine has open; no ref's name begins so.
            if not file.endswith(".lock") and not file.startswith("."):
                target = _text(Path(directory, file)).strip()
                if _OBJECT_ID.fullmatch(target):
                    yield f"{inner}/{file}", target


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""
