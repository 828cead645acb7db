"""What a deleted run takes with it, in this order: workers, keys, keep-ref, directory; its finalizers go last.

Source: survival.md, step 9.
"""

import asyncio
import contextlib
from datetime import timedelta

from engine.errors import QueueUnavailable, RunSettled, RunUnknown
from reconcile.kinds.names import OUTPUT_FINALIZER, RUN_FINALIZER
from reconcile.kinds.reasons import RunReason
from reconcile.run.ownership import discard
from reconcile.run.scope import RunScope
from reconcile.run.stopping import STOP_WORDS
from reconcile.run.worker_jobs import end_workers, is_own, stored_job
from reconcile.runtime.reconciler import Progressing, Result, Silent

RETRY = timedelta(seconds=1)


async def remove(run: RunScope) -> Result:
    """Bring a deleted run's traces to their end, then let the object go."""
    if run.status.get("queue") and not run.terminal:
        with contextlib.suppress(QueueUnavailable, RunUnknown, RunSettled):
            await run.world.queue.stop(run.uid, STOP_WORDS[RunReason.CANCELLED])
    if await end_workers(run) and is_own(run, await stored_job(run)):
        return Progressing(RunReason.DELETING, "waiting for the workers to end", look_again=RETRY)
    with contextlib.suppress(QueueUnavailable):
        await run.world.queue.drop(run.uid)
    if await run.world.repositories.exists(run.project):
        await run.world.repositories.unpin(run.project, run.uid)
    await asyncio.to_thread(discard, run.output, run.uid)
    await run.scope.remove_finalizer(OUTPUT_FINALIZER)
    await run.scope.remove_finalizer(RUN_FINALIZER)
    return Silent()
