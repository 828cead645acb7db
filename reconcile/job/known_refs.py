"""What the refs of projects name, read once for all the jobs that watch one.

Owns for how long an answer of git holds. Must not know what a job makes of it.
"""

from dataclasses import dataclass, field
from typing import Final

from gitops.content import ProjectKey
from gitops.errors import RefNotFound, UnknownProject
from gitops.refs import ResolvedRef
from gitops.repositories import Repositories
from reconcile.cluster.port import ARENA_PROJECT, ObjectKey
from reconcile.runtime.reconciler import Pass

FRESH_S: Final = 10.0
"""For so long an answer holds at most. It bounds what is missed when whoever moved a ref died before it could stamp the project."""
MAX_PROJECTS: Final = 1000


@dataclass(frozen=True, slots=True)
class _Seen:
    """A project as memory showed it, and what its refs named then."""

    version: str
    since_s: float
    refs: dict[str, ResolvedRef | None] = field(default_factory=dict)


class KnownRefs:
    """Refs as git has them, each read once while memory shows its project unchanged.

    A push stamps its project, and a fetch is told in its status. Where nothing is remembered of the project, every look reads.
    `repositories` answers everything else.
    """

    def __init__(self, repositories: Repositories) -> None:
        self.repositories = repositories
        self._seen: dict[ProjectKey, _Seen] = {}

    async def resolve(self, scope: Pass, project: ProjectKey, ref: str) -> ResolvedRef | None:
        """Return what a ref names; None where there is no such ref, or no repository."""
        seen = self._seen_of(scope, project)
        if seen is None:
            return await self._read(project, ref)
        if ref not in seen.refs:
            seen.refs[ref] = await self._read(project, ref)
        return seen.refs[ref]

    def _seen_of(self, scope: Pass, project: ProjectKey) -> _Seen | None:
        known = scope.known.find(ARENA_PROJECT, ObjectKey(project.namespace, project.name))
        if known is None:
            return None
        version, now_s, seen = str(known["metadata"]["resourceVersion"]), scope.clock.monotonic(), self._seen.get(project)
        if seen is None or seen.version != version or now_s - seen.since_s > FRESH_S:
            if len(self._seen) >= MAX_PROJECTS:
                self._seen.clear()
            seen = self._seen[project] = _Seen(version, now_s)
        return seen

    async def _read(self, project: ProjectKey, ref: str) -> ResolvedRef | None:
        try:
            return await self.repositories.resolve(project, ref)
        except (RefNotFound, UnknownProject):
            return None
