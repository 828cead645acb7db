"""Processes of this machine: found again by another server, with the exit code that nobody was there to see."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from arena.local.processes import Processes, ProcessRecord

UID = "0c5c1c52-0000-4000-8000-000000000000"
DEADLINE_S = 60.0


@pytest.fixture
async def first(tmp_path: Path) -> AsyncIterator[Processes]:
    """Give the server that starts the processes; it stays until it has seen the end of each, or asyncio would complain."""
    server = Processes(tmp_path)
    yield server
    for child in server._children.values():
        await asyncio.wait_for(child.wait(), DEADLINE_S)


async def started(first: Processes, tmp_path: Path, code: str) -> tuple[Processes, ProcessRecord]:
    """Start a process that runs `code`; return it as a later server finds it."""
    record = await first.start(UID, ProcessRecord(0), (sys.executable, "-c", code), environment={}, log=tmp_path / "logs" / "w.log")
    return Processes(tmp_path), record


async def ended(processes: Processes, record: ProcessRecord) -> None:
    """Wait until the process has ended."""
    async with asyncio.timeout(DEADLINE_S):
        while processes.running(UID, record):  # noqa: ASYNC110 - it is no child of this one
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("code", "expected"),
    [("", 0), ("raise SystemExit(3)", 3), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL)],
    ids=["clean", "failed", "killed"],
)
async def test_another_server_learns_how_a_process_ended(first: Processes, tmp_path: Path, code: str, expected: int) -> None:
    """A server that did not start a process finds it in the records and knows its exit code once it has ended."""
    processes, record = await started(first, tmp_path, code)
    assert processes.records(UID) == [record]
    await ended(processes, record)
    assert processes.exit_code(UID, record) == expected


async def test_a_signal_reaches_the_process_itself(first: Processes, tmp_path: Path) -> None:
    """SIGTERM lets the process end in its own way, and the code it then gives is kept."""
    ready = tmp_path / "ready"
    code = (
        f"import signal, sys, pathlib\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\npathlib.Path({str(ready)!r}).touch()\nsignal.pause()"
    )
    processes, record = await started(first, tmp_path, code)
    async with asyncio.timeout(DEADLINE_S):
        while not ready.exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.005)
    processes.signal(UID, record, signal.SIGTERM)
    await ended(processes, record)
    assert processes.exit_code(UID, record) == 128 + signal.SIGTERM


async def test_an_end_that_nobody_saw_has_no_code(first: Processes, tmp_path: Path) -> None:
    """When the whole group is killed nothing is left to say how it ended."""
    processes, record = await started(first, tmp_path, "import signal; signal.pause()")
    os.killpg(record.pid, signal.SIGKILL)
    await ended(processes, record)
    assert processes.exit_code(UID, record) is None


async def test_forgotten_records_leave_nothing(first: Processes, tmp_path: Path) -> None:
    """A Job that is gone leaves no record and no exit code."""
    processes, record = await started(first, tmp_path, "")
    await ended(processes, record)
    processes.forget(UID)
    assert processes.owners() == ["logs"]
    assert not (tmp_path / UID).exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"index": 0, "colour": "red"}'])
def test_a_damaged_record_counts_as_none(tmp_path: Path, content: bytes) -> None:
    """What a disk has spoiled keeps nothing from being read beside it, and no server from starting."""
    processes = Processes(tmp_path)
    processes.save(UID, ProcessRecord(1))
    (tmp_path / UID / "0.json").write_bytes(content)
    assert processes.records(UID) == [ProcessRecord(1)]
