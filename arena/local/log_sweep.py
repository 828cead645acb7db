"""The logs of workers whose run is gone: an hour later they go too, or they would grow without end.

Owns the removal of `<logs>/<namespace>/<run>/`, where the job runner writes. Must not know what a run is but that it has a name.
"""

import asyncio
import contextlib
import shutil
from pathlib import Path

import structlog

from foundation.clock import Clock
from reconcile.cluster.listing import every
from reconcile.cluster.port import ARENA_RUN, JOB, Cluster
from reconcile.kinds.names import RUN_LABEL
from reconcile.naming import MAX_LABEL, fit
from reconcile.orphans import Orphans, sweep_regularly

_log = structlog.get_logger(__name__)


def log_folder(logs: Path, namespace: str, run: str) -> Path:
    """Return where the logs of a run's workers lie; the folder is named as the run's label is, since long names are cut there."""
    return logs / namespace / fit(run, MAX_LABEL)


class LogSweep:
    """Looks for logs without a run every ten minutes."""

    def __init__(self, cluster: Cluster, logs: Path, clock: Clock) -> None:
        self._cluster = cluster
        self._logs = logs
        self._clock = clock
        self._orphans: Orphans[Path] = Orphans(clock)

    async def run(self) -> None:
        """Sweep until cancelled."""
        await sweep_regularly(self.sweep, self._clock)

    async def sweep(self) -> list[Path]:
        """Look once, and return the folders that were removed: those that had neither run nor Job for an hour. No symlink is followed."""
        folders = await asyncio.to_thread(self._folders)  # before the runs: what is made in between is never taken for an orphan
        orphans = set(folders) - await self._needed()
        due = sorted(self._orphans.due(orphans))
        for folder in due:
            await asyncio.to_thread(_remove, folder)
            _log.info("logs.removed", namespace=folder.parent.name, run=folder.name)
        return due

    async def _needed(self) -> set[Path]:
        jobs = [job["metadata"] async for job in every(self._cluster, JOB)]
        of_jobs = {self._logs / job["namespace"] / job.get("labels", {}).get(RUN_LABEL, job["name"]) for job in jobs}
        return of_jobs | {
            log_folder(self._logs, run["metadata"]["namespace"], run["metadata"]["name"]) async for run in every(self._cluster, ARENA_RUN)
        }

    def _folders(self) -> list[Path]:
        return [path for path in self._logs.glob("*/*") if path.is_dir() and not path.is_symlink() and not path.parent.is_symlink()]


def _remove(folder: Path) -> None:
    shutil.rmtree(folder)
    with contextlib.suppress(OSError):  # another run's logs are there
        folder.parent.rmdir()
