"""From records to a verdict: merge the files, then one status write, then the queue's keys go.

Source: survival.md, step 7.
"""

from datetime import datetime, timedelta

from engine.errors import OutputUnavailable, QueueUnavailable, RunUnknown
from engine.results.settle import PassRule, settle_files, summarize_only
from engine.results.summary import RunIdentity, Summary
from engine.results.verdicts import RunVerdict
from engine.version import ENGINE_VERSION
from foundation.crash import crash_point
from reconcile.errors import Waiting
from reconcile.kinds.reasons import EventReason, RunReason
from reconcile.run.observing import show_result
from reconcile.run.planning import claim_output
from reconcile.run.queue_access import close_queue, keep_queue_open
from reconcile.run.scope import RunScope
from reconcile.run.stopping import stop_word
from reconcile.run.worker_jobs import end_workers, workers_have_left
from reconcile.runtime.conditions import READY, find_condition, timestamp
from reconcile.runtime.reconciler import Done, Failed, Result, Silent

RETRY = timedelta(seconds=10)
PATIENCE = timedelta(minutes=10)
"""So long a run waits for a directory that cannot be written; then it settles without files."""
STRAGGLING = timedelta(minutes=10)
"""A worker that can start and can reach the queue has left long before; one that cannot is waited for no longer."""
LOST_SECOND = timedelta(seconds=3)
"""After so long a store that syncs every second no longer loses what it has answered."""


async def settle(run: RunScope) -> Result:
    """Give the drained run its verdict: files, then the one status write that ends this pass."""
    crash_point("settle.begun")
    summary = await _files(run)
    crash_point("settle.files_written")
    show_result(run, summary)
    phase, reason, message = outcome_of(run, summary)
    run.status["phase"] = phase
    run.status["result"] = {"summary": summary.spec_summary()}
    run.status["completionTime"] = timestamp(run.clock.now())
    run.status["activeWorkers"] = 0
    run.scope.condition("Progressing", "False", reason, message)
    await run.scope.event("Normal" if phase == "Succeeded" else "Warning", reason, message)
    return Done(reason, message, final=True) if phase == "Succeeded" else Failed(reason, message)


async def _files(run: RunScope) -> Summary:
    rule = PassRule(run.template.confidence, run.template.min_pass_rate, stop_word(run))
    records = run.world.queue.records(run.uid)
    try:
        await claim_output(run)
        settled = await settle_files(run.output, records, run.planned(), _identity(run), rule)
    except (OutputUnavailable, OSError) as error:
        await _be_patient(run, str(error))
        await run.scope.event(
            "Warning", EventReason.OUTPUT_LOST, f"the run's directory cannot be written, so its results are only in its status: {error}"
        )
        return (await summarize_only(run.world.queue.records(run.uid), run.planned(), _identity(run), rule)).summary
    if not settled.written:
        raise RunUnknown(f"cannot settle run '{run.name}': the queue gave fewer records than the plan has items")
    return settled.summary


async def _be_patient(run: RunScope, cause: str) -> None:
    """Wait for storage, for ten minutes since it first failed."""
    # Nobody works any more, so Progressing turns False here, and its transition is the first failure.
    run.scope.condition("Progressing", "False", RunReason.STORAGE_FAILED, cause)
    failed = find_condition(run.status["conditions"], "Progressing") or {}
    if run.clock.now() - datetime.fromisoformat(failed["lastTransitionTime"]) < PATIENCE:
        raise Waiting(RunReason.STORAGE_FAILED, cause, RETRY)


def _identity(run: RunScope) -> RunIdentity:
    source = run.status["source"]
    return RunIdentity(run.name, run.job, run.namespace, source["commit"], source["ref"], source["repository"])


def outcome_of(run: RunScope, summary: Summary) -> tuple[str, str, str]:
    """Return phase, reason and message of a settled run."""
    counts, rate = summary.total.counts, summary.rate
    text = f"{counts.passed} of {counts.executed} items passed"
    match summary.verdict:
        case RunVerdict.PASS:
            return "Succeeded", RunReason.SUCCEEDED, text
        case RunVerdict.CANCELLED:
            return "Cancelled", RunReason.CANCELLED, f"cancelled; {text}, {counts.skipped} were not run"
        case _ if run.stop and stop_word(run):
            why = f"{run.stop['message']}; " if "message" in run.stop else ""
            return "Failed", run.stop["reason"], f"{why}{text}, {counts.skipped} were not run{_version_clash(run)}"
        case _:
            detail = f"{counts.failed} failed, {counts.errors} could not be run"
            wanted = run.template.min_pass_rate
            bound = f"; the lower bound {rate.low:.3f} is below {wanted}" if wanted is not None and rate.low is not None else ""
            return "Failed", RunReason.TESTS_FAILED, f"{text}: {detail}{bound}"


def _version_clash(run: RunScope) -> str:
    """Name the engine version that a run's workers had to be of, where this installation is of another."""
    wanted = run.planned().engine_version
    clash = run.stop is not None and run.stop["reason"] == RunReason.WORKERS_FAILED and wanted != ENGINE_VERSION
    return f"; its plan needs workers of engine version {wanted}, and this installation has {ENGINE_VERSION}" if clash else ""


async def end_refused(run: RunScope, phase: str, reason: str, message: str) -> Result:
    """End a run that never came to a verdict. Workers, if it had any, have nothing left that would be counted."""
    if "workers" in run.status:
        await end_workers(run)
    run.status["phase"] = phase
    run.status["completionTime"] = timestamp(run.clock.now())
    run.status["activeWorkers"] = 0
    run.scope.condition("Progressing", "False", reason, message)
    await run.scope.event("Warning", reason, message)
    return Failed(reason, message)


async def tidy(run: RunScope) -> Result:
    """Drop the keys and the user of a run whose verdict is written, and say that verdict again, for the generation that the run has now.

    The pass that the verdict's own write wakes does it, or the next one that finds the queue. `status.tidied` says that none has to come again,
    also after a restart; it is written by a pass that finds the keys gone, later than the last second that the queue's store may lose.
    """
    look_again = None
    try:
        if run.status.get("queue") and not run.status.get("tidied"):
            look_again = await _put_away(run)
            if look_again is None:
                run.status["tidied"] = True
    except QueueUnavailable:
        look_again = RETRY
    ready = find_condition(run.status.get("conditions", []), READY)
    if ready is None:
        return Silent(look_again)
    if run.status["phase"] == "Succeeded":
        return Done(ready["reason"], ready["message"], look_again, final=look_again is None)
    return Failed(ready["reason"], ready["message"], look_again)


async def _put_away(run: RunScope) -> timedelta | None:
    """Drop the keys, and the user once nobody comes as it; return when to look again, None when nothing is left to do.

    A worker that comes late finds the mark which the keys leave, so the user stays for as long as there may be one. A pod that no node takes would be one
    for ever, so its Job goes in the end.
    """
    keys_are_gone = await _keys_are_gone(run)
    if run.world.users is not None and not await workers_have_left(run):
        if _ended_before(run, STRAGGLING):
            await end_workers(run)
        else:
            await keep_queue_open(run)
        return RETRY
    await close_queue(run)
    return None if keys_are_gone else LOST_SECOND


async def _keys_are_gone(run: RunScope) -> bool:
    try:
        if not (await run.world.queue.state(run.uid)).settled:
            await run.world.queue.settle(run.uid)
            return False
    except RunUnknown:
        return True
    return _ended_before(run, LOST_SECOND)


def _ended_before(run: RunScope, age: timedelta) -> bool:
    return run.clock.now() - datetime.fromisoformat(run.status["completionTime"]) > age
