"""Mirrors: kill -9 in each phase of a fetch, by seed; and what a poll costs over https.

    python -m bench mirrors [--kills 200] [--seed S] [--polls 300] [--projects 100] [--part all|kills|polls] [--keep]

`kills`: git, or the process that fetches, or both, are killed while a mirror follows a remote that pushes, forces, deletes, renames and tags. The next
fetch must succeed, and leave the remote's refs, a clean `git fsck`, no lock and no temporary file. Every 20th begins with a first fetch.
`polls`: CPU of this process for a poll that finds nothing new, over a kept connection and with a handshake each time, beside `git ls-remote` and its
children; then a minute's polls of many projects, one after the other. A real host (nginx and git http-backend, private CA) on loopback answers.
Exit 1 when a bar is missed. Needs nginx and fcgiwrap.
"""

import argparse
import asyncio
import os
import resource
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from bench.installation import BenchFailed
from bench.mirror_fetcher import mirrors_of
from bench.mirror_kills import PHASES, MirrorKills
from gitops.content import ProjectKey
from gitops.mirrors import Mirrors
from gitops.remote import Credentials, Remote
from tests.mirror.https_host import HttpsHost, https_host, is_installed

POLL_BAR_MS = 6.0
CORE_BAR_PERCENT = 5.0
BRANCHES = 20
PEER_POLLS = 50
MINUTES = 3
SLOW_BYTES_S = 1_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of CPU and of time that one of many cost."""

    cpu_ms: float
    wall_ms: float

    def __str__(self) -> str:
        """Return both."""
        return f"{self.cpu_ms:5.2f} ms CPU  {self.wall_ms:6.1f} ms"


def do_kills(folder: Path, deaths: int, seed: int) -> bool:
    """Do row four; say whether all is well."""
    begun = time.monotonic()
    with https_host(folder / "host", SLOW_BYTES_S) as host:
        kills = MirrorKills(folder, host, seed)
        try:
            for number in range(deaths):
                kills.strike(number)
                if (number + 1) % 20 == 0:
                    print(f"  {number + 1} deaths", flush=True)
        finally:
            kills.stop()
    print(f"deaths     {', '.join(f'{kills.met[phase]} in {phase}' for phase in PHASES)}")
    print(f"killed     {kills.dead['process']} times the process, {kills.dead['git']} times a git process")
    print(f"recovery   the slowest fetch after a death took {kills.slowest_s:.1f} s")
    print(f"found      {len(kills.damage)} faults, {len(kills.stuck)} stuck, {len(kills.left)} left over, {len(kills.behind)} behind the remote")
    for line in kills.problems:
        print(f"  {line}")
    good = not kills.problems and sum(kills.met.values()) >= deaths
    print(f"{'ok    ' if good else 'MISSED'} {deaths} deaths: fsck clean, no stuck lock, no temporary pack ({time.monotonic() - begun:.0f} s)")
    return good


def do_polls(folder: Path, polls: int, projects: int) -> bool:
    """Do row five; say whether all is well."""
    with https_host(folder / "host") as host:
        remotes = [_remote(host, f"bench/project-{number}") for number in range(projects)]
        return asyncio.run(_poll(folder, host, remotes, polls))


async def _poll(folder: Path, host: HttpsHost, remotes: Sequence[Remote], polls: int) -> bool:
    mirrors = mirrors_of(folder / "content")
    keys = [ProjectKey("bench", f"project-{number}") for number in range(len(remotes))]
    for key, remote in zip(keys, remotes, strict=True):
        await mirrors.fetch(key, remote)
    kept = await _cost(mirrors, [keys[0]] * polls, [remotes[0]] * polls)
    fresh = await _cost(mirrors, [keys[0]] * polls, [remotes[0]] * polls, hang_up=True)
    minute = min([await _cost(mirrors, keys, remotes) for _ in range(MINUTES)], key=lambda cost: cost.cpu_ms)
    mirrors.close()
    peer = _peer(host, remotes[0], folder)
    percent = minute.cpu_ms * len(remotes) / 60_000 * 100
    print(f"poll       {kept}  over a kept connection, {BRANCHES} branches, {polls} polls")
    print(f"handshake  {fresh}  with a new connection each time ({fresh.cpu_ms / kept.cpu_ms:.1f}x)")
    print(f"peer       {peer}  git ls-remote, its children included ({peer.cpu_ms / kept.cpu_ms:.1f}x)")
    print(f"minute     {percent:.2f} percent of a core for {len(remotes)} projects polled once a minute (least of {MINUTES} minutes)")
    good = max(kept.cpu_ms, fresh.cpu_ms) <= POLL_BAR_MS and percent <= CORE_BAR_PERCENT
    print(
        f"{'ok    ' if good else 'MISSED'} at most {POLL_BAR_MS:g} ms CPU a poll; at most {CORE_BAR_PERCENT:g} percent of a core for {len(remotes)} projects"
    )
    return good


async def _cost(mirrors: Mirrors, keys: Sequence[ProjectKey], remotes: Sequence[Remote], *, hang_up: bool = False) -> Cost:
    cpu, wall = time.process_time(), time.monotonic()
    for key, remote in zip(keys, remotes, strict=True):
        state = await mirrors.fetch(key, remote)
        if state.fetched:
            raise BenchFailed("a poll without news has fetched")
        if hang_up:
            mirrors.close()
    return Cost((time.process_time() - cpu) / len(keys) * 1000, (time.monotonic() - wall) / len(keys) * 1000)


def _peer(host: HttpsHost, remote: Remote, folder: Path) -> Cost:
    authority = folder / "ca.pem"
    authority.write_text(host.ca_certificates, encoding="ascii")
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    for _ in range(PEER_POLLS):
        words = ["git", "-c", f"http.sslCAInfo={authority}", "ls-remote", "--heads", "--tags", remote.url]
        subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu / PEER_POLLS * 1000, (time.monotonic() - wall) / PEER_POLLS * 1000)


def _remote(host: HttpsHost, name: str) -> Remote:
    upstream = host.create(name)
    tip = upstream.commit()
    upstream.git("update-ref", "--stdin", stdin=b"".join(b"create refs/heads/b%d %s\n" % (number, tip.encode()) for number in range(BRANCHES - 1)))
    return Remote(upstream.url, Credentials(ca_certificates=host.ca_certificates))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench mirrors", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="deaths in fetches (default: 200)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="default: a new one")
    parser.add_argument("--polls", type=int, default=300, help="polls of one project (default: 300)")
    parser.add_argument("--projects", type=int, default=100, help="projects polled each minute (default: 100)")
    parser.add_argument("--part", choices=("all", "kills", "polls"), default="all")
    parser.add_argument("--keep", action="store_true", help="keep the directories")
    options = parser.parse_args(arguments)
    if not is_installed():
        print("error: nginx, fcgiwrap or git http-backend is not installed")
        return 1
    structlog.configure(processors=[lambda *_: (_ for _ in ()).throw(structlog.DropEvent())])
    folder = Path(tempfile.mkdtemp(prefix="arena-mirrors-"))
    done = []
    try:
        for part in ("polls", "kills"):
            if options.part in {"all", part}:
                (folder / part).mkdir()
                if part == "kills":
                    print(f"seed       {options.seed}", flush=True)
                done.append(
                    do_kills(folder / part, options.kills, options.seed)
                    if part == "kills"
                    else do_polls(folder / part, options.polls, options.projects)
                )
    finally:
        if options.keep:
            print(f"kept       {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(done) else 1


if __name__ == "__main__":
    raise SystemExit(main())
