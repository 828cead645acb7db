"""What runs need and what they left: plan files, directories, queue keys, worker processes."""

import hashlib
from collections.abc import AsyncIterator, Iterator

from arena.cli.screen import counted
from arena.doctor.finding import Finding, bad, info, ok
from arena.doctor.survey import Survey
from arena.local.processes import Processes
from engine.errors import QueueUnavailable
from engine.queue.redis import RedisWorkQueue
from engine.queue.urls import without_credentials
from reconcile.cluster.port import ARENA_RUN, JOB, Object
from reconcile.kinds.names import TERMINAL_PHASES
from reconcile.run.ownership import TRASH, read_owner

_SWEPT = "a running server removes them an hour after it first sees them"


def examine_runs(survey: Survey) -> Iterator[Finding]:
    """Look at the plans of runs that go on, and for directories and processes of runs that are gone."""
    yield from _plans(survey)
    yield from _directories(survey)
    yield from _processes(survey)


def _plans(survey: Survey) -> Iterator[Finding]:
    going = [run for run in survey.objects(ARENA_RUN) if (run.get("status") or {}).get("plan") and not _ended(run)]
    faults = [(run, fault) for run in going if (fault := _plan_fault(survey, run))]
    for run, fault in faults:
        name = run["metadata"]["name"]
        yield bad(
            f"plan of run {run['metadata']['namespace']}/{name}", fault, f"if the run stays where it is: arena delete arun {name}, and start another"
        )
    if going and not faults:
        yield ok(f"plans of {counted(len(going), 'run')} under way")


def _ended(run: Object) -> bool:
    return run["status"].get("phase") in TERMINAL_PHASES


def _plan_fault(survey: Survey, run: Object) -> str:
    digest = str(run["status"]["plan"]["digest"])
    path = survey.volume.run(run["metadata"]["namespace"], run["metadata"]["name"]) / f"plan-{digest.removeprefix('sha256:')}.json"
    try:
        found = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError as error:
        return f"{path} cannot be read: {(error.strerror or str(error)).lower()}"
    return "" if found == digest else f"{path} is not what was planned"


def _directories(survey: Survey) -> Iterator[Finding]:
    found = [(path, read_owner(path)) for path in survey.state.content.glob("*/*/arena/runs/*") if path.is_dir() and path.name != TRASH]
    alive = survey.uids(ARENA_RUN)
    orphans = sorted(str(path) for path, owner in found if owner and owner.installation == survey.installation and owner.uid not in alive)
    others = [path for path, owner in found if owner is None or owner.installation != survey.installation]
    if orphans:
        yield bad("run directories", f"{counted(len(orphans), 'directory of a run')} that is gone: {', '.join(orphans[:3])}", _SWEPT)
    elif found:
        yield ok(f"run directories ({len(found)})")
    if others:
        yield info("run directories", f"{len(others)} of no run of this installation: {', '.join(str(path) for path in others[:3])}")


def _processes(survey: Survey) -> Iterator[Finding]:
    processes = Processes(survey.state.processes)
    slots = [(uid, record) for uid in processes.owners() for record in processes.records(uid)]
    alive = survey.uids(JOB)
    running = [(uid, record.pid) for uid, record in slots if processes.running(uid, record)]
    orphans = [str(pid) for uid, pid in running if uid not in alive]
    if orphans:
        yield bad("worker processes", f"their Job is gone: {', '.join(orphans)}", f"`arena up` ends them; or: kill {' '.join(orphans)}")
    elif running:
        yield ok(f"worker processes ({len(running)} running)")


async def examine_queue(survey: Survey, url: str) -> AsyncIterator[Finding]:
    """Look at a queue server's settings, and for keys of runs that are gone."""
    queue = RedisWorkQueue(url, installation=survey.installation)
    shown = "queue server" if url.startswith("unix:") else f"queue server {without_credentials(url)}"
    try:
        faults = await queue.check()
        apart = await queue.users(without_credentials(url)).problem()
        left = await queue.runs() if survey.installation else []
        gone = sorted(set(left) - survey.uids(ARENA_RUN)) if left else []
    except QueueUnavailable as error:
        yield bad(shown, error.message, error.hint or "start it, or mend its address")
        return
    finally:
        await queue.close()
    if gone:
        yield bad("queue keys", f"{counted(len(gone), 'run')} that is gone has keys: {', '.join(gone[:3])}", _SWEPT)
    for fault in faults:
        cause, _, remedy = fault.partition(": ")
        yield bad(shown, cause, remedy)
    if apart:
        cause, _, remedy = apart.partition(": ")
        yield info(shown, cause, remedy)
    if not faults:
        yield ok(shown)
