"""Deaths of the server in the middle of pushes, exports and seeds, and what git and the snapshots say afterwards.

Owns one installation and its repositories. Where the server dies says `PLACES`, or a moment after a push has begun; both come from the seed.
"""

import asyncio
import contextlib
import random
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from arena.cli.client import Client
from arena.errors import ServerUnreachable
from arena.local.process_times import start_time
from bench.installation import NAMESPACE, Installation, clone_url, ensure, git, wait_for
from bench.orders import Orders
from gitops.content import ContentVolume, ProjectKey
from gitops.locks import LOCK_NAME
from gitops.snapshots import Snapshots
from reconcile.cluster.port import ARENA_PROJECT, CONFIG_MAP

PROJECT = "pushes"
FILES_A_PUSH = 12
FILE_BYTES = 20_000
WAIT_S = 60.0
MEET_S = 20.0
KINDS = ("push", "export", "seed", "push at any moment")
PLACES: Mapping[str, tuple[str, ...]] = {
    "push": ("push.body_received", "push.checked", "push.received", "push.notified"),
    "export": ("export.file", "export.file:4", "export.file:9", "export.written", "export.synced", "export.recorded", "export.renamed"),
    "seed": ("create.prepared", "seed.checked", "seed.objects_written", "seed.ref_written"),
}
_SHARES = ("push", "push", "export", "export", "seed", "push at any moment", "push at any moment")


class CrashGit:
    """One installation whose server dies again and again."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._work = folder / "work"
        self._chance = random.Random(seed)  # noqa: S311 - a repeatable choice
        self._orders = Orders(folder)
        self._installation = Installation(folder, max_workers=1, environment=self._orders.environment)
        self._volume = ContentVolume(self._installation.state.content)
        self.met: Counter[str] = Counter()
        self.tried = self.accepted = self.checked = self.snapshots = 0
        self.damage: list[str] = []
        self.partial: list[str] = []
        self.locks: list[str] = []
        self.lost: list[str] = []

    def prepare(self) -> None:
        """Start the installation and make the project and a work tree."""
        client = self._installation.start()
        ensure(client, ARENA_PROJECT, PROJECT, {"hosted": {}, "snapshots": {"retain": 5}})
        self._await_address(PROJECT)
        self._work.mkdir()
        git(self._work, "init", "--quiet", "--initial-branch=main")
        self._commit()
        self._push_until_accepted()

    def strike(self) -> None:
        """Let the server die once, start it again, finish what was begun, and look at what is left."""
        self.tried += 1
        kind = self._chance.choice(_SHARES)
        if kind == "seed":
            self._seed()
        elif kind == "push at any moment":
            self._push_at_any_moment()
        else:
            self._orders.give(self._chance.choice(PLACES[kind]))
            self._commit()
            pushed = self._push()
            if kind == "export" or not pushed:
                self._note(kind)
            self._orders.withdraw()
            self._finish(told=pushed)

    def check_all(self) -> None:
        """Read every snapshot in full, and check every repository once more."""
        arena = self._volume.namespace(NAMESPACE) / "arena"
        snapshots = Snapshots(self._volume)
        for repository in sorted(arena.glob("repos/[a-z]*.git")):
            project = ProjectKey(NAMESPACE, repository.stem)
            self._check(project)
            versions = self._volume.versions(project)
            present = [path for path in versions.glob("[0-9a-f]*") if path.is_dir()]
            self.snapshots += len(present)
            self.partial += [f"{project}: {commit[:12]}" for commit in asyncio.run(snapshots.scrub(project))]

    def stop(self) -> None:
        """End the installation."""
        self._orders.withdraw()
        self._installation.stop()

    def _seed(self) -> None:
        name = f"seed-{self.tried:04}"
        client = self._up()
        data = {f"file-{number}.txt": f"{name} {number}\n" for number in range(FILES_A_PUSH)}
        self._orders.give(self._chance.choice(PLACES["seed"]))
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        client.create(CONFIG_MAP, NAMESPACE, body)
        spec = {"hosted": {"seed": {"configMap": {"name": name}}}}
        with contextlib.suppress(ServerUnreachable):
            ensure(client, ARENA_PROJECT, name, spec)
        self._note("seed")
        self._orders.withdraw()
        wait_for(lambda: self._ensured(name, spec), WAIT_S, f"{name} was not taken")
        head = self._head_of(name)
        listed = git(self._volume.repository(ProjectKey(NAMESPACE, name)), "ls-tree", "--name-only", head).splitlines()
        if sorted(listed) != sorted(data):
            self.lost.append(f"the seed of {name} has {len(listed)} of {len(data)} files")
        self._check(ProjectKey(NAMESPACE, name))

    def _ensured(self, name: str, spec: Mapping[str, object]) -> bool | None:
        with contextlib.suppress(ServerUnreachable):  # a killed process answers connections until its last thread is gone
            ensure(self._up(), ARENA_PROJECT, name, spec)
            return True
        return None

    def _push_at_any_moment(self) -> None:
        """Kill the server some time after a push began, wherever it is then."""
        self._up()
        self._commit()
        timer = threading.Timer(self._chance.uniform(0.0, 0.6), self._installation.kill_server)
        timer.start()
        pushed = self._push()
        timer.join()
        self.met["push at any moment"] += 1
        self._finish(told=pushed)

    def _note(self, kind: str) -> None:
        met = self._orders.wait(MEET_S, self._installation.revive)
        if met is not None:
            self.met[kind] += 1
            wait_for(lambda: None if start_time(met.pid) is not None else True, WAIT_S, "a killed process is still there")

    def _finish(self, *, told: bool) -> None:
        """Start the server again; a push that git called accepted must be there, any other is pushed again, and its snapshot must come."""
        self._up()
        commit = git(self._work, "rev-parse", "HEAD").strip()
        project = ProjectKey(NAMESPACE, PROJECT)
        if told and git(self._volume.repository(project), "rev-parse", "refs/heads/main").strip() != commit:
            self.lost.append(f"{commit[:12]} was accepted and is not main")
        self._push_until_accepted()
        wait_for(lambda: True if self._head_of(PROJECT) == commit else None, WAIT_S, f"the head never became {commit[:12]}")
        if not self._volume.snapshot(project, commit).is_dir():
            self.partial.append(f"{commit[:12]} has no snapshot although the status names it")
        self._check(project)

    def _check(self, project: ProjectKey) -> None:
        repository = self._volume.repository(project)
        done = subprocess.run(["git", "-C", str(repository), "fsck", "--full", "--strict"], capture_output=True, text=True, check=False)
        said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith(("dangling ", "Checking ", "notice: "))]
        self.damage += [f"{project}: {line}" for line in said]
        self.checked += not said
        self.locks += [f"{project}: {path.name}" for path in repository.rglob("*.lock") if path.name != LOCK_NAME]
        versions = self._volume.versions(project)
        self.partial += [f"{project}: {path.name}" for path in versions.glob(".tmp-*")]

    def _commit(self) -> None:
        for number in range(FILES_A_PUSH):
            (self._work / f"file-{number}.bin").write_bytes(self._chance.randbytes(FILE_BYTES))
        git(self._work, "add", "--all")
        git(self._work, "-c", "user.name=Bench", "-c", "user.email=bench@localhost", "commit", "--quiet", "--message", "Bench")

    def _push(self) -> bool:
        """Push once; say whether git called it accepted."""
        client = self._up()
        words = ["git", "-C", str(self._work), *self._installation.credentials(client), "push", "--quiet", clone_url(client, PROJECT), "main"]
        return subprocess.run(words, capture_output=True, check=False, timeout=WAIT_S).returncode == 0

    def _push_until_accepted(self) -> None:
        wait_for(lambda: True if self._push() else None, WAIT_S, "no push was accepted")
        self.accepted += 1

    def _up(self) -> Client:
        """Return a client of the server, which is started again if it died."""
        return wait_for(self._installation.revive, WAIT_S, "the server did not come back")

    def _await_address(self, project: str) -> None:
        def look() -> bool | None:
            found = self._up().get(ARENA_PROJECT, NAMESPACE, project)
            return True if (found.get("status") or {}).get("repositoryURL") else None

        wait_for(look, WAIT_S, f"project {project} took no push")

    def _head_of(self, project: str) -> str:
        def look() -> str | None:
            with contextlib.suppress(ServerUnreachable):
                found = self._up().get(ARENA_PROJECT, NAMESPACE, project)
                return ((found.get("status") or {}).get("head") or {}).get("commit")
            return None

        return wait_for(look, WAIT_S, f"project {project} has no head")
