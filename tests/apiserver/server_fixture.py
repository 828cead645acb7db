"""The control plane that all tests of one worker share: started at the first use, with our CRDs, and ended with the session."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from foundation.clock import SystemClock
from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.kube_access import by_kubeconfig
from reconcile.cluster.port import EVENT, KINDS, LEASE, NAMESPACE, ObjectKey, ResourceKind
from reconcile.errors import NotFound
from reconcile.kinds.catalog import CATALOG
from reconcile.kinds.crds import crd
from tests.apiserver.binary import BinaryMissing, programs
from tests.apiserver.control_plane import ControlPlane, started

REAL = [pytest.mark.slow, pytest.mark.timeout(120, func_only=True)]
"""Marks of a test on a real API server: building it, in a fixture, may take minutes and has a limit of its own."""
NAMESPACES = ("arena", "n0", "n1")
_KEPT: tuple[ResourceKind, ...] = (NAMESPACE, EVENT, LEASE)


@contextmanager
def serving(folder: Path) -> Iterator[ControlPlane]:
    """Run a control plane with our kinds and namespaces, or skip the test where there is no Go to build it."""
    try:
        plane = started(programs(), folder)
    except BinaryMissing as missing:
        pytest.skip(str(missing))
    try:
        plane.install(*(crd(kind) for kind in CATALOG), *(namespace(name) for name in NAMESPACES))
        plane.start_controllers()
        yield plane
    finally:
        plane.stop()


def namespace(name: str) -> dict[str, Any]:
    """Return a Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def connected(plane: ControlPlane) -> KubeCluster:
    """Return our client of a control plane, as its administrator."""
    return KubeCluster(by_kubeconfig(str(plane.kubeconfig)), SystemClock())


async def clear(cluster: KubeCluster) -> None:
    """Remove what tests create: every object outside the system's own namespaces, whatever finalizers it has."""
    for kind in KINDS.values():
        if kind in _KEPT:
            continue
        for obj in (await cluster.list(kind)).items:
            key = ObjectKey.of(obj)
            if key.namespace.startswith("kube-"):
                continue
            try:
                if obj["metadata"].get("finalizers"):
                    await cluster.patch(kind, key.namespace, key.name, {"metadata": {"finalizers": None}})
                await cluster.delete(kind, key.namespace, key.name)
            except NotFound:
                continue
