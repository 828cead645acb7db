"""What every step of a project's reconciliation works with: the pass, the world, the project's own names."""

from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

from gitops.content import ContentVolume, ProjectKey
from gitops.repositories import Repositories
from gitops.snapshots import Snapshots
from reconcile.cluster.port import ARENA_PROJECT, Object
from reconcile.errors import Conflict
from reconcile.kinds.names import REQUESTED_SYNC, request_of
from reconcile.kinds.project import ArenaProjectSpec
from reconcile.project.port import MirrorPort
from reconcile.project.turns import FetchTurns
from reconcile.runtime.reconciler import Pass

LOOK_AGAIN = timedelta(seconds=30)
"""A hosted main is read again this often: a crash between a ref's update and its announcement loses nothing."""


@dataclass(frozen=True, slots=True)
class ProjectWorld:
    """What a project touches beyond its own object. `clone_url` is the address that `/<namespace>/<project>.git` is appended to.

    `shown` are the projects whose status has all that their last fetch brought, as far as this process knows. `turns`: how many fetch at once.
    """

    repositories: Repositories
    snapshots: Snapshots
    mirrors: MirrorPort
    clone_url: str
    shown: set[ProjectKey] = field(default_factory=set)
    turns: FetchTurns = field(default_factory=FetchTurns)

    @property
    def volume(self) -> ContentVolume:
        """The content volume."""
        return self.repositories.volume


class ProjectScope:
    """One pass over one project."""

    def __init__(self, scope: Pass, world: ProjectWorld) -> None:
        self.scope = scope
        self.world = world

    @cached_property
    def project(self) -> ProjectKey:
        """The project's place on the content volume."""
        return ProjectKey(self.scope.key.namespace, self.scope.key.name)

    @cached_property
    def spec(self) -> ArenaProjectSpec:
        """The project's spec."""
        return ArenaProjectSpec.model_validate(self.scope.obj["spec"])

    @property
    def status(self) -> dict[str, Any]:
        """The draft status."""
        return self.scope.status

    @cached_property
    def requested(self) -> str:
        """The sync that the object asked for when the pass began, "" for none; what comes later is another pass's."""
        return request_of(self.scope.obj["metadata"].get("annotations"), REQUESTED_SYNC)

    def answer_request(self) -> None:
        """Say in the draft that the requested sync was carried out, whatever came of it."""
        if self.requested:
            self.status["lastHandledSync"] = self.requested

    async def catch_up(self) -> None:
        """Take in the annotations that were stamped during a long step, so that what came of it can be written; the draft is kept.

        Raises:
            Conflict: the spec has changed, another controller has written the status, or the object is another one: begin again.
            NotFound: the object is gone.
        """
        fresh = await self.scope.cluster.get(ARENA_PROJECT, self.project.namespace, self.project.name)
        seen = self.scope.obj
        if _basis(fresh) != _basis(seen):
            raise Conflict(ARENA_PROJECT.kind, self.project.namespace, self.project.name)
        self.scope.obj = fresh


def _basis(project: Object) -> tuple[str, int, Any]:
    """Return what a pass decides by and would overwrite."""
    metadata = project["metadata"]
    return metadata["uid"], metadata["generation"], project.get("status") or {}
