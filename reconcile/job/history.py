"""Which finished runs a job keeps, and what a pruned one leaves behind: its summary."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from foundation.crash import crash_point
from foundation.files import write_file
from gitops.content import ContentVolume
from reconcile.arena_run import created, finished
from reconcile.cluster.port import ARENA_RUN, Object
from reconcile.errors import Conflict, NotFound
from reconcile.job.runs import JobRuns
from reconcile.kinds.job import ArenaJobSpec
from reconcile.runtime.reconciler import Pass

SUMMARY = "summary.json"


def superfluous(runs: Sequence[Object], *, successful: int, failed: int) -> list[Object]:
    """Return the finished runs beyond the limits, those first that ended first, so that nobody's verdict goes as it comes; cancelled counts as failed."""
    ended = sorted((run for run in runs if finished(run) and "deletionTimestamp" not in run["metadata"]), key=_ended)
    succeeded = [run for run in ended if run["status"]["phase"] == "Succeeded"]
    others = [run for run in ended if run["status"]["phase"] != "Succeeded"]
    return [*succeeded[: max(0, len(succeeded) - successful)], *others[: max(0, len(others) - failed)]]


async def prune(scope: Pass, runs: JobRuns, spec: ArenaJobSpec, volume: ContentVolume) -> None:
    """Delete the finished runs beyond the job's limits, after their summaries are kept."""
    for run in superfluous(runs.all, successful=spec.successful_runs_history_limit, failed=spec.failed_runs_history_limit):
        metadata = run["metadata"]
        directory = volume.run(metadata["namespace"], metadata["name"])
        await asyncio.to_thread(_keep_summary, directory, volume.history(metadata["namespace"], scope.key.name), metadata["name"])
        crash_point("history.summary_kept")
        with contextlib.suppress(NotFound, Conflict):
            await scope.cluster.delete(ARENA_RUN, metadata["namespace"], metadata["name"], uid=metadata["uid"])
        crash_point("history.run_deleted")


def _ended(run: Object) -> tuple[str, str, str]:
    return run["status"].get("completionTime", ""), *created(run)


def _keep_summary(directory: Path, history: Path, run: str) -> None:
    try:
        data = (directory / SUMMARY).read_bytes()
    except OSError:
        return  # a run that was refused, or lost its directory, has none
    history.mkdir(mode=0o750, parents=True, exist_ok=True)
    write_file(history / f"{run}.json", data)
