"""What this machine must have: git, a queue server program, room on the disk."""

import os
import shutil
import subprocess
from collections.abc import Iterator

from arena.doctor.finding import Finding, bad, info, ok
from arena.doctor.survey import Survey, mebibytes
from engine.errors import QueueUnavailable
from engine.queue.embedded import find_server
from gitops.errors import VolumeUnfit
from gitops.volume_check import check_volume

MIN_GIT = (2, 39)
MIN_FREE_BYTES = 1024**3
MIN_FREE_INODES = 20_000
"""About one snapshot of the largest size that a project may have by default."""


def examine_machine(survey: Survey) -> Iterator[Finding]:
    """Look at programs and disk."""
    yield _git()
    yield _queue_program(survey)
    if survey.state.root.exists():
        yield from _disk(survey)
    if survey.state.content.exists():
        yield _locks(survey)


def _git() -> Finding:
    git = shutil.which("git")
    if git is None:
        return bad("git", "not installed", "install git 2.39 or newer")
    version = subprocess.run([git, "version"], capture_output=True, text=True, check=False).stdout.split()[2]  # noqa: S603 - fixed words
    numbers = tuple(int(part) for part in version.split(".")[:2])
    return ok(f"git {version}") if numbers >= MIN_GIT else bad(f"git {version}", "older than 2.39", "install a newer one")


def _queue_program(survey: Survey) -> Finding:
    try:
        return ok(f"queue server program {find_server()}")
    except QueueUnavailable as error:
        if survey.redis_url:
            return info("queue server program", "none, and none is needed beside --redis-url")
        return bad("queue server program", error.message, error.hint)


def _disk(survey: Survey) -> Iterator[Finding]:
    disk = os.statvfs(survey.state.root)
    free = disk.f_bavail * disk.f_frsize
    thing = f"disk of {survey.state.root}"
    if free < MIN_FREE_BYTES:
        yield bad(thing, f"only {mebibytes(free)} free", "make room: a full disk stops pushes, exports and results")
    elif disk.f_files and disk.f_favail < MIN_FREE_INODES:  # some file systems count none
        yield bad(thing, f"only {disk.f_favail} inodes free", "make room: remove small files, or use another file system")
    else:
        yield ok(f"{thing} ({mebibytes(free)} free)")


def _locks(survey: Survey) -> Finding:
    thing = "locks of the content volume"
    try:
        check_volume(survey.state.content)
    except VolumeUnfit as error:
        return bad(thing, error.message, error.hint)
    except OSError as error:
        return bad(thing, f"cannot be tried: {error.strerror or error}", "let this user write to the content volume")
    return ok(thing)
