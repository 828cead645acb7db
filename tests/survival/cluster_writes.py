"""What writers of the cluster's model test want: changes, drawn, and objects as they are sent.

Must not know what a store makes of them.
"""

from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st

from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, CONFIG_MAP, KINDS, Object
from tests.survival.cluster_reference import Key, Thing
from tests.survival.cluster_watcher import Selection

T = TypeVar("T")
WATCHED = (ARENA_JOB, ARENA_RUN, CONFIG_MAP)
MOST = 9
PICK = st.integers(0, 11)
KEYS = st.tuples(st.sampled_from([kind.kind for kind in WATCHED]), st.sampled_from("aab"), st.sampled_from("xy"))
SELECTIONS = st.builds(Selection, st.sampled_from(WATCHED), st.sampled_from([None, "a", "b"]), st.sampled_from([None, None, "1"]))


@dataclass(frozen=True, slots=True)
class Change:
    """What a writer wants changed; None leaves a field as it is. `owners` are places among the objects ever seen."""

    content: int | None
    label: str | None
    finalizers: tuple[str, ...] | None
    owners: tuple[int, ...] | None


def _often_none(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.one_of(st.none(), strategy)


CHANGES = st.builds(
    Change,
    _often_none(st.integers(0, 3)),
    _often_none(st.sampled_from(["", "1", "2"])),
    _often_none(st.sampled_from([(), (), ("m.test/f",), ("m.test/f", "m.test/g")])),
    _often_none(st.one_of(st.just(()), *2 * [st.lists(PICK, min_size=1, max_size=3).map(tuple)])),
)


@dataclass(frozen=True, slots=True)
class Write:
    """What a writer does. `pick` chooses a view or an object; `version` one that it knows."""

    verb: str
    key: Key
    change: Change
    pick: int
    version: int | None


WRITES = st.builds(
    Write,
    st.sampled_from(["create", "create", "create", "rehearse", "update", "update", "patch", "patch", "patch_status", "delete", "delete", "let_go"]),
    KEYS,
    CHANGES,
    PICK,
    st.one_of(st.none(), st.none(), PICK),
)


def key_of(obj: Object) -> Key:
    """Return an object's key."""
    return obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"]


def owner_of(obj: Object) -> tuple[str, str, str]:
    """Return an object as an owner."""
    return obj["kind"], obj["metadata"]["name"], obj["metadata"]["uid"]


def without_version(obj: Object | None) -> Object | None:
    """Return an object as it is but for its version."""
    return obj and obj | {"metadata": obj["metadata"] | {"resourceVersion": ""}}


def object_of(key: Key, thing: Thing) -> Object:
    """Return a thing as a writer sends it."""
    kind = KINDS[key[0]]
    metadata: Object = {"namespace": key[1], "name": key[2]}
    if thing.labels:
        metadata["labels"] = dict(thing.labels)
    if thing.finalizers:
        metadata["finalizers"] = list(thing.finalizers)
    if thing.owners:
        metadata["ownerReferences"] = [
            {"apiVersion": KINDS[owner].api_version, "kind": owner, "name": name, "uid": uid} for owner, name, uid in thing.owners
        ]
    content = {"data": {"n": str(thing.content)}} if kind is CONFIG_MAP else {"spec": {"n": thing.content}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}
