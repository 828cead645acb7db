"""What every step of a project's reconciliation works with: the pass, the world, the project's own names."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from gitops.content import ContentVolume, ProjectKey
from gitops.repositories import Repositories
from gitops.snapshots import Snapshots
from reconcile.kinds.project import ArenaProjectSpec
from reconcile.runtime.reconciler import Pass

LOOK_AGAIN = timedelta(seconds=30)
"""A hosted main is read again this often: a crash between a ref's update and its announcement loses nothing."""


@dataclass(frozen=True, slots=True)
class ProjectWorld:
    """What a project touches beyond its own object. `clone_url` is the address that `/<namespace>/<project>.git` is appended to."""

    repositories: Repositories
    snapshots: Snapshots
    volume: ContentVolume
    clone_url: str


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
