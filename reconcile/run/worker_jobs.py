"""A run's worker Job in the store: found, told from a stranger's, ended.

Owns the question whose a Job of the run's name is. What the Job holds is `reconcile.worker_job`'s.
"""

from reconcile.cluster.port import JOB, Object
from reconcile.errors import NotFound
from reconcile.run.scope import RunScope
from reconcile.worker_job import worker_job_name

_ENDS = frozenset({"Complete", "Failed"})


async def known_job(run: RunScope) -> Object | None:
    """Return the Job of the run's name as it is known: a run looks at it twice a second, and a Job that changes wakes it.

    A memory that is behind does no harm: a Job is created under a name that is there already, and deleted by its uid, after the queue was read again.
    """
    try:
        return await run.scope.look_up(JOB, worker_job_name(run.name))
    except NotFound:
        return None


async def stored_job(run: RunScope) -> Object | None:
    """Return the Job of the run's name, whoever owns it."""
    try:
        return await run.cluster.get(JOB, run.namespace, worker_job_name(run.name))
    except NotFound:
        return None


def is_own(run: RunScope, obj: Object | None) -> bool:
    """Say whether there is such an object and the run owns it."""
    return obj is not None and any(owner["uid"] == run.uid for owner in obj["metadata"].get("ownerReferences", []))


def end_of(job: Object) -> str:
    """Return how a Job has ended, `Complete` or `Failed`; "" while it has not."""
    return next((c["type"] for c in job.get("status", {}).get("conditions", []) if c["type"] in _ENDS and c["status"] == "True"), "")


async def workers_have_left(run: RunScope) -> bool:
    """Say whether the run has no Job of its own, or one that has ended."""
    job = await known_job(run)
    return job is None or not is_own(run, job) or bool(end_of(job))


async def end_workers(run: RunScope) -> bool:
    """Delete the run's own Job, and say whether one was still there; its workers end cleanly and hand back what they have not begun."""
    job = await stored_job(run)
    if job is None or not is_own(run, job):
        return False
    try:
        await run.cluster.delete(JOB, run.namespace, job["metadata"]["name"], uid=job["metadata"]["uid"])
    except NotFound:
        return False
    return True
