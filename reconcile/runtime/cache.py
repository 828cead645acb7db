"""What is remembered of the objects of one kind, so that looking at them costs the store nothing.

Owns how much of an object is kept and how it is found. What is remembered may be older than what the store holds, never by more than a watch
is behind. Must not know where objects come from (`reflector.py`) nor what they mean.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from reconcile.cluster.port import Object, ObjectKey, ResourceKind, is_newer
from reconcile.runtime.packing import Packing

Index = Callable[[Object], Iterable[str]]
"""Under which values an object is found."""


def _never(_: Object) -> bool:
    return False


def _whole(obj: Object) -> Object:
    return obj


@dataclass(frozen=True, slots=True)
class Keeping:
    """How the objects of a kind are kept.

    `is_final`: no pass has anything left to do for the object, judged by what is stored of it alone. A final object gets no pass, and only its
    `projection` is kept: the part that others than its own reconciler read; it is an object too, with what was left out missing. `indexes`, by
    name: where an object is found; they read nothing beside the projection.
    """

    kind: ResourceKind
    is_final: Callable[[Object], bool] = _never
    projection: Callable[[Object], Object] = _whole
    indexes: Mapping[str, Index] = field(default_factory=dict)


@dataclass(slots=True)
class _Entry:
    """One object, packed: its projection, and unless it is final also the whole.

    `doubted`: the store may hold a newer one that no watch has told of. `untold` and `unshown`: a change, and a change of the projection, that came
    from our own write and that the watch has still to tell.
    """

    version: str
    shown: bytes
    whole: bytes | None
    found_under: tuple[tuple[str, str], ...]
    doubted: bool = False
    untold: bool = False
    unshown: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """What the store's telling of an object changed: `before` is the projection it had, if it is known; `shown` whether that has changed."""

    before: Object | None
    shown: bool


class ObjectCache:
    """The objects of one kind as last told by the store, or as we wrote them since. What is returned is the caller's own copy."""

    def __init__(self, keeping: Keeping) -> None:
        self._keeping = keeping
        self._projections, self._wholes = Packing(), Packing()
        self._entries: dict[ObjectKey, _Entry] = {}
        self._found: dict[tuple[str, str], dict[ObjectKey, None]] = {}
        self._told = ""
        """The version of the last change that the store has told, of whichever object."""

    def __len__(self) -> int:
        """Return how many objects are known."""
        return len(self._entries)

    def all_keys(self) -> tuple[ObjectKey, ...]:
        """Return the objects that exist, as far as is known."""
        return tuple(self._entries)

    def get(self, key: ObjectKey) -> Object | None:
        """Return an object as far as it is known whole and beyond doubt; None means: ask the store."""
        entry = self._entries.get(key)
        return None if entry is None or entry.doubted or entry.whole is None else self._wholes.unpack(entry.whole)

    def is_final(self, key: ObjectKey) -> bool:
        """Say whether an object is known to be final."""
        entry = self._entries.get(key)
        return entry is not None and entry.whole is None and not entry.doubted

    def keys_of(self, index: str, value: str) -> tuple[ObjectKey, ...]:
        """Return the objects found under a value of an index, in no order."""
        return tuple(self._found.get((index, value), ()))

    def select(self, index: str, value: str) -> list[Object]:
        """Return the objects found under a value of an index, in no order; final ones as their projection."""
        return [self._read(self._entries[key]) for key in self.keys_of(index, value)]

    def tell(self, obj: Object) -> Change | None:
        """Take an object as the store tells it; None when that is nothing new, because it or a newer one was told before."""
        key, version = _key_of(obj), obj["metadata"]["resourceVersion"]
        self._note_told(version)
        known = self._entries.get(key)
        if known is not None and known.version == version:
            known.doubted = False
        if known is not None and (is_newer(known.version, version) or (known.version == version and not known.untold)):
            return None
        before = None if known is None else self._read(known)
        entry = self._put(key, obj)
        return Change(before, shown=known is None or known.unshown or known.shown != entry.shown)

    def learn(self, obj: Object) -> None:
        """Take an object as a write or a read of ours returned it, unless a newer one is known; the watch tells of it later as of any change.

        One that is not known, although the watch has told of later changes, was removed meanwhile: nobody would tell that again.
        """
        key, version = _key_of(obj), obj["metadata"]["resourceVersion"]
        known = self._entries.get(key)
        if known is not None and known.version == version:
            known.doubted = False
        if not is_newer(version, self._told if known is None else known.version):
            return
        entry = self._put(key, obj)
        entry.untold = True
        entry.unshown = known is None or known.unshown or known.shown != entry.shown

    def doubt(self, key: ObjectKey) -> None:
        """Trust what is known of an object no more, until the store tells or is asked: a write of it was refused or had no answer."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.doubted = True

    def remove(self, key: ObjectKey, version: str = "") -> Object | None:
        """Forget an object that was removed at a version ("": certainly not there any more); return its projection, None if a newer one is known."""
        self._note_told(version)
        entry = self._entries.get(key)
        if entry is None or (version and is_newer(entry.version, version)):
            return None
        self._forget_places(key, entry)
        del self._entries[key]
        return self._read(entry)

    def _note_told(self, version: str) -> None:
        if version and is_newer(version, self._told):
            self._told = version

    def _put(self, key: ObjectKey, obj: Object) -> _Entry:
        known = self._entries.get(key)
        if known is not None:
            self._forget_places(key, known)
        kept = self._keeping.projection(obj)
        final = self._keeping.is_final(obj)
        # Of an object that is kept whole the version alone says whether something has changed.
        version = obj["metadata"]["resourceVersion"]
        shown = version.encode() if kept is obj and not final else self._projections.pack(kept)
        places = tuple((sys.intern(index), sys.intern(value)) for index, find in self._keeping.indexes.items() for value in find(kept))
        entry = _Entry(version, shown, None if final else self._wholes.pack(obj), places)
        self._entries[key] = entry
        for place in places:
            self._found.setdefault(place, {})[key] = None
        return entry

    def _forget_places(self, key: ObjectKey, entry: _Entry) -> None:
        for place in entry.found_under:
            self._found[place].pop(key, None)
            if not self._found[place]:
                del self._found[place]

    def _read(self, entry: _Entry) -> Object:
        read: Object = self._projections.unpack(entry.shown) if entry.whole is None else self._wholes.unpack(entry.whole)
        return read


class Known(Protocol):
    """What is known of the store without asking it. It may lag behind: act on it only where acting is refused by state, or look afresh first.

    Every answer is None while nothing is known of the kind: before its first listing, or because nobody follows it.
    """

    def find(self, kind: ResourceKind, key: ObjectKey, /) -> Object | None:
        """Return an object as it was last told; None: ask the store."""

    def select(self, kind: ResourceKind, index: str, value: str, /) -> list[Object] | None:
        """Return the objects found under a value of an index, final ones as their projection."""

    def keys(self, kind: ResourceKind, index: str, value: str, /) -> tuple[ObjectKey, ...] | None:
        """Return the keys of the objects found under a value of an index."""


class _NothingKnown:
    def find(self, _kind: ResourceKind, _key: ObjectKey, /) -> Object | None:
        return None

    def select(self, _kind: ResourceKind, _index: str, _value: str, /) -> list[Object] | None:
        return None

    def keys(self, _kind: ResourceKind, _index: str, _value: str, /) -> tuple[ObjectKey, ...] | None:
        return None


NOTHING_KNOWN: Known = _NothingKnown()
"""Knows nothing: every reader asks the store."""


def _key_of(obj: Object) -> ObjectKey:
    metadata = obj["metadata"]
    return ObjectKey(sys.intern(metadata.get("namespace", "")), metadata["name"])
