"""What a deleted run takes with it, in this order: workers, keys, user, keep-ref, directory; its finalizers go last.

Source: survival.md, step 9.
"""

import asyncio
import contextlib
from datetime import timedelta

from engine.errors import QueueUnavailable, RunSettled, RunUnknown
from foundation.crash import crash_point
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
    crash_point("delete.stopped")
    if await end_workers(run) and is_own(run, await stored_job(run)):
        return Progressing(RunReason.DELETING, "waiting for the workers to end", look_again=RETRY)
    crash_point("delete.workers_ended")
    with contextlib.suppress(QueueUnavailable):
        await run.world.queue.drop(run.uid)
    crash_point("delete.keys_dropped")
    if run.world.users is not None:
        with contextlib.suppress(QueueUnavailable):
            await run.world.users.drop(run.uid)
    crash_point("delete.user_dropped")
    if await run.world.repositories.exists(run.project):
        await run.world.repositories.unpin(run.project, run.uid)
    crash_point("delete.ref_removed")
    await asyncio.to_thread(discard, run.output, run.uid)
    crash_point("delete.directory_removed")
    await run.scope.remove_finalizer(OUTPUT_FINALIZER)
    crash_point("delete.output_released")
    await run.scope.remove_finalizer(RUN_FINALIZER)
    return Silent()
