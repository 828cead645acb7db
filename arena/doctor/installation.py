"""The state directory itself: whose it is, whether a server uses it, and its store."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from arena.cli.client import Client
from arena.doctor.finding import Finding, bad, info, ok
from arena.doctor.survey import Survey
from arena.errors import ServerUnreachable, UsageError
from arena.local.state import ServerAddress, StateDirectory
from engine.queue.processes import command_line, is_running
from reconcile.cluster.port import NAMESPACE
from reconcile.cluster.sqlite_reading import KNOWN_SCHEMA, StoreReading
from reconcile.errors import StoreUnavailable

CLOCK_TOLERANCE_S = 60.0
_PRIVATE_FILES = ("token", "installation", "server.json", "lock", "cluster.db", "cluster.db-wal", "cluster.db-shm")
_OTHERS = 0o077


def examine_directory(state: StateDirectory) -> Iterator[Finding]:
    """Look at the directory and the modes of what must be private."""
    thing, faults = f"state directory {state.root}", False
    if not state.root.exists():
        yield ok(f"{thing} (not there yet; `arena up` makes it)")
        return
    if not state.root.is_dir() or not os.access(state.root, os.R_OK | os.W_OK | os.X_OK):
        yield bad(thing, "it is no directory that can be read and written", "mend its mode or its mount, or choose another with --state DIR")
        return
    for path in (state.root, state.content, state.queue, state.logs, state.processes, *(state.root / name for name in _PRIVATE_FILES)):
        fault = _open_to_others(path)
        if fault is not None:
            faults = True
            yield fault
    if not faults:
        yield ok(thing)


def _open_to_others(path: Path) -> Finding | None:
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return None
    mode, wanted = stat.S_IMODE(facts.st_mode), 0o700 if stat.S_ISDIR(facts.st_mode) else 0o600
    if facts.st_uid != os.getuid():
        return bad(str(path), f"it belongs to user {facts.st_uid}", "chown it, or run arena as that user")
    return bad(str(path), f"others may enter it (mode {mode:04o})", f"chmod {wanted:o} {path}") if mode & _OTHERS else None


def examine_server(state: StateDirectory) -> tuple[list[Finding], ServerAddress | None]:
    """Look for the server; return what was found, and its address if it answers."""
    try:
        address = state.address()
        client = Client.of(state)
    except ServerUnreachable:
        return [*_left_behind(state), _silent(state)], None
    thing = f"server at {address.url}"
    try:
        client.list(NAMESPACE, "")
    except UsageError as error:
        return [bad(thing, error.message, error.hint)], None
    return [ok(thing)], address


def _silent(state: StateDirectory) -> Finding:
    """Say why no server answers for the directory."""
    holder = lock_holder(state.root / "lock")
    if holder:
        return info("server", f"process {holder} holds the state directory and does not listen: it starts or ends")
    if (state.root / "server.json").exists():
        return bad("server", "it was killed: server.json names a process that has gone", "`arena up` finds what it left and goes on")
    return ok("server (not running; start it with `arena up`)")


def _left_behind(state: StateDirectory) -> list[Finding]:
    """Return that a queue server runs without the server that it belongs to."""
    try:
        pid = int((state.queue / "server.pid").read_text())
    except (OSError, ValueError):
        return []
    if is_running(pid) and str(state.queue) in command_line(pid):
        return [bad("queue server", f"process {pid} runs without a server", f"`arena up` adopts it; or end it: kill {pid}")]
    return []


def lock_holder(path: Path) -> int:
    """Return the process that holds a file by flock, 0 for none or where that cannot be seen. The lock itself is not touched.

    Source: /proc/locks (proc(5)): `1: FLOCK ADVISORY WRITE <pid> <major>:<minor>:<inode> 0 EOF`, the device in hexadecimal.
    """
    try:
        facts = path.stat()
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    for fields in (line.split() for line in lines):
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(facts.st_ino):  # noqa: PLR2004 - the sixth field
            return int(fields[4])
    return 0


def examine_store(survey: Survey) -> tuple[list[Finding], bool]:
    """Look at the store; return what was found, and whether its objects can be read."""
    if not survey.state.database.exists():
        return [], False
    thing = "store cluster.db"
    try:
        with StoreReading(survey.state.database) as store:
            schema, damage = store.schema, ""
            if schema <= KNOWN_SCHEMA and not (damage := store.damage()):
                newest = store.newest()
    except StoreUnavailable as error:
        return [bad(thing, error.message, error.hint)], False
    if schema > KNOWN_SCHEMA:
        cause = f"its schema version is {schema}, this program knows up to {KNOWN_SCHEMA}"
        return [bad(thing, cause, "use the newer arena that wrote it, or another state directory")], False
    if damage:
        return [bad(thing, f"it is damaged: {damage}", "`arena restore` a backup into another directory")], False
    older = "" if schema == KNOWN_SCHEMA else f", which `arena up` brings to {KNOWN_SCHEMA}"
    return [ok(f"{thing} (schema version {schema}{older})"), _clock(survey, newest)], True


def _clock(survey: Survey, newest: float) -> Finding:
    behind = newest - survey.clock.now().timestamp()
    if behind <= CLOCK_TOLERANCE_S:
        return ok("clock")
    return bad(
        "clock", f"it is {behind:.0f} s behind the newest entry of the store", "set it right (NTP): until then schedules and deadlines are late"
    )
