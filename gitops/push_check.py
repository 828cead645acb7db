"""The check of a push in its quarantine, before any ref moves.

Owns which new object may enter: every new blob by its size, every new tree by its names and modes, and the trees that refs will name by all the rules
of an export (`tree_rules`). Older commits of a history may hold what no snapshot could: they harm nobody until somebody wants to run them.
Blocks; belongs in a thread. Must not know how the push arrived.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gitops.errors import GitFailed, PushRefused
from gitops.object_reader import ObjectReader
from gitops.processes import GitCommand, git_environment, git_program
from gitops.push_policy import BRANCHES, PushPolicy
from gitops.tree_names import PLAIN_NAME, name_problem, shown
from gitops.tree_rules import Kind, KnownTree, TreeEntry, parse_tree, read_tree, size_violation

_TREE_LIMIT_BYTES = 16 << 20
# Modes that git has ever written; 100664 is one of its childhood and only refused in the tree that main names.
_MODES = frozenset({0o100644, 0o100755, 0o100664, 0o120000, 0o040000, 0o160000})
_AGAIN = "then push again"
_INDEX_MAGIC = b"\xfftOc\0\0\0\x02"
_INDEX_IDS = 8 + 256 * 4
# Nearly every tree has nothing but plain names and usual modes, by the length of the ids in hexadecimal: one match instead of a look at each entry.
_PLAIN_TREES = {digits: re.compile(rb"(?>(?:100644|40000|100755|120000) %s\0(?s:.{%d}))*+" % (PLAIN_NAME, digits // 2)) for digits in (40, 64)}


class NewObject(NamedTuple):
    """One object of a quarantine. A tuple, since a push has thousands."""

    object_id: str
    kind: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Where the new objects of one push lie, and which object each ref shall name; refs that are deleted are left out."""

    repository: Path
    objects: Path | None
    tips: Mapping[str, str]
    timeout_s: float = 60.0

    @property
    def environment(self) -> dict[str, str]:
        """What lets a git process see new and old objects together."""
        if self.objects is None:
            return {}
        return {"GIT_OBJECT_DIRECTORY": str(self.objects), "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.repository / "objects")}


def check_push(quarantine: Quarantine, policy: PushPolicy) -> None:
    """Check all that a push brings.

    Raises:
        PushRefused: the message names the path and the remedy.
        GitFailed: the objects cannot be read; the push must be refused.
    """
    if not quarantine.tips:
        return
    with ObjectReader(quarantine.repository, environment=quarantine.environment, timeout_s=quarantine.timeout_s) as reader:
        new = [NewObject(*header) for header in reader.headers(_new_ids(quarantine))]
        _check_blobs(quarantine, new, policy)
        _check_trees(quarantine, reader, new)
        _check_tips(reader, quarantine.tips, new, policy)


def _new_ids(quarantine: Quarantine) -> list[str]:
    """List the objects of the quarantine from the indexes of its packs, which index-pack wrote a moment ago, and from its loose files."""
    if quarantine.objects is None:
        return []
    id_bytes = len(next(iter(quarantine.tips.values()))) // 2
    found = [object_id for index in sorted(quarantine.objects.glob("pack/*.idx")) for object_id in _indexed(index.read_bytes(), id_bytes)]
    return found + [f"{path.parent.name}{path.name}" for path in quarantine.objects.glob("[0-9a-f][0-9a-f]/*")]


def _indexed(index: bytes, id_bytes: int) -> Iterator[str]:
    """Yield the object ids of a pack index (gitformat-pack, version 2: magic, version, 256 running counts, sorted ids)."""
    if not index.startswith(_INDEX_MAGIC):
        raise GitFailed("cannot check the push: the index of its pack is of no known version")
    count = int.from_bytes(index[_INDEX_IDS - 4 : _INDEX_IDS], "big")
    digits, text = 2 * id_bytes, index[_INDEX_IDS : _INDEX_IDS + count * id_bytes].hex()
    for start in range(0, len(text), digits):
        yield text[start : start + digits]


def _check_blobs(quarantine: Quarantine, new: Sequence[NewObject], policy: PushPolicy) -> None:
    largest = max((found for found in new if found.kind == "blob"), key=lambda found: found.size_bytes, default=None)
    if largest is None or largest.size_bytes <= policy.max_blob_bytes:
        return
    path = _path_of(quarantine, largest.object_id)
    cause = f"file '{shown(path)}' has {largest.size_bytes} bytes, more than the limit of {policy.max_blob_bytes}"
    raise PushRefused(f"cannot accept the push: {cause}", hint=f"take it out of every new commit, {_AGAIN}", path=path)


def _check_trees(quarantine: Quarantine, reader: ObjectReader, new: Sequence[NewObject]) -> None:
    trees = [found for found in new if found.kind == "tree"]
    for found in trees:
        if found.size_bytes > _TREE_LIMIT_BYTES:
            path = _path_of(quarantine, found.object_id)
            cause = f"directory '{shown(path)}' holds too many entries"
            raise PushRefused(f"cannot accept the push: {cause}", hint=f"split it up, {_AGAIN}", path=path)
    ids = [found.object_id for found in trees]
    for object_id, raw in zip(ids, reader.contents(ids, limit_bytes=_TREE_LIMIT_BYTES), strict=True):
        if raw is not None and _PLAIN_TREES[len(object_id)].fullmatch(raw) is not None:
            continue
        problem = _entry_problem(raw or b"", id_bytes=len(object_id) // 2)
        if problem is not None:
            name, cause, remedy = problem
            folder = _path_of(quarantine, object_id)
            path = f"{folder}/{shown(name)}" if folder else shown(name)
            raise PushRefused(f"cannot accept the push: '{shown(path)}' {cause}", hint=f"{remedy} in every new commit, {_AGAIN}", path=path)


def _entry_problem(raw: bytes, *, id_bytes: int) -> tuple[bytes, str, str] | None:
    try:
        for mode, name, _ in parse_tree(raw, id_bytes):
            problem = name_problem(name)
            # Old histories hold names in other encodings; a clone gets them as they are, and only an export has to read them.
            if problem is not None and problem != "is not UTF-8":
                return name, f"is a forbidden name: it {problem}", "rename it"
            if int(mode, 8) not in _MODES:
                return name, f"has mode {shown(mode)}, which is none of 100644, 100755, 120000 and 40000", "add it again with a current git"
    except ValueError:
        return b"", "is in a tree that is not well-formed", "rewrite it"
    return None


def _check_tips(reader: ObjectReader, tips: Mapping[str, str], new: Sequence[NewObject], policy: PushPolicy) -> None:
    known: KnownTree | None = None
    # Of many refs that name one object, one is enough to look at.
    named = {(object_id, ref.startswith(BRANCHES)): ref for ref, object_id in tips.items()}
    for (object_id, _), ref in named.items():
        tree = reader.kind(f"{object_id}^{{tree}}")
        if tree is not None:
            known = _check_tip(reader, tree[0], (object_id, new, known), policy)
        elif ref.startswith(BRANCHES):
            raise PushRefused(f"cannot accept the push: '{ref.removeprefix(BRANCHES)}' must name a commit", hint="push a commit, not another object")


def _check_tip(reader: ObjectReader, tree_id: str, tip: tuple[str, Sequence[NewObject], KnownTree | None], policy: PushPolicy) -> KnownTree:
    """Check one tree by the rules of an export; what it shares with the `KnownTree` of the tip before is not read again."""
    object_id, new, known = tip
    reading = read_tree(reader, tree_id, policy.limits, known)
    violation = reading.violations[0] if reading.violations else None
    if violation is None:
        violation = size_violation(reading.entries, _sizes(reader, reading.entries, new), policy.limits)
    if violation is not None:
        raise PushRefused(f"cannot accept commit {object_id[:12]}: {violation.cause}", hint=violation.remedy, path=violation.path)
    return KnownTree(tree_id, reading.entries)


def _sizes(reader: ObjectReader, entries: Sequence[TreeEntry], new: Sequence[NewObject]) -> dict[str, int]:
    sizes = {found.object_id: found.size_bytes for found in new}
    missing = list(dict.fromkeys(entry.object_id for entry in entries if entry.kind is not Kind.DIRECTORY and entry.object_id not in sizes))
    return {**sizes, **dict(zip(missing, reader.sizes(missing), strict=True))}


def _path_of(quarantine: Quarantine, object_id: str) -> str:
    """Return a path at which the new commits hold an object; empty for a root tree, the id when none is found."""
    # The tips are 40 or 64 hexadecimal digits, so none can be an option.
    arguments = ("rev-list", "--objects", *dict.fromkeys(quarantine.tips.values()), "--not", "--all")
    command = GitCommand(arguments, repository=quarantine.repository, environment=quarantine.environment)
    wanted = object_id.encode()
    for line in _run(command, quarantine.timeout_s).split(b"\n"):
        if line.startswith(wanted):
            return os.fsdecode(line[len(wanted) + 1 :]).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return object_id


def _run(command: GitCommand, timeout_s: float) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - our own arguments, absolute program
            [git_program(), *command.arguments],
            env=git_environment(command),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitFailed(f"cannot run git '{command.arguments[0]}': {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise GitFailed(f"cannot run git '{command.arguments[0]}': {said.splitlines()[-1] if said else done.returncode}", stderr=said)
    return done.stdout
