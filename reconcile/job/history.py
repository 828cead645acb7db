"""Which finished runs a job keeps, and what a pruned one leaves behind: its summary, until so many newer ones are there that a disk would fill."""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
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
MAX_SUMMARIES = 1_000
MAX_SUMMARIES_BYTES = 64 * 2**20
"""What one job's summaries may come to: a job that runs at every push would fill the disk in a month."""


def superfluous(runs: Sequence[Object], *, successful: int, failed: int) -> list[Object]:
    """Return the finished runs beyond the limits, those first that ended first, so that nobody's verdict goes as it comes; cancelled counts as failed."""
    ended = sorted((run for run in runs if finished(run) and "deletionTimestamp" not in run["metadata"]), key=_ended)
    succeeded = [run for run in ended if run["status"]["phase"] == "Succeeded"]
    others = [run for run in ended if run["status"]["phase"] != "Succeeded"]
    return [*succeeded[: max(0, len(succeeded) - successful)], *others[: max(0, len(others) - failed)]]


async def prune(scope: Pass, runs: JobRuns, spec: ArenaJobSpec, volume: ContentVolume) -> None:
    """Delete the finished runs beyond the job's limits, after their summaries are kept. What is known says whether there are any, the store which."""
    chosen = partial(superfluous, successful=spec.successful_runs_history_limit, failed=spec.failed_runs_history_limit)
    if not chosen(runs.all):
        return
    await runs.refresh()
    for run in chosen(runs.all):
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
    forget_oldest(history)


def forget_oldest(history: Path, *, count: int = MAX_SUMMARIES, size_bytes: int = MAX_SUMMARIES_BYTES) -> None:
    """Remove the oldest summaries until at most `count` are left, of at most `size_bytes` together; the newest always stays.

    Raises:
        OSError: the directory cannot be read or written.
    """
    total = 0
    found = sorted(((path.stat(), path) for path in history.iterdir()), key=lambda each: (each[0].st_mtime_ns, each[1].name), reverse=True)
    for at, (stat, path) in enumerate(found):
        total += stat.st_size
        if at and (at >= count or total > size_bytes):
            path.unlink(missing_ok=True)
