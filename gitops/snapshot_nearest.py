"""Which of several trees is nearest to one: the snapshot whose files a new one can share most of.

The distance of two trees is the number of their entries that differ, files and, while they are not looked into, directories. Only directories that
differ are read, and those of a far tree only while it may still be the nearest. Must not know where trees come from, nor what is shared.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence

from gitops.tree_rules import ObjectSource, parse_tree

_TREES_READ = 2000  # then the nearest so far will do: reading on costs more than a worse choice
_TREE_LIMIT_BYTES = 4 << 20
_FOLDER_MODES = (b"40000", b"040000")

_Entry = tuple[bytes, str]
_Pair = tuple[str, str]  # ids of two directories; "" for one that is not there


def nearest(source: ObjectSource, tree: str, candidates: Sequence[str]) -> int:
    """Return the index of the candidate that differs least from `tree`; of equal ones the first. All are ids of trees; there is at least one.

    A search of the best first: the one with the smallest lower bound is looked into one level deeper, until it holds no more unknown.

    Raises:
        GitFailed: a directory cannot be read. The source may then be in the midst of an answer.
    """
    directories = _Directories(source, id_bytes=len(tree) // 2)
    certain = dict.fromkeys(range(len(candidates)), 0)
    pending: dict[int, list[_Pair]] = {index: [(tree, candidate)] for index, candidate in enumerate(candidates)}
    # The lower bound of a distance: two directories that differ hold at least one difference.
    queue = [(int(tree != candidate), index) for index, candidate in enumerate(candidates)]
    heapq.heapify(queue)
    while pending[queue[0][1]] and directories.count < _TREES_READ:
        index = queue[0][1]
        pairs = pending[index]
        directories.read(side for pair in pairs for side in pair)
        pending[index] = []
        for mine, other in pairs:
            certain[index] += _differences(directories.of(mine), directories.of(other), pending[index])
        heapq.heapreplace(queue, (certain[index] + len(pending[index]), index))
    return queue[0][1]


def _differences(mine: Mapping[bytes, _Entry], other: Mapping[bytes, _Entry], below: list[_Pair]) -> int:
    """Count the files that differ, and add the directories that do to `below`."""
    count = 0
    for name in mine.keys() | other.keys():
        sides = mine.get(name), other.get(name)
        if sides[0] == sides[1]:
            continue
        folders = ["" if side is None or side[0] not in _FOLDER_MODES else side[1] for side in sides]
        count += any(side is not None and side[0] not in _FOLDER_MODES for side in sides)
        if any(folders):
            below.append((folders[0], folders[1]))
    return count


class _Directories:
    """Directories by their ids, each read once. `count` says how many were."""

    def __init__(self, source: ObjectSource, *, id_bytes: int) -> None:
        self._source = source
        self._id_bytes = id_bytes
        self._known: dict[str, Mapping[bytes, _Entry]] = {"": {}}

    @property
    def count(self) -> int:
        return len(self._known)

    def of(self, tree: str) -> Mapping[bytes, _Entry]:
        return self._known[tree]

    def read(self, trees: Iterable[str]) -> None:
        unknown = list(dict.fromkeys(tree for tree in trees if tree not in self._known))
        for tree, raw in zip(unknown, self._source.contents(unknown, limit_bytes=_TREE_LIMIT_BYTES), strict=True):
            self._known[tree] = self._parsed(raw)

    def _parsed(self, raw: bytes | None) -> Mapping[bytes, _Entry]:
        try:
            return {name: (mode, object_id) for mode, name, object_id in parse_tree(raw or b"", self._id_bytes)}
        except ValueError:  # the walk that follows says what is wrong with it
            return {}
