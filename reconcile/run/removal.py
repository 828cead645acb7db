"""What a deleted run takes with it, in this order: workers, keys, keep-ref, directory; its finalizers go last.

Source: survival.md, step 9.
"""

import asyncio
import contextlib
import shutil
from datetime import timedelta

from engine.errors import QueueUnavailable, RunSettled, RunUnknown
from reconcile.cluster.port import JOB
from reconcile.errors import NotFound
from reconcile.kinds.names import OUTPUT_FINALIZER, RUN_FINALIZER
from reconcile.kinds.reasons import RunReason
from reconcile.run.ownership import read_owner
from reconcile.run.scope import RunScope
from reconcile.run.stopping import STOP_WORDS, end_workers
from reconcile.runtime.reconciler import Progressing, Result, Silent
from reconcile.worker_job import worker_job_name

RETRY = timedelta(seconds=1)


async def remove(run: RunScope) -> Result:
    """Bring a deleted run's traces to their end, then let the object go."""
    if run.status.get("queue") and not run.terminal:
        with contextlib.suppress(QueueUnavailable, RunUnknown, RunSettled):
            await run.world.queue.stop(run.uid, STOP_WORDS[RunReason.CANCELLED])
    await end_workers(run)
    if await _workers_left(run):
        return Progressing(RunReason.DELETING, "waiting for the workers to end", look_again=RETRY)
    with contextlib.suppress(QueueUnavailable):
        await run.world.queue.drop(run.uid)
    if await run.world.repositories.exists(run.project):
        await run.world.repositories.unpin(run.project, run.uid)
    await asyncio.to_thread(_remove_output, run)
    await run.scope.remove_finalizer(OUTPUT_FINALIZER)
    await run.scope.remove_finalizer(RUN_FINALIZER)
    return Silent()


async def _workers_left(run: RunScope) -> bool:
    try:
        job = await run.cluster.get(JOB, run.namespace, worker_job_name(run.name))
    except NotFound:
        return False
    return any(owner["uid"] == run.uid for owner in job["metadata"].get("ownerReferences", []))


def _remove_output(run: RunScope) -> None:
    """Remove the run's directory if it is this run's; another's stays."""
    owner = read_owner(run.output)
    if owner is not None and owner.uid == run.uid:
        shutil.rmtree(run.output, ignore_errors=True)
