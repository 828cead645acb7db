"""Where a namespace's content lies on a volume of several workspaces, as every process sees it, also after a restart and when two come at once."""

import asyncio
import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import anyio.to_thread
import pytest

from arena.cluster.placing import PlacedAuthorizer
from arena.cluster.workspaces import LOCK, Workspaces
from foundation.clock import FakeClock, SystemClock
from gitops.content import ContentVolume, ProjectKey
from gitops.errors import AuthorizerUnavailable, StorageFailed, UnsafeName
from gitops.serving import Access
from reconcile.cluster.port import NAMESPACE
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.errors import NotFound
from reconcile.kinds.names import WORKSPACE_LABEL


@pytest.fixture
def cluster(tmp_path: Path) -> SqliteCluster:
    """Return a store without any namespace."""
    return SqliteCluster(tmp_path / "cluster.db", FakeClock())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an empty content volume."""
    root = tmp_path / "content"
    root.mkdir()
    return root


async def named(cluster: SqliteCluster, namespace: str, workspace: str | None = None) -> None:
    """Create a namespace, or give it another label."""
    labels = {WORKSPACE_LABEL: workspace} if workspace else {}
    metadata = {"name": namespace, "labels": labels}
    try:
        await cluster.patch(NAMESPACE, None, namespace, {"metadata": {"labels": {WORKSPACE_LABEL: workspace}}})
    except NotFound:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


@pytest.mark.parametrize(
    ("label", "place"), [pytest.param("blue", "blue/team", id="as its label says"), pytest.param(None, "team/team", id="its own without a label")]
)
async def test_the_first_use(cluster: SqliteCluster, root: Path, label: str | None, place: str) -> None:
    """A namespace that is used for the first time gets its place where its label says, and a volume then finds it there."""
    await named(cluster, "team", label)
    workspaces = Workspaces(root, cluster, SystemClock())
    await workspaces.settle("team")
    assert ContentVolume(root, workspaces.of).namespace("team") == root / place
    assert (root / place / "arena").is_dir()


async def test_a_label_that_changes(cluster: SqliteCluster, root: Path) -> None:
    """What has its place keeps it, in this process and after a restart, whatever the label says then."""
    await named(cluster, "team", "blue")
    before = Workspaces(root, cluster, SystemClock())
    await before.settle("team")
    await named(cluster, "team", "red")
    after = Workspaces(root, cluster, SystemClock())
    for workspaces in (before, after):
        await workspaces.settle("team")
        assert workspaces.of("team") == "blue"
    assert not (root / "red").exists()


async def test_a_restart_needs_no_store(cluster: SqliteCluster, root: Path) -> None:
    """A place that is on the volume is known without asking anybody, also before it was settled in this process."""
    (root / "blue" / "team" / "arena").mkdir(parents=True)
    workspaces = Workspaces(root, cluster, SystemClock())
    assert workspaces.of("team") == "blue"
    await workspaces.settle("team")


async def test_what_has_no_place_yet(cluster: SqliteCluster, root: Path) -> None:
    """A namespace without a place is not guessed at, and one that does not exist gets none."""
    workspaces = Workspaces(root, cluster, SystemClock())
    with pytest.raises(StorageFailed, match="no place for it yet"):
        workspaces.of("team")
    with pytest.raises(NotFound):
        await workspaces.settle("team")
    assert found(root, "*") == []


async def test_two_places(cluster: SqliteCluster, root: Path) -> None:
    """A volume that has a namespace twice is refused, naming both: either would hide the other's repositories."""
    for workspace in ("blue", "red"):
        (root / workspace / "team" / "arena").mkdir(parents=True)
    await named(cluster, "team", "blue")
    with pytest.raises(StorageFailed, match="workspaces blue, red"):
        await Workspaces(root, cluster, SystemClock()).settle("team")


async def test_a_label_that_is_no_workspace(cluster: SqliteCluster, root: Path) -> None:
    """A label that cannot be a directory's name is refused; it never becomes a path."""
    await named(cluster, "team", "Blue.Team")
    with pytest.raises(UnsafeName, match=r"Blue\.Team"):
        await Workspaces(root, cluster, SystemClock()).settle("team")
    assert found(root, "*") == []


async def test_two_at_once(cluster: SqliteCluster, root: Path) -> None:
    """When two processes use a namespace for the first time at once, and have read different labels, both take the place that one of them made."""
    await named(cluster, "team", "blue")
    first, second = (Workspaces(root, cluster, SystemClock()) for _ in range(2))
    async with asyncio.TaskGroup() as group:
        with held(root / LOCK):
            settling = [group.create_task(first.settle("team"))]
            await reading(cluster)
            await named(cluster, "team", "red")
            settling.append(group.create_task(second.settle("team")))
            await reading(cluster)
            assert not any(task.done() for task in settling)
    assert first.of("team") == second.of("team")
    assert len(found(root, "*/team/arena")) == 1


async def test_a_lock_that_stays(cluster: SqliteCluster, root: Path) -> None:
    """A lock that is never given back is told of after ten seconds, and nothing was made."""
    await named(cluster, "team")
    clock = FakeClock()
    with held(root / LOCK):
        settling = asyncio.create_task(Workspaces(root, cluster, clock).settle("team"))
        while not settling.done():
            await reading(cluster)
            await clock.advance(1)
        with pytest.raises(StorageFailed, match="keeps the content volume locked"):
            await settling
    assert found(root, "*/team") == []


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """Hold a lock as another process would."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def reading(cluster: SqliteCluster) -> None:
    """Let others who have begun to read the store come to their next step: its thread answers in turn."""
    for _ in range(3):
        await cluster.list(NAMESPACE)
        await anyio.to_thread.run_sync(lambda: None)


def found(root: Path, pattern: str) -> list[Path]:
    """Return what a volume holds."""
    return [*root.glob(pattern)]


async def test_a_git_client(cluster: SqliteCluster, root: Path) -> None:
    """A git client is let in when its namespace has its place; a store that cannot be asked is a 503, not a fault."""
    workspaces = Workspaces(root, cluster, SystemClock())

    async def allow(headers: Mapping[str, str], namespace: str, project: str, *, write: bool, source: str) -> Access:
        assert (dict(headers), write, source) == ({}, False, "")
        return Access(ProjectKey(namespace, project))

    authorize = PlacedAuthorizer(allow, workspaces)
    with pytest.raises(AuthorizerUnavailable):
        await authorize({}, "team", "support", write=False, source="")
    await named(cluster, "team", "blue")
    await authorize({}, "team", "support", write=False, source="")
    assert workspaces.of("team") == "blue"
