"""What is remembered of a kind: how much, in which order of versions, and where it is found."""

from typing import Any

import pytest

from reconcile.cluster.port import ARENA_RUN, Object, ObjectKey
from reconcile.runtime.cache import Keeping, ObjectCache

KEY = ObjectKey("arena", "a")


def run(version: int, phase: str = "", *, name: str = "a", owner: str = "j", **status: Any) -> Object:
    """Return a run of a version."""
    metadata = {"namespace": "arena", "name": name, "resourceVersion": str(version), "owner": owner}
    return {"kind": "ArenaRun", "metadata": metadata, "status": {"phase": phase, **status}}


@pytest.fixture
def cache() -> ObjectCache:
    """Give a cache that keeps name, owner and phase of a run that is over, and finds runs by owner."""

    def projection(obj: Object) -> Object:
        metadata = {key: obj["metadata"][key] for key in ("namespace", "name", "owner")}
        return {"metadata": metadata, "status": {"phase": obj["status"]["phase"]}}

    return ObjectCache(
        Keeping(
            ARENA_RUN,
            is_final=lambda obj: bool(obj["status"]["phase"] == "Over"),
            projection=projection,
            indexes={"owner": lambda obj: (obj["metadata"]["owner"],)},
        )
    )


def test_an_older_telling_changes_nothing(cache: ObjectCache) -> None:
    """What is older than what is known, or the same again, is no change; versions are compared as numbers."""
    cache.tell(run(9, "Running"))
    assert cache.tell(run(10, "Over")) is not None
    assert cache.tell(run(9, "Running")) is None
    assert cache.tell(run(10, "Over")) is None
    assert cache.is_final(KEY)


@pytest.mark.parametrize(
    ("later", "shown"),
    [
        pytest.param(run(2, "Running", progress=1), False, id="what the projection leaves out"),
        pytest.param(run(2, "Over"), True, id="what it has"),
    ],
)
def test_a_change_says_whether_others_see_it(cache: ObjectCache, later: Object, *, shown: bool) -> None:
    """A change tells whether the projection has changed, and gives what was known before."""
    before = run(1, "Running")
    first, second = cache.tell(before), cache.tell(later)
    assert first is not None
    assert (first.before, first.shown) == (None, True)
    assert second is not None
    assert (second.before, second.shown) == (before, shown)


def test_our_own_write_is_known_at_once_and_told_later(cache: ObjectCache) -> None:
    """What a write of ours returned is known before the watch tells it, and told all the same; what the watch tells late is not taken for newer."""
    cache.tell(run(1, "Pending"))
    cache.learn(run(3, "Over"))
    cache.learn(run(2, "Running"))
    assert cache.is_final(KEY)
    assert cache.tell(run(2, "Running")) is None
    told = cache.tell(run(3, "Over"))
    assert told is not None
    assert told.shown
    assert cache.tell(run(3, "Over")) is None


@pytest.mark.parametrize("told", [pytest.param("removal", id="its removal"), pytest.param("another", id="a later change of another object")])
def test_a_late_answer_brings_nothing_back(cache: ObjectCache, told: str) -> None:
    """Our removal of the last finalizer may be answered after the watch has told that the object is gone: it is not known again, since nobody would tell it."""
    cache.tell(run(1, "Running"))
    cache.remove(KEY, "3" if told == "removal" else "")
    if told == "another":
        cache.tell(run(3, name="b"))
    cache.learn(run(2, "Running"))
    assert KEY not in cache.all_keys()
    cache.learn(run(4, "Running"))
    assert KEY in cache.all_keys()


def test_a_write_between_two_tellings_is_not_swallowed(cache: ObjectCache) -> None:
    """A change of the projection that was learned is told with the next telling, though that one alone would show none."""
    cache.tell(run(1, "Pending"))
    cache.learn(run(2, "Running"))
    told = cache.tell(run(3, "Running", progress=1))
    assert told is not None
    assert told.shown


def test_a_final_object_is_its_projection(cache: ObjectCache) -> None:
    """Of a final object only the projection is kept; whole ones are given as they are, as long as they are not final."""
    cache.tell(run(1, "Running", progress=1))
    assert cache.get(KEY) == run(1, "Running", progress=1)
    cache.tell(run(2, "Over", progress=1))
    assert cache.get(KEY) is None
    assert cache.select("owner", "j") == [{"metadata": {"namespace": "arena", "name": "a", "owner": "j"}, "status": {"phase": "Over"}}]


def test_an_object_is_found_where_it_is_now(cache: ObjectCache) -> None:
    """An index follows changes and removals."""
    cache.tell(run(1))
    cache.tell(run(2, name="b"))
    cache.tell(run(3, owner="k"))
    assert (cache.keys_of("owner", "j"), cache.keys_of("owner", "k")) == ((ObjectKey("arena", "b"),), (KEY,))
    cache.remove(KEY, "4")
    assert (cache.keys_of("owner", "k"), cache.all_keys()) == ((), (ObjectKey("arena", "b"),))


@pytest.mark.parametrize("how", ["told", "told again", "learned", "read"])
def test_doubt_lasts_until_the_store_has_answered(cache: ObjectCache, how: str) -> None:
    """A doubted object is not known, final or not, until it is told or read: the same version confirms it."""
    cache.tell(run(1, "Running"))
    cache.doubt(KEY)
    assert (cache.get(KEY), cache.is_final(KEY)) == (None, False)
    obj = run(1, "Running") if how in ("told again", "read") else run(2, "Running")
    if how.startswith("told"):
        cache.tell(obj)
    else:
        cache.learn(obj)
    assert cache.get(KEY) == obj


def test_a_late_removal_spares_the_next_of_its_name(cache: ObjectCache) -> None:
    """The removal of an object is not that of a newer one of the same name."""
    cache.tell(run(1))
    cache.tell(run(5, "Running"))
    assert cache.remove(KEY, "4") is None
    assert cache.get(KEY) == run(5, "Running")
    assert cache.remove(KEY) == run(5, "Running")


def test_memory_of_an_ended_run_is_small(cache: ObjectCache) -> None:
    """A final object costs some hundred bytes, however large it is in the store."""
    cache.tell(run(1, "Over", text="x" * 100_000))
    (entry,) = cache._entries.values()
    assert entry.whole is None
    assert len(entry.shown) < 400
