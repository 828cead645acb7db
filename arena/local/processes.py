"""Worker processes of this machine: start, recognise after a restart of ours, end.

Owns `processes/<job uid>/<index>.json` in the state directory, and `<pid>.exit` beside it. A process is known by its pid together with its start
time, so a pid that the system has given to somebody else is never mistaken for ours. Each leaves its exit code behind, because it may end while no
server of ours is there to see it. Must not know what a Job is.
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import structlog

from arena.local.process_times import start_time
from arena.local.spare import Command, Spare, spawn
from foundation.crash import crash_point
from foundation.files import write_file

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """One worker slot of a Job: how often it failed, whether it is done, and the process that fills it now (pid 0: none)."""

    index: int
    pid: int = 0
    started: int = 0
    failures: int = 0
    done: bool = False


class Processes:
    """The worker processes that this installation started, this time or before."""

    def __init__(self, folder: Path, spare: Spare | None = None) -> None:
        self._folder = folder
        self._spare = spare
        self._children: dict[tuple[str, int], asyncio.subprocess.Process] = {}

    def owners(self) -> list[str]:
        """Return the uids of the Jobs that have records."""
        return sorted(entry.name for entry in self._folder.iterdir() if entry.is_dir()) if self._folder.is_dir() else []

    def records(self, uid: str) -> list[ProcessRecord]:
        """Return the slots of a Job, by index. A damaged record counts as none: its process, if it lives, ends with the run."""
        folder = self._folder / uid
        found = [_read_record(path) for path in folder.glob("[0-9]*.json")] if folder.is_dir() else []
        return sorted((record for record in found if record is not None), key=lambda record: record.index)

    def running(self, uid: str, record: ProcessRecord) -> bool:
        """Say whether the process of a slot is alive."""
        child = self._children.get((uid, record.index))
        if child is not None and child.pid == record.pid:
            return child.returncode is None
        return record.pid != 0 and start_time(record.pid) == record.started

    def exit_code(self, uid: str, record: ProcessRecord) -> int | None:
        """Return how the process of a slot ended, 128 and more for a signal; None when it was killed before anybody could see it."""
        try:
            return int((self._folder / uid / f"{record.pid}.exit").read_text(encoding="ascii"))
        except (OSError, ValueError):
            child = self._children.get((uid, record.index))
        if child is None or child.pid != record.pid or child.returncode is None:
            return None
        return child.returncode if child.returncode >= 0 else 128 - child.returncode

    async def start(self, uid: str, record: ProcessRecord, words: tuple[str, ...], *, environment: Mapping[str, str], log: Path) -> ProcessRecord:
        """Start a process in its own session, or give its command to the one that waits; its output is appended to `log`. Record it.

        A kill between start and record leaves a worker that nobody knows: it takes items like any other and ends with the run.

        Raises:
            OSError: it could not be started or recorded.
        """
        folder = self._folder / uid
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = Command(words, environment, log, folder)
        child = (self._spare.take(command) if self._spare else None) or await spawn(command)
        self._children[uid, record.index] = child
        started = replace(record, pid=child.pid, started=start_time(child.pid) or 0)
        crash_point("workers.process_started")
        self.save(uid, started)
        return started

    async def prepare(self) -> None:
        """Have a process ready for the next command, where that is wanted.

        Raises:
            OSError: none could be started.
        """
        if self._spare is not None:
            await self._spare.prepare()

    def dismiss(self) -> None:
        """Let the process that waits for a command end."""
        if self._spare is not None:
            self._spare.dismiss()

    def save(self, uid: str, record: ProcessRecord) -> None:
        """Write a slot's record."""
        folder = self._folder / uid
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(folder / f"{record.index}.json", json.dumps(asdict(record)).encode(), mode=0o600)

    def signal(self, uid: str, record: ProcessRecord, number: signal.Signals) -> None:
        """Send a signal to a slot's process group, if it is still ours."""
        if self.running(uid, record):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(record.pid, number)

    def forget(self, uid: str) -> None:
        """Remove the records of a Job whose processes have ended."""
        folder = self._folder / uid
        for path in folder.glob("*"):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()
        for key in [key for key in self._children if key[0] == uid]:
            del self._children[key]

    async def wait_any(self) -> None:
        """Return when one of our own children has ended; never when there is none."""
        waiting = [asyncio.ensure_future(child.wait()) for child in self._children.values() if child.returncode is None]
        if not waiting:
            await asyncio.Event().wait()
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()


def _read_record(path: Path) -> ProcessRecord | None:
    try:
        return ProcessRecord(**json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        _log.warning("process_record_damaged", path=str(path), cause=str(error))
        return None
