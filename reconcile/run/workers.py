"""From a queue to workers: the run's batch Job, and what its end means.

Source: survival.md, step 3.
"""

from datetime import timedelta
from typing import Any

from reconcile.cluster.port import ARENA_RUN, JOB
from reconcile.errors import AlreadyExists, NotFound, Waiting
from reconcile.kinds.reasons import EventReason, RunReason
from reconcile.run.scope import RunScope
from reconcile.run.stopping import request_stop
from reconcile.runtime.conditions import timestamp
from reconcile.worker_job import WorkerSpec, worker_job, worker_job_name

RETRY = timedelta(seconds=5)


async def start_workers(run: RunScope) -> None:
    """See to it that a Job works the queue, unless nothing is left to work.

    A Job that is gone, or Complete with items left, is made again; one that has failed for good stops the run.
    """
    job = await find_job(run)
    run.status["activeWorkers"] = (job or {}).get("status", {}).get("active", 0)
    if run.drained or run.stop or run.counted().stopped:
        return
    if job is None:
        await _create(run)
        return
    if _ended(job, "Failed"):
        await request_stop(run, RunReason.WORKERS_FAILED)
    elif _ended(job, "Complete"):
        await run.scope.event("Warning", EventReason.WORKERS_RESTARTED, "the workers ended with items left; they are started again")
        await run.cluster.delete(JOB, run.namespace, job["metadata"]["name"], uid=job["metadata"]["uid"])
        raise Waiting(RunReason.PROGRESSING, "the worker Job is being replaced", RETRY)


async def find_job(run: RunScope) -> dict[str, Any] | None:
    """Return the run's own Job.

    Raises:
        Waiting: one of its name belongs to somebody else, or it is being deleted.
    """
    try:
        job = await run.cluster.get(JOB, run.namespace, worker_job_name(run.name))
    except NotFound:
        return None
    if all(owner["uid"] != run.uid for owner in job["metadata"].get("ownerReferences", [])):
        message = f"a Job '{job['metadata']['name']}' exists that is not this run's"
        run.scope.condition("JobCreated", "False", RunReason.JOB_CREATION_FAILED, message)
        raise Waiting(RunReason.JOB_CREATION_FAILED, message)
    if "deletionTimestamp" in job["metadata"] and not run.drained:
        raise Waiting(RunReason.PROGRESSING, f"Job '{job['metadata']['name']}' is being deleted", RETRY)
    return job


async def _create(run: RunScope) -> None:
    if "workers" not in run.status:
        run.status["workers"] = _workers(run)
        await run.scope.save()
        asked = run.template.workers.replicas
        if run.world.max_workers and asked > run.world.max_workers:
            await run.scope.event("Normal", EventReason.WORKERS_REDUCED, f"{asked} workers were asked for, and {run.world.max_workers} may run here")
    try:
        await run.cluster.create(worker_job(_spec(run)))
    except AlreadyExists as error:
        raise Waiting(RunReason.JOB_CREATION_FAILED, error.message, RETRY) from error
    run.scope.condition("JobCreated", "True", RunReason.JOB_CREATED, f"{run.status['workers']} workers")
    run.status["phase"] = "Running"
    run.status.setdefault("startTime", timestamp(run.clock.now()))
    await run.scope.save()


def _workers(run: RunScope) -> int:
    """Return how many workers the run gets: what it asks for, within this installation's limit and never more than it has items."""
    limits = [run.template.workers.replicas, len(run.planned().items), *([run.world.max_workers] if run.world.max_workers else [])]
    return max(1, min(limits))


def _spec(run: RunScope) -> WorkerSpec:
    source, volume = run.status["source"], run.world.volume
    return WorkerSpec(
        run=run.name,
        namespace=run.namespace,
        uid=run.uid,
        api_version=ARENA_RUN.api_version,
        workers=run.status["workers"],
        image=run.planned().image,
        content_path=source["contentPath"],
        output_path=run.status["outputPath"],
        subtree=volume.namespace(run.namespace).relative_to(volume.root).as_posix(),
        verbose=run.template.verbose,
        ttl_s=run.template.ttl_seconds,
    )


def _ended(job: dict[str, Any], how: str) -> bool:
    return any(c["type"] == how and c["status"] == "True" for c in job.get("status", {}).get("conditions", []))
