"""What a store of objects means, in as few lines as it takes: a dict of things and what each write makes of it.

Must not know of versions' numbers, of logs or of files; the machine follows those.
"""

from dataclasses import dataclass, field, replace

from reconcile.cluster.port import KINDS, Object
from reconcile.errors import AlreadyExists, Conflict, Invalid, NotFound

Key = tuple[str, str, str]
"""Kind, namespace, name."""

Owner = tuple[str, str, str]
"""Kind, name, uid."""


@dataclass(frozen=True, slots=True)
class Thing:
    """An object as the model sees it. `version` is what the store said last."""

    uid: str = ""
    version: str = ""
    content: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    finalizers: tuple[str, ...] = ()
    owners: tuple[Owner, ...] = ()
    status: int | None = None
    generation: int = 1
    deleting: bool = False

    @classmethod
    def of(cls, obj: Object) -> "Thing":
        """Return what an object from the store is."""
        metadata = obj["metadata"]
        return cls(
            uid=metadata["uid"],
            version=metadata["resourceVersion"],
            content=int((obj.get("spec") or obj.get("data") or {}).get("n", 0)),
            labels=tuple(sorted((metadata.get("labels") or {}).items())),
            finalizers=tuple(metadata.get("finalizers") or ()),
            owners=tuple((owner["kind"], owner["name"], owner["uid"]) for owner in metadata.get("ownerReferences") or ()),
            status=(obj.get("status") or {}).get("n"),
            generation=metadata.get("generation", 1),
            deleting="deletionTimestamp" in metadata,
        )


@dataclass(slots=True)
class ReferenceStore:
    """The things that exist. Each write returns nothing and raises what the store must raise."""

    things: dict[Key, Thing] = field(default_factory=dict)

    def create(self, key: Key, thing: Thing) -> None:
        """Add a thing; it goes again if its owners are gone."""
        if key in self.things:
            raise AlreadyExists(*key)
        self.things[key] = replace(thing, generation=1, status=None, deleting=False)
        self._collect(set())

    def write(self, key: Key, wanted: Thing, *, uid: str | None = None, version: str | None = None) -> None:
        """Give a thing its content, labels, finalizers and owners, if it still is of that uid and version."""
        old = self._checked(key, uid, version)
        if old.deleting and set(wanted.finalizers) - set(old.finalizers):
            raise Invalid([], kind=key[0])
        grown = old.content != wanted.content and KINDS[key[0]].has_generation
        self.things[key] = replace(
            old,
            content=wanted.content,
            labels=wanted.labels,
            finalizers=wanted.finalizers,
            owners=wanted.owners,
            generation=old.generation + grown,
        )
        self._collect({self.things.pop(key).uid} if old.deleting and not wanted.finalizers else set())

    def write_status(self, key: Key, status: int | None, *, version: str | None = None) -> None:
        """Give a thing a status."""
        self.things[key] = replace(self._checked(key, None, version), status=status)

    def delete(self, key: Key, *, uid: str | None = None, version: str | None = None) -> None:
        """Delete a thing, or mark it when finalizers hold it."""
        self._checked(key, uid, version)
        self._collect(self._begin_deletion(key))

    def _checked(self, key: Key, uid: str | None, version: str | None) -> Thing:
        if key not in self.things:
            raise NotFound(*key)
        old = self.things[key]
        if (uid and uid != old.uid) or (version and version != old.version):
            raise Conflict(*key)
        return old

    def _begin_deletion(self, key: Key) -> set[str]:
        thing = self.things[key]
        if not thing.finalizers:
            return {self.things.pop(key).uid}
        if not thing.deleting:
            self.things[key] = replace(thing, deleting=True, generation=thing.generation + KINDS[key[0]].has_generation)
        return set()

    def _collect(self, freed: set[str]) -> None:
        """Delete whatever has owners and none that lives, until nothing is left to do; the others forget who was freed."""
        while orphans := [key for key in self.things if self._is_orphaned(key) and not self.things[key].deleting]:
            for key in orphans:
                freed |= self._begin_deletion(key)
        for key, thing in self.things.items():
            if freed & {uid for _, _, uid in thing.owners} and not self._is_orphaned(key):
                self.things[key] = replace(thing, owners=tuple(owner for owner in thing.owners if self._lives(key, owner)))

    def _is_orphaned(self, key: Key) -> bool:
        owners = self.things[key].owners
        return bool(owners) and not any(self._lives(key, owner) for owner in owners)

    def _lives(self, key: Key, owner: Owner) -> bool:
        found = self.things.get((owner[0], key[1], owner[1]))
        return found is not None and found.uid == owner[2]
