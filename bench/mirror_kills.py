"""Deaths of git and of the process that fetches, in each phase of a fetch, and what the next fetch makes of it.

Owns one remote, its mirror, and the process that fetches. Which phase is struck, who dies, and what the remote does in between come from the seed; when
exactly a process is hit depends on the machine.
"""

import contextlib
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.installation import BenchFailed
from bench.mirror_fetcher import PROJECT
from gitops.content import ContentVolume
from gitops.maintenance import sweep_repository
from tests.mirror.https_host import HttpsHost

PHASES = ("listing", "start", "connect", "pack", "check", "refs")
"""A fetch as /proc shows it: nobody of git's is there, git alone, its https helper, index-pack, rev-list, and git alone again."""
VICTIMS = ("process", "git", "both")
BRANCHES = tuple(f"branch-{number}" for number in range(6))
LARGEST_BYTES = 600_000
FRESH_EVERY = 20
WAIT_S = 60.0
LOOK_S = 0.0005
_PROGRAMS = {"index-pack": "pack", "rev-list": "check", "remote-https": "connect", "git-remote-http": "connect", "fetch": "start"}


class Fetcher:
    """The process that fetches; started again whenever it is dead."""

    def __init__(self, root: Path, url: str, authority: Path) -> None:
        self._words = [sys.executable, "-m", "bench.mirror_fetcher", str(root), url, str(authority)]
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The id of the process that lives, or lived last."""
        return self._alive().pid

    def begin(self) -> None:
        """Ask for a fetch."""
        process = self._alive()
        if process.stdin is not None:
            process.stdin.write("fetch\n")
            process.stdin.flush()

    def has_answered(self) -> bool:
        """Say whether the fetch is over, one way or the other."""
        stdout = self._alive().stdout
        return stdout is not None and bool(select.select([stdout], [], [], 0)[0])

    def outcome(self) -> str:
        """Wait for what came of it; "" when the process died."""
        line = _line(self._process)
        if not line:
            self.stop()
        return line

    def stop(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()  # git's children have a pipe of their own, so this does not wait for them
            self._process = None

    def _alive(self) -> "subprocess.Popen[str]":
        if self._process is None:
            self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            if _line(self._process) != "ready":
                raise BenchFailed("the process that fetches does not start")
        return self._process


def _line(process: "subprocess.Popen[str] | None") -> str:
    return process.stdout.readline().strip() if process is not None and process.stdout is not None else ""


class MirrorKills:
    """One mirror whose fetches die again and again."""

    def __init__(self, folder: Path, host: HttpsHost, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - a repeatable choice
        self._host = host
        self._upstream = host.create("bench/mirror")
        self._upstream.commit(files={"a.bin": self._chance.randbytes(LARGEST_BYTES)})
        authority = folder / "ca.pem"
        authority.write_text(host.ca_certificates, encoding="ascii")
        self._mirror = ContentVolume(folder / "content").repository(PROJECT)
        self._fetcher = Fetcher(folder / "content", self._upstream.url, authority)
        self.met: Counter[str] = Counter()
        self.dead: Counter[str] = Counter()
        self.damage: list[str] = []
        self.stuck: list[str] = []
        self.left: list[str] = []
        self.behind: list[str] = []
        self.slowest_s = 0.0

    @property
    def problems(self) -> list[str]:
        """All that was wrong."""
        return [*self.damage, *self.stuck, *self.left, *self.behind]

    def strike(self, number: int) -> None:
        """Change the remote, kill somebody in a phase of the fetch, fetch again, and look at what is there."""
        if number % FRESH_EVERY == 0:
            shutil.rmtree(self._mirror, ignore_errors=True)
        self._change()
        phase, victim = self._chance.choice(PHASES), self._chance.choice(VICTIMS)
        switch = self._host.answering(self._upstream.name, "slow") if phase == "pack" else contextlib.nullcontext()
        with switch:
            self._fetcher.begin()
            if self._kill(victim, self._await(phase)):
                self._fetcher.outcome()
        begun = time.monotonic()
        self._fetcher.begin()
        outcome = self._fetcher.outcome()
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
        self._look(f"{number}: {victim} killed in {phase}: {outcome}", outcome)

    def stop(self) -> None:
        """End the process."""
        self._fetcher.stop()

    def _change(self) -> None:
        """Do what a team does: push, force, delete, rename, make a directory of a branch, tag."""
        upstream, chance = self._upstream, self._chance
        size = chance.randrange(10_000, LARGEST_BYTES)
        upstream.commit(files={f"file-{chance.randrange(4)}.bin": chance.randbytes(size)})
        branch = chance.choice(BRANCHES)
        refs = upstream.refs()
        for name in (f"refs/heads/{branch}", f"refs/heads/{branch}/inner"):
            if name in refs:
                upstream.delete_ref(name)
        if chance.random() < 0.7:
            upstream.commit(chance.choice((branch, f"{branch}/inner")), parent=chance.choice((None, refs.get("refs/heads/main"))))
        upstream.git("tag", "-f", chance.choice(("v1", "v2")), "main")
        if chance.random() < 0.2:
            upstream.commit(parent=None)

    def _await(self, phase: str) -> str:
        """Wait until the fetch is in a phase, or past it, and a moment more; return the phase that it is in."""
        deadline, seen = time.monotonic() + WAIT_S, "listing"
        pause = self._chance.uniform(0.0, 0.02)
        if phase == "listing":
            time.sleep(pause)
            return self._phase("listing")
        while time.monotonic() < deadline:
            seen = self._phase(seen)
            if PHASES.index(seen) >= PHASES.index(phase) or self._fetcher.has_answered():
                break
            time.sleep(LOOK_S)
        time.sleep(pause / 4)
        return self._phase(seen)

    def _phase(self, before: str) -> str:
        found = {_PROGRAMS[word] for pid in self._gits() for word in _words(pid) if word in _PROGRAMS}
        if not found:
            return before if before == "listing" else "refs"
        latest = max(found, key=PHASES.index)
        return "refs" if latest == "start" and PHASES.index(before) > PHASES.index("connect") else latest

    def _gits(self) -> list[int]:
        return list(_descendants(self._fetcher.pid))

    def _kill(self, victim: str, phase: str) -> bool:
        """Kill, and say whether the process that fetches lives."""
        gits = self._gits()
        self.met[phase] += 1
        if victim in {"process", "both"} or not gits:
            self._fetcher.stop()
            self.dead["process"] += 1
        if victim in {"git", "both"} and gits:
            _strike(self._chance.choice(gits))
            self.dead["git"] += 1
        return victim == "git" and bool(gits)

    def _look(self, what: str, outcome: str) -> None:
        if not outcome.startswith("fetched"):
            self.stuck.append(what)
            return
        mirror = ["git", "--git-dir", str(self._mirror)]
        done = subprocess.run([*mirror, "fsck", "--full", "--strict", "--no-dangling"], capture_output=True, text=True, check=False)
        said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith(("Checking ", "notice: "))]
        self.damage += [f"{what}: {line}" for line in said]
        self.left += [f"{what}: {name}" for name in sweep_repository(self._mirror, lock_age_s=0.0, file_age_s=0.0)]
        listed = subprocess.run([*mirror, "for-each-ref", "--format=%(refname) %(objectname)"], capture_output=True, text=True, check=True).stdout
        if dict(line.split(" ") for line in listed.splitlines()) != self._upstream.refs():
            self.behind.append(what)


def _strike(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                yield int(child)
                yield from _descendants(int(child))


def _words(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return [Path(word).name for word in Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:3]]
    return []
