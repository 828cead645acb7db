"""`onPush`: which new commit of a watched ref asks for a run.

Compares the commit that a ref names now with the one in `status.lastPush`, so pushes that came while nobody looked are one comparison. What is
watched, and where a ref begins that was not there before, is `watched.py`'s. Source: survival.md, "Names and causes".
"""

from collections.abc import Mapping, Sequence
from typing import Any

from foundation.errors import UnreadableGlob
from foundation.globs import matches_any
from gitops.content import ProjectKey
from gitops.errors import RefNotFound
from reconcile.arena_run import cause_of
from reconcile.cluster.port import Object
from reconcile.errors import Stalled
from reconcile.job.known_refs import KnownRefs
from reconcile.job.runs import JobRuns
from reconcile.job.watched import Watched, WatchedRefs
from reconcile.kinds.job import ArenaJobSpec, OnPush
from reconcile.kinds.reasons import EventReason, JobReason
from reconcile.naming import push_cause
from reconcile.runtime.reconciler import Pass


class PushWatch:
    """One look at the refs that a job watches."""

    def __init__(self, scope: Pass, runs: JobRuns, refs: KnownRefs, project: ProjectKey) -> None:
        self._scope = scope
        self._runs = runs
        self._repositories = refs.repositories
        self._refs = refs
        self._project = project

    async def look(self, spec: ArenaJobSpec, on_push: OnPush) -> None:
        """Start the runs that pushes ask for. Until the first run of the job is pinned, pushes start none.

        Raises:
            Stalled: a glob cannot be read, or more branches match than a job can watch.
        """
        try:
            watched = await WatchedRefs(self._scope, self._runs, self._refs, self._project).find(spec, on_push)
            if watched is None:
                return
            # A ref that is gone is not among them, so the list is never longer than what is watched.
            self._scope.status["lastPush"] = [{"ref": ref.name, **(await self._follow(on_push, ref))} for ref in watched]
            self._scope.status["watchedBranches"] = list(on_push.branches)
        except UnreadableGlob as error:
            raise Stalled(JobReason.INVALID_SPEC, f"spec.onPush: {error.message}", hint=error.hint) from error

    async def _follow(self, on_push: OnPush, ref: Watched) -> Mapping[str, Any]:
        """Start the run of a ref's new commit, if it asks for one; return commit and count to remember of the ref."""
        seen = {"commit": ref.commit, "count": ref.count}
        if ref.last == ref.commit or not await self._concerns(on_push, ref):
            return seen
        cause = push_cause(ref.name, ref.commit, ref.count + 1)
        await self._runs.refresh()
        if self._runs.of_cause(cause) is None:
            active = [run for run in self._runs.active if _is_push_of(run, ref.name)]
            if active and on_push.concurrency_policy == "Forbid":
                return {"commit": ref.last, "count": ref.count}
            if on_push.concurrency_policy == "Replace":
                await self._replace(active, ref.commit)
            await self._say_passed_over(ref)
        await self._runs.start(cause, trigger="Push", ref=ref.name, commit=ref.commit)
        return {"commit": ref.commit, "count": ref.count + 1}

    async def _concerns(self, on_push: OnPush, ref: Watched) -> bool:
        """Say whether the ref's new commit touches a path that matters; one that is no commit concerns nobody."""
        try:
            changed = await self._repositories.changed_paths(self._project, ref.last or None, ref.commit)
        except RefNotFound:
            return False
        return not on_push.paths or any(matches_any(on_push.paths, path) for path in changed)

    async def _replace(self, active: Sequence[Object], commit: str) -> None:
        for run in active:
            await self._runs.cancel(run)
            old = ((run.get("status") or {}).get("source") or {}).get("commit") or run["spec"]["template"].get("ref", "")
            await self._superseded(f"commit {old[:12]} is superseded by {commit[:12]}: run {run['metadata']['name']} is cancelled")

    async def _say_passed_over(self, ref: Watched) -> None:
        """Say which commits get no run of their own, because a newer one was there when somebody looked."""
        passed = await self._repositories.passed_over(self._project, ref.last, ref.commit) if ref.last else []
        if passed:
            await self._superseded(f"superseded by {ref.commit[:12]} before they ran: {', '.join(commit[:12] for commit in passed)}")

    async def _superseded(self, message: str) -> None:
        await self._scope.event("Normal", EventReason.PUSH_SUPERSEDED, message)


def _is_push_of(run: Object, ref: str) -> bool:
    return cause_of(run).startswith(f"push:{ref}:")
