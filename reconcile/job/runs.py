"""The runs of one job: found by its uid, created once a cause.

Source: survival.md, "Names and causes".
"""

from collections.abc import Mapping
from typing import Any

from foundation.crash import crash_point
from reconcile.arena_run import cause_of, created, finished, run_object
from reconcile.cluster.port import ARENA_RUN, Object
from reconcile.errors import AlreadyExists
from reconcile.keeping import OWNED_BY
from reconcile.kinds.names import JOB_LABEL
from reconcile.kinds.reasons import EventReason
from reconcile.naming import MAX_LABEL, fit, run_names
from reconcile.runtime.reconciler import Pass

SHOWN_ACTIVE = 1024
"""The newest active runs that a status lists; `activeCount` counts them all."""


class JobRuns:
    """The runs that a job's pass sees and makes, oldest first: those that carry its uid.

    They are taken as they are known, which is enough to find that nothing is due, and of a final run that is its projection. Whatever is due is
    decided again by what `refresh` reads, so that a run is not made, cancelled or pruned because the memory of it was behind.
    """

    def __init__(self, scope: Pass, runs: list[Object], *, fresh: bool) -> None:
        self._scope = scope
        self._fresh = fresh
        self.all = sorted(runs, key=created)

    @classmethod
    async def of(cls, scope: Pass) -> "JobRuns":
        """Return the job's runs as they are known; read them where nothing is known."""
        known = scope.known.select(ARENA_RUN, OWNED_BY, scope.uid)
        return cls(scope, await _listed(scope) if known is None else known, fresh=known is None)

    async def refresh(self) -> None:
        """Read the job's runs from the store, once a pass: before anything is decided that cannot be taken back.

        Raises:
            Conflict: the pass sees an old job, which may not say yet what was started.
        """
        if not self._fresh:
            await self._scope.make_sure()
            self.all = sorted(await _listed(self._scope), key=created)
            self._fresh = True

    @property
    def active(self) -> list[Object]:
        """The runs that have not finished."""
        return [run for run in self.all if not finished(run)]

    def of_cause(self, cause: str) -> Object | None:
        """Return the run of a cause."""
        return next((run for run in self.all if cause_of(run) == cause), None)

    async def start(self, cause: str, *, trigger: str, ref: str = "", commit: str = "") -> Object:
        """Create the run of a cause, or find it.

        `commit` pins the template's ref to a SHA, and `ref` is then what the run shows as the ref that was asked for.
        """
        await self.refresh()
        found = self.of_cause(cause)
        if found is not None:
            return found
        for name in run_names(self._scope.key.name, self._scope.uid, cause):
            try:
                run = await self._scope.cluster.create(run_object(self._scope.obj, name, cause, trigger=trigger, ref=ref, commit=commit))
            except AlreadyExists:
                run = await self._scope.cluster.get(ARENA_RUN, self._scope.key.namespace, name)
                if cause_of(run) != cause or not _owned(run, self._scope.uid):
                    continue
            else:
                crash_point("start.created")
                await self._scope.event("Normal", EventReason.RUN_CREATED, f"created run {name} ({cause.partition(':')[0]})")
            self.all.append(run)
            self._scope.status["lastRunRef"] = _reference(run)
            return run
        raise AssertionError("every name of a run was taken, although each is longer than the one before")

    def _newest(self, known: Mapping[str, str]) -> Object | None:
        """Return the run created last; of several in one second the one that is `known` as such, since names say nothing of order."""
        latest = [run for run in self.all if run["metadata"]["creationTimestamp"] == self.all[-1]["metadata"]["creationTimestamp"]]
        return next((run for run in latest if run["metadata"]["uid"] == known.get("uid")), latest[-1] if latest else None)

    async def cancel(self, run: Object) -> None:
        """Ask a run to stop."""
        await self._scope.cluster.patch(ARENA_RUN, run["metadata"]["namespace"], run["metadata"]["name"], {"spec": {"cancelled": True}})

    def show(self, status: dict[str, Any]) -> None:
        """Write what the job's status says of its runs; the last one stays named after it was pruned."""
        newest = self._newest(status.get("lastRunRef") or {})
        if newest is not None:
            status["lastRunRef"] = _reference(newest)
        active = self.active
        status["active"] = [_reference(run) for run in active[-SHOWN_ACTIVE:]]
        status["activeCount"] = len(active)


async def _listed(scope: Pass) -> list[Object]:
    listing = await scope.cluster.list(ARENA_RUN, scope.key.namespace, {JOB_LABEL: fit(scope.key.name, MAX_LABEL)})
    return [run for run in listing.items if _owned(run, scope.uid)]


def _owned(run: Mapping[str, Any], uid: str) -> bool:
    return any(owner["uid"] == uid for owner in run["metadata"].get("ownerReferences", ()))


def _reference(run: Mapping[str, Any]) -> dict[str, str]:
    return {"name": run["metadata"]["name"], "uid": run["metadata"]["uid"]}
