"""Measuring whole processes: wall clock, CPU of the process and its children, peak resident memory.

Used by the comparisons, so that every peer is measured by the same means.
"""

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


class CommandFailed(Exception):
    """A measured command did not end as it should; the message has the end of its output."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start: arguments, directory, variables on top of the environment."""

    argv: tuple[str, ...]
    directory: Path
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Measured:
    """One process: seconds of wall clock and CPU (user and system, waited-for children included), peak resident bytes of the largest."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def measure(command: Command, output: Path) -> Measured:
    """Run `command` to its end with stdout and stderr in the file `output`.

    Raises:
        CommandFailed: its exit status is not 0.
    """
    with output.open("wb") as stream:
        start = time.perf_counter()
        process = subprocess.Popen(
            command.argv,
            cwd=command.directory,
            env={**_environment(), **command.variables},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        tail = output.read_bytes()[-400:].decode(errors="replace").strip()
        raise CommandFailed(f"cannot measure '{command.argv[0]}': exit {process.returncode}: {tail}")
    return Measured(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def _environment() -> dict[str, str]:
    """Return the environment as a user has it: with byte code caches, which build machines often switch off."""
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}}
