"""The controller: from changes in the store to passes, and from passes to status.

Owns when a pass happens and how its outcome is written, once, at its end. What the outcome says is `outcome.py`'s; what a pass does is the
reconciler's.
"""

import asyncio
import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from foundation.clock import Clock
from foundation.errors import ArenaError
from reconcile.cluster.port import Cluster, Object, ObjectKey, ResourceKind
from reconcile.errors import ClusterError, Conflict, InvariantBroken, NotFound, StoreUnavailable
from reconcile.runtime import invariants, outcome
from reconcile.runtime.conditions import READY, find_condition
from reconcile.runtime.informers import Informers
from reconcile.runtime.keyqueue import KeyQueue
from reconcile.runtime.passes import Pass
from reconcile.runtime.reconciler import LookAgain, Reconciler, Result
from reconcile.runtime.reflector import Mapper, by_itself
from reconcile.runtime.schedule import WakeUps

QUIET_CONFLICTS = 5
"""So many conflicts in a row are nothing but a busy object; the next one is shown in the status."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """How a controller works.

    `workers`: passes at once. `resync`: how often every object is looked at though nothing changed, give or take a tenth. `debug`: check the
    invariants after every pass; a broken one ends `run` with InvariantBroken.
    """

    workers: int = 4
    resync: timedelta = timedelta(seconds=30)
    debug: bool = False


DEFAULT_OPTIONS = ControllerOptions()


class Controller:
    """Runs a reconciler over all objects of its kind, some passes at once and never two of one object.

    A pass happens when the object changes, when an object of `owns` that its mapper maps to it changes, when the last pass asked for it, and
    at the regular interval. Passes also see objects that are being deleted while finalizers hold them. An object that is final as stored gets none.

    With `informers`, which others may share and which whoever made them runs, a pass sees its object as it is known: each write bears the version
    that was read, so one that was based on an old object is refused, and our own writes are known at once. What is being deleted is read afresh,
    since its removal is what cannot be taken back. Without, the controller has informers of its own.
    """

    def __init__(
        self,
        cluster: Cluster,
        reconciler: Reconciler,
        *,
        clock: Clock,
        owns: Sequence[tuple[ResourceKind, Mapper]] = (),
        informers: Informers | None = None,
        options: ControllerOptions = DEFAULT_OPTIONS,
    ) -> None:
        self._informers = informers or Informers(cluster, clock)
        self._has_own_informers = informers is None
        self._cluster = self._informers.cluster
        self._reconciler = reconciler
        self._clock = clock
        self._options = options
        self._queue: KeyQueue[ObjectKey] = KeyQueue(clock)
        self._wakeups = WakeUps(clock, self._queue.add)
        self._final: set[ObjectKey] = set()
        self._informers.subscribe(reconciler.kind, by_itself, self._queue.add, own=True)
        for kind, mapper in owns:
            self._informers.subscribe(kind, mapper, self.enqueue)

    async def run(self) -> None:
        """Reconcile until cancelled; passes that are under way are cancelled too.

        Raises:
            ExceptionGroup: a broken invariant in debug mode, or a fault of the runtime itself.
        """
        async with self._wakeups, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._queue.run())
            tasks.create_task(self._resync())
            if self._has_own_informers:
                tasks.create_task(self._informers.run())
            await self._informers.synced()
            for _ in range(self._options.workers):
                tasks.create_task(self._work())

    def enqueue(self, key: ObjectKey) -> None:
        """Ask for a pass over an object now, for example because something outside the store changed. A final one needs none."""
        if not self._informers.is_final(self._reconciler.kind, key):
            self._queue.add(key)

    @property
    def is_idle(self) -> bool:
        """Whether no pass is under way or waiting; delayed ones do not count."""
        return self._queue.is_idle

    async def pass_over(self, key: ObjectKey) -> None:
        """Do one pass over an object and write its outcome, as `run` does for each key. Does nothing when the object is gone, or known to be final.

        Raises:
            InvariantBroken: in debug mode only.
        """
        if self._informers.is_final(self._reconciler.kind, key):
            self._forget(key)
            return
        with structlog.contextvars.bound_contextvars(kind=self._reconciler.kind.kind, key=str(key)):
            try:
                obj = await self._object(key)
                seen = copy.deepcopy(obj) if self._options.debug else obj
                scope = Pass(obj, self._cluster, self._clock, self._informers)
                await self._settle(scope, await self._outcome(scope))
                invariants.check_unedited(obj, seen)
            except NotFound:
                self._forget(key)
            except Conflict:
                self._queue.retry(key)
            except ClusterError as error:
                delay_s = self._queue.retry(key)
                _log.warning("pass.unwritten", error=error.message, retry_s=delay_s)

    async def _object(self, key: ObjectKey) -> Object:
        known = self._informers.find(self._reconciler.kind, key)
        if known is not None and "deletionTimestamp" not in known["metadata"]:
            return known
        return await self._cluster.get(self._reconciler.kind, key.namespace, key.name)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self.pass_over(key)
            finally:
                self._queue.done(key)

    async def _outcome(self, scope: Pass) -> Result | Exception:
        """Run the reconciler. Conflicts, and a store that does not answer, are raised: there is nothing to show a person yet."""
        try:
            return await self._reconciler.reconcile(scope)
        except StoreUnavailable:
            raise
        except Conflict as error:
            if self._queue.failures(scope.key) < QUIET_CONFLICTS:
                raise
            return error
        except InvariantBroken as error:
            if self._options.debug:
                raise
            return error
        except Exception as error:  # noqa: BLE001 - becomes the status, and is logged there
            return error

    async def _settle(self, scope: Pass, result: Result | Exception) -> None:
        """Write what a pass came to, once, and plan the next look."""
        stored = scope.obj.get("status") or {}
        if self._options.debug:
            invariants.check_untouched(stored.get("conditions") or (), scope.status.get("conditions") or ())
        reduced = outcome.reduce(scope.status.get("conditions") or (), result, scope.generation, self._clock.now())
        if reduced.conditions is not None:
            scope.status |= {"conditions": reduced.conditions, "observedGeneration": reduced.observed_generation}
            if self._options.debug:
                invariants.check(scope.status, scope.generation)
        await scope.save()
        if scope.gone:
            self._forget(scope.key)
            return
        self._plan(scope.key, reduced, result)
        _log_change(stored, scope.status)

    def _plan(self, key: ObjectKey, reduced: outcome.Reduced, result: Result | Exception) -> None:
        (self._final.add if reduced.final else self._final.discard)(key)
        if reduced.retry and isinstance(result, Exception):
            delay_s = self._queue.retry(key)
            _log_failure(result, delay_s)
            return
        self._queue.forget(key)
        self._look_again(key, reduced.look_again)

    def _look_again(self, key: ObjectKey, when: LookAgain) -> None:
        if isinstance(when, datetime):
            self._wakeups.wake(key, when)
            return
        self._wakeups.cancel(key)
        if when is not None:
            self._queue.add_after(key, when.total_seconds())

    def _forget(self, key: ObjectKey) -> None:
        self._queue.forget(key)
        self._wakeups.cancel(key)
        self._final.discard(key)

    async def _resync(self) -> None:
        while True:
            jitter = random.uniform(0.9, 1.1)  # noqa: S311 - spreads load, guards nothing
            await self._clock.sleep(self._options.resync.total_seconds() * jitter)
            for key in self._informers.all_keys(self._reconciler.kind):
                if key not in self._final:
                    self.enqueue(key)


def _log_failure(error: Exception, delay_s: float) -> None:
    if isinstance(error, ArenaError):
        _log.warning("pass.failed", error=error.message, hint=error.hint, retry_s=delay_s)
    else:
        _log.error("pass.failed", retry_s=delay_s, exc_info=error)


def _log_change(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Log a line when what Ready says has changed."""
    old = find_condition(before.get("conditions") or (), READY) or {}
    new = find_condition(after.get("conditions") or (), READY) or {}
    if (old.get("status"), old.get("reason")) != (new.get("status"), new.get("reason")):
        _log.info("ready.changed", ready=new.get("status"), reason=new.get("reason"), message=new.get("message"))
