"""A pass: one look at one object, with the draft of its status.

Owns how a reconciler writes to its own object: the draft is saved with the resourceVersion that was read, so a pass that saw an old object
never overwrites a newer one. Must not decide what the conditions say (`outcome.py`).
"""

from typing import Any

from foundation.clock import Clock
from reconcile.cluster.merge import duplicate, merge_patch_between
from reconcile.cluster.port import Cluster, Object, ObjectKey, ResourceKind, kind_of
from reconcile.errors import Conflict, NotFound
from reconcile.runtime import events
from reconcile.runtime.cache import NOTHING_KNOWN, Known
from reconcile.runtime.conditions import ConditionStatus, Finding, set_condition


class Pass:
    """One pass over one object.

    `obj` is the object as last read or written: look, do not edit. `status` is the draft: edit it in place; the controller saves it when
    the pass ends, and `save` does so at once. `cluster`, `clock` and `key` are the world and the object's place in it. `known` is what is known of
    other objects without asking the store, and may lag behind it.
    """

    def __init__(self, obj: Object, cluster: Cluster, clock: Clock, known: Known = NOTHING_KNOWN) -> None:
        self.obj = obj
        self.known = known
        self.kind = kind_of(obj)
        self.key = ObjectKey.of(obj)
        self.cluster = cluster
        self.clock = clock
        self.status: dict[str, Any] = duplicate(obj.get("status") or {})
        self._gone = False

    @property
    def uid(self) -> str:
        """The object's uid."""
        return str(self.obj["metadata"]["uid"])

    @property
    def generation(self) -> int:
        """The generation of the object this pass sees; 0 for kinds that count none."""
        return int(self.obj["metadata"].get("generation", 0))

    @property
    def deleting(self) -> bool:
        """Whether the object is being deleted: finalizers hold it."""
        return "deletionTimestamp" in self.obj["metadata"]

    @property
    def gone(self) -> bool:
        """Whether the object no longer exists, because this pass removed its last finalizer."""
        return self._gone

    async def save(self) -> bool:
        """Write the draft status now if it differs from the stored one; say whether it did. Saving twice writes once.

        Raises:
            Conflict: the object has changed since this pass read it; the pass should end (the controller starts another).
            NotFound: the object is gone.
        """
        patch = merge_patch_between(self.obj.get("status") or {}, self.status)
        if not patch or self._gone:
            return False
        self.obj = await self.cluster.patch_status(
            self.kind, self.key.namespace, self.key.name, patch, resource_version=self.obj["metadata"]["resourceVersion"]
        )
        return True

    async def make_sure(self) -> None:
        """Make sure that this pass sees its object as the store has it, before it does what cannot be taken back.

        Raises:
            Conflict: it has changed; the pass should end (the controller starts another, which sees the new one).
            NotFound: it is gone.
        """
        stored = (await self.cluster.get(self.kind, self.key.namespace, self.key.name))["metadata"]
        if (stored["uid"], stored["resourceVersion"]) != (self.uid, self.obj["metadata"]["resourceVersion"]):
            raise Conflict(self.kind.kind, self.key.namespace, self.key.name)

    async def look_up(self, kind: ResourceKind, name: str) -> Object:
        """Return another object of this namespace as it is known, or read it where it is not.

        What is known may lag: for what is decided again when that object changes, and does no harm if it is done once more.

        Raises:
            NotFound: there is none.
        """
        return self.known.find(kind, ObjectKey(self.key.namespace, name)) or await self.cluster.get(kind, self.key.namespace, name)

    def condition(self, condition_type: str, status: ConditionStatus, reason: str, message: str = "") -> None:
        """Set one of the reconciler's own conditions in the draft; Ready, Reconciling and Stalled are refused with InvariantBroken."""
        finding = Finding(condition_type, status, reason, message)
        set_condition(self.status.setdefault("conditions", []), finding, self.generation, self.clock.now())

    async def event(self, event_type: events.EventKind, reason: str, message: str) -> None:
        """Record an Event about the object. Equal ones are counted, and a store that refuses it does not fail the pass."""
        await events.record(self.cluster, self.obj, event_type, reason, message, clock=self.clock)

    def has_finalizer(self, finalizer: str) -> bool:
        """Say whether the object bears the finalizer."""
        return finalizer in self.obj["metadata"].get("finalizers", [])

    async def add_finalizer(self, finalizer: str) -> None:
        """Make sure that the object cannot go before `remove_finalizer`; the draft status is kept. Nothing happens if it is there.

        Raises:
            Conflict: the object has changed since this pass read it.
            Invalid: the object is being deleted already.
        """
        if not self.has_finalizer(finalizer):
            await self._set_finalizers([*self.obj["metadata"].get("finalizers", []), finalizer])

    async def remove_finalizer(self, finalizer: str) -> None:
        """Let the object go as far as this finalizer held it; if it was the last one of a deleted object, `gone` is true afterwards.

        Raises:
            Conflict: the object has changed since this pass read it.
        """
        if not self.has_finalizer(finalizer):
            return
        rest = [name for name in self.obj["metadata"]["finalizers"] if name != finalizer]
        try:
            await self._set_finalizers(rest)
        except NotFound:
            self._gone = True
        if self.deleting and not rest:
            self._gone = True

    async def _set_finalizers(self, finalizers: list[str]) -> None:
        self.obj = await self.cluster.patch(
            self.kind,
            self.key.namespace,
            self.key.name,
            {"metadata": {"finalizers": finalizers or None}},
            resource_version=self.obj["metadata"]["resourceVersion"],
        )
