"""Clients of the shared API server, and servers of one test alone."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from reconcile.cluster.kube import KubeCluster
from reconcile.kinds.crds import crd
from tests.apiserver.binary import programs
from tests.apiserver.control_plane import ControlPlane, started
from tests.apiserver.server_fixture import clear, connected, namespace
from tests.contracts.cluster_objects import NS


@pytest.fixture
async def cluster(control_plane: ControlPlane) -> AsyncIterator[KubeCluster]:
    """Give our client of the real server, which is empty."""
    kube = connected(control_plane)
    await clear(kube)
    yield kube
    await kube.close()


@pytest.fixture
def fragile(control_plane: ControlPlane, tmp_path: Path) -> Iterator[ControlPlane]:
    """Run an API server of its own for one test that harms it, with ArenaJob as the only kind of ours."""
    assert control_plane  # it has been built, or this test skipped
    plane = started(programs(), tmp_path)
    plane.install(crd("ArenaJob"), namespace(NS))
    yield plane
    plane.stop()
