"""Tree rules: what a commit's tree may hold, the same for a push and for an export.

Owns the walk over raw tree objects and every rule about modes, names, symlinks, counts and sizes. A broken rule is a value, never an exception, so
that a push can refuse and an export can explain with one text. Must not know where objects come from (an `ObjectSource` is given) nor what
is done with them.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from gitops.tree_links import TARGET_LIMIT_BYTES, LinkMap
from gitops.tree_names import fold, name_problem, shown

MAX_DEPTH = 64  # components of a path
MAX_PATH_BYTES = 1024
MAX_NAME_BYTES = 255  # NAME_MAX of every file system in use
MAX_VIOLATIONS = 20

_TREE_LIMIT_BYTES = 16 << 20  # a tree object beyond this holds more entries than any limit allows
_DIRECTORIES_AT_ONCE = 32
_AGAIN = "then push again"


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """How much one tree may hold; `spec.snapshots` of the project sets both. `max_files` bounds directories too, each for itself."""

    max_files: int = 20_000
    max_bytes: int = 512 << 20


class Rule(StrEnum):
    """Which rule a tree breaks."""

    NAME = "name"
    GIT_DIRECTORY = "git-directory"
    COLLISION = "collision"
    MODE = "mode"
    SUBMODULE = "submodule"
    SYMLINK = "symlink"
    DEPTH = "depth"
    PATH_LENGTH = "path-length"
    FILES = "files"
    SIZE = "size"
    MALFORMED = "malformed"


class Kind(StrEnum):
    """What an entry is on disk."""

    FILE = "file"
    EXECUTABLE = "executable"
    SYMLINK = "symlink"
    DIRECTORY = "directory"


_KINDS = {0o100644: Kind.FILE, 0o100755: Kind.EXECUTABLE, 0o120000: Kind.SYMLINK, 0o040000: Kind.DIRECTORY}
_KINDS_AS_SPELLED = {b"100644": Kind.FILE, b"100755": Kind.EXECUTABLE, b"120000": Kind.SYMLINK, b"40000": Kind.DIRECTORY}
_SUBMODULE = 0o160000
_MODE = re.compile(rb"[0-7]{1,12}")


class TreeEntry(NamedTuple):
    """One path of a tree. `mode` is spelled as the tree object spells it (`40000`, but `040000` in some old histories); `object_id` is hexadecimal.

    A tuple, since a tree has thousands: a frozen dataclass takes four times as long to make.
    """

    path: str
    kind: Kind
    mode: str
    object_id: str


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule. `path` is the entry at fault (empty: the whole tree), `cause` says what it does, `remedy` what to do."""

    path: str
    rule: Rule
    cause: str
    remedy: str

    def __str__(self) -> str:
        """Return cause and remedy as one line: `symlink 'x' leaves the tree (target '../y'); replace it by a file, then push again`."""
        return f"{self.cause}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class TreeReading:
    """All entries of a tree, directories included, ordered by path, or the rules that it breaks (at most 20, then `entries` is incomplete)."""

    entries: tuple[TreeEntry, ...]
    violations: tuple[Violation, ...]


class ObjectSource(Protocol):
    """Where raw git objects come from."""

    def contents(self, object_ids: Sequence[str], *, limit_bytes: int) -> Iterator[bytes | None]:
        """Yield the raw content of each object, in the order asked; None for one that is larger than `limit_bytes`."""


class KnownTree:
    """The entries of a tree that kept every rule, ordered by path: what another tree shares with it need not be read again."""

    def __init__(self, tree_id: str, entries: Sequence[TreeEntry]) -> None:
        self._entries = entries
        self._paths = [entry.path for entry in entries]
        self._ids = {entry.path: entry.object_id for entry in entries if entry.kind is Kind.DIRECTORY}
        self._ids[""] = tree_id

    def below(self, path: str, tree_id: str) -> Sequence[TreeEntry] | None:
        """Return all that lies below the directory at `path` (empty: the root) if it is the same tree as here; None otherwise."""
        if self._ids.get(path) != tree_id:
            return None
        if not path:
            return self._entries
        # All paths below "a" lie between "a/" and "a0": "0" is the character after the slash.
        return self._entries[bisect_left(self._paths, f"{path}/") : bisect_left(self._paths, f"{path}0")]


def read_tree(source: ObjectSource, tree_id: str, limits: SnapshotLimits, known: KnownTree | None = None) -> TreeReading:
    """Walk a tree from its root and check every rule but the sizes of files, which `size_violation` checks.

    Reads tree objects and symlink targets only, a level at a time, and no directory that `known` has at the same place; stops early at the limits,
    so a tree that unfolds to more than memory holds costs little.
    """
    walk = _Walk(source, limits, known, id_bytes=len(tree_id) // 2)
    walk.run(tree_id)
    if not walk.violations:
        walk.check_links()
    return TreeReading(tuple(sorted(walk.entries, key=lambda entry: entry.path)), tuple(walk.violations[:MAX_VIOLATIONS]))


def size_violation(entries: Sequence[TreeEntry], sizes: Mapping[str, int], limits: SnapshotLimits) -> Violation | None:
    """Say whether the files together are larger than `limits.max_bytes`. `sizes` maps the id of each blob to its bytes."""
    files = [(sizes[entry.object_id], entry.path) for entry in entries if entry.kind is not Kind.DIRECTORY]
    total = sum(size for size, _ in files)
    if total <= limits.max_bytes:
        return None
    size, path = max(files)
    cause = f"the tree holds {total} bytes, more than the limit of {limits.max_bytes} (the largest file is '{shown(path)}' with {size})"
    return Violation("", Rule.SIZE, cause, f"remove files or raise spec.snapshots.maxSize, {_AGAIN}")


def parse_tree(raw: bytes, id_bytes: int) -> Iterator[tuple[bytes, bytes, str]]:
    """Yield (mode as spelled, name, hexadecimal id) of each entry of a raw tree object, in its order, duplicates included.

    Raises:
        ValueError: the bytes are no tree object.
    """
    position = 0
    while position < len(raw):
        space = raw.index(b" ", position)
        end = raw.index(b"\0", space)
        following = end + 1 + id_bytes
        if following > len(raw):
            raise ValueError("the last entry is cut off")
        yield raw[position:space], raw[space + 1 : end], raw[end + 1 : following].hex()
        position = following


class _Walk:
    """One walk: collects entries and violations level by level."""

    def __init__(self, source: ObjectSource, limits: SnapshotLimits, known: KnownTree | None, *, id_bytes: int) -> None:
        self.entries: list[TreeEntry] = []
        self.violations: list[Violation] = []
        self._source = source
        self._limits = limits
        self._known = known
        self._id_bytes = id_bytes
        self._files = 0
        self._directories = 0
        self._full = False

    def run(self, tree_id: str) -> None:
        level: list[tuple[str, str]] = []
        self._descend("", tree_id, level)
        depth = 1
        while level and not self._full:
            if depth > MAX_DEPTH:
                path = level[0][0]
                cause = f"directory '{shown(path)}' lies deeper than {MAX_DEPTH} levels"
                self._report(path, Rule.DEPTH, cause, f"move it up, {_AGAIN}")
                return
            below: list[tuple[str, str]] = []
            for start in range(0, len(level), _DIRECTORIES_AT_ONCE):
                part = level[start : start + _DIRECTORIES_AT_ONCE]
                for (path, _), raw in zip(part, self._source.contents([i for _, i in part], limit_bytes=_TREE_LIMIT_BYTES), strict=True):
                    self._read_directory(path, raw, below)
                if self._full:
                    return
            level, depth = below, depth + 1

    def _read_directory(self, path: str, raw: bytes | None, below: list[tuple[str, str]]) -> None:
        if self._full:
            return
        if raw is None:
            self._too_many("files")
            return
        prefix = f"{path}/" if path else ""
        seen: dict[str, str] = {}
        previous = b""
        try:
            for mode, name, object_id in parse_tree(raw, self._id_bytes):
                entry = self._entry(prefix, mode, name, object_id, seen)
                previous = self._check_order(path, previous, name + b"/" if mode.lstrip(b"0") == b"40000" else name)
                if entry is not None:
                    self._add(entry, below)
                if self._full:
                    return
        except ValueError:
            self._malformed(path)

    def _entry(self, prefix: str, mode: bytes, name: bytes, object_id: str, seen: dict[str, str]) -> TreeEntry | None:
        problem = name_problem(name)
        if problem is not None:
            path = prefix + shown(name)
            rule = Rule.GIT_DIRECTORY if ".git" in problem else Rule.NAME
            self._report(path, rule, f"the name of '{shown(path)}' {problem}", f"rename it, {_AGAIN}")
            return None
        text = name.decode()
        path = prefix + text
        folded = fold(text)
        if folded in seen:
            cause = f"'{shown(prefix + seen[folded])}' and '{shown(path)}' are one name where case and accents are folded"
            self._report(path, Rule.COLLISION, cause, f"rename one of them, {_AGAIN}")
            return None
        seen[folded] = text
        if len(name) > MAX_NAME_BYTES or (len(path) * 4 > MAX_PATH_BYTES and len(path.encode()) > MAX_PATH_BYTES):
            cause = f"path '{shown(path)}' is too long (at most {MAX_PATH_BYTES} bytes, and {MAX_NAME_BYTES} a name)"
            self._report(path, Rule.PATH_LENGTH, cause, f"shorten it, {_AGAIN}")
            return None
        kind = _KINDS_AS_SPELLED.get(mode) or self._unusual_kind(path, mode)
        return None if kind is None else TreeEntry(path, kind, mode.decode(), object_id)

    def _unusual_kind(self, path: str, mode: bytes) -> Kind | None:
        if _MODE.fullmatch(mode) is None:
            raise ValueError("a mode is no octal number")
        number = int(mode, 8)
        if number == _SUBMODULE:
            self._report(path, Rule.SUBMODULE, f"submodule '{shown(path)}' is not supported", f"copy its files into the tree, {_AGAIN}")
            return None
        kind = _KINDS.get(number)
        if kind is None:
            cause = f"'{shown(path)}' has mode {shown(mode)}, which is none of 100644, 100755, 120000 and 40000"
            self._report(path, Rule.MODE, cause, f"add it again with a current git, {_AGAIN}")
        return kind

    def _check_order(self, path: str, previous: bytes, key: bytes) -> bytes:
        if previous and key <= previous:
            self._malformed(path)
        return key

    def _add(self, entry: TreeEntry, below: list[tuple[str, str]]) -> None:
        self.entries.append(entry)
        if entry.kind is Kind.DIRECTORY:
            self._count(files=0, directories=1)
            self._descend(entry.path, entry.object_id, below)
        else:
            self._count(files=1, directories=0)

    def _descend(self, path: str, tree_id: str, below: list[tuple[str, str]]) -> None:
        """Take over what is known of a directory, or leave it to be read in its turn."""
        known = self._known.below(path, tree_id) if self._known is not None else None
        if known is None:
            below.append((path, tree_id))
            return
        directories = sum(entry.kind is Kind.DIRECTORY for entry in known)
        self.entries.extend(known)
        self._count(files=len(known) - directories, directories=directories)

    def _count(self, *, files: int, directories: int) -> None:
        self._files += files
        self._directories += directories
        if max(self._files, self._directories) > self._limits.max_files and not self._full:
            self._too_many("files" if self._files > self._limits.max_files else "directories")

    def _too_many(self, what: str) -> None:
        cause = f"the tree holds more than {self._limits.max_files} {what}"
        self._report("", Rule.FILES, cause, f"remove some or raise spec.snapshots.maxFiles, {_AGAIN}")
        self._full = True

    def _malformed(self, path: str) -> None:
        where = f"directory '{shown(path)}'" if path else "the root directory"
        self._report(
            path, Rule.MALFORMED, f"{where} is not a well-formed tree (entries cut off, unsorted or doubled)", f"rewrite the commit, {_AGAIN}"
        )

    def _report(self, path: str, rule: Rule, cause: str, remedy: str) -> None:
        self.violations.append(Violation(path, rule, cause, remedy))
        self._full = self._full or len(self.violations) >= MAX_VIOLATIONS

    def check_links(self) -> None:
        """Check every symlink of a tree whose names are all sound."""
        links = sorted((entry for entry in self.entries if entry.kind is Kind.SYMLINK), key=lambda entry: entry.path)
        targets = self._source.contents([link.object_id for link in links], limit_bytes=TARGET_LIMIT_BYTES)
        found = {link.path: target for link, target in zip(links, targets, strict=True)}
        link_map = LinkMap(found)
        for path in found:
            problem = link_map.problem(path)
            if problem is not None:
                self._report(path, Rule.SYMLINK, f"symlink '{shown(path)}' {problem}", f"replace it by a file, {_AGAIN}")
            if self._full:
                return
