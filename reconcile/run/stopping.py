"""How a run is told to stop, and how a stopped run drains like any other.

Cancel and deadline stand in `status.stop` before the queue hears of them; a budget breach is found again from the spend.
Source: survival.md, step 4.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from engine.errors import RunUnknown
from engine.items import Item, ItemError, Verdict
from engine.queue.port import BUDGET, CREDENTIAL_MISSING, REFUSED
from engine.records import bare_record
from foundation.crash import crash_point
from reconcile.kinds.reasons import RunReason
from reconcile.run.scope import RunRefused, RunScope
from reconcile.run.worker_jobs import end_workers
from reconcile.runtime.conditions import timestamp

STOP_WORDS: Mapping[str, str] = {
    RunReason.CANCELLED: "cancelled",
    RunReason.DEADLINE_EXCEEDED: "deadline",
    RunReason.BUDGET_EXCEEDED: BUDGET,
    RunReason.WORKERS_FAILED: "workers_failed",
    RunReason.CREDENTIAL_MISSING: REFUSED,
    RunReason.NOT_SUPPORTED: REFUSED,
}
"""The queue's and the results' word for each reason of a stop."""

CHUNK = 500
WORKER_LOST = ItemError("worker_lost", "every worker of the run has failed")


class RunCancelled(RunRefused):
    """The run was cancelled before anything was planned: it ends without a verdict."""


async def heed_stop(run: RunScope) -> None:
    """Record that the run is cancelled or late. Before there is a plan nothing can be drained, so the run ends at once."""
    if not run.stop:
        reason = _asked(run)
        if reason is None or await is_drained(run):
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


async def is_drained(run: RunScope) -> bool:
    """Ask the queue whether every item of the plan is counted. Such a run keeps its verdict: a stop that comes now changes nothing."""
    plan = run.status.get("plan")
    if not plan:
        return False
    try:
        return (await run.world.queue.state(run.uid)).recorded >= int(plan["items"])
    except RunUnknown:
        return False


async def request_stop(run: RunScope, reason: RunReason, message: str = "") -> None:
    """Write the stop into the status; the first one stays. `message` says why, where the reason alone does not."""
    said = {"message": message} if message else {}
    run.status.setdefault("stop", {"reason": str(reason), "time": timestamp(run.clock.now()), **said})
    await run.scope.save()
    crash_point("stop.status_written")


def stop_word(run: RunScope) -> str:
    """Return the queue's word for the stop that took effect; "" without one, or when the last item was counted before the queue heard of it."""
    return STOP_WORDS[run.stop["reason"]] if run.stop and run.counted().stopped else ""


async def drain_stopped(run: RunScope) -> None:
    """Bring a stopped run to its end: refuse new work, end the workers, count what was not begun.

    Spend that crosses the budget is a breach also when the items in flight were the last ones.
    """
    queue = run.world.queue
    await _heed_refusal(run)
    if run.counted().stopped == BUDGET and not run.stop:
        await request_stop(run, RunReason.BUDGET_EXCEEDED)
        await run.scope.event(
            "Warning", RunReason.BUDGET_EXCEEDED, f"spent {run.counted().cost_usd:.4f} of {run.template.budget_limit} USD; nothing further is begun"
        )
    if not run.stop or run.drained:
        return
    await queue.stop(run.uid, STOP_WORDS[run.stop["reason"]])
    crash_point("stop.issued")
    if run.stop["reason"] in {RunReason.CANCELLED, RunReason.DEADLINE_EXCEEDED}:
        await end_workers(run)
        crash_point("stop.workers_ended")
    await _count_rest(run)
    crash_point("stop.rest_counted")
    run.state = await queue.state(run.uid)


async def _heed_refusal(run: RunScope) -> None:
    """Find a stop of the workers' own: they cannot begin, and what they said of it becomes the failure of a run that still has something to begin."""
    refusal = run.counted().refusal
    if refusal is not None and not run.stop and not run.drained:
        reason = RunReason.CREDENTIAL_MISSING if refusal.kind == CREDENTIAL_MISSING else RunReason.NOT_SUPPORTED
        await request_stop(run, reason, refusal.message)


async def _count_rest(run: RunScope) -> None:
    """Count what no worker has in hand: skipped, or an error when the workers have failed. Items in no set are among it."""
    queue, at = run.world.queue, _stopped_at(run)
    if not run.counted().complete:
        # The put was cut off, or the store lost the run: no lease is known, so every item without a record counts as not begun.
        await _count(run, run.planned().items)
        return
    if run.stop and run.stop["reason"] == RunReason.WORKERS_FAILED:
        while await queue.fail_remaining(run.uid, WORKER_LOST, at=at, limit=CHUNK):
            pass
    else:
        while await queue.skip_unbegun(run.uid, at=at, limit=CHUNK):
            pass
    if not (await queue.state(run.uid)).whole:
        items = run.planned().items
        await _count(run, [items[index] for index in await queue.missing(run.uid)])


async def _count(run: RunScope, items: Sequence[Item]) -> None:
    """Record items that no lease stands behind; one that has a record is left alone."""
    failed = run.stop is not None and run.stop["reason"] == RunReason.WORKERS_FAILED
    verdict, error = (Verdict.ERROR, WORKER_LOST) if failed else (Verdict.SKIPPED, None)
    for start in range(0, len(items), CHUNK):
        records = [bare_record(item.index, item.id, verdict, at=_stopped_at(run), error=error) for item in items[start : start + CHUNK]]
        await run.world.queue.record(run.uid, records)


def _stopped_at(run: RunScope) -> datetime:
    return datetime.fromisoformat(run.status["stop"]["time"])
