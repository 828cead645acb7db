"""From a queue to workers: the run's batch Job, and what its end means.

Source: survival.md, step 3.
"""

from datetime import timedelta

from foundation.crash import crash_point
from reconcile.cluster.port import JOB, Object
from reconcile.errors import AlreadyExists, Invalid, Waiting
from reconcile.kinds.reasons import EventReason, RunReason
from reconcile.run.credentials import check_secrets
from reconcile.run.queue_access import keep_queue_open, open_queue
from reconcile.run.scope import RunRefused, RunScope
from reconcile.run.stopping import request_stop
from reconcile.run.worker_jobs import end_of, is_own, known_job
from reconcile.worker_job import SecretValue, WorkerSpec, worker_job

RETRY = timedelta(seconds=5)


async def start_workers(run: RunScope) -> None:
    """See to it that a Job works the queue, unless nothing is left to work.

    A Job that is gone, or Complete with items left, is made again; one that has failed for good stops the run.

    Raises:
        Waiting: a Job of the name belongs to somebody else, or is being deleted, and this run needs one.
    """
    job = await known_job(run)
    mine = is_own(run, job)
    run.status["activeWorkers"] = (job or {}).get("status", {}).get("active", 0) if mine else 0
    if job is not None and mine:
        _show_started(run, job)
        if not end_of(job):
            await keep_queue_open(run)
    if run.drained or run.stop or run.counted().stopped:
        return
    if job is None:
        await _create(run)
    elif not mine:
        message = f"a Job '{job['metadata']['name']}' exists that is not this run's"
        run.scope.condition("JobCreated", "False", RunReason.JOB_CREATION_FAILED, message)
        raise Waiting(RunReason.JOB_CREATION_FAILED, message)
    elif "deletionTimestamp" in job["metadata"]:
        raise Waiting(RunReason.PROGRESSING, f"Job '{job['metadata']['name']}' is being deleted", RETRY)
    elif end_of(job):
        await _judge(run, job)


async def _judge(run: RunScope, job: Object) -> None:
    """Decide by what a Job that has ended left in the queue, which is read again: its last items may have been counted since."""
    run.state = await run.world.queue.state(run.uid)
    if run.drained or run.counted().stopped:
        return
    if end_of(job) == "Failed":
        await request_stop(run, RunReason.WORKERS_FAILED)
        return
    await run.scope.event("Warning", EventReason.WORKERS_RESTARTED, "the workers ended with items left; they are started again")
    await run.cluster.delete(JOB, run.namespace, job["metadata"]["name"], uid=job["metadata"]["uid"])
    raise Waiting(RunReason.PROGRESSING, "the worker Job is being replaced", RETRY)


async def _create(run: RunScope) -> None:
    if "workers" not in run.status:
        run.status["workers"] = _workers(run)
        await run.scope.save()
        crash_point("workers.status_written")
        asked = run.template.workers.replicas
        if run.world.max_workers and asked > run.world.max_workers:
            await run.scope.event("Normal", EventReason.WORKERS_REDUCED, f"{asked} workers were asked for, and {run.world.max_workers} may run here")
    await check_secrets(run)
    queue = await open_queue(run)
    try:
        job = await run.cluster.create(worker_job(_spec(run, queue)))
    except AlreadyExists as error:
        raise Waiting(RunReason.JOB_CREATION_FAILED, error.message, RETRY) from error
    except Invalid as error:
        if run.template.workers.pod_overrides is None:
            raise  # the fault is ours, not the spec's
        raise RunRefused(RunReason.INVALID_SPEC, f"spec.workers.podOverrides: {error.message}") from error
    crash_point("workers.created")
    if run.world.users is not None and (problem := await run.world.users.problem()):
        await run.scope.event("Warning", EventReason.QUEUE_SHARED, problem)
    _show_started(run, job)
    await run.scope.save()


def _show_started(run: RunScope, job: Object) -> None:
    """Say that the run is running; also when the pass that made the Job died before it could."""
    run.scope.condition("JobCreated", "True", RunReason.JOB_CREATED, crew(run.status["workers"]))
    run.status["phase"] = "Running"
    run.status.setdefault("startTime", job["metadata"]["creationTimestamp"])


def _workers(run: RunScope) -> int:
    """Return how many workers the run gets: what it asks for, within this installation's limit."""
    asked, limit = run.template.workers.replicas, run.world.max_workers
    return min(asked, limit) if limit else asked


def _spec(run: RunScope, queue: SecretValue | None) -> WorkerSpec:
    source, volume = run.status["source"], run.world.volume
    return WorkerSpec(
        run=run.name,
        namespace=run.namespace,
        uid=run.uid,
        workers=run.status["workers"],
        image=run.planned().image,
        content_path=source["contentPath"],
        output_path=run.status["outputPath"],
        subtree=volume.namespace(run.namespace).relative_to(volume.root).as_posix(),
        verbose=run.template.verbose,
        ttl_s=run.template.ttl_seconds,
        queue=queue,
        pods=run.pods,
        credentials={variable: SecretValue(*place) for variable, place in run.planned().secrets.items()},
        overrides=run.template.workers.pod_overrides,
    )


def crew(workers: int) -> str:
    """Return `1 worker`, `2 workers`, for messages."""
    return f"{workers} worker" + ("" if workers == 1 else "s")
