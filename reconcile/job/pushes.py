"""`onPush`: which new commit of a ref asks for a run.

Compares the commit that a ref names now with the one in `status.lastPush`, so pushes that came while nobody looked are one comparison.
Source: survival.md, "Names and causes".
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gitops.content import ProjectKey
from gitops.errors import RefNotFound
from gitops.refs import ResolvedRef
from gitops.repositories import Repositories
from reconcile.arena_run import cause_of, finished
from reconcile.cluster.port import ARENA_PROJECT, Object
from reconcile.errors import NotFound
from reconcile.job.globs import matches_any
from reconcile.job.runs import JobRuns
from reconcile.kinds.job import ArenaJobSpec, OnPush
from reconcile.kinds.reasons import EventReason
from reconcile.naming import push_cause
from reconcile.runtime.reconciler import Pass


class PushWatch:
    """One look at the refs that a job watches."""

    def __init__(self, scope: Pass, runs: JobRuns, repositories: Repositories, project: ProjectKey) -> None:
        self._scope = scope
        self._runs = runs
        self._repositories = repositories
        self._project = project

    async def look(self, spec: ArenaJobSpec, on_push: OnPush) -> None:
        """Start the run that a push asks for, if one does. Until the first run of the job is pinned, pushes start none."""
        resolved = await self._resolve(spec)
        if resolved is None or (on_push.branches and not matches_any(on_push.branches, _branch(resolved.ref))):
            return
        last = self._last(resolved.ref) or self._first_seen(resolved)
        if last is None:
            return
        if last["commit"] == resolved.commit:
            self._remember(last)
            return
        await self._compare(on_push, resolved, last)

    async def _resolve(self, spec: ArenaJobSpec) -> ResolvedRef | None:
        """Return what the job's ref names now; None while there is no such project, repository or ref."""
        try:
            project = await self._scope.cluster.get(ARENA_PROJECT, self._project.namespace, self._project.name)
            if "deletionTimestamp" in project["metadata"] or not await self._repositories.exists(self._project):
                return None
            ref = spec.ref or project.get("status", {}).get("defaultBranch") or "main"
            return await self._repositories.resolve(self._project, ref)
        except (NotFound, RefNotFound):
            return None

    async def _compare(self, on_push: OnPush, resolved: ResolvedRef, last: Mapping[str, Any]) -> None:
        changed = await self._repositories.changed_paths(self._project, last["commit"], resolved.commit)
        if on_push.paths and not any(matches_any(on_push.paths, path) for path in changed):
            self._remember({**last, "commit": resolved.commit})
            return
        count = last["count"] + 1
        cause = push_cause(resolved.ref, resolved.commit, count)
        if self._runs.of_cause(cause) is None:
            active = [run for run in self._runs.active if _is_push_of(run, resolved.ref)]
            if active and on_push.concurrency_policy == "Forbid":
                return
            if on_push.concurrency_policy == "Replace":
                await self._replace(active, resolved.commit)
            await self._say_passed_over(last["commit"], resolved.commit)
        await self._runs.start(cause, trigger="Push", ref=resolved.ref, commit=resolved.commit)
        self._remember({"ref": resolved.ref, "commit": resolved.commit, "count": count})

    async def _replace(self, active: Sequence[Object], commit: str) -> None:
        for run in active:
            await self._runs.cancel(run)
            old = ((run.get("status") or {}).get("source") or {}).get("commit") or run["spec"]["template"].get("ref", "")
            await self._superseded(f"commit {old[:12]} is superseded by {commit[:12]}: run {run['metadata']['name']} is cancelled")

    async def _say_passed_over(self, old: str, new: str) -> None:
        """Say which commits get no run of their own, because a newer one was there when somebody looked."""
        passed = await self._repositories.passed_over(self._project, old, new)
        if passed:
            await self._superseded(f"superseded by {new[:12]} before they ran: {', '.join(commit[:12] for commit in passed)}")

    async def _superseded(self, message: str) -> None:
        await self._scope.event("Normal", EventReason.PUSH_SUPERSEDED, message)

    def _last(self, ref: str) -> Mapping[str, Any] | None:
        return next((push for push in self._scope.status.get("lastPush", []) if push["ref"] == ref), None)

    def _first_seen(self, resolved: ResolvedRef) -> Mapping[str, Any] | None:
        """Return the commit that the job's first run pinned: that run counts as its commit's run.

        Where every run is gone, or was refused before it pinned a commit, what is there now counts as seen: neither removing a run nor refusing one
        starts another.
        """
        pinned = [run["status"]["source"]["commit"] for run in self._runs.all if (run.get("status") or {}).get("source")]
        if pinned:
            return {"ref": resolved.ref, "commit": pinned[0], "count": 0}
        return {"ref": resolved.ref, "commit": resolved.commit, "count": 0} if all(finished(run) for run in self._runs.all) else None

    def _remember(self, push: Mapping[str, Any]) -> None:
        others = [other for other in self._scope.status.get("lastPush", []) if other["ref"] != push["ref"]]
        self._scope.status["lastPush"] = [*others, dict(push)]


def _branch(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


def _is_push_of(run: Object, ref: str) -> bool:
    return cause_of(run).startswith(f"push:{ref}:")
