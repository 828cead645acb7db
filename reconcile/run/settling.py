"""From records to a verdict: merge the files, then one status write, then the queue's keys go.

Source: survival.md, step 7.
"""

import contextlib
from datetime import datetime, timedelta
from typing import Any

from engine.errors import OutputUnavailable, RunUnknown
from engine.results.settle import PassRule, settle_files, summarize_only
from engine.results.summary import RunIdentity, Summary
from engine.results.verdicts import RunVerdict
from foundation.crash import crash_point
from reconcile.errors import Waiting
from reconcile.kinds.reasons import EventReason, RunReason
from reconcile.run.observing import show_progress
from reconcile.run.planning import claim_output
from reconcile.run.scope import RunScope
from reconcile.run.stopping import stop_word
from reconcile.runtime.conditions import timestamp
from reconcile.runtime.reconciler import Done, Failed, Result

RETRY = timedelta(seconds=10)
PATIENCE = timedelta(minutes=10)
"""So long a run waits for a directory that cannot be written; then it settles without files."""


async def settle(run: RunScope) -> Result:
    """Give the drained run its verdict: files, then the one status write that ends this pass."""
    crash_point("settle.begin")
    summary = await _files(run)
    crash_point("settle.files_written")
    show_progress(run)
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
    conditions: list[dict[str, Any]] = run.status.get("conditions", [])
    failed = next((c for c in conditions if c["type"] == "Progressing" and c["reason"] == RunReason.STORAGE_FAILED), None)
    run.scope.condition("Progressing", "True", RunReason.STORAGE_FAILED, cause)
    since = datetime.fromisoformat(failed["lastTransitionTime"]) if failed else run.clock.now()
    if run.clock.now() - since < PATIENCE:
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
        case _ if run.stop:
            return "Failed", run.stop["reason"], f"{text}, {counts.skipped} were not run"
        case _:
            detail = f"{counts.failed} failed, {counts.errors} could not be run"
            wanted = run.template.min_pass_rate
            bound = f"; the lower bound {rate.low:.3f} is below {wanted}" if wanted is not None and rate.low is not None else ""
            return "Failed", RunReason.TESTS_FAILED, f"{text}: {detail}{bound}"


async def end_refused(run: RunScope, phase: str, reason: str, message: str) -> Result:
    """End a run that never came to a verdict."""
    run.status["phase"] = phase
    run.status["completionTime"] = timestamp(run.clock.now())
    run.status["activeWorkers"] = 0
    run.scope.condition("Progressing", "False", reason, message)
    await run.scope.event("Warning", reason, message)
    return Failed(reason, message)


async def tidy(run: RunScope) -> None:
    """Drop the keys of a run whose verdict is written; the pass that the write itself wakes does it, or the next one that finds the queue.

    Raises:
        QueueUnavailable: they are still there.
    """
    if not run.status.get("queue"):
        return
    with contextlib.suppress(RunUnknown):
        if not (await run.world.queue.state(run.uid)).settled:
            await run.world.queue.settle(run.uid)
