"""Jobs as child processes of one machine.

Reads batch/v1 Jobs from the store as a cluster's Job controller would, and writes their status. Knows only the Job: not what a run is.
Level-triggered: each pass compares the Jobs with the process records, so a killed server finds its workers again.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog

from arena.local.processes import Processes, ProcessRecord
from arena.local.worker_order import OrderRefused, WorkerOrder, read_order
from arena.local.worker_variables import NotThere, WorkerVariables
from arena.settings import worker_environment
from engine import worker_settings
from engine.queue.urls import is_of_run
from foundation.clock import Clock
from reconcile.cluster.port import JOB, SECRET, Cluster
from reconcile.errors import ClusterError, Conflict, Gone, NotFound
from reconcile.kinds.names import RUN_LABEL
from reconcile.worker_job import WAITING

FINALIZER = "arena.omnia.altairalabs.ai/processes"
LOOK_AGAIN_S = 1.0
GRACE_S = 30.0
_NO_FAILURE = (0, 128 + signal.SIGTERM, None)
"""How a worker ends that has done its part or was told to leave; None: nobody saw it."""
HURRY_S = 1.0
"""A server that stops gives begun items this long; they run again after its next start."""
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Host:
    """What a worker process of this machine gets beyond its Job: the queue's address, the content volume, a place for logs.

    `command` is the only one that a Job may name. `inherited` are the variables of our own environment that it gets.
    """

    content: Path
    logs: Path
    environment: Callable[[], Mapping[str, str]]
    max_workers: int
    command: tuple[str, ...] = ("arena", "worker")
    inherited: Mapping[str, str] = field(default_factory=worker_environment)


@dataclass(slots=True)
class _Asked:
    """How often, and since when, a Job's processes were asked to end."""

    since: float
    times: int = 0


class JobRunner:
    """Runs the store's Jobs as processes, at most `max_workers` at a time."""

    def __init__(self, cluster: Cluster, processes: Processes, host: Host, clock: Clock) -> None:
        self._cluster = cluster
        self._processes = processes
        self._host = host
        self._clock = clock
        self._wake = asyncio.Event()
        self._asked: dict[str, _Asked] = {}
        self._missing: dict[str, str] = {}

    async def run(self) -> None:
        """Work until cancelled. A look that the store or the disk fails is logged, and the next one finds the same work."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            while True:
                try:
                    await self.sync()
                except (ClusterError, OSError) as error:
                    _log.warning("jobs_not_seen", cause=str(error))
                await self._wait()

    async def sync(self) -> None:
        """Compare every Job with its processes once, and mend what differs."""
        jobs = sorted((await self._cluster.list(JOB)).items, key=lambda job: (job["metadata"]["creationTimestamp"], job["metadata"]["name"]))
        known = {job["metadata"]["uid"] for job in jobs}
        for uid in self._processes.owners():
            if uid not in known and self._end(uid):
                self._processes.forget(uid)
        for job in jobs:
            try:
                await self._sync_job(job)
            except (Conflict, NotFound):
                self._wake.set()
            except ClusterError as error:
                _log.warning("job_not_written", job=job["metadata"]["name"], cause=error.message)
            except OSError as error:
                _log.error("worker_start_failed", job=job["metadata"]["name"], cause=str(error))
        if not self._active():  # while workers run, the processors are theirs
            with contextlib.suppress(OSError):
                await self._processes.prepare()

    async def stop(self) -> None:
        """End every process cleanly; they hand back what they have not begun."""
        self._processes.dismiss()
        started = self._clock.monotonic()
        while self._active() and self._clock.monotonic() < started + GRACE_S + 1:
            for uid in self._processes.owners():
                self._end(uid, hurry_after_s=HURRY_S)
            await self._clock.sleep(0.02)

    async def _sync_job(self, job: dict[str, Any]) -> None:
        uid = job["metadata"]["uid"]
        if job["metadata"].get("deletionTimestamp"):
            if self._end(uid):
                self._processes.forget(uid)
                self._missing.pop(uid, None)
                await self._finalizers(job, [f for f in job["metadata"].get("finalizers", []) if f != FINALIZER])
            return
        if FINALIZER not in job["metadata"].get("finalizers", []):
            await self._finalizers(job, [*job["metadata"].get("finalizers", []), FINALIZER])
            return
        try:
            order = read_order(job, self._host.command)
        except OrderRefused as refusal:
            await self._refuse(job, str(refusal))
            return
        if not await self._expired(job, order) and not _finished(job):
            await self._advance(job, order)

    async def _refuse(self, job: dict[str, Any], cause: str) -> None:
        """End a Job that asks for what this machine does not run. One that has ended stays as it is."""
        if not _finished(job):
            status = {"conditions": [self._condition("Failed", "NotRunnable", cause)]}
            await self._cluster.patch_status(JOB, job["metadata"]["namespace"], job["metadata"]["name"], status)

    async def _advance(self, job: dict[str, Any], order: WorkerOrder) -> None:
        uid = job["metadata"]["uid"]
        records = {record.index: record for record in self._processes.records(uid)}
        for index in range(order.completions):
            record = self._observe(uid, records.get(index, ProcessRecord(index)))
            if self._startable(uid, order, record) and self._active() < self._host.max_workers:
                record = await self._start(job, order, record)
            records[index] = record
        status = self._status(job, order, list(records.values()))
        if status != job.get("status", {}):
            await self._cluster.patch_status(JOB, job["metadata"]["namespace"], job["metadata"]["name"], status)

    def _observe(self, uid: str, record: ProcessRecord) -> ProcessRecord:
        """Account for a process that has ended. One that was told to end, or whose end nobody saw, is neither done nor failed: it is started again."""
        if record.pid == 0 or self._processes.running(uid, record):
            return record
        code = self._processes.exit_code(uid, record)
        ended = replace(record, pid=0, started=0, done=code == 0, failures=record.failures + (code not in _NO_FAILURE))
        self._processes.save(uid, ended)
        _log.info("worker_ended", job_uid=uid, index=record.index, exit_code=code)
        return ended

    def _startable(self, uid: str, order: WorkerOrder, record: ProcessRecord) -> bool:
        return not record.done and record.failures <= order.backoff_limit_per_index and not self._processes.running(uid, record)

    async def _start(self, job: dict[str, Any], order: WorkerOrder, record: ProcessRecord) -> ProcessRecord:
        metadata = job["metadata"]
        name = f"{metadata['name']}-{record.index}"
        variables = WorkerVariables(self._cluster, metadata["namespace"])
        try:
            given = {**self._with_paths(order, await variables.of(order)), **self._host.environment()}
            own = await variables.text(SECRET, order.queue) if order.queue else ""
        except NotThere as missing:  # whoever made the Job writes it, or somebody else will
            self._missing[metadata["uid"]] = str(missing)
            return record
        self._missing.pop(metadata["uid"], None)
        if order.queue is not None:
            address, installation = given[worker_settings.REDIS_URL], given[worker_settings.INSTALLATION]
            if not is_of_run(own, address=address, installation=installation):  # whoever made the Job writes its Secret anew
                _log.info("worker_waits_for_secret", job=metadata["name"], secret=order.queue.name)
                return record
            given[worker_settings.REDIS_URL] = own
        environment = {**self._host.inherited, **given, worker_settings.WORKER_NAME: name}
        labels = metadata.get("labels", {})
        log = self._host.logs / metadata["namespace"] / labels.get(RUN_LABEL, metadata["name"]) / f"{name}.log"
        words = (sys.executable, "-m", *order.container.command)
        started = await self._processes.start(metadata["uid"], record, words, environment=environment, log=log)
        _log.info("worker_started", job=metadata["name"], index=record.index, pid=started.pid)
        return started

    def _with_paths(self, order: WorkerOrder, variables: Mapping[str, str]) -> dict[str, str]:
        """Return variables with the container's mount points turned into paths of this machine."""
        mounts = {mount.mount_path: str(self._host.content / mount.sub_path) for mount in order.container.volume_mounts}
        return {name: mounts.get(value, value) for name, value in variables.items()}

    def _status(self, job: dict[str, Any], order: WorkerOrder, records: list[ProcessRecord]) -> dict[str, Any]:
        uid, limit = job["metadata"]["uid"], order.backoff_limit_per_index
        done = [record.index for record in records if record.done]
        failed = [record.index for record in records if not record.done and record.failures > limit]
        status: dict[str, Any] = {
            "startTime": job.get("status", {}).get("startTime") or self._now(),
            "active": sum(self._processes.running(uid, record) for record in records),
            "succeeded": len(done),
            "failed": sum(record.failures for record in records),
            "completedIndexes": ",".join(map(str, done)),
            "failedIndexes": ",".join(map(str, failed)),
        }
        if len(done) + len(failed) == len(records):
            kind, reason = ("Failed", "FailedIndexes") if failed else ("Complete", "CompletionsReached")
            status["completionTime"] = self._now()
            status["conditions"] = [self._condition(kind, reason, "")]
        elif (said := job.get("status", {}).get("conditions")) is not None or uid in self._missing:
            missing = [self._missing[uid]] if uid in self._missing else []
            same = [condition["message"] for condition in said or ()] == missing
            status["conditions"] = said if same else [self._condition(WAITING, "NotThere", cause) for cause in missing]
        return status

    def _condition(self, kind: str, reason: str, message: str) -> dict[str, str]:
        return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": self._now()}

    async def _expired(self, job: dict[str, Any], order: WorkerOrder) -> bool:
        ttl, ended = order.ttl_seconds_after_finished, job.get("status", {}).get("completionTime")
        if ttl is None or ended is None:
            return False
        if datetime.fromisoformat(ended) + timedelta(seconds=ttl) > self._clock.now():
            return False
        await self._cluster.delete(JOB, job["metadata"]["namespace"], job["metadata"]["name"], uid=job["metadata"]["uid"])
        return True

    def _end(self, uid: str, *, hurry_after_s: float = GRACE_S) -> bool:
        """Bring a Job's processes to their end; True when none is left.

        The first SIGTERM lets a worker end what it has begun, a second one, after `hurry_after_s`, cuts that short; SIGKILL comes after the
        grace period.
        """
        alive = [record for record in self._processes.records(uid) if self._processes.running(uid, record)]
        if not alive:
            self._asked.pop(uid, None)
            return True
        now = self._clock.monotonic()
        asked = self._asked.setdefault(uid, _Asked(now))
        waited = now - asked.since
        number = signal.SIGKILL if waited >= GRACE_S else signal.SIGTERM
        due = 1 + (waited >= hurry_after_s) + (waited >= GRACE_S)
        if asked.times < due:
            asked.times = due
            for record in alive:
                self._processes.signal(uid, record, number)
        return False

    def _active(self) -> int:
        return sum(self._processes.running(uid, record) for uid in self._processes.owners() for record in self._processes.records(uid))

    async def _finalizers(self, job: dict[str, Any], finalizers: list[str]) -> None:
        metadata = job["metadata"]
        await self._cluster.patch(
            JOB, metadata["namespace"], metadata["name"], {"metadata": {"finalizers": finalizers}}, resource_version=metadata["resourceVersion"]
        )
        self._wake.set()

    async def _watch(self) -> None:
        while True:
            try:
                listing = await self._cluster.list(JOB)
                async for _ in self._cluster.watch(JOB, None, listing.resource_version):
                    self._wake.set()
            except Gone:
                self._wake.set()
            except ClusterError:  # `run` says so; it looks again by itself
                await self._clock.sleep(LOOK_AGAIN_S)

    async def _wait(self) -> None:
        """Wait for a changed Job, an ended child, or the next look at processes that are not our children."""
        waits = [
            asyncio.ensure_future(self._wake.wait()),
            asyncio.ensure_future(self._processes.wait_any()),
            asyncio.ensure_future(self._clock.sleep(LOOK_AGAIN_S)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            self._wake.clear()

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _finished(job: dict[str, Any]) -> bool:
    return any(c["type"] in {"Complete", "Failed"} and c["status"] == "True" for c in job.get("status", {}).get("conditions", []))
