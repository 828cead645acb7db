"""Deaths of replicas while people push through all of them.

Owns two repositories, their pushers and the account of what git called accepted. Who dies, and when, comes from the seed; what it was doing then
depends on the machine.
"""

import random
import threading
import time
from collections import Counter
from pathlib import Path

from bench.installation import BenchFailed, git
from bench.replica_pods import NAMESPACE, Push, Pusher, Replicas
from foundation.clock import SystemClock
from gitops.content import ContentVolume, ProjectKey
from gitops.locks import LOCK_NAME
from gitops.maintenance import STALE_LOCK_S
from gitops.repositories import Repositories

PROJECTS = ("one", "two")
PUSHERS_EACH = 2
LIFE_S = 0.8
LOCK_WAIT_S = 30.0
RETRY_S = 0.5


class ReplicaDeaths:
    """Pushers that go on while replicas die."""

    def __init__(self, folder: Path, replicas: Replicas, seed: int) -> None:
        self._replicas = replicas
        self._chance = random.Random(seed)  # noqa: S311 - a repeatable choice
        self._volume = ContentVolume(replicas.root)
        self._over = threading.Event()
        self._names = [(project, f"{project}-{number}") for project in PROJECTS for number in range(PUSHERS_EACH)]
        self._pushers = [(project, Pusher(folder, name)) for project, name in self._names]
        self._accepted: dict[str, list[Push]] = {project: [] for project in PROJECTS}
        self._guard = threading.Lock()
        self.ends: Counter[str] = Counter()
        self.deaths: Counter[str] = Counter()
        self.failures: list[str] = []

    async def prepare(self) -> None:
        """Make the repositories."""
        repositories = Repositories(self._volume, SystemClock())
        for project in PROJECTS:
            await repositories.create(ProjectKey(NAMESPACE, project))

    def run(self, deaths: int) -> None:
        """Let replicas and the controller die so many times, then let everybody push once more."""
        threads = [threading.Thread(target=self._keep_pushing, args=(number,)) for number in range(len(self._pushers))]
        for thread in threads:
            thread.start()
        try:
            for _ in range(deaths):
                time.sleep(self._chance.uniform(0.0, LIFE_S))
                victim = self._chance.randrange(len(self._replicas.pods))
                self.deaths["replica" if victim < len(self._replicas.servers) else "controller"] += 1
                self._replicas.pods[victim].kill()
                self._replicas.pods[victim].start()
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def settle(self) -> dict[str, float]:
        """Have a push of each project accepted through each replica; return how many seconds the slowest took, by project."""
        slowest = dict.fromkeys(PROJECTS, 0.0)
        for project in PROJECTS:
            pusher = next(pusher for name, pusher in self._pushers if name == project)
            for server in range(len(self._replicas.servers)):
                begun = time.monotonic()
                while not self._push(project, pusher, server).accepted:
                    if time.monotonic() - begun > LOCK_WAIT_S:
                        self.failures.append(f"{project}: no push is accepted after {LOCK_WAIT_S:g} s")
                        break
                    time.sleep(RETRY_S)
                slowest[project] = max(slowest[project], time.monotonic() - begun)
        return slowest

    def lost(self) -> list[str]:
        """Return the commits that git called accepted and that main has not."""
        missing = []
        for project, pushes in self._accepted.items():
            there = set(git(self._path(project), "rev-list", "refs/heads/main").split())
            missing += [f"{project}: {push.commit}" for push in pushes if push.commit not in there]
        return missing

    def damage(self) -> list[str]:
        """Return what git fsck says of the repositories."""
        return [f"{project}: {words}" for project in PROJECTS if (words := _fsck(self._path(project)))]

    def left(self) -> list[str]:
        """Return the locks and quarantines of dead processes that the controller has not removed once it had the time."""
        deadline = time.monotonic() + STALE_LOCK_S + LOCK_WAIT_S
        while (found := [name for project in PROJECTS for name in _left_in(self._path(project))]) and time.monotonic() < deadline:
            time.sleep(RETRY_S)
        return found

    @property
    def accepted(self) -> int:
        """How many pushes were accepted."""
        return sum(len(pushes) for pushes in self._accepted.values())

    def _keep_pushing(self, number: int) -> None:
        project, pusher = self._pushers[number]
        chance = random.Random(number)  # noqa: S311 - a repeatable choice
        while not self._over.is_set():
            self._push(project, pusher, chance.randrange(len(self._replicas.servers)))

    def _push(self, project: str, pusher: Pusher, server: int) -> Push:
        pusher.follow(self._replicas.url(server, project))
        push = pusher.push(self._replicas.url(server, project))
        with self._guard:
            self.ends[_end_of(push)] += 1
            if push.accepted:
                self._accepted[project].append(push)
        return push

    def _path(self, project: str) -> Path:
        return self._volume.repository(ProjectKey(NAMESPACE, project))


_ENDS = {
    "accepted": (),
    "moved meanwhile": ("was moved meanwhile", "fetch first", "non-fast-forward", "commits would be lost"),
    "cut off by a death": (
        "Empty reply",
        "Connection refused",
        "Connection reset",
        "unexpected disconnect",
        "the remote end hung up",
        "Failed to connect",
        "RPC failed",
    ),
    "busy": ("it is in use", "503"),
}


def _left_in(repository: Path) -> list[str]:
    found = (*repository.glob("*.lock"), *repository.glob("refs/**/*.lock"), *repository.glob("objects/tmp_objdir-*"))
    return [f"{repository.stem}: {path.name}" for path in found if path.name != LOCK_NAME]


def _fsck(repository: Path) -> str:
    try:
        return git(repository, "fsck", "--full", "--no-dangling", "--no-progress").strip()
    except BenchFailed as error:
        return str(error)


def _end_of(push: Push) -> str:
    if push.accepted:
        return "accepted"
    known = next((end for end, words in _ENDS.items() if any(word in push.said for word in words)), "")
    return known or f"other: {' '.join(push.said.split())[:200]}"
