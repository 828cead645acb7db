"""How a run is told to stop, and how a stopped run drains like any other.

Cancel and deadline stand in `status.stop` before the queue hears of them; a budget breach is found again from the spend.
Source: survival.md, step 4.
"""

from collections.abc import Mapping
from datetime import datetime

from engine.errors import RunUnknown
from engine.items import Item, ItemError, Verdict
from engine.queue.port import BUDGET
from engine.records import bare_record
from reconcile.cluster.port import JOB
from reconcile.errors import NotFound
from reconcile.kinds.reasons import RunReason
from reconcile.run.scope import RunRefused, RunScope
from reconcile.runtime.conditions import timestamp
from reconcile.worker_job import worker_job_name

STOP_WORDS: Mapping[str, str] = {
    RunReason.CANCELLED: "cancelled",
    RunReason.DEADLINE_EXCEEDED: "deadline",
    RunReason.BUDGET_EXCEEDED: BUDGET,
    RunReason.WORKERS_FAILED: "workers_failed",
}
"""The queue's and the results' word for each reason of a stop."""

CHUNK = 500


class RunCancelled(RunRefused):
    """The run was cancelled before anything was planned: it ends without a verdict."""


async def heed_stop(run: RunScope) -> None:
    """Record that the run is cancelled or late. Before there is a plan nothing can be drained, so the run ends at once."""
    if not run.stop:
        reason = _asked(run)
        if reason is None or await _already_drained(run):
            return
        await request_stop(run, reason)
    if run.status.get("plan"):
        return
    if run.status["stop"]["reason"] == RunReason.CANCELLED:
        raise RunCancelled(RunReason.CANCELLED, "cancelled before its first item")
    raise RunRefused(run.status["stop"]["reason"], f"not started within {run.template.deadline}")


def _asked(run: RunScope) -> RunReason | None:
    if run.spec.get("cancelled"):
        return RunReason.CANCELLED
    deadline = run.template.deadline_after
    created = datetime.fromisoformat(run.scope.obj["metadata"]["creationTimestamp"])
    return RunReason.DEADLINE_EXCEEDED if deadline and run.clock.now() >= created + deadline else None


async def _already_drained(run: RunScope) -> bool:
    """A run whose every item is counted keeps its verdict: a stop that comes now changes nothing."""
    plan = run.status.get("plan")
    if not plan:
        return False
    try:
        return (await run.world.queue.state(run.uid)).recorded >= int(plan["items"])
    except RunUnknown:
        return False


async def request_stop(run: RunScope, reason: RunReason) -> None:
    """Write the stop into the status; the first one stays."""
    run.status.setdefault("stop", {"reason": str(reason), "time": timestamp(run.clock.now())})
    await run.scope.save()


def stop_word(run: RunScope) -> str:
    """Return the queue's word for the stop that stands in the status, "" without one."""
    return STOP_WORDS[run.stop["reason"]] if run.stop else ""


async def drain_stopped(run: RunScope) -> None:
    """Bring a stopped run to its end: refuse new work, end the workers, count what was not begun."""
    queue = run.world.queue
    if run.counted().stopped == BUDGET and not run.stop and not run.drained:
        await request_stop(run, RunReason.BUDGET_EXCEEDED)
        await run.scope.event(
            "Warning", RunReason.BUDGET_EXCEEDED, f"spent {run.counted().cost_usd:.4f} of {run.template.budget_limit} USD; nothing further is begun"
        )
    if not run.stop or run.drained:
        return
    await queue.stop(run.uid, stop_word(run))
    if run.stop["reason"] == RunReason.WORKERS_FAILED:
        await _fail_rest(run)
    else:
        if run.stop["reason"] in {RunReason.CANCELLED, RunReason.DEADLINE_EXCEEDED}:
            await end_workers(run)
        await _skip_rest(run)
    run.state = await queue.state(run.uid)


async def _fail_rest(run: RunScope) -> None:
    error = ItemError("worker_lost", "every worker of the run has failed")
    while await run.world.queue.fail_remaining(run.uid, error, at=_stopped_at(run), limit=CHUNK):
        pass


async def _skip_rest(run: RunScope) -> None:
    if run.counted().complete:
        while await run.world.queue.skip_unbegun(run.uid, at=_stopped_at(run), limit=CHUNK):
            pass
        return
    # The put was cut off, so no worker ever leased: every item without a record was not begun.
    await skip_items(run, list(run.planned().items))


async def skip_items(run: RunScope, items: list[Item]) -> None:
    """Record items that no lease stands behind as skipped."""
    for start in range(0, len(items), CHUNK):
        records = [bare_record(item.index, item.id, Verdict.SKIPPED, at=_stopped_at(run)) for item in items[start : start + CHUNK]]
        await run.world.queue.record(run.uid, records)


def _stopped_at(run: RunScope) -> datetime:
    return datetime.fromisoformat(run.status["stop"]["time"])


async def end_workers(run: RunScope) -> None:
    """Delete the worker Job, if there is one; its workers end cleanly and hand back what they have not begun."""
    try:
        job = await run.cluster.get(JOB, run.namespace, worker_job_name(run.name))
        if any(owner["uid"] == run.uid for owner in job["metadata"].get("ownerReferences", [])):
            await run.cluster.delete(JOB, run.namespace, job["metadata"]["name"], uid=job["metadata"]["uid"])
    except NotFound:
        return
