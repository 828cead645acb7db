"""What a job with a schedule is told is not built, on a cluster and on one machine."""

import pytest

from reconcile.cluster.port import ARENA_JOB, ObjectKey
from reconcile.job import JobReconciler
from reconcile.runtime.controller import Controller
from tests.reconcile.conftest import NAMESPACE, World, condition


@pytest.mark.parametrize(
    ("in_cluster", "named"),
    [
        pytest.param(True, "spec.schedule.cron", id="pods have volumes"),
        pytest.param(False, "spec.schedule.cron, spec.workers.podOverrides.extraVolumes", id="processes have none"),
    ],
)
async def test_pod_overrides_beside_a_schedule(world: World, *, in_cluster: bool, named: str) -> None:
    """A job whose schedule is not carried out yet names podOverrides only where they would have no effect."""
    await world.job(schedule={"cron": "0 3 * * *"}, workers={"podOverrides": {"extraVolumes": [{"name": "v", "emptyDir": {}}]}})
    reconciler = JobReconciler(world.repositories, world.volume, in_cluster=in_cluster)
    await Controller(world.cluster, reconciler, clock=world.clock).pass_over(ObjectKey(NAMESPACE, "eval"))
    ready = condition(await world.get(ARENA_JOB, "eval"))
    assert (ready["reason"], ready["message"]) == ("NotSupported", f"not supported yet: {named}")
