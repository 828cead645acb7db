"""Any interleaving of writes, watches and compactions of the embedded store, against the reference.

The machine plays several writers with fresh and stale views, and several watchers that read late; after each step the store must hold what
the reference says, and the watchers that read must know it.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from foundation.clock import FakeClock
from reconcile.cluster.port import KINDS, Object, ObjectKey, ResourceKind
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.cluster.sqlite_tables import LogLimits
from reconcile.errors import ClusterError, Conflict, Gone
from tests.survival.cluster_reference import Key, ReferenceStore, Thing
from tests.survival.cluster_watcher import Known, Selection, Watcher
from tests.survival.cluster_writes import (
    CHANGES,
    KEYS,
    MOST,
    PICK,
    SELECTIONS,
    WATCHED,
    WRITES,
    Change,
    Write,
    key_of,
    object_of,
    owner_of,
    without_version,
)

T = TypeVar("T")
AGE_S = 100.0
MANY = 205
SELDOM = st.integers(0, 3).map(lambda die: die == 3)


class ClusterMachine(RuleBasedStateMachine):
    """One store and its watchers. `views` are objects as they once were read: writers write by them."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory(prefix="model-")
        self.clock = FakeClock()
        self.reference = ReferenceStore()
        self.views: list[Object] = []
        self.journal: list[tuple[str, str, float, Object]] = []
        self.watchers: list[Watcher] = []
        self.noted: dict[str, int] = {}

    @initialize(in_file=st.booleans(), events=st.sampled_from([40, 10_000]), keys=st.lists(KEYS, min_size=3, max_size=8), changes=CHANGES)
    def begin(self, in_file: bool, events: int, keys: list[Key], changes: Change) -> None:  # noqa: FBT001 - hypothesis passes by name
        """Open an empty store that keeps so many events; a watcher of each kind, and one of a label of each, never falls behind."""
        self.path: Path | str = Path(self.folder.name) / "store.db" if in_file else ":memory:"
        self.limits = LogLimits(events=events, age_s=AGE_S)
        self.cluster = SqliteCluster(self.path, self.clock, log_limits=self.limits)
        self.prompt = [Watcher(Selection(kind), {}, "1") for kind in WATCHED]
        self.choosy = [Watcher(Selection(kind, label="1"), {}, "1") for kind in WATCHED]
        self.write([Write("create", key, replace(changes, label="1"), 0, None) for key in keys])

    # -- writers -------------------------------------------------------------------------------------------------------------------------

    @rule(writes=st.lists(WRITES, min_size=3, max_size=10))
    def write(self, writes: list[Write]) -> None:
        """Let writers write, one after the other."""
        for write in writes:
            verb: Callable[[Write], None] = getattr(self, write.verb)
            verb(write)
            self.is_what_the_reference_says()

    def create(self, write: Write) -> None:
        """Create an object, often of a name that was there before."""
        thing = self.changed(Thing(), write.change)
        found = self.both(lambda: self.cluster.create(object_of(write.key, thing)), lambda: self.reference.create(write.key, thing))
        self.views += [found] if found else []

    def rehearse(self, write: Write) -> None:
        """Create for show: nothing happens."""
        self.do(self.outcome(self.cluster.create(object_of(write.key, self.changed(Thing(), write.change)), dry_run=True)))

    def update(self, write: Write) -> None:
        """Replace an object by a view of it, fresh or stale."""
        if self.views:
            view = self.views[-1 - write.pick % len(self.views)]
            key, seen = key_of(view), Thing.of(view)
            thing = self.changed(seen, write.change)
            draft = object_of(key, thing) | ({"status": {"n": 99}} if KINDS[key[0]].has_status else {})
            draft["metadata"] |= {"uid": seen.uid, "resourceVersion": seen.version}
            self.both(lambda: self.cluster.update(draft), lambda: self.reference.write(key, thing, uid=seen.uid, version=seen.version))

    def patch(self, write: Write) -> None:
        """Patch an object, whatever it is now, or only if it is of a version."""
        key = self.existing(write)
        thing, given = self.changed(self.reference.things.get(key, Thing()), write.change), self.version(key, write.version)
        wanted = object_of(key, thing)
        patch: Object = {field: wanted.get(field) for field in ("spec", "data") if field in wanted}
        patch["metadata"] = {field: wanted["metadata"].get(field) for field in ("finalizers", "ownerReferences")}
        patch["metadata"]["labels"] = {"t": dict(thing.labels).get("t")}
        kind, namespace, name = KINDS[key[0]], key[1], key[2]
        self.both(
            lambda: self.cluster.patch(kind, namespace, name, patch, resource_version=given),
            lambda: self.reference.write(key, thing, version=given),
        )

    def let_go(self, write: Write) -> None:
        """Take all finalizers from an object that is being deleted, if there is one, and change more of it in the same write."""
        held = [key for key, thing in self.reference.things.items() if thing.deleting]
        if held:
            self.patch(replace(write, key=held[write.pick % len(held)], version=None, pick=0, change=replace(write.change, finalizers=())))

    def patch_status(self, write: Write) -> None:
        """Write a status."""
        key = self.existing(write)
        kind, given = KINDS[key[0]], self.version(key, write.version)
        if kind.has_status:
            self.both(
                lambda: self.cluster.patch_status(kind, key[1], key[2], {"n": write.change.content}, resource_version=given),
                lambda: self.reference.write_status(key, write.change.content, version=given),
            )

    def delete(self, write: Write) -> None:
        """Delete an object, whatever it is, or only one of a version or a uid."""
        key = self.existing(write)
        given = self.version(key, write.version)
        uid = self.views[write.pick % len(self.views)]["metadata"]["uid"] if self.views and write.pick > MOST else None
        self.both(
            lambda: self.cluster.delete(KINDS[key[0]], key[1], key[2], uid=uid, resource_version=given),
            lambda: self.reference.delete(key, uid=uid, version=given),
        )

    def existing(self, write: Write) -> Key:
        """Return the key of an object that exists, mostly."""
        keys = list(self.reference.things)
        return keys[write.pick % len(keys)] if keys and write.pick and write.pick <= MOST else write.key

    @rule(pick=PICK, writers=st.integers(2, 5))
    def race(self, pick: int, writers: int) -> None:
        """Several writers with one view write at once: one wins, the others conflict."""
        if not self.reference.things:
            return
        key, old = list(self.reference.things.items())[pick % len(self.reference.things)]
        drafts = [object_of(key, replace(old, content=old.content + 1 + number)) for number in range(writers)]
        for draft in drafts:
            draft["metadata"]["resourceVersion"] = old.version

        async def write_all() -> list[Object | BaseException]:
            return await asyncio.gather(*(self.cluster.update(draft) for draft in drafts), return_exceptions=True)

        outcomes = self.do(write_all())
        (winner,) = [Thing.of(outcome) for outcome in outcomes if isinstance(outcome, dict)]
        assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == writers - 1
        self.reference.write(key, winner)

    @rule(pick=PICK, seldom=SELDOM)
    def rush(self, pick: int, seldom: bool) -> None:  # noqa: FBT001 - as above
        """Write more at once than a watch reads in a page, while watches read; seldom, for it takes long."""
        keys = [key for key in self.reference.things if KINDS[key[0]].has_status]
        if not (seldom and keys and self.limits.events > MANY):
            return
        key = keys[pick % len(keys)]
        self.list_and_watch(Selection(KINDS[key[0]]))

        async def write_and_read() -> None:
            writes = (self.cluster.patch_status(KINDS[key[0]], key[1], key[2], {"n": n}) for n in (*range(10, 10 + MANY), 0))
            await asyncio.gather(*writes, *(watcher.read(self.cluster) for watcher in self.prompt))

        self.do(write_and_read())
        self.reference.write_status(key, 0)
        self.is_what_the_reference_says()
        self.catch_up(self.watchers[-1])

    # -- watchers and time ---------------------------------------------------------------------------------------------------------------

    @rule(selection=SELECTIONS, writes=st.lists(WRITES, max_size=8))
    def watch_and_write(self, selection: Selection, writes: list[Write]) -> None:
        """Watch from a listing, and read what some writes made."""
        self.list_and_watch(selection)
        self.write(writes)
        self.catch_up(self.watchers[-1])

    @rule(selection=SELECTIONS)
    def list_and_watch(self, selection: Selection) -> None:
        """List, to watch from there, later."""
        watcher = Watcher(selection, {}, "")
        self.do(watcher.relist(self.cluster))
        self.watchers.append(watcher)

    @rule(selection=SELECTIONS, pick=st.integers(0, 30))
    def watch_from_the_past(self, selection: Selection, pick: int) -> None:
        """Watch from the version of some earlier event."""
        if self.journal:
            version = self.journal[-1 - pick % len(self.journal)][0]
            self.watchers.append(Watcher(selection, self.known_at(selection, version), version, began_at=version))

    @rule(pick=PICK)
    def read(self, pick: int) -> None:
        """Let a watcher read all that there is; it must know what the store holds, and have heard all that happened."""
        if self.watchers:
            self.catch_up(self.watchers[pick % len(self.watchers)])

    @rule(pick=PICK)
    def stop_watching(self, pick: int) -> None:
        """Let a watcher's connection break; it will go on where it was."""
        if self.watchers:
            self.do(self.watchers[pick % len(self.watchers)].end())

    @rule(seconds=st.sampled_from([1.0, 40.0, 101.0]))
    def compact(self, seconds: float) -> None:
        """Let time pass, and compact the log."""

        async def pass_and_compact() -> None:
            await self.clock.advance(seconds)
            await self.cluster.compact()

        self.do(pass_and_compact())

    @rule(seldom=SELDOM)
    def reopen(self, seldom: bool) -> None:  # noqa: FBT001 - as above
        """Close the store and open its file again."""
        if seldom and self.path != ":memory:":

            async def close() -> None:
                await self.cluster.close()
                for watcher in [*self.watchers, *self.prompt, *self.choosy]:
                    await watcher.end()

            self.do(close())
            self.cluster = SqliteCluster(self.path, self.clock, log_limits=self.limits)

    # -- what is always true -------------------------------------------------------------------------------------------------------------

    @invariant()
    def is_what_the_reference_says(self) -> None:
        """Compare all objects, and what the prompt watchers have heard: one event at least for each change, none for anything else."""
        if not hasattr(self, "cluster"):
            return
        before = dict(self.reference.things)
        for watcher in self.prompt:
            known = dict(watcher.known)
            self.do(watcher.read(self.cluster))
            told = [
                event for event in watcher.heard if int(event.object["metadata"]["resourceVersion"]) > self.noted.get(watcher.selection.kind.kind, 0)
            ]
            self.note(watcher, told)
            listing = self.do(self.cluster.list(watcher.selection.kind))
            assert {ObjectKey.of(obj): obj for obj in listing.items} == watcher.known
            changed = {key for key in {*known, *watcher.known} if known.get(key) != watcher.known.get(key)}
            heard = [ObjectKey.of(event.object) for event in told]
            assert set(heard) >= changed
            assert all(heard.count(key) > 1 or without_version(known.get(key)) != without_version(watcher.known.get(key)) for key in heard)
            self.compare(watcher.selection.kind, listing.items, before)
        for watcher in self.choosy:
            self.catch_up(watcher)

    def compare(self, kind: ResourceKind, found: list[Object], before: dict[Key, Thing]) -> None:
        """Compare the objects of a kind; a version moves exactly when the object does."""
        expected = {key: thing for key, thing in self.reference.things.items() if key[0] == kind.kind}
        things = {key_of(obj): Thing.of(obj) for obj in found}
        assert things.keys() == expected.keys()
        for key, thing in things.items():
            was = before[key]
            owners = thing.owners if thing.deleting else was.owners  # those of a dying object may be cut in the order in which its owners went
            uid = was.uid or thing.uid
            assert thing == replace(was, version=thing.version, owners=owners, uid=uid)
            self.reference.things[key] = thing
            self.views += [obj for obj in found if key_of(obj) == key and thing.version != was.version]
        del self.views[:-12]

    def teardown(self) -> None:
        """Let every watcher catch up, and close all."""
        try:
            if sys.exc_info()[0] is None:
                for watcher in self.watchers:
                    self.catch_up(watcher)
        finally:
            self.do(self.close())
            self.runner.close()
            self.folder.cleanup()

    async def close(self) -> None:
        """Close all."""
        for watcher in [*self.watchers, *self.prompt, *self.choosy]:
            await watcher.end()
        await self.cluster.close()

    # -- small steps ---------------------------------------------------------------------------------------------------------------------

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        """Make a call."""
        return self.runner.run(call)

    async def outcome(self, call: Coroutine[Any, Any, T]) -> T | ClusterError:
        """Return what a call returns or raises."""
        try:
            return await call
        except ClusterError as error:
            return error

    def both(self, call: Callable[[], Coroutine[Any, Any, Object | None]], expect: Callable[[], None]) -> Object | None:
        """Make a call, and do the same to the reference: both do it, or both refuse it with the same error."""
        found, expected = self.do(self.outcome(call())), None
        try:
            expect()
        except ClusterError as error:
            expected = error
        assert type(found) is type(expected) if isinstance(found, ClusterError) or expected else True, f"{found!r} instead of {expected!r}"
        return None if isinstance(found, ClusterError) else found

    def changed(self, thing: Thing, change: Change) -> Thing:
        """Return a thing with a change."""
        if change.content is not None:
            thing = replace(thing, content=change.content)
        if change.label is not None:
            thing = replace(thing, labels=(("t", change.label),) if change.label else ())
        if change.finalizers is not None:
            thing = replace(thing, finalizers=change.finalizers)
        if change.owners is not None and self.views:
            owners = dict.fromkeys(pick % len(self.views) for pick in change.owners)
            thing = replace(thing, owners=tuple({owner_of(self.views[-1 - at]): None for at in owners}))
        return thing

    def version(self, key: Key, pick: int | None) -> str | None:
        """Return a version that a writer knows of an object: the current one for an even pick, else any; None for None."""
        if pick is None:
            return None
        current = self.reference.things.get(key, Thing()).version or "1"
        return self.views[pick % len(self.views)]["metadata"]["resourceVersion"] if pick % 2 and self.views else current

    def note(self, watcher: Watcher, events: list[Any]) -> None:
        """Write new events into the journal, in the order of their versions."""
        now, kind = self.clock.monotonic(), watcher.selection.kind.kind
        self.journal += [(event.object["metadata"]["resourceVersion"], event.type, now, event.object | {"kind": kind}) for event in events]
        self.journal.sort(key=lambda entry: int(entry[0]))
        self.noted[kind] = int(watcher.cursor)

    def known_at(self, selection: Selection, version: str) -> Known:
        """Return what one who watches a selection knew at a version."""
        known: Known = {}
        for at, event_type, _, obj in self.journal:
            if int(at) <= int(version) and obj["kind"] == selection.kind.kind:
                known.pop(ObjectKey.of(obj), None)
                if event_type != "DELETED" and selection.covers(obj):
                    known[ObjectKey.of(obj)] = obj
        return known

    def catch_up(self, watcher: Watcher) -> None:
        """Let a watcher read; one that is too late lists again, and must have had cause."""
        selection, cursor = watcher.selection, watcher.cursor
        try:
            self.do(watcher.read(self.cluster))
        except Gone:
            self.check_gone(selection, cursor)
            self.do(watcher.relist(self.cluster))
        listing = self.do(self.cluster.list(selection.kind, selection.namespace, selection.labels))
        assert watcher.known == {ObjectKey.of(obj): obj for obj in listing.items}
        if selection.label is None:
            happened = [
                (event_type, at)
                for at, event_type, _, obj in self.journal
                if int(at) > int(watcher.began_at) and obj["kind"] == selection.kind.kind and selection.covers(obj)
            ]
            assert [(event.type, event.object["metadata"]["resourceVersion"]) for event in watcher.heard] == happened

    def check_gone(self, selection: Selection, cursor: str) -> None:
        """A watch is refused only if an event after its cursor has gone, and one goes only by age, or when there are newer ones enough."""
        later = [at for at, entry in enumerate(self.journal) if int(entry[0]) > int(cursor) and entry[3]["kind"] == selection.kind.kind]
        assert later, "nothing has happened since"
        newer, age_s = len(self.journal) - later[0], self.clock.monotonic() - self.journal[later[0]][2]
        assert newer >= self.limits.events * 9 // 10 or age_s > AGE_S, f"an event that {newer - 1} newer ones follow has gone after {age_s} s"
