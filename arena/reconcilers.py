"""The reconcilers of an installation, made from what its runs touch: the same in both modes."""

from reconcile.control_plane import Reconcilers
from reconcile.job import JobReconciler
from reconcile.neighbours import neighbour_reconcilers
from reconcile.project import ProjectReconciler, ProjectWorld
from reconcile.run import RunReconciler, RunWorld


def reconcilers_of(world: RunWorld, clone_url: str) -> Reconcilers:
    """Return one reconciler a kind; `clone_url` is what `/<namespace>/<project>.git` is appended to."""
    return Reconcilers(
        project=ProjectReconciler(ProjectWorld(world.repositories, world.snapshots, world.mirrors, clone_url)),
        job=JobReconciler(world.repositories, world.volume, in_cluster=world.pods is not None),
        run=RunReconciler(world),
        neighbours=neighbour_reconcilers() if world.pods is None else (),
    )
