"""Which refs a job watches for pushes, what they name now, and from which commit on each is compared.

Without `onPush.branches` it is the job's ref alone, else every branch that a glob matches. A ref that was there when the job, or the glob, was first
seen begins at what it named then; a branch that came later begins where it left the default branch. Reads only; who starts a run is `pushes.py`.
"""

from dataclasses import dataclass
from typing import Any

from foundation.globs import matches_any
from gitops.content import ProjectKey
from gitops.refs import ResolvedRef
from reconcile.arena_run import finished
from reconcile.cluster.port import ARENA_PROJECT, Object
from reconcile.errors import NotFound, Stalled
from reconcile.job.known_refs import KnownRefs
from reconcile.job.runs import JobRuns
from reconcile.kinds.job import MAX_WATCHED, ArenaJobSpec, OnPush
from reconcile.kinds.reasons import JobReason
from reconcile.project.identity import BRANCHES, answers, default_branch
from reconcile.runtime.reconciler import Pass


@dataclass(frozen=True, slots=True)
class Watched:
    """A ref, the commit that it names now, the one to compare it with ("" compares with nothing), and how many runs its pushes have made."""

    name: str
    commit: str
    last: str
    count: int


class WatchedRefs:
    """The watched refs of one job, as one pass sees them."""

    def __init__(self, scope: Pass, runs: JobRuns, refs: KnownRefs, project: ProjectKey) -> None:
        self._scope = scope
        self._runs = runs
        self._repositories = refs.repositories
        self._refs = refs
        self._project = project
        self._known: dict[str, dict[str, Any]] = {push["ref"]: push for push in scope.status.get("lastPush", [])}

    async def find(self, spec: ArenaJobSpec, on_push: OnPush) -> list[Watched] | None:
        """Return what is watched, by name; None while there is no such project, repository or ref, or the first run has pinned no commit.

        Raises:
            Stalled: more branches match than a status can name.
        """
        project = await self._readable_project()
        if project is None or (on_push.branches and not await self._repositories.exists(self._project)):
            return None
        default = f"{BRANCHES}{default_branch(project) or 'main'}"
        own = await self._resolved(spec.ref or default)
        tips = await self._tips(on_push) if on_push.branches else ({own.ref: own.commit} if own else None)
        if tips is None:
            return None
        # Asked also where nothing matches yet: a branch that comes with the first run's commit must not count as one that came later.
        first = await self._first_commit()
        if first is None:
            return None
        seen = {own.ref: first} if own and first else {}
        return [await self._since(name, commit, seen.get(name, commit), default) for name, commit in tips.items()]

    async def _readable_project(self) -> Object | None:
        try:
            project = await self._scope.look_up(ARENA_PROJECT, self._project.name)
        except NotFound:
            return None
        return project if "deletionTimestamp" not in project["metadata"] and answers(project) else None

    async def _resolved(self, ref: str) -> ResolvedRef | None:
        return await self._refs.resolve(self._scope, self._project, ref)

    async def _tips(self, on_push: OnPush) -> dict[str, str]:
        branches = await self._repositories.branches(self._project)
        tips = {name: commit for name, commit in branches.items() if matches_any(on_push.branches, name.removeprefix(BRANCHES))}
        if len(tips) > MAX_WATCHED:
            raise Stalled(
                JobReason.INVALID_SPEC,
                f"spec.onPush.branches matches {len(tips)} branches, and a job watches {MAX_WATCHED} at most: no push starts a run",
                hint="name fewer of them",
            )
        return tips

    async def _since(self, name: str, commit: str, seen: str, default: str) -> Watched:
        """Return a ref with the commit to compare it with: `seen` where the ref was there when the job or its glob was first seen."""
        known = self._known.get(name)
        if known is not None:
            return Watched(name, commit, known["commit"], known["count"])
        if matches_any(self._scope.status.get("watchedBranches", []), name.removeprefix(BRANCHES)):
            return Watched(name, commit, await self._fork_point(name, commit, default), 0)
        return Watched(name, commit, seen, 0)

    async def _first_commit(self) -> str | None:
        """Return the commit that the job's first run pinned: that run counts as its commit's run. "" when what is there now counts as seen.

        That is so where every run is gone, or was refused before it pinned a commit: neither removing a run nor refusing one starts another. And
        where the job has looked before: then it is the ref, or a glob, that is new. None while the first run has not come so far.
        """
        if "lastPush" in self._scope.status:
            return ""
        await self._runs.refresh()
        pinned = [str(run["status"]["source"]["commit"]) for run in self._runs.all if (run.get("status") or {}).get("source")]
        if pinned:
            return pinned[0]
        return "" if all(finished(run) for run in self._runs.all) else None

    async def _fork_point(self, name: str, commit: str, default: str) -> str:
        """Return where a branch left the default branch; "" where it never was on it, so all that it has is new."""
        trunk = await self._resolved(default)
        if trunk is None or name == default:
            return ""
        return await self._repositories.merge_base(self._project, commit, trunk.commit) or ""
