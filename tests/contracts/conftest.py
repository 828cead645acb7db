"""The adapters of each port, and small things to put into them: every contract suite runs on every adapter from here."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from engine.items import RunUID
from engine.queue.embedded import EmbeddedServer
from engine.queue.memory import MemoryWorkQueue
from engine.queue.port import WorkQueue
from engine.queue.redis import RedisWorkQueue
from foundation.clock import SystemClock
from reconcile.cluster.port import Cluster
from reconcile.cluster.sqlite import SqliteCluster
from reconcile.kinds.admission import admit, admit_status
from tests.apiserver.server_fixture import REAL, clear, connected
from tests.contracts.queue_as_user import QueueAsUser


@pytest.fixture(params=["sqlite", pytest.param("kube", marks=REAL)])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Give each adapter in turn, empty: the embedded store as the product opens it, and ours on a real API server."""
    if request.param == "sqlite":
        store = SqliteCluster(tmp_path / "store.db", SystemClock(), admit=admit, admit_status=admit_status)
        yield store
        await store.close()
        return
    kube = connected(request.getfixturevalue("control_plane"))
    await clear(kube)
    yield kube
    await kube.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def redis_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Start a real server and return its URL."""
    server = EmbeddedServer(tmp_path_factory.mktemp("queue"))
    yield await server.start()
    await server.stop()


@pytest.fixture(params=["memory", "redis", "redis as users"])
async def queue(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[WorkQueue]:
    """Return each adapter in turn, the last one as an installation uses it: workers as the users of their runs."""
    chosen: WorkQueue
    match request.param:
        case "memory":
            chosen = MemoryWorkQueue()
        case "redis":
            chosen = RedisWorkQueue(redis_url, installation=uuid4().hex)
        case _:
            chosen = QueueAsUser(redis_url, installation=uuid4().hex)
    yield chosen
    await chosen.close()


@pytest.fixture
def run() -> RunUID:
    """Return a run that nobody else uses."""
    return RunUID(str(uuid4()))
