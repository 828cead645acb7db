"""A look at a run's pods while some of its workers are not at work: what keeps them from it goes into the run's message.

On a cluster: the processes of one machine have no pods, and their Job says what they wait for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconcile.cluster.port import EVENT, NAMESPACE, POD, Object
from reconcile.errors import NotFound
from reconcile.kinds.names import RUN_LABEL
from reconcile.naming import MAX_LABEL, fit
from reconcile.run.pod_troubles import workers_trouble
from reconcile.run.scope import RunScope
from reconcile.run.worker_jobs import end_workers, is_own, known_job
from reconcile.worker_job import WAITING

LOOK_EVERY_S = 10.0
SLOWEST_S = 60.0


@dataclass(frozen=True, slots=True)
class _Look:
    """What a look found, and when the next is due: `wait_s` after it, at `next_s`."""

    found: str
    wait_s: float
    next_s: float


class PodLooks:
    """Looks at a run's pods every ten seconds, and remembers what was seen: a run's passes are many, and each look is a request or two.

    While looks find the same they become rarer, to one a minute.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Look] = {}

    async def trouble(self, run: RunScope) -> str:
        """Return what keeps workers of a run from working, "" when nothing does; at most a minute old."""
        job = await known_job(run)
        if run.world.pods is None:
            return _waiting(job) if is_own(run, job) else ""
        if job is None or not is_own(run, job) or _all_at_work(job.get("status") or {}, run.status.get("workers", 0)):
            self.forget(run.uid)
            return ""
        now, last = run.clock.monotonic(), self._seen.get(run.uid)
        if last is not None and now < last.next_s:
            return last.found
        found = await _look(run)
        wait_s = min(2 * last.wait_s, SLOWEST_S) if last is not None and last.found == found else LOOK_EVERY_S
        self._seen[run.uid] = _Look(found, wait_s, now + wait_s)
        return found

    def forget(self, uid: str) -> None:
        """Drop a run that is over, or whose workers work."""
        self._seen.pop(uid, None)


async def _look(run: RunScope) -> str:
    pods = (await run.cluster.list(POD, run.namespace, {RUN_LABEL: fit(run.name, MAX_LABEL)})).items
    if any("deletionTimestamp" in pod["metadata"] for pod in pods) and await _is_namespace_deleted(run):
        # A namespace that goes waits for its pods before it deletes anything else (Kubernetes 1.33), and a Job that counts failures by index keeps a
        # failed pod until it has made the next, which such a namespace does not take: without us they would wait for each other for ever.
        await end_workers(run)
        return "the namespace is being deleted"
    trouble = workers_trouble(pods)
    if trouble or not _needs_events(pods):
        return trouble
    about = {pod["metadata"]["uid"] for pod in pods}
    job = await known_job(run)
    if job:
        about.add(job["metadata"]["uid"])
    events = [event for event in (await run.cluster.list(EVENT, run.namespace)).items if event.get("involvedObject", {}).get("uid") in about]
    return workers_trouble(pods, events)


async def _is_namespace_deleted(run: RunScope) -> bool:
    try:
        return "deletionTimestamp" in (await run.cluster.get(NAMESPACE, None, run.namespace))["metadata"]
    except NotFound:
        return True


def _waiting(job: Object | None) -> str:
    """Return what the processes of a Job wait for; their runner says so in the Job itself."""
    conditions = ((job or {}).get("status") or {}).get("conditions") or ()
    return next((f"the workers wait for {found['message']}" for found in conditions if found["type"] == WAITING), "")


def _needs_events(pods: Sequence[Object]) -> bool:
    """Say whether the pods' own words leave open why they do not run."""
    return not pods or any((pod.get("status") or {}).get("phase") == "Pending" for pod in pods)


def _all_at_work(status: Mapping[str, Any], workers: int) -> bool:
    """Say whether every worker of a Job is ready or has done its part, so that its pods need no look."""
    return int(status.get("ready") or 0) + int(status.get("succeeded") or 0) >= workers
