"""A real `arena up` that can be told where to die, and that is started again whenever it has died.

Owns the order file of `foundation.crash`, the restarts, and the check that nothing half done is left on the content volume.
"""

import contextlib
import http.client
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from arena.cli.client import Client, ServerRefused
from arena.errors import ServerUnreachable
from foundation.crash import MET_SUFFIX
from reconcile.cluster.port import ResourceKind
from tests.e2e.installation import Server, descendants, files_below
from tests.e2e.nursery import Nursery
from tests.ports import free_ports

DEADLINE_S = 60.0
STEP_S = 0.02
T = TypeVar("T")


class Doomed:
    """One installation, on one port for its whole life, whose processes die where they are told to."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self._order = folder / "order"
        self._state = folder / "state"
        (self._port,) = free_ports(1)
        self._environment = {"ARENA_CRASH_AT": f"@{self._order}", **environment}
        self._nursery = Nursery()
        self.server = self._start()

    def _start(self) -> Server:
        options = ("--port", str(self._port), "--max-workers", "2")
        return Server(self._state, self.home, *options, environment=self._environment, start=self._nursery.start)

    @property
    def client(self) -> Client:
        """Return a client of the server that runs now."""
        return self.server.client

    def arm(self, *specs: str) -> None:
        """Let a process die at each of these crash points, one after the other."""
        self._met.unlink(missing_ok=True)
        temporary = self._order.with_suffix(".new")
        temporary.write_text("\n".join(specs), encoding="ascii")
        temporary.rename(self._order)

    def disarm(self) -> None:
        """Let nothing die any more."""
        self._order.unlink(missing_ok=True)

    @property
    def deaths(self) -> list[str]:
        """Return the crash points at which something has died, in that order."""
        try:
            return [line.split()[0] for line in self._met.read_text(encoding="ascii").splitlines()]
        except FileNotFoundError:
            return []

    def _revive(self) -> None:
        """Start the server again if it has died."""
        if self.server.process.poll() is not None:
            self.server.stop()
            self.server = self._start()

    @property
    def _met(self) -> Path:
        return self._order.with_name(self._order.name + MET_SUFFIX)

    def until(self, probe: Callable[[], T | None], what: str, *, deadline_s: float = DEADLINE_S) -> T:
        """Return what `probe` finds; a server that has died meanwhile is started again, and what it could not answer is asked again."""
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            self._revive()
            with contextlib.suppress(ServerUnreachable, OSError, http.client.HTTPException):
                found = probe()
                if found:
                    return found
            time.sleep(STEP_S)
        raise AssertionError(f"{what}: not within {deadline_s:.0f} s\n{self.server.stderr[-2000:]}")

    def ensure(self, kind: ResourceKind, namespace: str, name: str, **parts: Mapping[str, object]) -> None:
        """Create an object of these parts (spec, data), whatever dies meanwhile: an answer that never came may have been a yes."""
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **parts}

        def create() -> bool:
            try:
                self.client.create(kind, namespace, body)
            except ServerRefused as error:
                if error.reason != "AlreadyExists":
                    raise
            return True

        self.until(create, f"{kind.kind} {name} to be taken")

    def close(self) -> None:
        """Stop the server in order, and kill what is left."""
        self.disarm()
        self.server.stop()
        self._nursery.close()
        for pid in descendants(str(self._state)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def unsound(self, namespace: str) -> list[str]:
        """Say what a killed process has left on the content volume of a namespace, in words: damage, half snapshots, locks."""
        arena = self.server.state.content / namespace / namespace / "arena"
        found = []
        for repository in [*arena.glob("repos/*.git"), *arena.glob("repos/.retained/*.git")]:
            done = subprocess.run(["git", "-C", str(repository), "fsck", "--full", "--strict"], capture_output=True, text=True, check=False)
            said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith(("dangling ", "Checking ", "notice: "))]
            found += [f"{repository.name}: {line}" for line in said]
            locks = (path for path in files_below(repository) if path.suffix == ".lock" and path.name != "arena.lock")
            found += [f"{repository.name}: lock {path.relative_to(repository)}" for path in locks]
            found += [f"{repository.name}: left over {path.name}" for path in (repository / "objects").glob("tmp_*")]
        for versions in arena.glob("sources/*/.arena/versions"):
            found += [f"half a snapshot: {path.name}" for path in versions.glob(".tmp-*")]
            found += [f"a bad snapshot: {path.name}" for path in versions.glob(".quarantine*")]
        return found
