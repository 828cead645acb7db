"""The controllers of all kinds, over one memory of the store: what wakes whom.

Owns which changes concern which reconciler, and that they share their informers. Must not know how a store, a queue or a repository is reached.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from foundation.clock import Clock
from reconcile.cluster.port import ARENA_JOB, ARENA_PROJECT, ARENA_RUN, JOB, Cluster, ResourceKind
from reconcile.keeping import KEEPING
from reconcile.mapping import jobs_of_project, project_of_ended_run, runs_of_project
from reconcile.runtime.cache import Known
from reconcile.runtime.controller import DEFAULT_OPTIONS, Controller, ControllerOptions
from reconcile.runtime.informers import Informers
from reconcile.runtime.reconciler import Reconciler
from reconcile.runtime.reflector import Mapper, by_owner

WORKERS: Mapping[ResourceKind, int] = {ARENA_PROJECT: 16}
"""Passes of a kind at once, where the usual number will not do: one of a project may wait for somebody else's host, and pushes to hosted ones must not wait for it."""


@dataclass(frozen=True, slots=True)
class Reconcilers:
    """One reconciler a kind. `neighbours` are those of kinds that may be another product's: none where they are, or may be."""

    project: Reconciler
    job: Reconciler
    run: Reconciler
    neighbours: tuple[Reconciler, ...] = ()


class ControlPlane:
    """Runs the reconcilers over a store. May be run again after it was cancelled: it then begins with what the store holds.

    `namespace`: None is all.
    """

    def __init__(
        self,
        cluster: Cluster,
        reconcilers: Reconcilers,
        clock: Clock,
        *,
        namespace: str | None = None,
        options: ControllerOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.informers = Informers(cluster, clock, KEEPING, namespace=namespace)
        owns = _owns(self.informers)
        self.controllers: Mapping[ResourceKind, Controller] = {
            reconciler.kind: Controller(
                cluster,
                reconciler,
                clock=clock,
                owns=owns.get(reconciler.kind, ()),
                informers=self.informers,
                options=replace(options, workers=WORKERS.get(reconciler.kind, options.workers)),
            )
            for reconciler in (reconcilers.project, reconcilers.job, reconcilers.run, *reconcilers.neighbours)
        }

    async def run(self) -> None:
        """Reconcile until cancelled.

        Raises:
            ExceptionGroup: a broken invariant in debug mode, or a fault of the runtime itself.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.informers.run())
            for controller in self.controllers.values():
                tasks.create_task(controller.run())

    @property
    def is_idle(self) -> bool:
        """Whether no pass is under way or waiting; delayed ones do not count."""
        return all(controller.is_idle for controller in self.controllers.values())


def _owns(known: Known) -> Mapping[ResourceKind, Sequence[tuple[ResourceKind, Mapper]]]:
    return {
        # Not Secrets: to follow them is to read all of a cluster's. A pass reads the project's own, and sees whether it has changed.
        ARENA_PROJECT: [(ARENA_RUN, project_of_ended_run)],
        ARENA_JOB: [(ARENA_RUN, by_owner(ARENA_JOB)), (ARENA_PROJECT, jobs_of_project(known))],
        ARENA_RUN: [(JOB, by_owner(ARENA_RUN)), (ARENA_PROJECT, runs_of_project(known))],
    }
