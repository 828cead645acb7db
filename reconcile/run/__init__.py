"""ArenaRun: from a frozen spec to a verdict.

Owns the order of a run's steps. Each step reads the world, does one thing that is safe to repeat, and returns; git and the engine are
known only through their packages' interfaces.
"""

from collections.abc import Awaitable, Callable

from engine.errors import OutputUnavailable, QueueUnavailable, RunSettled, RunUnknown
from gitops.errors import StorageFailed
from reconcile.cluster.port import ARENA_RUN, ResourceKind
from reconcile.errors import Waiting
from reconcile.kinds.names import OUTPUT_FINALIZER, OUTPUT_PATH, RUN_FINALIZER
from reconcile.kinds.reasons import RunReason
from reconcile.run.observing import LOOK_AGAIN, ProgressPace, show_progress
from reconcile.run.planning import check_references, check_template, check_workspace, make_the_plan
from reconcile.run.queueing import pin_queue, put_items
from reconcile.run.removal import remove
from reconcile.run.scope import RunRefused, RunScope, RunWorld
from reconcile.run.settling import end_refused, settle, tidy
from reconcile.run.source import await_project, export_snapshot, pin_commit
from reconcile.run.stopping import RunCancelled, drain_stopped, heed_stop
from reconcile.run.worker_pods import PodLooks
from reconcile.run.workers import crew, start_workers
from reconcile.runtime.reconciler import Pass, Progressing, Result

__all__ = ["RunReconciler", "RunWorld"]

Step = Callable[[RunScope], Awaitable[None]]


async def hold(run: RunScope) -> None:
    """Mark the run: finalizers, the annotation that names its directory, phase Pending."""
    run.status.setdefault("phase", "Pending")
    metadata = run.scope.obj["metadata"]
    finalizers = list(metadata.get("finalizers", []))
    missing = [finalizer for finalizer in (RUN_FINALIZER, OUTPUT_FINALIZER) if finalizer not in finalizers]
    if not missing and OUTPUT_PATH in run.annotations:
        return
    annotation = {OUTPUT_PATH: run.world.volume.relative(run.namespace, run.output)}
    marks = {"metadata": {"finalizers": [*finalizers, *missing], "annotations": annotation}}
    run.scope.obj = await run.cluster.patch(ARENA_RUN, run.namespace, run.name, marks, resource_version=metadata["resourceVersion"])


class RunReconciler:
    """Drive one ArenaRun from Pending to a terminal phase."""

    kind: ResourceKind = ARENA_RUN

    steps: tuple[Step, ...] = (
        hold,
        check_template,
        heed_stop,
        check_references,
        await_project,
        check_workspace,
        pin_commit,
        export_snapshot,
        make_the_plan,
        pin_queue,
        put_items,
        start_workers,
        drain_stopped,
    )

    def __init__(self, world: RunWorld) -> None:
        self._world = world
        self._pace = ProgressPace()
        self._pods = PodLooks()

    async def reconcile(self, scope: Pass) -> Result:
        """Do one pass over a run."""
        run = RunScope(scope, self._world)
        if scope.deleting:
            self._forget(run)
            return await remove(run)
        try:
            if run.terminal:
                self._forget(run)
                return await tidy(run)
            return await self._advance(run)
        except RunCancelled as cancelled:
            return await end_refused(run, "Cancelled", cancelled.reason, cancelled.message)
        except RunRefused as refused:
            return await end_refused(run, "Failed", refused.reason, _with_hint(refused))
        except QueueUnavailable as error:
            raise Waiting(RunReason.QUEUE_UNAVAILABLE, error.message, LOOK_AGAIN * 4) from error
        except (RunUnknown, RunSettled) as error:
            # The store lost the run between two lines of this pass; the next pass rebuilds it.
            raise Waiting(RunReason.QUEUE_UNAVAILABLE, error.message, LOOK_AGAIN) from error
        except (StorageFailed, OutputUnavailable) as error:
            raise Waiting(RunReason.STORAGE_FAILED, error.message, hint=error.hint) from error

    async def _advance(self, run: RunScope) -> Result:
        for step in self.steps:
            await step(run)
        if run.drained:
            return await settle(run)
        if self._pace.due(run.uid, run.clock.monotonic()):
            show_progress(run)
        message = f"stopping: {run.stop['reason']}" if run.stop else crew(run.status.get("workers", 0))
        trouble = await self._pods.trouble(run)
        message += f"; {trouble}" if trouble else ""
        run.scope.condition("Progressing", "True", RunReason.WORKERS_RUNNING, message)
        return Progressing(RunReason.WORKERS_RUNNING, message, look_again=LOOK_AGAIN)

    def _forget(self, run: RunScope) -> None:
        self._pace.forget(run.uid)
        self._pods.forget(run.uid)


def _with_hint(error: RunRefused) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
