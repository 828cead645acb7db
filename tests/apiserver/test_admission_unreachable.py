"""What an API server refuses while our webhook cannot be reached, and what it never refuses (docs/adr/0010)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from reconcile.cluster.kube import KubeCluster
from reconcile.cluster.port import ARENA_JOB, ARENA_RUN, CONFIG_MAP, PROVIDER, Object
from reconcile.errors import Invalid, StoreUnavailable
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.server_fixture import REAL
from tests.apiserver.webhook import REFUSED, a_job, serving_webhook, unreachable
from tests.contracts.cluster_objects import NS, job, make, run

pytestmark = REAL
HELD = {"finalizers": ["example.com/held"]}
Act = Callable[[KubeCluster], Awaitable[Any]]


@pytest.fixture
async def alone(cluster: KubeCluster, control_plane: ControlPlane) -> AsyncIterator[KubeCluster]:
    """Give a cluster with a job, a run, and a job that is being deleted, whose webhook then cannot be reached."""
    await cluster.create(job("j"))
    await cluster.create(run("r"))
    await cluster.create(job("doomed", metadata=HELD))
    await cluster.delete(ARENA_JOB, NS, "doomed")
    with unreachable(control_plane):
        yield cluster


def patching(name: str, patch: Object, kind: Any = ARENA_JOB) -> Act:
    """Return a patch as an act."""
    return lambda cluster: cluster.patch(kind, NS, name, patch)


CLOSED = [
    pytest.param(lambda cluster: cluster.create(job("new")), id="a new job"),
    pytest.param(lambda cluster: cluster.create(run("new")), id="a new run"),
    pytest.param(patching("j", {"spec": {"trials": 3}}), id="another spec"),
    pytest.param(patching("j", {"spec": {"suspend": False, "trials": 3}}), id="another spec that does not suspend"),
]
OPEN = [
    pytest.param(lambda cluster: cluster.delete(ARENA_JOB, NS, "j"), id="deleting"),
    pytest.param(patching("doomed", {"metadata": {"finalizers": None}}), id="the last finalizer of what is being deleted"),
    pytest.param(patching("doomed", {"spec": {"trials": 3}}), id="anything of what is being deleted"),
    pytest.param(patching("j", {"metadata": {"finalizers": ["example.com/held"]}}), id="a finalizer of what lives"),
    pytest.param(patching("j", {"metadata": {"annotations": {"a": "b"}, "labels": {"a": "b"}}}), id="annotations and labels"),
    pytest.param(lambda cluster: cluster.patch_status(ARENA_RUN, NS, "r", {"phase": "Running"}), id="a status"),
    pytest.param(patching("j", {"spec": {"suspend": True}}), id="suspending"),
    pytest.param(patching("r", {"spec": {"cancelled": True}}, ARENA_RUN), id="cancelling"),
    pytest.param(lambda cluster: cluster.create(make(PROVIDER, "p", spec={"type": "mock"})), id="kinds that another product may own"),
    pytest.param(lambda cluster: cluster.create(make(CONFIG_MAP, "c", data={"a": "b"})), id="kinds that are not ours"),
    pytest.param(lambda cluster: cluster.create(job("new", metadata={"namespace": "kube-system"}), dry_run=True), id="the system's namespace"),
]


@pytest.mark.parametrize("act", CLOSED)
async def test_fails_closed(alone: KubeCluster, act: Act) -> None:
    """A spec that nobody could check is not taken: a run that costs money comes of it. The refusal can be retried."""
    with pytest.raises(StoreUnavailable, match="failed calling webhook"):
        await act(alone)


@pytest.mark.parametrize("act", OPEN)
async def test_never_blocked(alone: KubeCluster, act: Act) -> None:
    """Whatever stops, ends, reports, or is not ours, goes on without the webhook."""
    await act(alone)


async def test_an_object_that_breaks_a_newer_rule(cluster: KubeCluster, control_plane: ControlPlane) -> None:
    """What was taken before the rule can be labelled, suspended, deleted and let go of; only its next spec must keep the rule."""
    stored = await cluster.create({**a_job(**REFUSED), "metadata": {"name": "j", "namespace": NS, **HELD}})
    assert stored["spec"]["arenaFile"] == REFUSED["arenaFile"]
    with serving_webhook(control_plane):
        await patching("j", {"metadata": {"labels": {"a": "b"}}})(cluster)
        with pytest.raises(Invalid):
            await patching("j", {"spec": {"trials": 3}})(cluster)
        await patching("j", {"spec": {"suspend": True}})(cluster)
        await cluster.delete(ARENA_JOB, NS, "j")
        await patching("j", {"metadata": {"finalizers": None}})(cluster)
        assert (await cluster.list(ARENA_JOB, NS)).items == []
