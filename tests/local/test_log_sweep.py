"""Logs of workers whose run is gone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from arena.local.log_sweep import LogSweep, log_folder
from foundation.clock import FakeClock
from reconcile.cluster.port import ARENA_RUN
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.orphans import EVERY_S, GONE_FOR_S

NS = "team"
LONG = "a-run-that-somebody-named-by-hand-" * 4 + "end"


class Scene:
    """A store, logs, and a sweep over both."""

    def __init__(self, logs: Path) -> None:
        self.clock = FakeClock()
        self.logs = logs
        self.cluster = SqliteCluster(":memory:", self.clock)
        self.sweep = LogSweep(self.cluster, logs, self.clock)

    async def run(self, name: str) -> None:
        """Create a run."""
        await self.cluster.create({"apiVersion": ARENA_RUN.api_version, "kind": "ArenaRun", "metadata": {"name": name, "namespace": NS}, "spec": {}})

    def log(self, name: str) -> Path:
        """Write the log of a run's worker."""
        folder = log_folder(self.logs, NS, name)
        folder.mkdir(parents=True)
        (folder / "worker-0.log").write_text("one\n")
        return folder


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """Give an empty scene."""
    found = Scene(tmp_path / "logs")
    yield found
    await found.cluster.close()


@pytest.mark.parametrize("name", ["run", LONG], ids=["a short name", "a name that is cut"])
async def test_logs_go_an_hour_after_their_run(scene: Scene, name: str) -> None:
    """A run keeps its logs while it exists and for an hour after; then they go, and their namespace's folder with the last."""
    await scene.run(name)
    folder = scene.log(name)
    for _ in range(2):
        assert await scene.sweep.sweep() == []
        await scene.clock.advance(GONE_FOR_S + 1)
    await scene.cluster.delete(ARENA_RUN, NS, name)
    assert await scene.sweep.sweep() == []
    await scene.clock.advance(GONE_FOR_S - 1)
    assert await scene.sweep.sweep() == []
    await scene.clock.advance(2)
    assert await scene.sweep.sweep() == [folder]
    assert list(scene.logs.iterdir()) == []


async def test_what_is_outside_stays(scene: Scene, tmp_path: Path) -> None:
    """A link in place of a folder is not followed, and what it leads to stays."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (scene.logs / NS).mkdir(parents=True)
    (scene.logs / NS / "run").symlink_to(kept)
    for _ in range(2):
        assert await scene.sweep.sweep() == []
        await scene.clock.advance(GONE_FOR_S + EVERY_S)
    assert (kept / "file").exists()
